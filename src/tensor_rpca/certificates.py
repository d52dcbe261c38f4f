"""What is known of the point that a solver returned: how far from the global minimum it is.

The convex problem behind equation (marg), and its Fenchel dual, are

    min over X   lambda_x ||X||_* + huber(Z - X; lambda_s)
    max over Y   <Y, Z> - 1/2 ||Y||_F^2     where ||Y|| <= lambda_x, |Y_i| <= lambda_s

over the observed entries. At a solution Y = D = clip(Z - X, lambda_s). At any other point Y = t D
is feasible once ``t ||D|| <= lambda_x`` and ``t <= 1``, and any feasible Y bounds the minimum
from below. So an upper bound of the spectral norm ||D|| proves how good X is; and unit vectors
with ``<D, u_1 o ... o u_K> > lambda_x`` prove that adding a component along them pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.spectral import RANDOM_STARTS, SpectralNorm, spectral_norm
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas

Array = NDArray[Any]

# Objectives closer than this, relatively, count as the same. Solvers stop at a relative
# gradient of 1e-6, or 1e-3 in float32, and that leaves a gap of this order; nobody knows
# lambda_x and lambda_s better than to a tenth of a percent.
SAME = 1e-3
# A relative gradient below this counts as stationary.
STATIONARY = 1e-3
# By how much a direction's pull must exceed lambda_x, as a fraction, to prove a point not
# global. Any excess would do; but where a solver stops early, the pulls of its own components
# exceed lambda_x by a few times the relative gradient, and that calls for patience only.
MARGIN = 1e-3
MARGIN_PER_GRADIENT = 10.0
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Certificate:
    """Evidence on how far a point is from the global minimum.

    Attributes
    ----------
    verdict : str
        "global": ``gap`` proves that no point is better by more than 0.1 %.
        "not global": a component along a direction that was found lowers the objective;
        also proven.
        "likely global": stationary, and the search found no direction that pulls; the proof
        is missing because an upper bound of a tensor's spectral norm is hard to get.
        "unknown": none of these, mostly because the solver stopped early.
    gap : float
        The objective exceeds the minimum over all X of whatever rank by at most this
        fraction of itself. Proven.
    stationarity : float
        ``||fit + penalty|| / (||fit|| + ||penalty||)`` for the two parts of the gradient: 0
        at a stationary point.
    vanished : int
        Components of the rank bound that came out as zero. By Proposition 7 of the paper a
        local minimiser that has one is global.
    excess : float
        And by at least this fraction: what a component along the best direction found gains
        for certain. Proven.
    gap_estimate : float
        What ``gap`` would be if ``spectral_lower`` were the norm itself; no bound.
    spectral_lower, spectral_upper : float
        Bounds of ``||D|| / lambda_x``, D the residual clipped at ``lambda_s``: above 1 there
        is a direction worth a component, at most 1 there is none.
    """

    verdict: str
    gap: float
    stationarity: float
    vanished: int
    excess: float = math.nan
    gap_estimate: float = math.nan
    spectral_lower: float = math.nan
    spectral_upper: float = math.nan

    def __repr__(self) -> str:
        return (
            f"Certificate({self.verdict}: {self.excess:.1e} to {self.gap:.1e} above the minimum, "
            f"estimated {self.gap_estimate:.1e}; spectral norm {self.spectral_lower:.6g} to "
            f"{self.spectral_upper:.6g}; relative gradient {self.stationarity:.1e}, "
            f"{self.vanished} vanished components)"
        )


def certify(
    Z: ArrayLike,
    low_rank: Any,
    lambda_x: float,
    lambda_s: float,
    mask: ArrayLike | None = None,
    *,
    vanished: int = 0,
    starts: int = RANDOM_STARTS,
    max_iter: int | None = None,
    all_unfoldings: bool = False,
    random_state: int = 0,
    unit: float | None = None,
) -> Certificate:
    """Certify a low-rank part of Z, whoever found it.

    ``decompose`` does so at a cost of about ten evaluations of the objective. More starts
    and iterations search harder for a direction that proves a point not global; more
    unfoldings may prove it global.

    Parameters
    ----------
    Z, mask, lambda_x, lambda_s
        As in :func:`tensor_rpca.decompose`.
    low_rank : KruskalTensor, (weights, factors) or list of factors
    vanished : int
        For the report only.
    starts : int
        Random starts of the power iteration that bounds ||D|| from below.
    max_iter : int, optional
        Its iterations, each one pass over Z; None is 8, or 16 for small tensors.
    all_unfoldings : bool
        Bound ||D|| from above by all unfoldings into two groups of modes, whatever they
        cost; else only by those that take no longer than a few passes.
    random_state : int
        Of the random starts.
    unit : float, optional
        A typical entry of Z, if it is known and Z has been checked.

    Returns
    -------
    Certificate

    Notes
    -----
    Computed in float64 whatever the dtype of Z.
    """
    with opened(Z, low_rank, lambda_x, lambda_s, mask, unit) as (sweep, X, unit):
        point = Point.at(sweep, X, lambda_x / unit, lambda_s / unit)
        norm = spectral_norm(
            sweep,
            point.factors,
            point.lambda_s,
            known=point.strongest,
            starts=starts,
            max_iter=max_iter,
            all_unfoldings=all_unfoldings,
            seed=random_state,
        )
    return weigh(point, norm, vanished)


@contextmanager
def opened(
    Z: ArrayLike,
    low_rank: Any,
    lambda_x: float,
    lambda_s: float,
    mask: ArrayLike | None,
    unit: float | None,
) -> Iterator[tuple[Sweep, KruskalTensor, float]]:
    """Check all and yield passes over Z in float64, X in the passes' units, and the unit."""
    array, known = validation.check_tensor(Z, mask)
    X = validation.check_init(low_rank, array.shape, None)
    validation.check_positive("lambda_x", lambda_x)
    validation.check_positive("lambda_s", lambda_s)
    float64 = np.dtype(np.float64)
    with single_threaded_blas() as n_threads, Sweep(array, known, float64, n_threads) as sweep:
        if unit is None:
            survey = sweep.survey()
            validation.check_survey(survey, array.shape, float64)
            unit = survey.typical if survey.typical > 0 else 1.0
        sweep.measure_in(unit)
        weights = X.weights.astype(np.float64) / unit
        yield sweep, KruskalTensor(weights, [a.astype(np.float64) for a in X.factors]), unit


