"""The tensor spectral norm of the clipped residual D = clip(Z - X, lambda_s), from both sides.

    ||D|| = max <D, u_1 o ... o u_K>  over unit vectors

It is NP-hard to compute for K >= 3. Any unit vectors bound it from below; good ones are found
by power iteration from several starts at once. Every unfolding of D into a matrix, some modes
its rows and the others its columns, bounds it from above by its largest singular value,
the root of the largest eigenvalue of a Gram matrix. For K = 2 the two bounds meet.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tensor_rpca.objective.sweep import Sweep

Array = NDArray[Any]

RANDOM_STARTS = 8
# Of each mode; the i-th ones of all modes make one start.
SINGULAR_STARTS = 3
# A tensor with components left in it gives them away in eight iterations; where D is noise,
# twice as many climb a few percent higher, and are made where they cost next to nothing.
MAX_ITER = 8
MAX_ITER_SMALL = 16
SMALL = 2**17
# A start has arrived if no change of a single vector gains more than this fraction.
ARRIVED = 1e-4
# Sweeps' worth of work that unfoldings may cost; those that cost more are omitted.
UNFOLDING_SWEEPS = 4.0
# A matrix has one unfolding, which is exact and saves the power iteration.
MATRIX_SWEEPS = 12.0
# A sweep costs at least as if it had so many components: it reads Z, and Python takes its time.
LEAST_RANK = 16


@dataclass(frozen=True)
class SpectralNorm:
    """Bounds of ||D||, and what attains the lower one.

    Attributes
    ----------
    lower, upper : float
        ``upper`` includes an allowance for rounding, ``lower`` does not.
    frobenius : float
        ||D||_F.
    direction : list of K ndarrays of shapes (d_k,)
        Unit vectors u_k with ``<D, u_1 o ... o u_K> = lower``.
    """

    lower: float
    upper: float
    frobenius: float
    direction: list[Array]


def search_effort(shape: Sequence[int], n_evaluations: int) -> int | None:
    """Return ``max_iter`` in proportion to a solve of so many evaluations, if Z is large."""
    if math.prod(shape) <= SMALL:
        return None
    return min(MAX_ITER, 2 + n_evaluations // 50)


def spectral_norm(
    sweep: Sweep,
    factors: Sequence[Array],
    threshold: float,
    *,
    known: Sequence[Array] | None = None,
    starts: int = RANDOM_STARTS,
    max_iter: int | None = None,
    all_unfoldings: bool = False,
    seed: int = 0,
) -> SpectralNorm:
    """Bound the spectral norm of ``clip(Z - X, threshold)``, X given by its factors (d_k, R).

    Parameters
    ----------
    sweep : Sweep
    factors : sequence of K ndarrays of shapes (d_k, R), R >= 1
    threshold : float
        ``lambda_s``, in the sweep's units.
    known : sequence of K ndarrays of shapes (d_k, n), optional
        Columns that are good directions, to start from as well.
    starts : int
        Random starts of the power iteration, in addition to singular vectors of unfoldings.
    max_iter : int, optional
        Most iterations, each one pass over Z.
    all_unfoldings : bool
        Whatever they cost.
    seed : int
        Of the random starts.
    """
    shape = tuple(len(a) for a in factors)
    upper, frobenius, leading = _unfold(sweep, factors, threshold, shape, all_unfoldings)
    begin = _starts(shape, leading, starts, np.random.default_rng(seed))
    if known is not None:
        begin = [np.hstack([_normalised(a), b]) for a, b in zip(known, begin, strict=True)]
    if max_iter is None:
        max_iter = MAX_ITER_SMALL if math.prod(shape) <= SMALL else MAX_ITER
    lower, direction = _power_iteration(sweep, factors, threshold, begin, max_iter, upper)
    # The allowance for rounding keeps ||D|| <= upper; it may not let lower exceed it.
    return SpectralNorm(lower, max(lower, upper), frobenius, direction)


def _unfold(
    sweep: Sweep,
    factors: Sequence[Array],
    threshold: float,
    shape: tuple[int, ...],
    all_unfoldings: bool,
) -> tuple[float, float, dict[int, Array]]:
    """Upper bound, Frobenius norm, and single modes' leading singular vectors (d_k, few)."""
    chosen = _affordable(shape, factors[0].shape[1], all_unfoldings)
    leading: dict[int, Array] = {}
    upper, square = math.inf, 0.0
    # Without an unfolding all entries make one row, whose norm is that of Frobenius.
    for modes in chosen or [()]:
        gram = sweep.gram(factors, threshold, modes)
        m = len(gram)
        values, vectors = scipy.linalg.eigh(
            gram, subset_by_index=[max(0, m - SINGULAR_STARTS), m - 1], check_finite=False
        )
        square = float(np.trace(gram))
        # Summing N/m products errs by at most N/m eps of the sum of squares in spectral norm;
        # the solver of eigenvalues, which is backward stable, by a few m eps of the largest.
        rounding = np.finfo(np.float64).eps * (math.prod(shape) / m + 10 * m + 10) * square
        upper = min(upper, math.sqrt(max(0.0, float(values[-1])) + rounding))
        if len(modes) == 1:
            leading[modes[0]] = vectors[:, ::-1]
    return upper, math.sqrt(square), leading


