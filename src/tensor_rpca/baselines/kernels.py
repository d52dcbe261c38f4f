"""The rivals' passes over single entries, compiled when a rival is first imported, and cached."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from tensor_rpca.objective.kernels import FASTMATH

Array = NDArray[Any]

VECTOR = types.Array(types.float64, 1, "C")
# Strips of the modes' arrays keep the strides of the whole.
ROWS = types.Array(types.float64, 2, "A")
# Entries to a strip: fixed, so that sums have the same bits for any number of threads.
STRIP = 2**16


def _compiled(signature: Any) -> Any:
    def decorate(function: Any) -> Any:
        options = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
        try:
            return numba.njit([signature], cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep a cache
            return numba.njit([signature], **options)(function)

    return decorate


@_compiled(
    types.UniTuple(types.float64, 3)(VECTOR, VECTOR, ROWS, ROWS, types.float64, types.float64)
)
def _split_strip(Z, S, X, Y, threshold, stretch):  # type: ignore[no-untyped-def]
    n_modes, n = X.shape
    primal = 0.0
    dual = 0.0
    multipliers = 0.0
    for j in range(n):
        z = Z[j]
        before = S[j]
        missing = z != z
        z = 0.0 if missing else z
        v = 0.0
        for k in range(n_modes):
            v += Y[k, j] - X[k, j]
        v = before + v / n_modes
        # Where Z is missing, S is free and takes whatever the constraint asks for.
        s = v if missing else max(v - threshold, 0.0) + min(v + threshold, 0.0)
        step = s - before
        S[j] = s
        dual += step * step
        for k in range(n_modes):
            gap = X[k, j] + s - z
            u = X[k, j] - Y[k, j] + step
            primal += gap * gap
            multipliers += u * u
            Y[k, j] = z - s - stretch * u
    return primal, dual, multipliers


def split_step(
    Z: Array, S: Array, X: Array, Y: Array, threshold: float, stretch: float, pool: Executor
) -> tuple[float, float, float]:
    """Update S and the multipliers of ``X_k + S = Z`` in one pass; all arrays are in place.

    Y holds ``Z - S - u_k``, with scaled multipliers u_k, from which the X_k were computed, and
    receives what the next ones are to be computed from; u_k is multiplied by ``stretch``.

    Returns
    -------
    sums of squares of the constraints' residuals, of the change of S, and of the multipliers
    """

    def strip(begin: int) -> tuple[float, float, float]:
        part = slice(begin, begin + STRIP)
        sums: tuple[float, float, float] = _split_strip(
            Z[part], S[part], X[:, part], Y[:, part], threshold, stretch
        )
        return sums

    begins = range(0, Z.size, STRIP)
    parts = list(pool.map(strip, begins)) if len(begins) > 1 else [strip(0)]
    primal, dual, multipliers = np.sum(parts, axis=0)
    return float(primal), float(dual), float(multipliers)


@_compiled(types.float64(VECTOR, types.float64, types.float64))
def simplex_threshold(sizes, total, guess):  # type: ignore[no-untyped-def]
    """Return the t >= 0 for which ``sum max(sizes - t, 0) = total``, by Newton's method.

    The sum is convex and decreasing in t, so that after one step all others come from the left.
    """
    t = guess
    for _ in range(100):
        above = 0.0
        count = 0
        for size in sizes:
            if size > t:
                above += size - t
                count += 1
        if count == 0:
            if t == 0.0:
                return 0.0
            t = 0.0
            continue
        t = max(t + (above - total) / count, 0.0)
        if abs(above - total) <= 1e-13 * total:
            return t
    return t


@_compiled(types.UniTuple(types.float64, 2)(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR))
def descend(Z, L_ahead, S_ahead, L_point, S_point, sizes):  # type: ignore[no-untyped-def]
    """Half a gradient step of ``1/2 ||L + S - Z||^2`` in both; sizes are those of S.

    Returns the squared residual and its largest entry.
    """
    total = 0.0
    top = 0.0
    for j in range(Z.size):
        z = Z[j]
        residual = 0.0 if z != z else L_ahead[j] + S_ahead[j] - z
        total += residual * residual
        top = max(top, abs(residual))
        L_point[j] = L_ahead[j] - 0.5 * residual
        S_point[j] = S_ahead[j] - 0.5 * residual
        sizes[j] = abs(S_point[j])
    return total, top


@_compiled(
    types.float64(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, types.float64, types.float64)
)
def extrapolate(L, S, L_ahead, S_ahead, L_new, S_point, threshold, beta):  # type: ignore[no-untyped-def]
    """Shrink S and go ``beta`` of the last step further ahead, for both parts.

    S receives its new value; L is left to the caller, who exchanges it for ``L_new``. Returns the
    product of the step from the point ahead with the last step; positive says turn back.
    """
    uphill = 0.0
    for j in range(L.size):
        p = S_point[j]
        s = max(p - threshold, 0.0) + min(p + threshold, 0.0)
        step_s = s - S[j]
        step_l = L_new[j] - L[j]
        uphill += (S_ahead[j] - s) * step_s + (L_ahead[j] - L_new[j]) * step_l
        S[j] = s
        S_ahead[j] = s + beta * step_s
        L_ahead[j] = L_new[j] + beta * step_l
    return uphill