@dataclass(frozen=True)
class Point:
    """A point and what one pass over Z tells of it.

    Attributes
    ----------
    factors : list of K ndarrays of shapes (d_k, R), R >= 1
        Of X, the weights in equal shares; a column of zeros if X is zero.
    weights : ndarray of shape (R,)
    lambda_x, lambda_s : float
    loss : float
        ``huber(Z - X)``.
    pull : float
        ``<D, X>``.
    stationarity : float
        Relative gradient of (marg).
    strongest : list of K ndarrays of shapes (d_k, 1)
        The component along which D pulls most; lambda_x is a stationary point's pull.
    """

    factors: list[Array]
    weights: Array
    lambda_x: float
    lambda_s: float
    loss: float
    pull: float
    stationarity: float
    strongest: list[Array]

    @classmethod
    def at(cls, sweep: Sweep, X: KruskalTensor, lambda_x: float, lambda_s: float) -> Point:
        """Look at X."""
        X = X.truncate(int(np.count_nonzero(X.weights)))
        factors = X.balanced_factors() if X.rank else [np.zeros((d, 1), X.dtype) for d in X.shape]
        gradients = [np.empty_like(a) for a in factors]
        loss = sweep.loss_and_gradient(factors, gradients, lambda_s)
        of_fit = of_penalty = of_both = 0.0
        for a, fit in zip(factors, gradients, strict=True):
            penalty = lambda_x * np.linalg.norm(a, axis=0) ** (len(factors) - 2) * a
            of_fit += float(np.sum(fit**2))
            of_penalty += float(np.sum(penalty**2))
            of_both += float(np.sum((fit + penalty) ** 2))
        size = math.sqrt(of_fit) + math.sqrt(of_penalty)
        pulls = -np.sum(factors[0] * gradients[0], axis=0)
        first = int(np.argmax(pulls / X.weights)) if X.rank else 0
        return cls(
            factors=factors,
            weights=X.weights,
            lambda_x=lambda_x,
            lambda_s=lambda_s,
            loss=loss,
            pull=float(pulls.sum()),
            stationarity=math.sqrt(of_both) / size if size > 0 else 0.0,
            strongest=[a[:, first : first + 1] for a in factors],
        )