def _affordable(shape: tuple[int, ...], rank: int, everything: bool) -> list[tuple[int, ...]]:
    """Groups of modes to unfold into rows, one for each pair of complementary groups."""
    order, size = len(shape), math.prod(shape)
    groups = []
    for n in range(1, order // 2 + 1):
        for modes in itertools.combinations(range(order), n):
            others = tuple(k for k in range(order) if k not in modes)
            if 2 * n < order or 0 in modes:
                smaller = min(modes, others, key=lambda g: math.prod(shape[k] for k in g))
                groups.append((math.prod(shape[k] for k in smaller), smaller))
    # The squarer an unfolding, the smaller is the norm of what is noise in it.
    groups.sort(key=lambda group: -group[0])
    if everything:
        return [modes for _, modes in groups]
    left = 6.0 * size * max(rank, LEAST_RANK) * (MATRIX_SWEEPS if order == 2 else UNFOLDING_SWEEPS)
    chosen = []
    for m, modes in groups:
        # Forming X, summing half of a symmetric product, and reducing that for eigenvalues.
        work = 2.0 * size * rank + float(size) * m + 2.0 * m**3
        if work <= left:
            left -= work
            chosen.append(modes)
    return chosen


def _starts(
    shape: tuple[int, ...], leading: dict[int, Array], starts: int, rng: np.random.Generator
) -> list[Array]:
    """Columns to start from: singular vectors where they are known, and random ones."""
    n_singular = min((v.shape[1] for v in leading.values()), default=0)
    begin = []
    for k, d in enumerate(shape):
        columns = rng.standard_normal((d, n_singular + starts))
        if k in leading:
            columns[:, :n_singular] = leading[k][:, :n_singular]
        begin.append(_normalised(columns))
    return begin


def _power_iteration(
    sweep: Sweep,
    factors: Sequence[Array],
    threshold: float,
    U: list[Array],
    max_iter: int,
    enough: float,
) -> tuple[float, list[Array]]:
    """Climb from all columns of U at once; the best value and its unit vectors.

    One pass gives the contractions with all vectors but one, for each mode. All modes move at
    once, by the step of power iteration averaged with where they are: without that, modes
    chase one another in cycles. Starts that have arrived at a local maximum drop out.
    """
    dtype = factors[0].dtype
    U = [u.astype(dtype) for u in U]
    best, direction = -1.0, [u[:, 0] for u in U]
    for _ in range(max_iter):
        pulls = [np.empty(u.shape, dtype) for u in U]
        sweep.loss_and_gradient(factors, pulls, threshold, directions=U)
        for pull in pulls:
            np.negative(pull, out=pull)
        value = np.einsum("ij,ij->j", pulls[0], U[0])
        # Replacing the vector of one mode by the contraction with all others attains this.
        norms = np.array([np.sqrt(np.einsum("ij,ij->j", g, g)) for g in pulls])
        k, s = divmod(int(norms.argmax()), norms.shape[1])
        if norms[k, s] > best:
            best = float(norms[k, s])
            direction = [u[:, s].copy() for u in U]
            if best > 0:
                direction[k] = pulls[k][:, s] / norms[k, s]
        on = norms.max(axis=0) > (1 + ARRIVED) * np.abs(value)
        if best >= enough * (1 - 1e-9) or not on.any():
            break
        # The sign of a value falls to |<D, u>|, which is what climbs.
        U = [
            _normalised(g[:, on] + 0.5 * value[on] * u[:, on])
            for g, u in zip(pulls, U, strict=True)
        ]
    return best, direction


def _normalised(columns: Array) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    scaled: Array = columns / np.where(norms > 0, norms, 1)
    return scaled
