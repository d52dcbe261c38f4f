"""Root finding on the value function of the variational form of matrix RPCA.

Let ``sigma(t)`` be the least ``||L + S - Z||`` with ``||L||_* <= t`` and ``lambda ||S||_1 <= t``.
The smallest level t with ``sigma(t) <= sqrt(2 epsilon)`` is the minimum sought. For any residual
R = Z - L - S, convex duality gives a minorant of sigma that is a line in t,

    sigma(t) >= (<R, Z> - t (||R||_2 + ||R||_max / lambda)) / ||R||,

and where it meets ``sqrt(2 epsilon)`` is a level that cannot be too high. So levels rise
monotonically; between rises, accelerated projected gradients lower ``||R||`` at a fixed level,
just until the line says that most of what is left is not for this level to remove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.baselines import kernels
from tensor_rpca.baselines.singular import Unfolding

Array = NDArray[Any]

# Rise when the minorant accounts for this part of what is left to lose.
EXPLAINED = 0.7
# Singular values of the residual cost as much as an iteration: look this often.
EVERY = 5


@dataclass(frozen=True)
class LevelSet:
    """What the root finding ends with."""

    X: Array
    S: Array
    converged: bool
    history: dict[str, list[float]]


def minimise_largest(
    Z: Array, unfolding: Unfolding, lambda_s: float, allowed: float, slack: float, max_iter: int
) -> LevelSet:
    """Minimise ``max(||L||_*, lambda_s ||S||_1)`` subject to ``||L + S - Z|| <= allowed``.

    Stops when the residual is at most ``allowed + slack``; NaN in Z is missing.
    """
    iterate = _Iterate(Z, unfolding, lambda_s)
    level = 0.0
    history: dict[str, list[float]] = {"residual": [], "level": []}
    converged = False
    for iteration in range(max_iter):
        if iteration % EVERY == 0:
            size, slope, value = iterate.minorant(level)
            if size <= allowed + slack:
                converged = True
                break
            if value - level * slope - allowed >= EXPLAINED * (size - allowed):
                level = (value - allowed) / slope
                iterate.momentum = 1.0
        residual = iterate.step(level)
        history["residual"].append(residual)
        history["level"].append(level)
    return LevelSet(iterate.L, iterate.sparse(level), converged, history)


class _Iterate:
    """L, and S as the best for L, with accelerated projections, restarted where they overshoot.

    The best S in its ball for a given L is the projection of Z - L, so that only L is left; the
    gradient of what is left, ``L + S - Z``, is Lipschitz with constant one.
    """

    def __init__(self, Z: Array, unfolding: Unfolding, lambda_s: float):
        self._shape = Z.shape
        self._flat = Z.reshape(-1)
        self._filled = np.nan_to_num(self._flat)
        self._unfolding = unfolding
        self._lambda = lambda_s
        self.L, self._ahead = np.zeros((2, Z.size))
        self._point, self._new, self._sizes = np.empty((3, Z.size))
        self.momentum = 1.0
        self._threshold_l = self._threshold_s = 0.0

    def minorant(self, level: float) -> tuple[float, float, float]:
        """Norm of the residual, and slope and value at zero of the line below sigma."""
        size = math.sqrt(self._fit_sparse(self.L, level))
        if size == 0.0:
            return 0.0, 1.0, 0.0
        R = self._point - self.L
        spectral = float(self._unfolding.left_singular(R.reshape(self._shape))[0][0])
        slope = (spectral + float(np.abs(R).max()) / self._lambda) / size
        return size, slope, float(R @ self._filled) / size

    def step(self, level: float) -> float:
        """Take one step at this level; return the residual where it began."""
        residual = math.sqrt(self._fit_sparse(self._ahead, level))

        def project(s: Array) -> Array:
            self._threshold_l = _threshold(s, float(s.sum()), level, self._threshold_l)
            return np.maximum(s - self._threshold_l, 0.0)

        shape = self._shape
        self._unfolding.change(self._point.reshape(shape), project, self._new.reshape(shape))
        following = 0.5 * (1 + math.sqrt(1 + 4 * self.momentum**2))
        beta = (self.momentum - 1) / following
        uphill = kernels.extrapolate(self.L, self._new, self._ahead, beta)
        self.L, self._new = self._new, self.L
        self.momentum = 1.0 if uphill > 0 else following
        return residual

    def sparse(self, level: float) -> Array:
        """Return the best S for L."""
        self._fit_sparse(self.L, level)
        return self._filled - np.where(np.isnan(self._flat), 0.0, self._point)

    def _fit_sparse(self, L: Array, level: float) -> float:
        """Write Z - S for the best S into ``_point``; return the squared residual."""
        total = kernels.distances(self._flat, L, self._sizes)
        self._threshold_s = _threshold(self._sizes, total, level / self._lambda, self._threshold_s)
        squares: float = kernels.fit_both(self._flat, L, self._threshold_s, self._point)
        return squares


def _threshold(sizes: Array, sum_of_sizes: float, total: float, guess: float) -> float:
    """Return what to subtract so that the positive parts sum to at most ``total``."""
    if sum_of_sizes <= total:
        return 0.0
    found: float = kernels.simplex_threshold(np.ascontiguousarray(sizes), total, guess)
    return found
