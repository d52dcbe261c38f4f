"""The rival: whitening and an orthogonal decomposition (Anandkumar et al., 2012 and 2014).

The whitened moment ``(W, W, W) . M3`` has orthonormal components if the topics are linearly
independent and the moments exact. The tensor power method finds one after the other, taking each
away; alternating least squares, without orthogonality, then lets them settle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca.kruskal import khatri_rao
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.topics.lda import CONCENTRATION, FIRST_PRIOR, mixed_with_background
from tensor_rpca.topics.model import TopicModel, check_parameters
from tensor_rpca.topics.moments import WordMoments
from tensor_rpca.topics.recover import recover_topics
from tensor_rpca.topics.reduce import whitening
from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]

RESTARTS = 10
POWER_STEPS = 100
ALS_STEPS = 200
# Relative change of the components at which iterations end: the paper's.
TOLERANCE = 1e-4


class MomentCPD(TopicModel):
    """Topics by whitening and orthogonal tensor decomposition, to compare with.

    Parameters
    ----------
    n_components : int
        Topics, K.
    concentration : float
        beta_0, the sum of the Dirichlet parameters of documents' mixtures.
    method : {"als", "power"}
        "power" stops after the tensor power method.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    components_ : ndarray of shape (K, d)
        Topics, heaviest first.
    doc_topic_prior_ : ndarray of shape (K,)
    moment_components_ : ndarray of shape (K, d)
        Topics as the moments have them, without background.
    moment_shares_ : ndarray of shape (K,)
        Their shares of the words, beta / beta_0.
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        concentration: float = CONCENTRATION,
        method: str = "als",
        random_state: RandomState = None,
    ):
        self.n_components = n_components
        self.concentration = concentration
        self.method = method
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> MomentCPD:
        """Find topics of counts (n, d); y is ignored."""
        if self.method not in ("als", "power"):
            raise ValueError(f"method={self.method!r} is unknown; choose als or power")
        counts = self._check(X, reset=True)
        check_parameters(self, counts.shape[1])
        generator = check_generator(self.random_state)
        with single_threaded_blas():
            moments = WordMoments(counts, self.concentration)
            W, back = whitening(moments, self.n_components, generator)
            T = moments.third(W)
            factor = power_method(T, self.n_components, generator)
            if self.method == "als":
                factor = alternating_least_squares(T, factor)
            topics, shares = recover_topics(factor, back, self.concentration)
        self.moment_components_ = topics
        self.moment_shares_ = shares
        self.components_ = mixed_with_background(topics, moments.first)
        self.doc_topic_prior_ = np.full(self.n_components, FIRST_PRIOR)
        return self


def power_method(T: Array, rank: int, random_state: RandomState = None) -> Array:
    """Find orthogonal components one by one; columns ``lambda^(1/3) v`` of shape (m, rank)."""
    generator = check_generator(random_state)
    left = T.copy()
    m = len(T)
    columns = []
    for _ in range(rank):
        V = generator.standard_normal((m, RESTARTS))
        V /= np.linalg.norm(V, axis=0)
        for _ in range(POWER_STEPS):
            image = _apply(left, V)
            length = np.linalg.norm(image, axis=0)
            image /= np.where(length > 0, length, 1.0)
            change = np.abs(image - V).max()
            V = image
            if change < TOLERANCE * 1e-2:
                break
        weights = (_apply(left, V) * V).sum(axis=0)
        best = int(np.argmax(weights))
        column = np.cbrt(weights[best]) * V[:, best]
        left -= np.multiply.outer(np.outer(column, column), column)
        columns.append(column)
    return np.stack(columns, axis=1)


def alternating_least_squares(T: Array, factor: Array) -> Array:
    """Settle the components without orthogonality; the three modes' mean is returned."""
    factors = [factor.copy() for _ in range(3)]
    unfolded = [np.moveaxis(T, k, 0).reshape(len(T), -1) for k in range(3)]
    before = factor
    for _ in range(ALS_STEPS):
        for k in range(3):
            one, two = (factors[j] for j in range(3) if j != k)
            gram = (one.T @ one) * (two.T @ two)
            factors[k] = unfolded[k] @ khatri_rao([one, two]) @ np.linalg.pinv(gram)
            if k < 2:  # the last mode carries the weight
                length = np.linalg.norm(factors[k], axis=0)
                factors[k] /= np.where(length > 0, length, 1.0)
        change = np.linalg.norm(factors[2] - before)
        before = factors[2]
        if change <= TOLERANCE * np.linalg.norm(before):
            break
    weights = np.linalg.norm(factors[2], axis=0)
    unit = factors[2] / np.where(weights > 0, weights, 1.0)
    # Two modes may both have turned round, which leaves their product as it is.
    aligned = [f * np.where((f * unit).sum(axis=0) < 0, -1.0, 1.0) for f in factors[:2]]
    sign = np.sign((factors[0] * unit).sum(axis=0) * (factors[1] * unit).sum(axis=0))
    mean = unit + aligned[0] + aligned[1]
    mean /= np.linalg.norm(mean, axis=0)
    settled: Array = mean * np.cbrt(np.where(sign < 0, -weights, weights))
    return settled


def _apply(T: Array, V: Array) -> Array:
    """``T(I, v, v)`` for each column v."""
    m = len(T)
    image: Array = T.reshape(m, -1) @ khatri_rao([V, V])
    return image
