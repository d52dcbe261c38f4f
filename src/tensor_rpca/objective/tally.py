"""How many residuals are how large, and what that says of the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.kernels import BINS_BELOW_ONE, BINS_PER_DECADE

# A normal variable cut at 2.5 standard deviations has 0.9546 of its standard deviation left.
CUT = 2.5
LEFT_BY_CUT = 0.9546


class Tally:
    """Counts and sums of squares of residuals, in bins of their logarithm.

    Parameters
    ----------
    bins : ndarray of shape (n_bins, 2)
    """

    def __init__(self, bins: NDArray[Any]):
        self._bins = bins
        self._counts = np.cumsum(bins[:, 0])
        self._squares = np.cumsum(bins[:, 1])
        self.n = int(self._counts[-1])

    def within(self, size: float) -> int:
        """Return how many residuals are at most as large."""
        return int(self._counts[_bin(size)]) if size > 0 else 0

    def quantile(self, fraction: float) -> float:
        """Return the size that this fraction of the residuals does not exceed."""
        place = int(np.searchsorted(self._counts, fraction * self.n))
        return float(10 ** ((place + 1 - BINS_BELOW_ONE) / BINS_PER_DECADE))

    def histogram(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Sizes of residuals, one for each bin that has any, and the share of entries there."""
        counts, squares = self._bins[self._bins[:, 0] > 0].T
        return np.sqrt(squares / counts), counts / self.n

    def noise(self, free: int) -> float:
        """Return the standard deviation of the entries that fit, outliers left aside.

        As many entries as there are free parameters can always be fitted, so what they show is
        no noise. From that of the closest 2 % beyond those it grows until the entries within
        2.5 standard deviations are spread as a normal variable would be; outliers, farther out,
        are never reached.
        """
        sigma = self.quantile(min(0.9, free / max(1, self.n) + 0.02))
        for _ in range(200):
            b = _bin(CUT * sigma)
            larger = math.sqrt(self._squares[b] / max(1.0, self._counts[b])) / LEFT_BY_CUT
            if larger <= 1.001 * sigma:
                break
            sigma = larger
        return sigma


def _bin(size: float) -> int:
    place = math.floor(math.log10(size) * BINS_PER_DECADE) + BINS_BELOW_ONE
    return min(max(place, 0), 18 * BINS_PER_DECADE - 1)
