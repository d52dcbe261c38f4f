"""How good topics are: likelihood bound, document completion, coherence, diversity.

Two perplexities, which must not be mixed up. The *bound* scores all words of a document with
everything that its mixture could be averaged out, from below (log p(w | topics, alpha), the one in
the paper's formula). *Document completion* fits each mixture on a random half of a document's
words and scores the other half: no bound, no word scored that was seen, so it compares models
whatever their inference; it is the one to trust.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import digamma, gammaln

from tensor_rpca.topics.kernels import infer_mixtures
from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]

BLOCK = 2**18
WINDOW = 20


def likelihood_bound(X: csr_array, topics: Array, prior: Array) -> float:
    """Variational lower bound of ``sum_d log p(w_d | topics, prior)``."""
    gamma = infer_mixtures(X, topics, prior, variational=True)
    expected = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
    bound = _log_of_words(X, np.exp(expected), topics)
    bound += float(((prior - gamma) * expected).sum() + (gammaln(gamma) - gammaln(prior)).sum())
    bound += float((gammaln(prior.sum()) - gammaln(gamma.sum(axis=1))).sum())
    return bound


def bound_perplexity(X: csr_array, topics: Array, prior: Array) -> float:
    """``exp(-bound / words)``."""
    words = float(X.sum())
    return math.exp(-likelihood_bound(X, topics, prior) / max(words, 1.0))


def split_words(X: csr_array, random_state: RandomState = None) -> tuple[csr_array, csr_array]:
    """Deal each document's words to two halves at random."""
    generator = check_generator(random_state)
    counts = X.data.astype(np.int64)
    first = generator.binomial(counts, 0.5)
    halves = []
    for part in (first, counts - first):
        half = csr_array((part, X.indices, X.indptr), shape=X.shape).copy()
        half.eliminate_zeros()  # in place: hence the copy
        halves.append(half)
    return halves[0], halves[1]


def completion_perplexity(
    transform: Callable[[csr_array], Array],
    topics: Array,
    X: csr_array,
    random_state: RandomState = 0,
) -> float:
    """Perplexity of one half of each document's words, its mixture fitted on the other half.

    Parameters
    ----------
    transform : callable
        From counts (n, d) to mixtures (n, K), such as an estimator's ``transform``.
    topics : ndarray of shape (K, d)
        Rows that sum to one.
    X : csr_array of shape (n, d)
        Documents that the model has not seen.
    """
    seen, scored = split_words(csr_array(X), random_state)
    words = float(scored.sum())
    if words == 0:
        raise ValueError("no document has words to score; pass documents of several words")
    return math.exp(-_log_of_words(scored, transform(seen), topics) / words)


def _log_of_words(X: csr_array, mixtures: Array, topics: Array) -> float:
    """Sum of ``c_dw log(mixture_d . topic_w)``."""
    by_word = np.ascontiguousarray(topics.T)
    document = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    total = 0.0
    for begin in range(0, X.nnz, BLOCK):
        part = slice(begin, begin + BLOCK)
        p = np.einsum("jk,jk->j", mixtures[document[part]], by_word[X.indices[part]])
        total += float(X.data[part] @ np.log(np.maximum(p, 1e-300)))
    return total


def top_words(topics: Array, n: int = 10) -> Array:
    """Indices of each topic's likeliest words, shape (K, n), likeliest first."""
    return np.argsort(-topics, axis=1, kind="stable")[:, :n]


def topic_diversity(topics: Array, n: int = 25) -> float:
    """Share of different words among all topics' top n; 1 if no two topics share one."""
    top = top_words(topics, n)
    return len(np.unique(top)) / top.size


