"""Documents behind the sparse errors.

The third moment is a mean over documents, and so is its inner product with anything. Split it as
X + S: a document d adds <t_d, X> to one and <t_d, S> to the other, with t_d its own share of the
moment. A document of a topic adds to X. One that nothing else resembles, but repetitive enough to
be seen in the mean, is what S is made of, and adds to S alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[Any]

# A document must add so many times as much to the errors as the average one to be set aside.
TIMES_AVERAGE = 5.0
BLOCK_FLOATS = 2**21


def documents_behind(
    X: csr_array, Q: Array, factor: Array, sparse: Array, is_topic: Array, weights: Array
) -> NDArray[np.bool_]:
    """Mark documents that make errors rather than topics.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Counts.
    Q : ndarray of shape (m, d)
    factor : ndarray of shape (m, R)
        Of the low-rank part of the reduced moment.
    sparse : ndarray of shape (m, m, m)
        The sparse part.
    is_topic : ndarray of bool of shape (R,)
        Components that are topics; the others are errors, too.
    weights : ndarray of shape (n,)
        Of each document's triples of words; 0 where it has none.
    """
    places, values = _distinct(sparse)
    to_errors = np.zeros(X.shape[0])
    to_topics = np.zeros(X.shape[0])
    back = np.ascontiguousarray(Q.T)
    step = max(64, BLOCK_FLOATS // max(len(Q), len(values)))
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, begin + step)
        Y = X[rows] @ back
        along = (Y @ factor) ** 3
        a, b, c = places
        of_errors = (Y[:, a] * Y[:, b] * Y[:, c]) @ values + along[:, ~is_topic].sum(axis=1)
        to_errors[rows] = weights[rows] * of_errors
        to_topics[rows] = weights[rows] * along[:, is_topic].sum(axis=1)
    average = max(float(to_errors.sum()), 0.0) / max(1, int(np.count_nonzero(weights)))
    return (to_errors > TIMES_AVERAGE * average) & (to_errors > to_topics)


def _distinct(tensor: Array) -> tuple[tuple[Array, Array, Array], Array]:
    """Entries a <= b <= c of a symmetric tensor, each times the number of its copies."""
    a, b, c = np.nonzero(tensor)
    once = (a <= b) & (b <= c)
    a, b, c = a[once], b[once], c[once]
    copies = np.where((a == b) & (b == c), 1, np.where((a == b) | (b == c), 3, 6))
    return (a, b, c), tensor[a, b, c] * copies
