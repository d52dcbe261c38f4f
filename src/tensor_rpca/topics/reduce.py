"""From d words to K' dimensions: the paper's Q, and the whitening W that it does without.

Both rest on the leading eigenvectors of M2, found by randomised subspace iteration (Halko,
Martinsson and Tropp): M2 is only multiplied by d x K' matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.topics.moments import WordMoments
from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]

# Multiplications with M2. Its eigenvalues fall slowly in real corpora, and the span of the
# last few directions matters little.
PASSES = 4
# Entries from which on float32, whose rounding is far below the moments' own noise, has to do.
LARGE = 2**21
ROWS = 2**14


def leading_eigenvectors(
    moments: WordMoments, size: int, random_state: RandomState = None
) -> tuple[Array, Array]:
    """Find the eigenvectors of M2 with the largest eigenvalues.

    Parameters
    ----------
    moments : WordMoments
    size : int
        K', at most the number of words.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    values : ndarray of shape (K',)
        Descending.
    vectors : ndarray of shape (d, K')
        Orthonormal columns.
    """
    generator = check_generator(random_state)
    d = moments.shape[1]
    V = np.empty((d, size), np.float32 if d * size > LARGE else np.float64)
    for begin in range(0, d, ROWS):
        V[begin : begin + ROWS] = generator.standard_normal((min(ROWS, d - begin), size))
    previous = np.empty_like(V)
    for _ in range(PASSES):
        _orthonormalise(V)
        moments.second_times(V, previous)
        inner = V.T @ previous
        previous, V = V, previous
    del V
    values, rotation = np.linalg.eigh((inner + inner.T) / 2)
    order = np.argsort(-values, kind="stable")
    _multiply(previous, rotation[:, order])
    return values[order], previous


def reduction(moments: WordMoments, size: int, random_state: RandomState = None) -> Array:
    """Q of shape (K', d): orthonormal rows that span what M2 shows of the topics."""
    _, vectors = leading_eigenvectors(moments, size, random_state)
    return vectors.T


def whitening(
    moments: WordMoments, size: int, random_state: RandomState = None
) -> tuple[Array, Array]:
    """Find W of shape (K, d) with ``W M2 W^T = I``, and its pseudo-inverse (d, K).

    Raises ValueError if M2 has fewer than K positive eigenvalues: then no whitening exists.
    """
    values, vectors = leading_eigenvectors(moments, size, random_state)
    if values[-1] <= 1e-12 * values[0]:
        rank = int(np.count_nonzero(values > 1e-12 * values[0]))
        raise ValueError(
            f"M2 has {rank} positive eigenvalues and {size} topics were asked for; whitening needs "
            "linearly independent topics: ask for fewer, or use TensorLDA, which does not whiten"
        )
    scale = np.sqrt(values)
    return np.ascontiguousarray((vectors / scale).T), vectors * scale


def _orthonormalise(V: Array) -> None:
    """Make the columns orthonormal in place, by their Gram matrix; twice, for its rounding."""
    for _ in range(2):
        values, vectors = np.linalg.eigh((V.T @ V).astype(np.float64))
        safe = np.maximum(values, max(values[-1], 1e-300) * np.finfo(V.dtype).eps)
        _multiply(V, vectors / np.sqrt(safe))


def _multiply(V: Array, by: Array) -> None:
    """``V @ by`` in place, a block of rows at a time."""
    for begin in range(0, len(V), ROWS):
        rows = slice(begin, begin + ROWS)
        V[rows] = V[rows] @ by
