"""A tensor of one tile: the objective compiled as a whole, with no Python between the steps.

The same three matrix products as in ``sweep.py``, on factors that lie in one vector, mode after
mode. Below some ten thousand entries an interpreter would take longer than they do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from tensor_rpca.objective import kernels
from tensor_rpca.objective.tiles import plan_sweep

Array = NDArray[Any]

# Entries up to which this pays; larger tensors have tiles for several threads.
MOST_ENTRIES = 2**17

VECTOR = types.Array(types.float64, 1, "C")
MATRIX = types.Array(types.float64, 2, "C")
READ_ONLY = types.Array(types.float64, 2, "C", readonly=True)
INTEGERS = types.Array(types.int64, 1, "C")
# dims, offsets, split, Z, then buffers for L, P, X and the gradient of P.
PROBLEM = types.Tuple((INTEGERS, INTEGERS, types.int64, READ_ONLY, MATRIX, MATRIX, MATRIX, MATRIX))
# scale, table (without rows for Huber's loss), lambda_x.
FUNCTION = types.Tuple((types.float64, READ_ONLY, types.float64))


def compiled(signature: Any) -> Any:
    """Compile for one signature now, as :mod:`tensor_rpca.objective.kernels` does."""

    def decorate(function: Any) -> Any:
        options = {"nogil": True, "error_model": "numpy", "fastmath": kernels.FASTMATH}
        try:
            return numba.njit([signature], cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep a cache
            return numba.njit([signature], **options)(function)

    return decorate


class CompactTensor:
    """A tensor of one tile, ready for :func:`evaluate`.

    Parameters
    ----------
    Z : ndarray of shape (d_1, ..., d_K)
        Copied to float64; NaN marks missing entries.
    """

    def __init__(self, Z: Array):
        self.shape = Z.shape
        self._split = plan_sweep(Z.shape, 1).split
        rows = math.prod(Z.shape[: self._split])
        self.Z = np.array(Z, dtype=np.float64, order="C").reshape(rows, -1)
        self.Z.flags.writeable = False

    def problem(self, rank: int) -> tuple[Any, ...]:
        """Return what :func:`evaluate` takes, with buffers for factors of this many columns."""
        dims = np.array(self.shape)
        offsets = np.append(0, np.cumsum(dims)[:-1]) * rank
        rows, columns = self.Z.shape
        buffers = [np.empty(s) for s in ((rows, rank), (columns, rank))]
        return (
            dims,
            offsets,
            self._split,
            self.Z,
            *buffers,
            np.empty(self.Z.shape),
            buffers[1] + 0,
        )

    def pack(self, factors: Sequence[Array]) -> Array:
        """Lay factors of shapes (d_k, R) out as one vector."""
        return np.concatenate([np.ravel(a) for a in factors]).astype(np.float64)

    def unpack(self, x: Array) -> list[Array]:
        """Views of the factors inside a vector."""
        rank = len(x) // sum(self.shape)
        edges = np.cumsum([0, *self.shape]) * rank
        return [x[a:b].reshape(-1, rank) for a, b in itertools.pairwise(edges)]


@compiled(types.void(VECTOR, INTEGERS, INTEGERS, types.int64, types.int64, MATRIX))
def _khatri_rao(x, dims, offsets, first, last, out):  # type: ignore[no-untyped-def]
    """Khatri-Rao product of modes first, ..., last - 1."""
    R = out.shape[1]
    rows = dims[last - 1]
    for i in range(rows):
        for r in range(R):
            out[i, r] = x[offsets[last - 1] + i * R + r]
    for k in range(last - 2, first - 1, -1):
        # From the last row on, so that what is still needed is overwritten last.
        for i in range(dims[k] - 1, -1, -1):
            for j in range(rows):
                for r in range(R):
                    out[i * rows + j, r] = x[offsets[k] + i * R + r] * out[j, r]
        rows *= dims[k]


@compiled(types.void(VECTOR, VECTOR, INTEGERS, INTEGERS, types.int64, types.int64, MATRIX))
def _pull_back(x, g, dims, offsets, first, last, T):  # type: ignore[no-untyped-def]
    """Write the gradients of modes first, ..., last - 1, given T, that of their product."""
    rows, R = T.shape
    for k in range(first, last):
        g[offsets[k] : offsets[k] + dims[k] * R] = 0.0
    if last - first == 2:
        a, b, n = offsets[first], offsets[first + 1], dims[first + 1]
        for i in range(dims[first]):
            for j in range(n):
                for r in range(R):
                    t = T[i * n + j, r]
                    g[a + i * R + r] += t * x[b + j * R + r]
                    g[b + j * R + r] += t * x[a + i * R + r]
        return
    for row in range(rows):
        for k in range(first, last):
            for r in range(R):
                product = T[row, r]
                rest = row
                mine = 0
                for j in range(last - 1, first - 1, -1):
                    index = rest % dims[j]
                    rest //= dims[j]
                    if j == k:
                        mine = index
                    else:
                        product *= x[offsets[j] + index * R + r]
                g[offsets[k] + mine * R + r] += product


@compiled(types.UniTuple(types.float64, 2)(VECTOR, VECTOR, PROBLEM, FUNCTION))
def evaluate(x, g, problem, function):  # type: ignore[no-untyped-def]
    """Value of (marg), or of another loss, and its relative gradient; overwrites g."""
    dims, offsets, split, Z, L, P, X, dP = problem
    scale, table, lambda_x = function
    order = len(dims)
    _khatri_rao(x, dims, offsets, 0, split, L)
    _khatri_rao(x, dims, offsets, split, order, P)
    np.dot(L, P.T, X)
    if len(table) > 0:
        value = kernels.tabulated_residual(X, Z, 1.0, scale, table)
    else:
        value = kernels.clip_residual(X, Z, 1.0, scale)
    np.dot(X.T, L, dP)
    np.dot(X, P, L)  # L has served: its buffer takes its gradient
    _pull_back(x, g, dims, offsets, 0, split, L)
    _pull_back(x, g, dims, offsets, split, order, dP)
    of_fit = 0.0
    of_penalty = 0.0
    of_both = 0.0
    R = L.shape[1]
    for k in range(order):
        for r in range(R):
            square = 0.0
            for i in range(offsets[k] + r, offsets[k] + dims[k] * R, R):
                square += x[i] * x[i]
            norm = math.sqrt(square)
            value += lambda_x / order * norm**order
            share = lambda_x * norm ** (order - 2)
            for i in range(offsets[k] + r, offsets[k] + dims[k] * R, R):
                fit = g[i]
                g[i] = fit + share * x[i]
                of_fit += fit * fit
                of_penalty += (share * x[i]) ** 2
                of_both += g[i] * g[i]
    pull = math.sqrt(of_fit) + math.sqrt(of_penalty)
    return value, math.sqrt(of_both) / pull if pull > 0.0 else 0.0
