"""The loops that touch single entries, compiled by Numba; everything larger is a BLAS call.

They are compiled for float64 and float32 when this module is first imported and cached on
disk, so that no call pauses to compile and no call's memory contains a compiler. A NaN in
``Z`` is a missing entry throughout: it costs nothing and contributes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Sums may be reordered for SIMD (in a fixed order, so results repeat bit for bit). NaN and
# infinity keep their meaning: NaN marks what is missing.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
# Sizes of residuals from 1e-14 to 1e4 in steps of 8 %.
BINS_PER_DECADE = 30
BINS_BELOW_ONE = 14 * BINS_PER_DECADE
N_BINS = 18 * BINS_PER_DECADE
# A tabulated loss has eight bins an octave, from 2^-30 to 2^30 of its scale.
OCTAVES = 30
LOWEST_BIN = (1023 - OCTAVES) << 3
_FLOATS = (types.float64, types.float32)


def _matrix(real: types.Float, readonly: bool = False) -> types.Array:
    return types.Array(real, 2, "C", readonly=readonly)


def _compiled(signature: Callable[[types.Float], types.Type]) -> Callable[[Any], Any]:
    """Compile for both floating types now; without a writable cache folder, each process anew."""

    def decorate(function: Any) -> Any:
        options = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
        signatures = [signature(real) for real in _FLOATS]
        try:
            return numba.njit(signatures, cache=True, **options)(function)
        except RuntimeError:  # Numba's "no locator available": nowhere to keep a cache
            return numba.njit(signatures, **options)(function)

    return decorate


@_compiled(lambda f: types.float64(_matrix(f), _matrix(f, readonly=True), f, f))
def clip_residual(X, Z, per_unit, threshold):  # type: ignore[no-untyped-def]
    """Overwrite ``X`` with ``clip(X - per_unit * Z, threshold)``; return the Huber loss."""
    rows, columns = X.shape
    half = X.dtype.type(0.5)
    zero = X.dtype.type(0)
    loss = 0.0
    for i in range(rows):
        row_loss = zero
        for j in range(columns):
            difference = X[i, j] - per_unit * Z[i, j]
            difference = difference if difference == difference else zero
            clipped = min(max(difference, -threshold), threshold)
            row_loss += clipped * (difference - half * clipped)
            X[i, j] = clipped
        loss += row_loss
    return loss


@intrinsic
def _bits(context, x):  # type: ignore[no-untyped-def]
    """Return the bits of a float64 as an int64: exponent and mantissa are a logarithm's digits."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@_compiled(
    lambda f: types.float64(
        _matrix(f), _matrix(f, readonly=True), f, f, _matrix(types.float64, readonly=True)
    )
)
def tabulated_residual(X, Z, per_unit, scale, table):  # type: ignore[no-untyped-def]
    """As :func:`clip_residual`, for any even loss, tabulated by :func:`losses.tabulate`.

    Row b of the table is ``(p, q, v)``: for sizes ``a = |e| / scale`` in bin b, an eighth of
    an octave, the pull is ``scale (p + q a)`` and the loss ``scale^2 (v + p a + q a^2 / 2)``.
    """
    rows, columns = X.shape
    last = len(table) - 1
    zero = X.dtype.type(0)
    per_scale = 1.0 / scale
    loss = 0.0
    for i in range(rows):
        row_loss = 0.0
        for j in range(columns):
            difference = X[i, j] - per_unit * Z[i, j]
            difference = difference if difference == difference else zero
            a = abs(difference) * per_scale
            b = min(max((_bits(a) >> 49) - LOWEST_BIN, 0), last)
            p = table[b, 0]
            half = 0.5 * table[b, 1] * a
            row_loss += table[b, 2] + a * (p + half)
            X[i, j] = math.copysign(scale * (p + half + half), difference)
        loss += row_loss
    return loss * scale * scale


