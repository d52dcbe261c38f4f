"""The default: recover X and its rank with nothing to tune.

From a small random start with all components allowed, anneal a loss whose outliers fade while
the atomic norm holds spare components back (anneal.py). Merge components that are one and try
the few ranks at which their coverage drops (prune.py), each fitted with the loss that the noise
calls for (adapt.py). Polish on the entries that fit (polish.py). Keep what describes Z most
briefly (candidate.py), and drop components that fit too few entries for their parameters
(trim.py). If many more entries fit exactly than there are parameters, that is proof enough;
otherwise other starts, slower schedules and fewer components have their turn, until two agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tensor_rpca import defaults
from tensor_rpca.recorder import components
from tensor_rpca.solvers.adapt import adapt
from tensor_rpca.solvers.anneal import anneal
from tensor_rpca.solvers.candidate import NOISE_SCALES, ROUGHLY, Candidate, assess, nothing
from tensor_rpca.solvers.found import Found
from tensor_rpca.solvers.prune import keep, likely_ranks, merge_parallel
from tensor_rpca.solvers.trim import trim
from tensor_rpca.solvers.workbench import Factors, Workbench


@dataclass(frozen=True)
class Schedule:
    """How one start is annealed.

    Attributes
    ----------
    penalty : float
        lambda_x as a fraction of the scale.
    scales : tuple of float
    max_iter : int
        At each scale.
    narrow : bool
        Whether to start with little more components than the best fit so far has, rather than
        with as many as the bound allows.
    """

    penalty: float
    scales: tuple[float, ...]
    max_iter: int
    narrow: bool = False


SCHEDULES = (
    Schedule(0.5, (3.0, 0.9, 0.27), 150),
    Schedule(0.2, (1.0, 0.4, 0.15), 800),
    Schedule(0.1, (3.0, 1.0, 0.4, 0.15), 800),
    Schedule(0.5, (3.0, 0.9, 0.27), 1500, narrow=True),
    Schedule(0.5, (3.0, 0.9, 0.27), 150),
    Schedule(0.2, (3.0, 0.9, 0.27), 1500, narrow=True),
)
# A narrow start has so many components more than the best fit, and at most this part of the bound.
MARGIN, NARROWER = 2, 0.94
# Size of a random start's entries of X, in units of a typical entry: small, so that early
# components grow where Z has something.
START = 0.1
# Entries times components beyond which the first schedule that finds anything has to do.
LARGE = 20_000_000
# Components beyond the bound that a start may use: what they follow, the others need not.
SPARE = 5
# Without noise, what still counts as an outlier, in units of a typical entry.
SMALLEST_OUTLIER = 1e-6


def solve_unweighted(
    bench: Workbench, rank: int, generator: Any, init: Factors | None = None
) -> Found:
    """Recover X, of at most ``rank`` components, and say which weights the answer suits."""
    best = _search(bench, rank, generator, init)
    # Entries beyond three standard deviations of the noise are outliers.
    lambda_s = max(NOISE_SCALES * best.noise, SMALLEST_OUTLIER)
    found = (
        f"{best.surplus:,} more entries fit than there are free parameters; noise {best.noise:.1e} "
        "of a typical entry"
    )
    if best.X.rank == 0:
        found = "no component explains more than noise and outliers would"
    return Found(
        best.X.balanced_factors(),
        defaults.default_lambda_x(lambda_s, bench.shape),
        lambda_s,
        bench.n_iter,
        bench.n_evaluations,
        not bench.stopped,
        bench.stopped or found,
    )


def _search(bench: Workbench, rank: int, generator: Any, init: Factors | None) -> Candidate:
    """Find the candidate that is worth most among those of at most ``rank`` components."""
    best = nothing(bench)
    large = math.prod(bench.shape) * rank > LARGE
    n_found = rank
    for schedule in SCHEDULES:
        n = rank + SPARE
        if schedule.narrow:
            n = min(n_found + MARGIN, max(1, round(NARROWER * rank)))
        start = init or _start(bench.shape, n, generator)
        init = None
        found: Candidate | None = None
        for candidate in _explore(bench, start, schedule, min(rank, n), most=1 if large else 4):
            found = max(found or candidate, candidate, key=Candidate.merit)
            if found.proven or bench.stopped:
                break
        if found is None:  # nothing is left of any component
            continue
        if found.worth > 0:
            found = trim(bench, found)
            n_found = found.X.rank
        settled = found.agrees(best)
        best = max(best, found, key=Candidate.merit)
        if best.proven or settled or bench.stopped or (large and best.worth > 0):
            break
    return best


def _explore(
    bench: Workbench,
    start: Factors,
    schedule: Schedule,
    bound: int,
    most: int,
) -> Iterator[Candidate]:
    """One schedule: all components, then the likely ranks, then fewer and fewer."""
    annealed = anneal(
        bench, start, schedule.scales, penalty=schedule.penalty, max_iter=schedule.max_iter
    )
    X = merge_parallel(components(annealed))
    best: Candidate | None = None
    for rank in dict.fromkeys(min(r, bound) for r in likely_ranks(X, most)):
        candidate = assess(bench, adapt(bench, keep(X, rank).balanced_factors()), best)
        yield candidate
        if best is None or candidate.rough_surplus > best.rough_surplus:
            best = candidate
    while best is not None and best.rough_surplus > 0 and best.X.rank > 1 and best.noise < ROUGHLY:
        fewer = keep(merge_parallel(best.X), best.X.rank - 1)
        candidate = assess(bench, adapt(bench, fewer.balanced_factors()), best)
        yield candidate
        hopeless = candidate.rough_surplus < best.rough_surplus - 60
        best = None if hopeless else candidate


def _start(shape: tuple[int, ...], rank: int, generator: Any) -> Factors:
    size = START ** (1 / len(shape)) * rank ** (-0.5 / len(shape))
    return [size * generator.standard_normal((d, rank)) for d in shape]
