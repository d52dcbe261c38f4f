"""Graduated non-convexity: a loss whose outliers fade, from a wide scale to a narrow one.

At a wide scale the loss is nearly quadratic and has few minima; at a narrow one it counts
entries that do not fit, as l1 cannot. Each scale starts from the minimum of the one before.
While there are more components than needed, the atomic norm keeps them from serving single
outliers: its weight is a fraction of the scale, since an outlier's pull is at most of that
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensor_rpca.solvers.workbench import Factors, Workbench

# Where scales stop at the latest, in units of a typical entry.
NARROWEST = 5e-3
WIDEST = 3.0


def scales(ratio: float, widest: float = WIDEST) -> list[float]:
    """Fall geometrically from the widest to the narrowest scale."""
    found = [widest]
    while found[-1] > NARROWEST:
        found.append(found[-1] * ratio)
    return found


def anneal(
    bench: Workbench,
    factors: Factors,
    widths: Sequence[float],
    *,
    penalty: float,
    max_iter: int,
) -> list[Factors]:
    """Walk down the scales; return the minimum at each."""
    reached = []
    for width in widths:
        factors = bench.minimise(
            factors, "root", width, lambda_x=penalty * width, max_iter=max_iter, flat=1e-5
        )
        reached.append(factors)
        if bench.stopped:
            break
    return reached
