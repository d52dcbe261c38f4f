"""The last fit, to the entries that are no outliers, as exactly as they allow."""

from __future__ import annotations

from tensor_rpca.objective.losses import bounded
from tensor_rpca.solvers.workbench import Factors, Workbench

# Scales in units of a typical entry: outliers larger than the last one bend nothing.
SCALES = (1e-2, 1e-3, 1e-4, 1e-5, *[1e-6] * 8)
# A scale below the residuals would leave most entries without a say.
ROOM = 10.0
# Residuals below this, in units of a typical entry, are an exact fit.
EXACT = 1e-9


def polish(bench: Workbench, factors: Factors) -> Factors:
    """Minimise a bounded loss, for which outliers do not exist, at falling scales."""
    before = noise = bench.noise(factors)
    for scale in SCALES:
        width = min(SCALES[0], max(scale, ROOM * noise))
        factors = bench.minimise(factors, bounded(), width, max_iter=300, flat=1e-15)
        noise = bench.noise(factors)
        last = scale == SCALES[-1]
        if bench.stopped or (last and (noise < EXACT or noise > 0.9 * before)):
            break
        before = noise
    return factors
