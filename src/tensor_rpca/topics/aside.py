"""Documents that repeat themselves, kept from ruling the moments.

Q mixes words, so an error that is sparse among words (a document that says "ax" ten thousand times)
is dense in the reduced moment, where no sparse part can undo it. It is dealt with before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tensor_rpca.topics.kernels import tally

Array = NDArray[Any]

# A document counts less that repeats itself so many times as much as nine in ten others do. (Not
# half of them: one topic may have far fewer words than the rest, and half is mixtures.)
TIMES_MOST, MOST = 1.5, 0.9
# And where its weight would be less than this, not at all.
LEAST_WEIGHT = 0.05
# A document has no more say in refinement than so many of the length that one in twenty exceeds.
TIMES_LENGTH = 2.0
# Words that a document needs to show how much is usual.
LONG = 20


def bounded_length(X: csr_array) -> Array:
    """Weights of documents (n,) that stop counting words of documents far longer than others.

    Moments give every document the same say. Refinement follows counts, which give it by words, so
    that a dozen encoded files would make a topic.
    """
    length, _ = tally(X)
    if not np.any(length > 0):
        return np.ones(X.shape[0])
    bound = TIMES_LENGTH * max(float(np.quantile(length[length > 0], 0.95)), LONG)
    return np.minimum(1.0, bound / np.maximum(length, 1.0))


def bounded_influence(X: csr_array) -> Array:
    """Weights of documents (n,) that keep repetitive ones from ruling the moments.

    Two words of a document are the same with chance r = sum_i c_i (c_i - 1) / (l (l-1)), which is
    also the size of what it adds to the moments. Under any mixture of topics it stays near that of
    the others; where it is larger, beyond what chance does to a short document, the weight falls
    as 1 / r^2, and to 0 where little is left.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Counts.
    """
    length, squares = tally(X)
    pairs = np.maximum(length * (length - 1), 1.0)
    same = np.maximum(squares - length, 0.0)
    long = length >= LONG
    if not long.any():
        return np.ones(X.shape[0])
    usual = TIMES_MOST * max(float(np.quantile(same[long] / pairs[long], MOST)), 1e-12)
    # Two standard deviations of a Poisson number of pairs, each counted in both orders.
    certain = np.maximum(same - 2 * np.sqrt(2 * same), 0.0) / pairs
    weights = np.minimum(1.0, usual / np.maximum(certain, 1e-300)) ** 2
    return np.where(weights < LEAST_WEIGHT, 0.0, weights)
