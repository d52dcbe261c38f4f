"""TensorLDA: latent Dirichlet allocation by robust moments, refined."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack

from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.progress import counting_bar
from tensor_rpca.topics.aside import bounded_influence, bounded_length
from tensor_rpca.topics.kernels import over_documents, project, tally
from tensor_rpca.topics.model import TopicModel, check_parameters, warn_of_fractions
from tensor_rpca.topics.moments import FEWEST_WORDS, WordMoments
from tensor_rpca.topics.recover import kruskal_condition, recover_topics
from tensor_rpca.topics.reduce import reduction
from tensor_rpca.topics.refine import refine_topics
from tensor_rpca.topics.symmetric import decompose_symmetric
from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]

# Sum of the mixtures' Dirichlet parameters; the paper's. Larger ones make real corpora's moments
# worse: their mixtures are purer than their words' bursts let them seem.
CONCENTRATION = 0.01
MOST_OVERSAMPLING = 10
PASSES = 100
# Of each word beyond its counts, in every topic.
SMOOTHING = 0.05
# Share of the corpus's own distribution in a topic that was found by moments, so that no word
# is impossible.
BACKGROUND = 0.1
FIRST_PRIOR = 0.1
RESTARTS = 3
# With so many topics restarts find nothing better.
MANY = 20


class TensorLDA(TopicModel):
    """Latent Dirichlet allocation, by tensor RPCA of the corpus's word moments.

    Takes the place of :class:`sklearn.decomposition.LatentDirichletAllocation`. The third moment,
    reduced to K' dimensions, is split into symmetric components, one a topic, and sparse errors; a
    hundred cheap passes of expectation maximisation refine what the moments found. Documents that
    repeat themselves far more than others count less, or are set aside.

    Parameters
    ----------
    n_components : int
        Topics, K.
    concentration : float
        beta_0, the sum of the Dirichlet parameters of documents' mixtures, as the moments see it.
    oversampling : int, optional
        K', the dimensions that the moment is reduced to; None is K + min(K, 10).
    refine : int
        Passes of refinement; 0 leaves the topics that the moments gave.
    smoothing : float
        Dirichlet parameter of topics during refinement.
    robust : bool
        Give less weight, or none, to documents that repeat themselves far more than others.
    random_state : int, Generator or RandomState, optional
        An int makes the result repeatable.
    progress : bool
        Show a progress bar on standard error.

    Attributes
    ----------
    components_ : ndarray of shape (K, d)
        Topics: distributions over words, the most frequent topic first.
    doc_topic_prior_ : ndarray of shape (K,)
        Dirichlet parameters of documents' mixtures.
    moment_components_ : ndarray of shape (K, d)
        Topics before refinement.
    moment_shares_ : ndarray of shape (K,)
        Their shares of the words by the moments, beta / beta_0.
    set_aside_ : ndarray of int
        Documents (rows of X) without weight.
    n_too_short_ : int
        Documents of fewer than three words, which have no third moment.
    n_reduced_ : int
        K'.
    n_sparse_errors_ : int
        Entries of the reduced moment, K' x K' x K', that no topic explains.
    kruskal_ : KruskalCondition
        Whether the topics found are the only ones with their third moment.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X had them.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from tensor_rpca.topics import TensorLDA
    >>> texts = ["sun moon star sun", "moon star sun moon", "gin rum tea rum", "tea gin rum tea"]
    >>> vectorizer = CountVectorizer()
    >>> counts = vectorizer.fit_transform(texts * 5)
    >>> model = TensorLDA(n_components=2, random_state=0).fit(counts)
    >>> names = vectorizer.get_feature_names_out()
    >>> sorted(sorted(names[topic.argsort()[-3:]].tolist()) for topic in model.components_)
    [['gin', 'rum', 'tea'], ['moon', 'star', 'sun']]
    >>> model.transform(counts).shape
    (20, 2)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        concentration: float = CONCENTRATION,
        oversampling: int | None = None,
        refine: int = PASSES,
        smoothing: float = SMOOTHING,
        robust: bool = True,
        random_state: RandomState = None,
        progress: bool = False,
    ):
        self.n_components = n_components
        self.concentration = concentration
        self.oversampling = oversampling
        self.refine = refine
        self.smoothing = smoothing
        self.robust = robust
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: ArrayLike, y: Any = None) -> TensorLDA:
        """Find topics.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Counts of words. A csr_matrix is neither copied nor made dense.
        y : ignored
        """
        counts = self._check(X, reset=True)
        self.__dict__.pop("_pieces", None)
        return self._fit(counts)

    def partial_fit(self, X: ArrayLike, y: Any = None) -> TensorLDA:
        """Add documents to those of earlier calls, and find the topics of all.

        The dimensions that the moments are reduced to depend on all documents, so the counts are
        kept; the result is that of one :meth:`fit` to all pieces stacked.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : ignored
        """
        pieces = self.__dict__.get("_pieces", [])
        counts = self._check(X, reset=not pieces)
        stacked = vstack([*pieces, counts], format="csr") if pieces else counts.copy()
        self._fit(stacked)
        self._pieces = [stacked]
        return self

    def _fit(self, counts: csr_array) -> TensorLDA:
        check_parameters(self, counts.shape[1])
        warn_of_fractions(counts)
        if not np.any(counts.data):
            raise ValueError(
                "X holds no word at all, so there are no topics; check the vocabulary, and whether "
                "the vectorizer left anything"
            )
        generator = check_generator(self.random_state)
        K = self.n_components
        size = self.oversampling or K + min(K, MOST_OVERSAMPLING)
        with single_threaded_blas(), counting_bar(self.progress, "refining") as tick:
            start = find_topics(
                counts,
                K,
                generator,
                concentration=self.concentration,
                size=min(size, counts.shape[1]),
                robust=self.robust,
            )
            prior = np.full(K, FIRST_PRIOR)
            if self.refine:
                topics, prior = refine_topics(
                    counts,
                    mixed_with_background(start.topics, start.first, np.float32, "F"),
                    prior,
                    passes=self.refine,
                    smoothing=self.smoothing,
                    weights=start.weights * (bounded_length(counts) if self.robust else 1.0),
                    on_pass=lambda done: tick(done, self.refine),
                )
            else:
                topics = mixed_with_background(start.topics, start.first)
            self.components_ = topics
            self.doc_topic_prior_ = prior
            self.moment_components_ = start.topics
            self.moment_shares_ = start.shares
            self.set_aside_ = np.flatnonzero(start.weights == 0)
            self.n_too_short_ = int(np.count_nonzero(tally(counts)[0] < FEWEST_WORDS))
            self.n_reduced_ = min(size, counts.shape[1])
            self.n_sparse_errors_ = start.n_errors
            self.kruskal_ = kruskal_condition(self.components_)
        return self


