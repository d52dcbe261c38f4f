"""The fit of a given number of components, with the loss that this tensor's own noise calls for.

At each minimum the residuals tell how far off the fit is (tau) and how the noise is distributed;
the loss that is best for both takes the fit to the next (objective/noise.py). Without noise
other than outliers, tau falls to zero or, where too few entries are clean for any such loss,
stays. With noise, the last loss is its likelihood.
"""

from __future__ import annotations

from tensor_rpca.objective.losses import root
from tensor_rpca.objective.noise import best_loss, fit_mixture, unbend
from tensor_rpca.solvers.workbench import Factors, Workbench

# The first loss, before anything is known of the noise, in units of a typical entry.
FIRST_SCALE = 0.5
# A loss is made for a tau that falls by this much a step, or a rough estimate would mislead.
FALL, LEAST_FALL = 0.7, 0.95
# The next loss is made for a fit somewhat better than this one.
AHEAD = 0.7
# Only then is the noise estimated anew; the first is a part of the parameters an entry.
BENDS = (0.3, 3.0)
MOST_STEPS = 40
MAX_ITER = 150
# Steps without gain after which tau has come to rest.
PATIENCE = 10
# What remains is for the polish.
ENOUGH = 1e-4


def adapt(bench: Workbench, factors: Factors, scale: float = FIRST_SCALE) -> Factors:
    """Alternate between fit and noise model until the error comes to rest."""
    loss, weights, resting = root(), None, 0
    kappa = min(0.95, bench.free(factors) / bench.n_observed)
    factors = bench.minimise(factors, loss, scale, max_iter=MAX_ITER, flat=1e-6)
    tau = best = float("inf")
    for _ in range(MOST_STEPS):
        residuals = unbend(bench.tally(factors), loss, scale, kappa)
        resting = resting + 1 if residuals.tau > LEAST_FALL * best else 0
        best = min(best, residuals.tau)
        limits = (FALL * tau, LEAST_FALL * tau) if weights is not None else (0.0, tau)
        tau = min(max(residuals.tau, limits[0]), limits[1])
        if weights is None or BENDS[0] * kappa < residuals.bend < BENDS[1]:
            weights = fit_mixture(residuals, residuals.tau)
        if tau < ENOUGH or resting >= PATIENCE or bench.stopped:
            break
        scale = AHEAD * tau
        loss = best_loss(weights, scale)
        factors = bench.minimise(factors, loss, scale, max_iter=MAX_ITER, flat=1e-6)
    return factors
