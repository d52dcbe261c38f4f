"""Components that are not worth their parameters are dropped, one by one."""

from __future__ import annotations

import numpy as np

from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.losses import bounded
from tensor_rpca.solvers.adapt import adapt
from tensor_rpca.solvers.candidate import EXACTLY, NOISE_SCALES, ROUGHLY, Candidate, assess, weigh
from tensor_rpca.solvers.prune import drop, mean_entries, merge_parallel
from tensor_rpca.solvers.workbench import Workbench

# How many of the weakest components are tried for removal at a time.
WEAKEST = 3
# How the others are refitted when one is left out.
REFIT_SCALE, REFIT_ITER = 1e-2, 100


def trim(bench: Workbench, best: Candidate) -> Candidate:
    """Drop components as long as the rest is worth more, and fit the rest anew."""
    while True:
        X = merge_parallel(best.X)
        while X.rank > 1 and not bench.stopped:
            fewer = _without_one(bench, X, best.noise)
            if fewer is None:
                break
            X = fewer
        if X.rank == best.X.rank or bench.stopped:
            return best
        # A better fit may show that still fewer will do.
        best = assess(bench, adapt(bench, X.balanced_factors(), max(EXACTLY, best.noise)))


def _without_one(bench: Workbench, X: KruskalTensor, noise: float) -> KruskalTensor | None:
    """Return X without the component that matters least, if that is worth more."""
    here = _worth(bench, X)
    weakest = np.argsort(mean_entries(X), kind="stable")[:WEAKEST].tolist()
    worth, best = max((_worth(bench, drop(X, r)), r) for r in weakest)
    fewer = drop(X, best)
    if worth > here:
        return fewer
    # The others may be able to make up for it.
    width = max(REFIT_SCALE, NOISE_SCALES * noise)
    factors = fewer.balanced_factors()
    refitted = weigh(
        bench, bench.minimise(factors, bounded(), width, max_iter=REFIT_ITER, flat=1e-5), ROUGHLY
    )
    return refitted.X if refitted.worth > here else None


def _worth(bench: Workbench, X: KruskalTensor) -> float:
    """To the accuracy that a short refit reaches."""
    return weigh(bench, X.balanced_factors(), ROUGHLY).worth
