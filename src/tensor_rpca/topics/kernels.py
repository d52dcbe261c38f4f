"""The loops over the words of documents, compiled by Numba."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tensor_rpca.objective.kernels import FASTMATH

Array = NDArray[Any]

# Non-zeros that are converted to the kernels' types at a time.
BLOCK_NONZEROS = 2**19
# Sums of more words than this leave float32 too few digits for the next.
FEW = 2**22

_F32, _F64, _I32, _I64 = types.float32, types.float64, types.int32, types.int64


def _array(kind: Any, ndim: int, readonly: bool = False) -> types.Array:
    return types.Array(kind, ndim, "C", readonly=readonly)


def _compiled(signature: Any) -> Any:
    def decorate(function: Any) -> Any:
        options = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
        try:
            return numba.njit([signature], cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep a cache
            return numba.njit([signature], **options)(function)

    return decorate


@_compiled(
    types.void(
        _array(_I64, 1),
        _array(_I32, 1, True),
        _array(_F32, 1, True),
        _array(_F32, 2, True),
        _array(_F32, 1, True),
        _array(_F32, 2),
        _array(_F32, 1, True),
        _array(_F32, 2),
    )
)
def _em_block(indptr, words, counts, by_word, prior, mixtures, weights, out):  # type: ignore[no-untyped-def]
    K = by_word.shape[1]
    weight = np.empty(K, np.float32)
    share = np.empty(K, np.float32)
    for d in range(len(indptr) - 1):
        follow = weights[d]
        if follow == 0:
            continue
        for k in range(K):
            weight[k] = mixtures[d, k] + prior[k]
            mixtures[d, k] = np.float32(0)
        for j in range(indptr[d], indptr[d + 1]):
            w = words[j]
            total = np.float32(1e-30)
            for k in range(K):
                share[k] = weight[k] * by_word[w, k]
                total += share[k]
            scale = counts[j] / total
            for k in range(K):
                x = scale * share[k]
                mixtures[d, k] += x
                out[w, k] += follow * x


def _either(signature: Any) -> Any:
    """Compile for both floating types of dense matrices."""

    def decorate(function: Any) -> Any:
        options = {"nogil": True, "error_model": "numpy", "fastmath": FASTMATH}
        signatures = [signature(real) for real in (_F64, _F32)]
        try:
            return numba.njit(signatures, cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep a cache
            return numba.njit(signatures, **options)(function)

    return decorate


@_either(
    lambda real: types.void(
        _array(_I64, 1),
        _array(_I32, 1, True),
        _array(_F32, 1, True),
        _array(real, 2, True),
        _array(_F64, 2),
    )
)
def gather(indptr, words, counts, V, out):  # type: ignore[no-untyped-def]
    """Write ``X V`` for a block of documents."""
    for d in range(len(indptr) - 1):
        out[d] = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            w, c = words[j], counts[j]
            for k in range(V.shape[1]):
                out[d, k] += c * V[w, k]


@_either(
    lambda real: types.void(
        _array(_I64, 1),
        _array(_I32, 1, True),
        _array(_F32, 1, True),
        _array(_F64, 2, True),
        _array(real, 2),
    )
)
def scatter(indptr, words, counts, Y, out):  # type: ignore[no-untyped-def]
    """Add ``X^T Y`` for a block of documents, without the array that a product would return."""
    for d in range(len(indptr) - 1):
        for j in range(indptr[d], indptr[d + 1]):
            w, c = words[j], counts[j]
            for k in range(Y.shape[1]):
                out[w, k] += c * Y[d, k]


def project(X: csr_array, V: Array) -> Array:
    """``X V``, in float64, without converted copies of X or V (which is C-contiguous)."""
    out = np.empty((X.shape[0], V.shape[1]))
    for rows, *block in blocks(X):
        gather(*block, V, out[rows])
    return out


def em_pass(
    X: csr_array,
    by_word: Array,
    prior: Array,
    mixtures: Array,
    weights: Array,
    out: Array,
    most: float,
) -> None:
    """One pass: update mixtures (n, K) in place; write the topics' counts of words (d, K) to out.

    ``by_word`` is the topics' transpose (d, K); it, prior, mixtures, the documents' weights (n,)
    and out are float32. ``most`` is how often the most frequent word occurs.
    """
    out[:] = 0
    part = out if most <= FEW else np.zeros_like(out)
    held = 0.0
    for rows, indptr, words, counts in blocks(X):
        _em_block(indptr, words, counts, by_word, prior, mixtures[rows], weights[rows], part)
        held += float(counts.sum(dtype=np.float64))
        if part is not out and held > FEW:
            out += part
            part[:] = 0
            held = 0.0
    if part is not out:
        out += part


@_compiled(types.void(_array(_I64, 1), _array(_F32, 1, True), _array(_F64, 2)))
def _tally_block(indptr, counts, out):  # type: ignore[no-untyped-def]
    for d in range(len(indptr) - 1):
        out[d] = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            c = np.float64(counts[j])
            out[d, 0] += c
            out[d, 1] += c * c


def tally(X: csr_array) -> tuple[Array, Array]:
    """Sums of the counts and of their squares, by document, (n,) each."""
    out = np.empty((X.shape[0], 2))
    for rows, indptr, _, counts in blocks(X):
        _tally_block(indptr, counts, out[rows])
    return np.ascontiguousarray(out[:, 0]), np.ascontiguousarray(out[:, 1])


def over_documents(X: csr_array, y: Array) -> Array:
    """``X^T y`` for y of shape (n,), without the converted copy of X that SciPy makes."""
    out = np.zeros((X.shape[1], 1))
    for rows, *block in blocks(X):
        scatter(*block, np.ascontiguousarray(y[rows, None]), out)
    return out[:, 0]


@_compiled(_F64(_F64))
def _digamma(x):  # type: ignore[no-untyped-def]
    """Recurrence up to 6, then the asymptotic series: 1e-10 or better."""
    below = 0.0
    while x < 6.0:
        below -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    tail = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return below + math.log(x) - 0.5 / x - tail


@_compiled(
    types.void(
        _array(_I64, 1),
        _array(_I32, 1, True),
        _array(_F32, 1, True),
        _array(_F64, 2, True),
        _array(_F64, 1, True),
        _I64,
        _F64,
        types.boolean,
        _array(_F64, 2),
    )
)
def _infer_block(indptr, words, counts, by_word, prior, most, tol, variational, out):  # type: ignore[no-untyped-def]
    K = by_word.shape[1]
    total_prior = prior.sum()
    weight = np.empty(K)
    share = np.empty(K)
    fresh = np.empty(K)
    for d in range(len(indptr) - 1):
        length = 0.0
        for j in range(indptr[d], indptr[d + 1]):
            length += counts[j]
        for k in range(K):
            out[d, k] = prior[k] * (1.0 + length / total_prior)
        for _ in range(most):
            for k in range(K):
                weight[k] = math.exp(_digamma(out[d, k])) if variational else out[d, k]
                fresh[k] = 0.0
            for j in range(indptr[d], indptr[d + 1]):
                w = words[j]
                total = 1e-300
                for k in range(K):
                    share[k] = weight[k] * by_word[w, k]
                    total += share[k]
                scale = counts[j] / total
                for k in range(K):
                    fresh[k] += scale * share[k]
            change = 0.0
            for k in range(K):
                value = fresh[k] + prior[k]
                change += abs(value - out[d, k])
                out[d, k] = value
            if change <= tol * (length + total_prior):
                break


def infer_mixtures(
    X: csr_array,
    topics: Array,
    prior: Array,
    *,
    variational: bool = False,
    max_iter: int = 100,
    tol: float = 1e-4,
) -> Array:
    """Dirichlet parameters (n, K) of each document's mixture, prior included.

    With ``variational`` they maximise the variational bound of the document's likelihood;
    otherwise they are collapsed, as in :mod:`tensor_rpca.topics.refine`, and predict better.
    """
    by_word = np.ascontiguousarray(topics.T, dtype=np.float64)
    alpha = np.ascontiguousarray(prior, dtype=np.float64)
    out = np.empty((X.shape[0], len(topics)))
    for rows, indptr, words, counts in blocks(X):
        _infer_block(indptr, words, counts, by_word, alpha, max_iter, tol, variational, out[rows])
    return out


def blocks(
    X: csr_array, most_rows: int | None = None
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Rows, and their indptr, indices and data as int64, int32 and float32."""
    n = X.shape[0]
    begin = 0
    while begin < n:
        target = X.indptr[begin] + BLOCK_NONZEROS
        end = int(np.searchsorted(X.indptr, target, side="right")) - 1
        end = min(n, max(end, begin + 1), begin + (most_rows or n))
        first, last = int(X.indptr[begin]), int(X.indptr[end])
        indptr = X.indptr[begin : end + 1].astype(np.int64) - first
        words = X.indices[first:last].astype(np.int32, copy=False)
        counts = X.data[first:last].astype(np.float32, copy=False)
        yield slice(begin, end), indptr, words, counts
        begin = end
