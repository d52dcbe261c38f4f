"""Unbiased word moments of a corpus, as products with sparse counts.

For a document with counts c of l words, the average over all ordered choices of two or three of
its words, none taken twice, is free of bias:

    E[w1 o w2]      : (c o c - diag(c)) / (l (l-1))
    E[w1 o w2 o w3] : (c o c o c - sum_i c_i perm(e_i o e_i o c) + 2 sum_i c_i e_i o e_i o e_i)
                      / (l (l-1) (l-2))

with perm the sum over the three places where c can stand. The moments of section 5.1 of the paper
follow by subtracting multiples of M1 o M1 and the like. Nothing here has d^2 entries: a moment is
only ever multiplied by a matrix of shape (d, K').
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tensor_rpca.topics.kernels import blocks, gather, over_documents, scatter, tally

Array = NDArray[Any]

# A document must have three words to say anything of the third moment.
FEWEST_WORDS = 3
# Floats held at once by a block of documents or words: 4 MiB.
BLOCK_FLOATS = 2**19


class WordMoments:
    """The moments M1, M2 and M3 of a corpus, by their products.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Counts.
    concentration : float
        beta_0, the sum of the mixtures' Dirichlet parameters.
    weights : ndarray of shape (n,), optional
        How much each document counts; 1 if None. Documents of fewer than three words never do.

    Attributes
    ----------
    n_documents : int
        Documents that count.
    n_too_short : int
        Documents of fewer than three words.
    first : ndarray of shape (d,)
        M1.
    counts : csr_array of shape (n, d)
        X.
    of_triples : ndarray of shape (n,)
        A document's weight over the number of its ordered triples of words.
    """

    def __init__(self, X: csr_array, concentration: float, weights: Array | None = None):
        self.counts = X
        self.shape = X.shape
        length, _ = tally(X)
        usable = length >= FEWEST_WORDS
        share = usable.astype(np.float64) if weights is None else np.where(usable, weights, 0.0)
        self.n_documents = int(np.count_nonzero(share))
        self.n_too_short = int(np.count_nonzero(~usable))
        if self.n_documents:
            share /= share.sum()
        safe = np.where(usable, length, FEWEST_WORDS)
        self._single = share / safe
        self._pair = self._single / (safe - 1)
        self.of_triples = self._pair / (safe - 2)
        self.first = over_documents(X, self._single)
        self._pair_diagonal = over_documents(X, self._pair)
        ratio = concentration / (concentration + 1)
        self._second_shift = ratio
        self._third_shift = concentration / (concentration + 2)
        self._third_cube = 2 * self._third_shift * ratio

    def second_times(self, V: Array, out: Array | None = None) -> Array:
        """M2 V, for V of shape (d, m), in out if that is given."""
        V = np.ascontiguousarray(V)
        out = np.empty_like(V) if out is None else out
        out[:] = 0
        for rows, Y, block in self._projected(V, V.shape[1]):
            scatter(*block, self._pair[rows, None] * Y, out)
        mean = self._second_shift * _mean(self.first, V)
        for part in _parts(V):
            out[part] -= self._pair_diagonal[part, None] * V[part]
            out[part] -= np.outer(self.first[part], mean)
        return out

    def third(self, Q: Array) -> Array:
        """Give (Q, Q, Q) . M3, of shape (m, m, m), for Q of shape (m, d)."""
        m = len(Q)
        basis = np.ascontiguousarray(Q.T)  # no copy of what reduction() returns
        packed = np.zeros((m * (m + 1) // 2, m))
        pairs = np.zeros((m, m))
        # Per word i, the sum over documents of c_i (Q c): what meets e_i o e_i.
        beside = np.zeros_like(basis)
        alone = over_documents(self.counts, self.of_triples)
        for rows, Y, block in self._projected(basis, len(packed)):
            scaled = self.of_triples[rows, None] * Y
            packed += _pair_products(Y).T @ scaled
            pairs += Y.T @ (self._pair[rows, None] * Y)
            scatter(*block, scaled, beside)
        repeated = np.zeros_like(packed)
        for words in _parts(basis, len(packed)):
            q = basis[words].astype(np.float64)
            # The last term, 2 c_i e_i o e_i o e_i, is a third of it in each of the three places.
            repeated += _pair_products(q).T @ (beside[words] - (2 / 3) * alone[words, None] * q)
            pairs -= q.T @ (self._pair_diagonal[words, None] * q)
        mean = _mean(self.first, basis)
        shifted = _unpack(repeated) + self._third_shift * pairs[:, :, None] * mean
        shifted = shifted + shifted.transpose(0, 2, 1) + shifted.transpose(2, 1, 0)
        cube = np.multiply.outer(np.outer(mean, mean), mean)
        third: Array = _unpack(packed) - shifted + self._third_cube * cube
        return third

    def _projected(self, V: Array, width: int) -> Iterator[tuple[slice, Array, Any]]:
        """Documents, ``X V`` and the counts, a block whose arrays of this width stay small."""
        most = max(64, BLOCK_FLOATS // max(1, width))
        for rows, *block in blocks(self.counts, most):
            Y = np.empty((rows.stop - rows.start, V.shape[1]))
            gather(*block, V, Y)
            yield rows, Y, block


def _mean(weights: Array, V: Array) -> Array:
    """``weights @ V`` in float64, which V as a whole is not converted to."""
    total = np.zeros(V.shape[1])
    for part in _parts(V):
        total += weights[part] @ V[part]
    return total


def _parts(V: Array, width: int | None = None) -> Iterator[slice]:
    """Rows of V, so many at a time that arrays of this width stay small."""
    step = max(1, BLOCK_FLOATS // max(1, width or V.shape[1]))
    for begin in range(0, len(V), step):
        yield slice(begin, begin + step)


def _pair_products(Y: Array) -> Array:
    """All products Y[:, a] * Y[:, b] with a <= b, of shape (n, m (m+1) / 2)."""
    m = Y.shape[1]
    out = np.empty((len(Y), m * (m + 1) // 2), Y.dtype)
    begin = 0
    for a in range(m):
        np.multiply(Y[:, a : a + 1], Y[:, a:], out=out[:, begin : begin + m - a])
        begin += m - a
    return out


def _unpack(packed: Array) -> Array:
    """The tensor, symmetric in its first two modes, whose pairs a <= b are given."""
    m = packed.shape[1]
    out = np.empty((m, m, m))
    upper = np.triu_indices(m)
    out[upper] = packed
    out[upper[1], upper[0]] = packed
    return out