def weigh(point: Point, norm: SpectralNorm, vanished: int) -> Certificate:
    """Draw the conclusions; none is stronger than its evidence."""
    doubt = _rounding(point, norm)
    primal = point.lambda_x * float(point.weights.sum()) + point.loss
    upper, lower = norm.upper + doubt, max(0.0, norm.lower - doubt)
    error = excess = 0.0
    if primal > 0:
        # huber(Z - X - w u) <= huber(Z - X) - w <D, u> + w^2 / 2 for any u of norm 1.
        excess = max(0.0, lower - point.lambda_x) ** 2 / 2 / primal
        # An error of <D, X> by doubt * sum(weights) is one of the gap; so is that of the loss.
        size = math.prod(len(a) for a in point.factors)
        error = EPS * size + doubt * float(point.weights.sum()) / primal
    gap = min(1.0, _relative_gap(point, norm.frobenius, upper) + error)
    estimate = min(gap, _relative_gap(point, norm.frobenius, norm.lower))
    if pays(lower, point.lambda_x, point.stationarity):
        verdict = "not global"
    elif gap <= SAME:
        verdict = "global"
    elif estimate <= SAME and point.stationarity <= STATIONARY:
        verdict = "likely global"
    else:
        verdict = "unknown"
    return Certificate(
        verdict,
        gap,
        point.stationarity,
        vanished,
        excess=excess,
        gap_estimate=estimate,
        spectral_lower=lower / point.lambda_x,
        spectral_upper=upper / point.lambda_x,
    )


def pays(pull: float, lambda_x: float, stationarity: float) -> bool:
    """Whether a direction's pull proves that a component along it is missing."""
    return pull > (1 + max(MARGIN, MARGIN_PER_GRADIENT * stationarity)) * lambda_x


def _relative_gap(point: Point, frobenius: float, spectral: float) -> float:
    """(primal - dual) / primal at the best Y = t D that a spectral norm of D allows."""
    weights = float(point.weights.sum())
    primal = point.lambda_x * weights + point.loss
    if primal <= 0:
        return 0.0
    t = min(1.0, point.lambda_x / spectral) if spectral > 0 else 1.0
    square = frobenius**2
    # The dual is t <D, Z> - t^2/2 ||D||^2, and <D, Z> = <D, X> + huber + ||D||^2 / 2.
    if square > 0:
        t = max(0.0, min(t, (point.pull + point.loss + square / 2) / square))
    # The same difference, so ordered that nothing cancels when t is near 1.
    gap = point.lambda_x * weights - t * point.pull + (1 - t) * (point.loss - t * square / 2)
    return max(0.0, gap) / primal


def _rounding(point: Point, norm: SpectralNorm) -> float:
    """Return a bound on the error of <D, u>, u of norm 1, that rounding may cause.

    An entry of X is off by at most (R + K) eps times the sum of its terms' sizes, and
    these sum up to no more than the weights do; a residual is off by a few eps more, where it
    is not clipped; and a sum of N products by N eps of its terms.
    """
    size = math.prod(len(a) for a in point.factors)
    terms = len(point.weights) + len(point.factors) + 4
    of_residual = terms * float(point.weights.sum()) + 4 * point.lambda_s * math.sqrt(size)
    return EPS * (of_residual + (size + terms) * norm.frobenius)
