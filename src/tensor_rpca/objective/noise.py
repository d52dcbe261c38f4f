"""What the residuals say of the noise, and the loss that serves such noise best.

The noise e of an entry, outlier or not, is modelled as a mixture of normal variables,

    e ~ sum_j w_j N(0, s_j^2),     s_0 = 0,

with weights from the data, so that no kind of outlier has to be assumed. A fit with p free
parameters to N entries bends towards the noise: its residual r is not e but, with the loss's
pull psi, ``r + c psi(r) = e + tau g``, g standard normal, where (El Karoui et al. 2013;
Donoho and Montanari 2016)

    mean c psi'(r) / (1 + c psi'(r)) = p / N,       tau^2 = (N / p) mean (c psi(r))^2.

So c, tau and then w can be estimated. Among all losses, the one with the least error next has
``r = E[e | e + tau g]`` (Bean, Bickel, El Karoui and Yu 2013): its pull is the part of
``u = e + tau g`` that is expected not to be noise of the entry, ``psi(r) = u - r``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.losses import Loss, tabulate
from tensor_rpca.objective.tally import Tally

Array = NDArray[Any]

# Standard deviations of the mixture's parts, in units of a typical entry.
SIZES = np.append(0.0, np.geomspace(1e-6, 1e4, 41))
EM_STEPS = 60
# Where the best loss is tabulated, in units of tau.
_U = np.append(0.0, np.geomspace(1e-4, 1e9, 521))


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals with the fit's bending undone.

    Attributes
    ----------
    sizes, shares : ndarrays of shape (n,)
        ``|r + c psi(r)|``, and which share of the entries has it.
    tau : float
        Root mean square error of the fit's entries.
    bend : float
        c; far from 1 the estimates are rough.
    """

    sizes: Array
    shares: Array
    tau: float
    bend: float


def unbend(tally: Tally, loss: Loss, scale: float, kappa: float) -> Residuals:
    """Estimate c and tau at a minimum of a loss with ``kappa = p / N`` parameters an entry."""
    sizes, shares = tally.histogram()
    slope, pull = loss.slope(sizes, scale), loss.pull(sizes, scale)
    low, high = -20.0, 20.0
    for _ in range(36):
        middle = (low + high) / 2
        bent = 2.0**middle * slope
        # Where the loss is so concave that the map has no inverse, an entry follows freely.
        share = np.where(bent > -0.95, bent / np.maximum(1 + bent, 0.05), 0.0)
        low, high = (middle, high) if shares @ share < kappa else (low, middle)
    c = 2.0**low
    tau = c * float(np.sqrt(shares @ pull**2 / max(kappa, 1e-300)))
    return Residuals(sizes + c * pull, shares, tau, c)


def fit_mixture(residuals: Residuals, tau: float) -> Array:
    """Weights w_j of shape (len(SIZES),) by expectation and maximisation."""
    return _maximise(residuals.sizes, residuals.shares, tau)[0]


def bits(tally: Tally, precision: float) -> float:
    """Return how many bits describe the residuals if their mixture is known.

    Up to a constant; those below the precision need none.
    """
    sizes, shares = tally.histogram()
    _, logs = _maximise(sizes, shares, precision)
    return -tally.n * float(shares @ logs) / math.log(2)


def _maximise(sizes: Array, shares: Array, tau: float) -> tuple[Array, Array]:
    """Weights that make values ``e + tau g`` of these sizes likely, and their log densities."""
    deviations = np.sqrt(tau * tau + SIZES**2)
    exponents = -0.5 * (sizes[:, None] / deviations) ** 2 - np.log(deviations)
    tops = exponents.max(axis=1, keepdims=True)
    likelihoods = np.exp(exponents - tops)
    weights = np.full(len(SIZES), 1.0 / len(SIZES))
    for _ in range(EM_STEPS):
        weights *= (shares / (likelihoods @ weights)) @ likelihoods
    return weights, tops[:, 0] + np.log(likelihoods @ weights)


def best_loss(weights: Array, tau: float) -> Loss:
    """Loss with the least error for this noise and fits that are off by ``tau``, its scale."""
    variances = (SIZES / tau) ** 2
    with np.errstate(divide="ignore"):
        logs = np.log(weights) - 0.5 * np.log1p(variances)
    exponents = logs - 0.5 * _U[:, None] ** 2 / (1 + variances)
    posterior = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    pull = _U * (posterior @ (1 / (1 + variances)))
    # E[e | u] rises with u; rounding must not make it fall.
    remainder = np.maximum.accumulate(_U * (posterior @ (variances / (1 + variances))))
    return tabulate(lambda a: np.interp(a, remainder, pull))