def topic_coherence(
    topics: Array,
    documents: Any,
    vocabulary: Sequence[str] | Array | None = None,
    *,
    n: int = 10,
    window: int = WINDOW,
) -> Array:
    """Mean normalised pointwise mutual information of each topic's top words (Lau et al., 2014).

    Score on documents that the topics were not fitted to: a topic made of one odd document is
    perfectly coherent in that document.

    Parameters
    ----------
    topics : array-like of shape (K, d)
    documents : list of lists of str, or sparse matrix of shape (n_documents, d)
        Words in their order, whose co-occurrence is counted in sliding windows; or counts, where a
        document is one window.
    vocabulary : sequence of str of length d, optional
        The columns' words; needed for lists of words.
    n : int
        Top words per topic.
    window : int
        Words in a window; a shorter document is one window.

    Returns
    -------
    ndarray of shape (K,)
        Between -1 and 1; a pair that never meets counts -1, words that occur nowhere included.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.topics import topic_coherence
    >>> texts = [["sun", "moon"], ["sun", "moon"], ["gin", "rum"], ["rum", "gin", "tea"]]
    >>> topics = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]])
    >>> topic_coherence(topics, texts, ["sun", "moon", "gin", "rum"], n=2).tolist()
    [1.0, -1.0]
    """
    weights = np.asarray(topics, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] < 2:
        raise ValueError(f"topics must have shape (K, d) with d >= 2, theirs is {weights.shape}")
    n = min(n, weights.shape[1])
    if n < 2:
        raise ValueError(f"coherence is of pairs of words, so n must be at least 2, got {n}")
    top = top_words(weights, n)
    wanted, place = np.unique(top, return_inverse=True)
    place = place.reshape(top.shape)
    if issparse(documents):
        together, n_windows = _count_in_documents(csr_array(documents), wanted)
    else:
        if vocabulary is None or len(vocabulary) != weights.shape[1]:
            raise ValueError(
                f"vocabulary must name the {weights.shape[1]} columns of topics when documents "
                "are lists of words"
            )
        number = {str(vocabulary[w]): i for i, w in enumerate(wanted.tolist())}
        together, n_windows = _count_in_windows(documents, number, window)
    return _npmi(together / max(1, n_windows), place)


def _npmi(together: Array, place: Array) -> Array:
    alone = np.diag(together)
    upper = np.triu_indices(place.shape[1], 1)
    a, b = place[:, upper[0]], place[:, upper[1]]
    p, pa, pb = together[a, b], alone[a], alone[b]
    met = p > 0
    safe = np.where(met, p, 0.5)
    information = np.log(safe / np.where(met, pa * pb, 1.0))
    # A pair in every window has p = 1: no surprise, and 0/0.
    scale = np.where(safe < 1, -np.log(np.minimum(safe, 1 - 1e-16)), 1.0)
    return np.asarray(np.where(met, information / scale, -1.0).mean(axis=1))


def _count_in_documents(X: csr_array, wanted: Array) -> tuple[Array, int]:
    present = csr_array(X[:, wanted] > 0, dtype=np.float64)
    return (present.T @ present).toarray(), X.shape[0]


def _count_in_windows(
    documents: Sequence[Sequence[str]], number: dict[str, int], window: int
) -> tuple[Array, int]:
    if isinstance(documents, str) or (len(documents) and isinstance(documents[0], str)):
        raise TypeError(
            "documents must be lists of words; split texts first, for example with "
            "CountVectorizer().build_analyzer()"
        )
    if window < 2:
        raise ValueError(f"a window must hold at least 2 words, got {window}")
    together = np.zeros((len(number), len(number)))
    n_windows = 0
    for words in documents:
        codes = np.fromiter((number.get(w, -1) for w in words), np.int64, len(words))
        n_windows += _slide(codes, window, together)
    return together, n_windows


@numba.njit(cache=True, nogil=True)
def _slide(codes, window, together):  # type: ignore[no-untyped-def]
    """Add to ``together`` the windows in which words (and pairs of words) occur."""
    length = len(codes)
    if length == 0:
        return 0
    present = np.empty(min(window, length), np.int64)
    n_windows = max(1, length - window + 1)
    for begin in range(n_windows):
        count = 0
        for i in range(begin, min(begin + window, length)):
            code = codes[i]
            known = code < 0
            for j in range(count):
                known = known or present[j] == code
            if not known:
                present[count] = code
                count += 1
        for i in range(count):
            for j in range(count):
                together[present[i], present[j]] += 1
    return n_windows