@_compiled(lambda f: types.float64(_matrix(f), _matrix(f, readonly=True), f, f))
def shrink_residual(X, Z, per_unit, threshold):  # type: ignore[no-untyped-def]
    """Overwrite ``X`` with ``shrink(per_unit * Z - X, threshold)``; return the Huber loss."""
    rows, columns = X.shape
    half = X.dtype.type(0.5)
    zero = X.dtype.type(0)
    loss = 0.0
    for i in range(rows):
        row_loss = zero
        for j in range(columns):
            difference = per_unit * Z[i, j] - X[i, j]
            difference = difference if difference == difference else zero
            clipped = min(max(difference, -threshold), threshold)
            row_loss += clipped * (difference - half * clipped)
            X[i, j] = difference - clipped
        loss += row_loss
    return loss


@_compiled(lambda f: types.void(_matrix(f), _matrix(f), _matrix(f)))
def khatri_rao(A, B, out):  # type: ignore[no-untyped-def]
    """Write the column-wise Kronecker product: row ``i * len(B) + j`` of ``out`` is A[i] * B[j]."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            row = i * B.shape[0] + j
            for r in range(A.shape[1]):
                out[row, r] = A[i, r] * B[j, r]


@_compiled(lambda f: types.void(*[_matrix(f)] * 5))
def split_khatri_rao(T, A, B, gradient_A, gradient_B):  # type: ignore[no-untyped-def]
    """Add to each factor its gradient, given ``T``, that of their Khatri-Rao product."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            row = i * B.shape[0] + j
            for r in range(A.shape[1]):
                t = T[row, r]
                gradient_A[i, r] += t * B[j, r]
                gradient_B[j, r] += t * A[i, r]


@_compiled(
    lambda f: types.UniTuple(types.float64, 4)(
        _matrix(f), types.float64, types.int64, _matrix(f), types.Array(types.float64, 1, "C")
    )
)
def add_penalty(A, lambda_x, order, gradient, norms):  # type: ignore[no-untyped-def]
    """Add the gradient of ``lambda_x/K sum_r ||a_r||^K`` for one factor to that of the fit.

    Returns the penalty's value and the squared norms of the fit's gradient, the penalty's
    and their sum, from which the solver judges stationarity. ``norms`` is scratch (R,).
    """
    d, R = A.shape
    norms[:] = 0.0
    for i in range(d):
        for r in range(R):
            norms[r] += A[i, r] * A[i, r]
    value = 0.0
    for r in range(R):
        norm = norms[r] ** 0.5
        value += norm**order
        norms[r] = lambda_x * norm ** (order - 2)
    of_fit = 0.0
    of_penalty = 0.0
    of_both = 0.0
    for i in range(d):
        for r in range(R):
            fit = gradient[i, r]
            penalty = norms[r] * A[i, r]
            both = fit + penalty
            of_fit += fit * fit
            of_penalty += penalty * penalty
            of_both += both * both
            gradient[i, r] = both
    return lambda_x / order * value, of_fit, of_penalty, of_both


@_compiled(
    lambda f: types.Tuple((types.int64, types.int64, types.float64, types.float64))(
        _matrix(f, readonly=True)
    )
)
def survey_block(Z):  # type: ignore[no-untyped-def]
    """Count the observed and the infinite entries of a block; sum and top the absolute values."""
    observed = 0
    infinite = 0
    total = 0.0
    top = 0.0
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            size = abs(Z[i, j])
            if size == size:
                observed += 1
                if size == float("inf"):
                    infinite += 1
                else:
                    total += size
                    top = max(top, size)
    return observed, infinite, total, top


@_compiled(
    lambda f: types.void(
        _matrix(f), _matrix(f, readonly=True), f, types.Array(types.float64, 2, "C")
    )
)
def tally_residual(X, Z, per_unit, bins):  # type: ignore[no-untyped-def]
    """Add counts and sums of squares of ``X - per_unit * Z`` to bins of its logarithm."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            difference = abs(X[i, j] - per_unit * Z[i, j])
            if difference == difference:
                place = np.log10(difference + 1e-300) * BINS_PER_DECADE + BINS_BELOW_ONE
                b = int(min(max(place, 0.0), len(bins) - 1.0))
                bins[b, 0] += 1
                bins[b, 1] += difference * difference
