"""Refinement: expectation maximisation of the smoothed likelihood, from topics that are near.

With theta_d ~ Dir(alpha) and topics ~ Dir(eta), alternate

    n_dk = sum_w c_dw p_dwk,   n_wk = sum_d c_dw p_dwk,   p_dwk ~ (n_dk + alpha_k) phi_kw
    phi_kw ~ n_wk + eta

which is collapsed variational Bayes without the correction of one's own count (Asuncion et al.,
2009). No digammas, one pass over the counts each, and alpha is fitted on the way (Minka, 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import digamma

from tensor_rpca.topics.kernels import em_pass, over_documents

Array = NDArray[Any]

# Mixtures settle for a few passes before alpha follows them.
SETTLE = 3
# Documents that alpha is fitted to.
SAMPLE = 1000
SMALLEST_PRIOR = 1e-3


def refine_topics(
    X: csr_array,
    topics: Array,
    prior: Array,
    *,
    passes: int,
    smoothing: float,
    weights: Array,
    on_pass: Callable[[int], None] | None = None,
) -> tuple[Array, Array]:
    """Run some passes from given topics.

    Parameters
    ----------
    X : csr_array of shape (n, d)
        Counts.
    topics : ndarray of shape (K, d)
        Positive rows that sum to one. Of float32 in Fortran's order, they are overwritten.
    prior : ndarray of shape (K,)
        alpha.
    passes : int
    smoothing : float
        eta.
    weights : ndarray of shape (n,)
        How much the topics follow each document.
    on_pass : callable, optional
        Told how many passes are done.

    Returns
    -------
    topics : ndarray of shape (K, d)
        Those with the largest prior, to which the mean of a mixture is in proportion, first.
    prior : ndarray of shape (K,)
        In the same order.
    """
    K, d = topics.shape
    by_word = np.ascontiguousarray(topics.T, dtype=np.float32)
    del topics
    fresh = np.empty_like(by_word)
    most = float(over_documents(X, np.ones(X.shape[0])).max())
    mixtures = np.zeros((X.shape[0], K), np.float32)
    sample = _sample(weights)
    follow = weights.astype(np.float32)
    for done in range(passes):
        em_pass(X, by_word, prior.astype(np.float32), mixtures, follow, fresh, most)
        by_word, fresh = fresh, by_word
        by_word += np.float32(smoothing)
        by_word /= by_word.sum(axis=0, dtype=np.float64).astype(np.float32)
        if done >= SETTLE:
            prior = fit_dirichlet(mixtures[sample].astype(np.float64), prior)
        if on_pass is not None:
            on_pass(done + 1)
    del fresh, mixtures
    order = np.argsort(-prior, kind="stable")
    refined = np.empty((K, d))
    for place, k in enumerate(order.tolist()):
        refined[place] = by_word[:, k]
        refined[place] /= refined[place].sum()
    return refined, prior[order]


def fit_dirichlet(counts: Array, prior: Array, steps: int = 2) -> Array:
    """Steps of Minka's fixed point for the prior of mixtures, from expected counts (n, K).

    An expected count below one is mostly a chance of none at all, which the concave digamma
    would take for a small certain one, and the prior would come out too flat. So each counts
    with the chance of being positive, ``1 - exp(-n)``, at its mean if it is (Teh et al., 2006).
    """
    length = counts.sum(axis=1)
    positive = -np.expm1(-counts)
    mean = np.where(positive > 0, counts / np.maximum(positive, 1e-30), 1.0)
    for _ in range(steps):
        total = prior.sum()
        up = (positive * (digamma(mean + prior) - digamma(prior))).sum(axis=0)
        down = (digamma(length + total) - digamma(total)).sum()
        prior = np.maximum(prior * up / max(down, 1e-300), SMALLEST_PRIOR)
    return prior


def _sample(weights: Array) -> Array:
    """Evenly spread indices of documents to fit alpha to."""
    kept = np.flatnonzero(weights)
    return kept[:: max(1, len(kept) // SAMPLE)]