@dataclass(frozen=True, eq=False)
class MomentTopics:
    """What the moments alone say.

    Attributes
    ----------
    topics : ndarray of shape (K, d)
    first : ndarray of shape (d,)
        The corpus's distribution.
    shares : ndarray of shape (K,)
    weights : ndarray of shape (n,)
        Of documents; 0 for what was set aside.
    n_errors : int
        Entries of the sparse part.
    """

    topics: Array
    first: Array
    shares: Array
    weights: Array
    n_errors: int


def find_topics(
    X: csr_array,
    K: int,
    generator: Any,
    *,
    concentration: float,
    size: int,
    robust: bool,
) -> MomentTopics:
    """Weights, moments, reduction, decomposition, recovery."""
    weights = bounded_influence(X) if robust else np.ones(X.shape[0])
    moments = WordMoments(X, concentration, weights)
    if moments.n_documents < K:
        return _from_documents(X, K, generator)
    Q = reduction(moments, size, generator)
    starts = _starts(moments, Q, K, generator)
    found = decompose_symmetric(moments.third(Q), starts, direct=K <= MANY)
    topics, shares = recover_topics(found.factor, Q.T, concentration)
    return MomentTopics(
        topics=topics,
        first=moments.first,
        shares=shares,
        weights=weights,
        n_errors=found.n_errors,
    )


def mixed_with_background(
    topics: Array, first: Array, dtype: Any = np.float64, order: Any = "C"
) -> Array:
    """Topics in which every word that occurs is possible, and the others all but impossible."""
    background = first + 1e-9
    background *= BACKGROUND / background.sum()
    mixed = np.empty(topics.shape, dtype, order)
    for row, topic in zip(mixed, topics, strict=True):
        row[:] = (1 - BACKGROUND) * topic + background
    return mixed


def _starts(moments: WordMoments, Q: Array, K: int, generator: Any) -> list[Array]:
    """Directions of random documents, a set for each restart."""
    usable = np.flatnonzero(moments.of_triples)
    basis = np.ascontiguousarray(Q.T)
    return [
        project(moments.counts[generator.choice(usable, K, replace=False)], basis).T
        for _ in range(RESTARTS if K <= MANY else 1)
    ]


def _from_documents(X: csr_array, K: int, generator: Any) -> MomentTopics:
    """Too few documents for moments: topics begin at documents, and at chance beyond those."""
    n_usable = int(np.count_nonzero(tally(X)[0] >= FEWEST_WORDS))
    warnings.warn(
        f"{n_usable} of {X.shape[0]} documents have {FEWEST_WORDS} words or more, and "
        f"{K} topics were asked for: the moments cannot tell so many apart, and refinement starts "
        "at single documents; ask for fewer topics, or pass more documents",
        UserWarning,
        stacklevel=5,
    )
    known = np.flatnonzero(np.diff(X.indptr))
    chosen = known[generator.permutation(len(known))[:K]]
    topics = generator.dirichlet(np.ones(X.shape[1]), size=K)
    picked = X[chosen].toarray().astype(np.float64)
    topics[: len(chosen)] = picked / picked.sum(axis=1, keepdims=True)
    return MomentTopics(
        topics=topics,
        first=over_documents(X, np.ones(X.shape[0])),
        shares=np.full(K, 1 / K),
        weights=np.ones(X.shape[0]),
        n_errors=0,
    )
