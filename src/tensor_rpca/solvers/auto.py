"""The default: recover X and its rank with nothing to tune.

From a small random start with all components allowed, anneal a loss whose outliers fade while
the atomic norm holds spare components back (anneal.py). Merge components that are one and try
the few ranks at which their coverage drops (prune.py), each fitted with the loss that the noise
calls for (adapt.py). Polish on the entries that fit (polish.py). Keep what explains most:
entries fitted beyond the number of free parameters, weighed by how well. If there are more such
entries than chance can give and noise is absent, that is proof enough; otherwise other starts and
slower schedules have their turn, until two agree. Last, drop components whose entries fit as
well without them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensor_rpca import defaults
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.solvers.adapt import adapt
from tensor_rpca.solvers.anneal import anneal
from tensor_rpca.solvers.found import Found
from tensor_rpca.solvers.polish import polish
from tensor_rpca.solvers.prune import drop, keep, likely_ranks, mean_entries, merge_parallel
from tensor_rpca.solvers.workbench import Factors, Workbench

# Penalty, as a fraction of the scale; scales; iterations at most at each.
SCHEDULES = (
    (0.5, (3.0, 0.9, 0.27), 150),
    (0.2, (1.0, 0.4, 0.15), 800),
    (0.1, (3.0, 1.0, 0.4, 0.15), 800),
)
# Size of a random start's entries of X, in units of a typical entry: small, so that early
# components grow where Z has something.
START = 0.1
# Entries times components beyond which one schedule has to do.
LARGE = 20_000_000
# Components beyond the bound that a start may use: what they follow, the others need not.
SPARE = 5
# How many of the weakest components are tried for removal at a time.
WEAKEST = 3
# A component must fit this many entries for each of its parameters, where there are so many:
# what moves through a film can be followed by components, at a price of two or so.
ENTRIES_PER_PARAMETER = 5
# Residuals below these, in units of a typical entry, count as fitted before and after polish.
ROUGHLY = 3e-3
EXACTLY = 1e-5
# And those within so many standard deviations of the noise.
NOISE_SCALES = 3.0
# Without noise, what still counts as an outlier, in units of a typical entry.
SMALLEST_OUTLIER = 1e-6
# What a fit to within noise is worth at most, as a number of decimal digits.
DIGITS = 6.0


@dataclass
class Candidate:
    """A fit and what speaks for it.

    Attributes
    ----------
    X : KruskalTensor
    noise : float
        Standard deviation of the entries that fit.
    surplus, rough_surplus : int
        Entries fitted, finely and roughly, beyond the number of free parameters.
    """

    X: KruskalTensor
    noise: float
    surplus: int
    rough_surplus: int

    @property
    def worth(self) -> float:
        """Surplus of equations, times the digits to which they hold."""
        digits = -math.log10(min(max(self.noise, 10**-DIGITS), 1.0))
        return max(self.surplus, 0) * digits

    @property
    def proven(self) -> bool:
        """Far more entries fit exactly than there are parameters: no accident."""
        return self.noise < EXACTLY and self.surplus > max(0.0, 0.7 * self.rough_surplus)

    def agrees(self, other: Candidate) -> bool:
        """Two starts that end alike are no accident either."""
        near = abs(self.worth - other.worth) < 0.02 * other.worth
        return near and self.X.rank == other.X.rank


def solve_unweighted(
    bench: Workbench, rank: int, generator: Any, init: Factors | None = None
) -> Found:
    """Recover X, of at most ``rank`` components, and say which weights the answer suits."""
    best = _search(bench, rank, generator, init)
    # Entries beyond three standard deviations of the noise are outliers.
    lambda_s = max(NOISE_SCALES * min(best.noise, 1.0), SMALLEST_OUTLIER)
    message = bench.stopped or (
        f"{best.surplus:,} more entries fit than there are free parameters; noise {best.noise:.1e} "
        "of a typical entry"
    )
    return Found(
        best.X.balanced_factors(),
        defaults.default_lambda_x(lambda_s, bench.shape),
        lambda_s,
        bench.n_iter,
        bench.n_evaluations,
        not bench.stopped,
        message,
    )


def _search(bench: Workbench, rank: int, generator: Any, init: Factors | None) -> Candidate:
    """Find the candidate that is worth most among those of at most ``rank`` components."""
    best = _nothing(bench)
    large = math.prod(bench.shape) * rank > LARGE
    for schedule in SCHEDULES[:1] if large else SCHEDULES:
        start = init or _start(bench.shape, rank + SPARE, generator)
        init = None
        found = _nothing(bench)
        for candidate in _explore(bench, start, schedule, rank, most=1 if large else 4):
            found = max(found, candidate, key=_merit)
            if found.proven or bench.stopped:
                break
        found = _trim(bench, found)
        settled = found.agrees(best) and found.surplus > 0
        best = max(best, found, key=_merit)
        if best.proven or settled or bench.stopped:
            break
    return best


def _explore(
    bench: Workbench,
    start: Factors,
    schedule: tuple[float, tuple[float, ...], int],
    bound: int,
    most: int,
) -> Iterator[Candidate]:
    """One schedule: all components, then the likely ranks, then fewer and fewer."""
    penalty, scales, max_iter = schedule
    X = merge_parallel(
        KruskalTensor(None, anneal(bench, start, scales, penalty=penalty, max_iter=max_iter))
    )
    best: Candidate | None = None
    for rank in dict.fromkeys(min(r, bound) for r in likely_ranks(X, most)):
        candidate = _assess(bench, adapt(bench, keep(X, rank).balanced_factors()), best)
        yield candidate
        if best is None or candidate.rough_surplus > best.rough_surplus:
            best = candidate
    while best is not None and best.rough_surplus > 0 and best.X.rank > 1 and best.noise < ROUGHLY:
        fewer = keep(merge_parallel(best.X), best.X.rank - 1)
        candidate = _assess(bench, adapt(bench, fewer.balanced_factors()), best)
        yield candidate
        hopeless = candidate.rough_surplus < best.rough_surplus - 60
        best = None if hopeless else candidate


def _assess(bench: Workbench, factors: Factors, rival: Candidate | None) -> Candidate:
    """Count what a fit explains, after polish if it can compete."""
    rough, noise = _surplus(bench, factors, ROUGHLY)
    surplus, _ = _surplus(bench, factors, EXACTLY)
    fair = Candidate(KruskalTensor(None, factors), noise, surplus, rough)
    if noise > ROUGHLY or rough <= 0 or (rival and rough < 0.5 * rival.rough_surplus):
        return fair
    factors = polish(bench, factors)
    surplus, noise = _surplus(bench, factors, EXACTLY)
    return max(fair, Candidate(KruskalTensor(None, factors), noise, surplus, rough), key=_merit)


def _surplus(bench: Workbench, factors: Factors, tolerance: float) -> tuple[int, float]:
    """Entries fitted beyond the number of free parameters, and the noise they show."""
    tally = bench.tally(factors)
    free = bench.free(factors)
    noise = tally.noise(free)
    return tally.within(max(tolerance, NOISE_SCALES * noise)) - free, noise


def _trim(bench: Workbench, best: Candidate) -> Candidate:
    """Drop components that fit too few entries for their parameters."""
    X = merge_parallel(best.X)
    trimmed = X.rank < best.X.rank
    while X.rank > 1 and not bench.stopped:
        candidates = [
            drop(X, r) for r in np.argsort(mean_entries(X), kind="stable")[:WEAKEST].tolist()
        ]
        tolerance = max(EXACTLY, NOISE_SCALES * best.noise)
        counts = [bench.tally(c.balanced_factors()).within(tolerance) for c in candidates]
        here = bench.tally(X.balanced_factors()).within(tolerance)
        free = bench.free(X.balanced_factors()) // X.rank
        share = math.prod(bench.shape) // (4 * X.rank)
        least = max(free, min(ENTRIES_PER_PARAMETER * free, share))
        gained = [c - here + least for c in counts]
        pick = int(np.argmax(gained))
        if gained[pick] <= 0:
            break
        X, trimmed = candidates[pick], True
    if not trimmed:
        return best
    return _assess(bench, adapt(bench, X.balanced_factors(), max(EXACTLY, best.noise)), None)


def _merit(candidate: Candidate) -> tuple[float, int]:
    return candidate.worth, candidate.rough_surplus


def _nothing(bench: Workbench) -> Candidate:
    """X = 0, to begin with."""
    zero = KruskalTensor(None, [np.zeros((d, 0)) for d in bench.shape])
    return Candidate(zero, math.inf, 0, -(10**12))


def _start(shape: tuple[int, ...], rank: int, generator: Any) -> Factors:
    size = START ** (1 / len(shape)) * rank ** (-0.5 / len(shape))
    return [size * generator.standard_normal((d, rank)) for d in shape]
