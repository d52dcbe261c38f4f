"""Graduated non-convexity: a loss whose outliers fade, from a wide scale to a narrower one.

At a wide scale the loss is nearly quadratic and has few minima; at a narrow one it counts
entries that do not fit, as l1 cannot. Each scale starts from the minimum of the one before.
While there are more components than needed, the atomic norm keeps them from serving single
outliers: its weight is a fraction of the scale, since an outlier's pull is at most of that
order. With spare components left, X follows outliers once the scale is narrow; so this ends
where components can be told apart, and adapt.py goes on with the right number of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensor_rpca.objective.losses import root
from tensor_rpca.solvers.workbench import Factors, Workbench


def anneal(
    bench: Workbench,
    factors: Factors,
    scales: Sequence[float],
    *,
    penalty: float,
    max_iter: int,
) -> Factors:
    """Walk down the scales, in units of a typical entry."""
    for scale in scales:
        factors = bench.minimise(
            factors, root(), scale, lambda_x=penalty * scale, max_iter=max_iter, flat=1e-5
        )
    return factors
