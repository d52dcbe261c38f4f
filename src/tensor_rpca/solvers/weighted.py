"""The program with given weights: L-BFGS, and the way out of minima that are not global.

L-BFGS ends at a stationary point of (marg). Where a component more would lower the objective
(escape.py) and the rank bound has room for one, it goes on from there (Haeffele and Vidal).
Since the objective never rises, no point is left twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.certificates import pays
from tensor_rpca.escape import escape
from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.spectral import search_effort
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.recorder import Recorder, alive, components
from tensor_rpca.solvers.found import Found
from tensor_rpca.solvers.lbfgs import Solution, lbfgs

Array = NDArray[Any]


def solve_weighted(
    sweep: Sweep,
    start: Sequence[Array],
    lambda_x: float,
    lambda_s: float,
    *,
    bound: int,
    dtype: np.dtype[Any],
    max_iter: int,
    tol: float,
    recorder: Recorder,
) -> Found:
    """Lower (marg) from here, and escape while there are fewer than ``bound`` components.

    With a bound of 0 this is the paper's method to the letter.
    """
    shape = tuple(len(a) for a in start)
    factors = list(start)
    n_iter = n_evaluations = escapes = 0
    while True:
        rank = factors[0].shape[1]
        objective = FactorisedObjective(sweep, shape, rank, lambda_x, lambda_s, dtype)
        solution = lbfgs(
            objective,
            objective.pack(factors),
            max_iter=max_iter - n_iter,
            tol=tol,
            on_iteration=partial(_watch, recorder, objective),
        )
        n_iter += solution.n_iter
        n_evaluations += objective.n_evaluations
        factors = objective.unpack(solution.x)
        X = alive(components([a.astype(dtype) for a in factors]))
        if not solution.converged or n_iter >= max_iter or X.rank >= bound:
            break
        effort = search_effort(shape, n_evaluations)
        way_out = escape(sweep, X, lambda_x, lambda_s, max_iter=effort)
        if way_out is None or not pays(way_out.pull, lambda_x, solution.relative_gradient):
            break
        factors = way_out.added_to(X).balanced_factors()
        escapes += 1
    return Found(
        factors,
        lambda_x,
        lambda_s,
        n_iter,
        n_evaluations,
        solution.converged,
        _message(solution, escapes, max_iter),
    )


def _watch(
    recorder: Recorder, objective: FactorisedObjective, iteration: int, x: Array, value: float
) -> bool:
    return recorder.watch(x, value, objective.relative_gradient, objective.unpack)


def _message(solution: Solution, escapes: int, max_iter: int) -> str:
    if solution.message.startswith("stopped after max_iter"):
        return f"stopped after max_iter={max_iter} iterations"
    if not escapes or not solution.converged:
        return solution.message
    return f"{solution.message}, after {escapes} escape(s) from points that were not global"
