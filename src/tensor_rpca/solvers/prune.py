"""Which components are real: merge those that are one, rank by how much of X they cover."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.kruskal import KruskalTensor

Array = NDArray[Any]

# Two components are one when they are this parallel in every mode but one.
PARALLEL = 0.9
# A mean entry below this, in units of a typical entry of Z, is nothing.
NOTHING = 0.002
# Mean entries that differ by this factor are those of components and of something else.
CLEAR = 3.0


def mean_entries(X: KruskalTensor) -> Array:
    """Mean absolute entry of each component, of shape (R,).

    One that serves a few outliers can have a large weight, but never a large mean entry.
    """
    means = X.weights.astype(np.float64)
    for a in X.factors:
        means = means * np.abs(a).mean(axis=0)
    return means


def merge_parallel(X: KruskalTensor) -> KruskalTensor:
    """Join components that point the same way in every mode but one: they are one component."""
    weights = X.weights.astype(np.float64)
    factors = [a.astype(np.float64) for a in X.factors]
    alive = weights > 0
    for r in range(X.rank):
        while alive[r]:
            cosines = np.array([a[:, r] @ a for a in factors])
            twins = alive & (np.sort(np.abs(cosines), axis=0)[1] > PARALLEL)
            twins[: r + 1] = False
            if not twins.any():
                break
            s = int(np.flatnonzero(twins)[0])
            _join(weights, factors, r, s, cosines[:, s])
            alive[s] = False
    return KruskalTensor(weights[alive], [a[:, alive] for a in factors])


def _join(weights: Array, factors: list[Array], r: int, s: int, cosines: Array) -> None:
    """Add component s to r: exact in the mode where they differ most, averaged in the others."""
    apart = int(np.argmin(np.abs(cosines)))
    signs = np.where(cosines < 0, -1.0, 1.0)
    signs[apart] = np.prod(np.delete(signs, apart))
    for k, (a, sign) in enumerate(zip(factors, signs, strict=True)):
        joined = weights[r] * a[:, r] + sign * weights[s] * a[:, s]
        length = float(np.linalg.norm(joined))
        a[:, r] = joined / length if length > 0 else 0.0
        if k == apart:
            total = length
    weights[r] = total


def keep(X: KruskalTensor, rank: int) -> KruskalTensor:
    """Keep the components with the largest mean entries."""
    best = np.sort(np.argsort(-mean_entries(X), kind="stable")[:rank])
    return KruskalTensor(X.weights[best], [a[:, best] for a in X.factors])


def drop(X: KruskalTensor, r: int) -> KruskalTensor:
    """Leave one component out."""
    others = np.arange(X.rank) != r
    return KruskalTensor(X.weights[others], [a[:, others] for a in X.factors])


def likely_ranks(X: KruskalTensor, most: int = 4) -> list[int]:
    """Numbers of components to try: those before the widest gaps in the mean entries.

    All of them are tried too if the last is more than nothing, and first unless a gap is clear.
    """
    means = np.sort(mean_entries(X))[::-1]
    if X.rank == 0:
        return []
    gaps = means[:-1] / np.maximum(means[1:], NOTHING)
    ranks = [int(i) + 1 for i in np.argsort(-gaps, kind="stable")[:most] if gaps[i] > 1.05]
    if means[-1] > 10 * NOTHING or not ranks:
        ranks.insert(1 if gaps.max(initial=0.0) > CLEAR else 0, X.rank)
    return list(dict.fromkeys(ranks))
