"""The paper's solver: L-BFGS with a memory of 10 (SciPy's L-BFGS-B without bounds)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Vector = NDArray[np.float64]


class Objective(Protocol):
    """What a solver may know of its problem."""

    @property
    def relative_gradient(self) -> float:
        """Of the last point; 0 where it is stationary."""

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient at ``x``."""


@dataclass(frozen=True)
class Solution:
    """Where a solver stopped, and why."""

    x: Vector
    n_iter: int
    converged: bool
    message: str
    relative_gradient: float


def lbfgs(
    objective: Objective,
    start: Vector,
    *,
    max_iter: int,
    tol: float,
    memory: int = 10,
    flat: float = 0.0,
    on_iteration: Callable[[int, Vector, float], bool] | None = None,
) -> Solution:
    """Minimise a smooth function.

    Stops when the objective's relative gradient is at most ``tol``, after ``max_iter``
    iterations, when an iteration lowers the objective by less than ``flat`` times its value,
    when rounding errors allow no further decrease, or when ``on_iteration(iteration, x, value)``
    returns True.
    """
    reason = ""
    n_iter = 0
    reached = math.nan

    def after_iteration(intermediate_result: Any) -> None:
        nonlocal reason, n_iter, reached
        n_iter += 1
        reached = objective.relative_gradient
        wants_stop = on_iteration is not None and on_iteration(
            n_iter, intermediate_result.x, float(intermediate_result.fun)
        )
        if reached <= tol:
            reason = f"stationary: relative gradient {reached:.1e} <= {tol:g}"
        elif wants_stop:
            reason = "stopped by the callback"
        if reason:
            raise StopIteration

    max_evaluations = 20 * max_iter + 100
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        # No tolerance on the gradient: that is decided above, in units that suit any data.
        options={
            "maxcor": memory,
            "maxiter": max_iter,
            "maxfun": max_evaluations,
            "ftol": flat,
            "gtol": 0.0,
        },
    )
    if n_iter == 0:  # nothing but the start has been looked at
        reached = objective.relative_gradient if not found.jac.any() else math.nan
    converged = reason.startswith("stationary")
    if not reason and not math.isfinite(found.fun):
        reason = "the objective overflows at the start; start from smaller factors"
    elif not reason and found.nit == 0 and not found.jac.any():
        converged, reason = True, "the gradient vanishes at the start"
    elif not reason and n_iter >= max_iter:
        reason = f"stopped after max_iter={max_iter} iterations"
    elif not reason:
        converged = n_iter > 0 and found.nfev < max_evaluations
        reason = "rounding errors allow no further decrease"
    return Solution(found.x, n_iter, converged, reason, reached)
