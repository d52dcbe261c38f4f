"""The way out of a stationary point that is not global: a component more (Haeffele and Vidal).

If unit vectors u_k have ``<D, u_1 o ... o u_K> > lambda_x``, D = clip(Z - X, lambda_s), then a
component along u = u_1 o ... o u_K lowers the objective, and the best weight for it solves

    min over w >= 0   lambda_x w + huber(Z - X - w u; lambda_s)

a convex problem in one variable. A solver that goes on from there has left the old point for
good, as its objective never rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from tensor_rpca.certificates import Point, opened
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.spectral import RANDOM_STARTS, spectral_norm
from tensor_rpca.objective.sweep import Sweep

Array = NDArray[Any]

# The weight is found to this relative accuracy; the solver goes on from it anyway.
ACCURACY = 1e-3


@dataclass(frozen=True)
class Escape:
    """A component whose addition lowers the objective.

    Attributes
    ----------
    direction : tuple of K ndarrays of shapes (d_k,)
        Unit vectors u_k.
    weight : float
        The best one along them.
    pull : float
        ``<D, u_1 o ... o u_K>``, more than ``lambda_x``.
    decrease : float
        Of the objective.
    """

    direction: tuple[Array, ...]
    weight: float
    pull: float
    decrease: float

    def added_to(self, low_rank: KruskalTensor) -> KruskalTensor:
        """X with the component added; ``init`` of a solve that goes on from there."""
        return KruskalTensor(
            np.append(low_rank.weights, self.weight),
            [np.column_stack(pair) for pair in zip(low_rank.factors, self.direction, strict=True)],
        )


def find_escape(
    Z: ArrayLike,
    low_rank: Any,
    lambda_x: float,
    lambda_s: float,
    mask: ArrayLike | None = None,
    *,
    starts: int = RANDOM_STARTS,
    max_iter: int | None = None,
    random_state: int = 0,
) -> Escape | None:
    """Search for the component that pays most to add to a low-rank part of Z.

    Parameters
    ----------
    Z, low_rank, lambda_x, lambda_s, mask, starts, max_iter, random_state
        As in :func:`tensor_rpca.certificates.certify`.

    Returns
    -------
    Escape or None
        None if no direction was found that pulls more than ``lambda_x``.

    Examples
    --------
    >>> from tensor_rpca import decompose
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> from tensor_rpca.escape import find_escape
    >>> Z, X, S = low_rank_plus_sparse((15, 15, 15), rank=3, outliers=0.1, random_state=0)
    >>> poor = decompose(Z, rank=2, lambda_x=0.5, lambda_s=0.1, random_state=0)
    >>> poor.certificate.verdict
    'not global'
    >>> way_out = find_escape(Z, poor.low_rank, lambda_x=0.5, lambda_s=0.1)
    >>> start = way_out.added_to(poor.low_rank)
    >>> better = decompose(Z, init=start, lambda_x=0.5, lambda_s=0.1)
    >>> better.certificate.verdict, better.objective < poor.objective - way_out.decrease
    ('likely global', True)
    """
    with opened(Z, low_rank, lambda_x, lambda_s, mask, None) as (sweep, X, unit):
        found = escape(
            sweep,
            X,
            lambda_x / unit,
            lambda_s / unit,
            starts=starts,
            max_iter=max_iter,
            seed=random_state,
        )
    if found is None:
        return None
    return Escape(found.direction, found.weight * unit, found.pull * unit, found.decrease * unit**2)


def escape(
    sweep: Sweep,
    X: KruskalTensor,
    lambda_x: float,
    lambda_s: float,
    *,
    direction: Sequence[Array] | None = None,
    starts: int = RANDOM_STARTS,
    max_iter: int | None = None,
    seed: int = 0,
) -> Escape | None:
    """Do so in the middle of a solve, everything in the sweep's units and of its dtype.

    Costs the passes of :func:`tensor_rpca.objective.spectral.spectral_norm`, unless the
    direction is known, and about ten more for the weight.
    """
    if direction is None:
        point = Point.at(sweep, X, lambda_x, lambda_s)
        direction = spectral_norm(
            sweep,
            point.factors,
            lambda_s,
            known=point.strongest,
            starts=starts,
            max_iter=max_iter,
            seed=seed,
        ).direction
    columns = [np.ascontiguousarray(u[:, None], dtype=X.dtype) for u in direction]
    balanced = X.balanced_factors()

    @cache
    def look(weight: float) -> tuple[float, float]:
        """Value and slope of the objective along the direction."""
        share = X.dtype.type(weight ** (1 / X.ndim))
        factors = [np.hstack([a, share * u]) for a, u in zip(balanced, columns, strict=True)]
        gradients = [np.empty_like(u) for u in columns]
        loss = sweep.loss_and_gradient(factors, gradients, lambda_s, directions=columns)
        return lambda_x * weight + loss, lambda_x + float(np.vdot(gradients[0], columns[0]))

    here, slope = look(0.0)
    if slope >= 0:
        return None
    # The slope rises by at most the weight, as |u| = 1: no step is too long that ends here.
    low, high = -slope, -2 * slope
    while look(high)[1] < 0:
        low, high = high, 4 * high
    weight = low
    if look(low)[1] < 0:
        weight = scipy.optimize.brentq(lambda w: look(w)[1], low, high, rtol=ACCURACY, xtol=1e-300)
    return Escape(tuple(direction), float(weight), lambda_x - slope, here - look(weight)[0])
