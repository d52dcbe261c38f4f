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

# A document must add so many times as much to S as the average one to be set aside.
TIMES_AVERAGE = 5.0
BLOCK_FLOATS = 2**21


def documents_behind(
    X: csr_array, Q: Array, low_rank: Array, sparse: Array, weights: Array
) -> NDArray[np.bool_]:
    """Mark documents that make errors rather than topics.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Counts.
    Q : ndarray of shape (m, d)
    low_rank, sparse : ndarrays of shape (m, m, m)
        The two parts of the reduced third moment.
    weights : ndarray of shape (n,)
        Of each document's triples of words; 0 where it has none.
    """
    to_errors = np.zeros(X.shape[0])
    to_topics = np.zeros(X.shape[0])
    if not sparse.any():
        return np.zeros(X.shape[0], np.bool_)
    m = len(Q)
    back = np.ascontiguousarray(Q.T)
    step = max(1, BLOCK_FLOATS // (m * m))
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, begin + step)
        Y = X[rows] @ back
        for part, out in ((sparse, to_errors), (low_rank, to_topics)):
            half = (Y @ part.reshape(m, m * m)).reshape(-1, m, m)
            out[rows] = weights[rows] * np.einsum("nbc,nb,nc->n", half, Y, Y, optimize=True)
    average = max(float(to_errors.sum()), 0.0) / max(1, int(np.count_nonzero(weights)))
    return (to_errors > TIMES_AVERAGE * average) & (to_errors > to_topics)
