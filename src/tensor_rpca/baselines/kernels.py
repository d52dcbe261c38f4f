"""The rivals' passes over single entries, compiled when a rival is first imported, and cached."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from tensor_rpca.objective.compact import compiled

Array = NDArray[Any]

VECTOR = types.Array(types.float64, 1, "C")
# Strips of the modes' arrays keep the strides of the whole.
ROWS = types.Array(types.float64, 2, "A")
# Entries to a strip: fixed, so that sums have the same bits for any number of threads.
STRIP = 2**17


@compiled(
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
    Z: Array, S: Array, X: Array, Y: Array, threshold: float, stretch: float, pool: Executor | None
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
    parts = list((map if pool is None else pool.map)(strip, begins))
    primal, dual, multipliers = np.sum(parts, axis=0)
    return float(primal), float(dual), float(multipliers)


@compiled(types.float64(VECTOR, types.float64, types.float64))
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


@compiled(types.float64(VECTOR, VECTOR, VECTOR))
def distances(Z, L, sizes):  # type: ignore[no-untyped-def]
    """Write ``|Z - L|``, zero where Z is missing; return the sum."""
    total = 0.0
    for j in range(Z.size):
        difference = Z[j] - L[j]
        size = abs(difference) if difference == difference else 0.0
        sizes[j] = size
        total += size
    return total


@compiled(types.float64(VECTOR, VECTOR, types.float64, VECTOR))
def fit_both(Z, L, threshold, point):  # type: ignore[no-untyped-def]
    """Write ``Z - S`` with ``S = shrink(Z - L)``, and L where Z is missing.

    Returns the squared residual, that of ``clip(Z - L)``.
    """
    squares = 0.0
    for j in range(Z.size):
        difference = Z[j] - L[j]
        difference = difference if difference == difference else 0.0
        residual = min(max(difference, -threshold), threshold)
        point[j] = L[j] + residual
        squares += residual * residual
    return squares


@compiled(types.float64(VECTOR, VECTOR, VECTOR, types.float64))
def extrapolate(L, new, ahead, beta):  # type: ignore[no-untyped-def]
    """Move ``ahead`` beyond ``new`` by ``beta`` times the step from L.

    Returns the product of that step with the way back from where it was computed; positive
    says that momentum has carried too far.
    """
    uphill = 0.0
    for j in range(L.size):
        step = new[j] - L[j]
        uphill += (ahead[j] - new[j]) * step
        ahead[j] = new[j] + beta * step
    return uphill
