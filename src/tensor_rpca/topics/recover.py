"""From a factor of the reduced moment back to topics, and what is known of their uniqueness."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Subsets of topics that are looked at, one by one, to find the k-rank.
MOST_SUBSETS = 20_000


def recover_topics(factor: Array, back: Array, concentration: float) -> tuple[Array, Array]:
    """Undo the reduction: topics nu_r and their share of the words, beta_r / beta_0.

    Parameters
    ----------
    factor : ndarray of shape (m, R)
        Columns ``lambda_r^(1/3) Q nu_r`` with ``lambda_r = 2 beta_r / ((b+2) (b+1) b)``, b the
        concentration.
    back : ndarray of shape (d, m)
        ``Q^T``, or the pseudo-inverse of whatever reduced the moment.
    concentration : float

    Returns
    -------
    topics : ndarray of shape (R, d)
        Projected to the simplex; heaviest first.
    shares : ndarray of shape (R,)
        Not positive where a component is no topic.
    """
    total = back.sum(axis=0, dtype=np.float64) @ factor
    # A topic sums to one, so what its column sums to is the cube root of its weight.
    shares = total**3 * (concentration + 2) * (concentration + 1) / 2
    order = np.argsort(-shares, kind="stable")
    safe = np.where(np.abs(total) > 0, total, 1.0)
    topics = np.empty((len(order), len(back)), back.dtype)
    for place, r in enumerate(order.tolist()):  # one by one: sorting needs several copies
        raw = back @ (factor[:, r] / safe[r]).astype(back.dtype, copy=False)
        topics[place] = project_to_simplex(raw[None].astype(np.float64, copy=False))
    return topics, shares[order]


def project_to_simplex(V: Array) -> Array:
    """Nearest points with non-negative entries that sum to one, row by row."""
    ordered = -np.sort(-V, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    count = np.arange(1, V.shape[1] + 1)
    kept = np.count_nonzero(ordered * count > excess, axis=1)
    shift = excess[np.arange(len(V)), kept - 1] / kept
    nearest: Array = np.maximum(V - shift[:, None], 0.0)
    return nearest


@dataclass(frozen=True)
class KruskalCondition:
    """Whether the topics are the only ones with their third moment (Theorem 4 of the paper).

    Attributes
    ----------
    k_rank : int
        Any so many topics are linearly independent; a lower bound unless ``exact``.
    needed : int
        The least k-rank with ``3 k >= 2 K + 2``.
    exact : bool
    """

    k_rank: int
    needed: int
    exact: bool

    @property
    def holds(self) -> bool | None:
        """True if the decomposition is unique, None if that is not known."""
        if self.k_rank >= self.needed:
            return True
        return False if self.exact else None


def kruskal_condition(topics: Array, tolerance: float = 1e-8) -> KruskalCondition:
    """Find the k-rank of topics, an array of shape (K, d)."""
    K = len(topics)
    needed = -(-(2 * K + 2) // 3)
    gram = topics @ topics.T
    length = np.sqrt(np.diag(gram))
    gram /= np.outer(length, length)
    if np.linalg.eigvalsh(gram)[0] > tolerance:
        return KruskalCondition(K, needed, True)
    looked_at = 0
    for size in range(2, K + 1):
        for subset in itertools.combinations(range(K), size):
            looked_at += 1
            if looked_at > MOST_SUBSETS:
                return KruskalCondition(size - 1, needed, False)
            if np.linalg.eigvalsh(gram[np.ix_(subset, subset)])[0] <= tolerance:
                return KruskalCondition(size - 1, needed, True)
    return KruskalCondition(K, needed, True)
