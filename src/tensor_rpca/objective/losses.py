"""Losses whose pull fades for large residuals, as tables for the compiled pass over Z.

A loss is given by its pull ``psi(a)``, the derivative at a residual of ``a >= 0`` scales, and
is even. Between the bins' edges the pull is linear, so that loss and pull belong together to
the last digit, as line searches need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.kernels import OCTAVES

Array = NDArray[Any]

# Eight an octave, equally far apart within it, as the bits of a float64 count them.
EDGES = np.append(
    (2.0 ** np.arange(-OCTAVES, OCTAVES)[:, None] * (1 + np.arange(8) / 8)).ravel(), 2.0**OCTAVES
)


@dataclass(frozen=True, eq=False)
class Loss:
    """A loss at any scale.

    Attributes
    ----------
    pulls : ndarray of shape (481,)
        At :data:`EDGES`; 0 at 0.
    table : ndarray of shape (480, 3)
        For :func:`tensor_rpca.objective.kernels.tabulated_residual`.
    """

    pulls: Array
    table: Array

    def pull(self, e: Array, scale: float) -> Array:
        """Pull at residuals e >= 0."""
        return scale * np.interp(e / scale, self._edges, self.pulls)

    def slope(self, e: Array, scale: float) -> Array:
        """Derivative of the pull at residuals e >= 0."""
        bins = np.searchsorted(EDGES, e / scale, side="right") - 1
        slopes: Array = self.table[np.clip(bins, 0, len(self.table) - 1), 1]
        return slopes

    @property
    def _edges(self) -> Array:
        return np.append(0.0, EDGES[1:])


def tabulate(psi: Callable[[Array], Array]) -> Loss:
    """Make a loss of its pull, a function of residuals in units of the scale."""
    pulls = np.append(0.0, psi(EDGES[1:]))
    pulls[-1] = pulls[-2]  # and so on beyond the last edge
    edges = np.append(0.0, EDGES[1:])
    slopes = np.diff(pulls) / np.diff(edges)
    offsets = pulls[:-1] - slopes * edges[:-1]
    losses = np.append(0.0, np.cumsum(np.diff(edges) * (pulls[1:] + pulls[:-1]) / 2)[:-1])
    constants = losses - (offsets + slopes * edges[:-1] / 2) * edges[:-1]
    return Loss(pulls, np.column_stack([offsets, slopes, constants]))


@cache
def root() -> Loss:
    """``2 ((1 + a^2)^(1/4) - 1)``: grows like the square root of large residuals."""
    return tabulate(lambda a: a / (1 + a * a) ** 0.75)


@cache
def bounded() -> Loss:
    """``a^2 / 2 / (1 + a^2)`` (Geman and McClure): far residuals have no pull at all."""
    return tabulate(lambda a: a / (1 + a * a) ** 2)
