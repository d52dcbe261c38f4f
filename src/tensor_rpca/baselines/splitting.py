"""The alternating direction method that four of the rivals share.

Minimises ``sum_k g_k(X_k) + ||S||_1`` subject to ``X_k + S = Z`` for all k, where each g_k is
known by its proximal map. Two blocks, all X_k and S, so that the method converges for convex
g_k and any fixed penalty parameter (Goldfarb and Qin, section 4; Boyd et al., section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from tensor_rpca.baselines.kernels import STRIP, split_step

Array = NDArray[Any]
# Where the two relative residuals are held to each other; equal ones take twice the iterations.
BALANCE = 0.1
# Writes into its last argument the minimiser of g(X) + 1/(2 t) ||X - Y||^2, given Y and t.
ProximalMap = Callable[[Array, float, Array], object]


@dataclass(frozen=True)
class Penalty:
    """How the penalty parameter rho goes: residuals are balanced, or it grows steadily.

    Attributes
    ----------
    start : float
    growth : float
        Factor an iteration; 1 leaves rho to the balance.
    balance_until : int
        The last iteration that may change rho; convergence is guaranteed from then on.
    """

    start: float
    growth: float = 1.0
    balance_until: int = 0


@dataclass(frozen=True)
class Split:
    """X is the mean of the X_k."""

    X: Array
    S: Array
    converged: bool
    history: dict[str, list[float]]


def split(
    Z: Array, maps: Sequence[ProximalMap], penalty: Penalty, tol: float, max_iter: int
) -> Split:
    """Run the method until constraints hold and S rests, both to ``tol`` of their scale."""
    n_modes = len(maps)
    flat = Z.reshape(-1)
    size = float(np.linalg.norm(np.nan_to_num(flat))) * math.sqrt(n_modes)
    S = np.zeros(Z.size)
    X = np.empty((n_modes, Z.size))
    Y = np.empty((n_modes, Z.size))
    Y[:] = np.nan_to_num(flat)
    rho, stretch = penalty.start, 1.0
    history: dict[str, list[float]] = {"primal": [], "dual": []}
    converged = False
    with ThreadPoolExecutor(_n_threads() if Z.size > STRIP else 1) as pool:
        for iteration in range(1, max_iter + 1):
            for proximal_map, x, y in zip(maps, X, Y, strict=True):
                proximal_map(y.reshape(Z.shape), 1 / rho, x.reshape(Z.shape))
            following = rho * penalty.growth
            if iteration <= penalty.balance_until and iteration % 5 == 0:
                following *= _balance(history)
            stretch = rho / following
            primal, dual, multipliers = split_step(
                flat, S, X, Y, 1 / (rho * n_modes), stretch, pool
            )
            history["primal"].append(math.sqrt(primal) / max(size, 1e-300))
            # Growing penalties make the multipliers vanish: S must rest relative to Z then.
            scale = multipliers if penalty.growth == 1 else max(multipliers, size**2)
            history["dual"].append(math.sqrt(n_modes * dual / max(scale, 1e-300)))
            rho = following
            if max(history["primal"][-1], history["dual"][-1]) <= tol:
                converged = True
                break
    return Split(X.mean(axis=0), S, converged, history)


def _balance(history: dict[str, list[float]]) -> float:
    """Return what to multiply rho with, so that both residuals shrink alike."""
    ratio = history["primal"][-1] / max(BALANCE * history["dual"][-1], 1e-300)
    return min(max(math.sqrt(ratio), 0.5), 2.0) if not 1 / 3 < ratio < 3 else 1.0


def _n_threads() -> int:
    pools = threadpoolctl.threadpool_info()
    return max((pool["num_threads"] for pool in pools if pool["user_api"] == "blas"), default=1)
