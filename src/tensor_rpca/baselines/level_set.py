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
            size, slope, value = iterate.minorant()
            if size <= allowed + slack:
                converged = True
                break
            if value - level * slope - allowed >= EXPLAINED * (size - allowed):
                level = (value - allowed) / slope
                iterate.momentum = 1.0
        residual = iterate.step(level)
        history["residual"].append(residual)
        history["level"].append(level)
    return LevelSet(iterate.L, iterate.S, converged, history)


class _Iterate:
    """L and S with their accelerated projected gradient step, restarted where it overshoots."""

    def __init__(self, Z: Array, unfolding: Unfolding, lambda_s: float):
        self._shape = Z.shape
        self._flat = Z.reshape(-1)
        self._unfolding = unfolding
        self._lambda = lambda_s
        self.L, self.S = np.zeros((2, Z.size))
        self._L_ahead, self._S_ahead = np.zeros((2, Z.size))
        self._L_point, self._S_point, self._L_new, self._S_new, self._sizes = np.empty((5, Z.size))
        self.momentum = 1.0
        self._threshold_l = self._threshold_s = 0.0

    def minorant(self) -> tuple[float, float, float]:
        """Norm of the residual, and slope and value at zero of the line below sigma."""
        R = np.nan_to_num(self._flat - self.L - self.S)
        size = float(np.linalg.norm(R))
        if size == 0.0:
            return 0.0, 1.0, 0.0
        spectral = float(self._unfolding.left_singular(R.reshape(self._shape))[0][0])
        slope = (spectral + float(np.abs(R).max()) / self._lambda) / size
        return size, slope, float(R @ np.nan_to_num(self._flat)) / size

    def step(self, level: float) -> float:
        """Take one step at this level; return the residual where it began."""
        squares, _ = kernels.descend(
            self._flat, self._L_ahead, self._S_ahead, self._L_point, self._S_point, self._sizes
        )

        def project(s: Array) -> Array:
            self._threshold_l = _threshold(s, level, self._threshold_l)
            return np.maximum(s - self._threshold_l, 0.0)

        self._unfolding.change(
            self._L_point.reshape(self._shape), project, self._L_new.reshape(self._shape)
        )
        self._threshold_s = _threshold(self._sizes, level / self._lambda, self._threshold_s)
        following = 0.5 * (1 + math.sqrt(1 + 4 * self.momentum**2))
        beta = (self.momentum - 1) / following
        uphill = kernels.extrapolate(
            self.L,
            self.S,
            self._L_ahead,
            self._S_ahead,
            self._L_new,
            self._S_point,
            self._threshold_s,
            beta,
        )
        self.L, self._L_new = self._L_new, self.L
        # The step went against the last one: momentum has carried it too far.
        self.momentum = 1.0 if uphill > 0 else following
        return math.sqrt(squares)


def _threshold(sizes: Array, total: float, guess: float) -> float:
    """Return what to subtract so that the positive parts sum to at most ``total``."""
    if float(sizes.sum()) <= total:
        return 0.0
    found: float = kernels.simplex_threshold(np.ascontiguousarray(sizes), total, guess)
    return found
