"""The paper's solver: L-BFGS with a memory of 10 (SciPy's L-BFGS-B without bounds)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Vector = NDArray[np.float64]


class Objective(Protocol):
    """What a solver may know of its problem."""

    relative_gradient: float
    n_evaluations: int

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient at ``x``."""


@dataclass(frozen=True)
class Solution:
    """Where a solver stopped, and why."""

    x: Vector
    n_iter: int
    converged: bool
    message: str


def lbfgs(
    objective: Objective,
    start: Vector,
    *,
    max_iter: int,
    tol: float,
    memory: int = 10,
    on_iteration: Callable[[int, Vector, float], bool] | None = None,
) -> Solution:
    """Minimise a smooth function.

    Stops when the objective's relative gradient is at most ``tol``, after ``max_iter``
    iterations, when rounding errors allow no further decrease, or when
    ``on_iteration(iteration, x, value)`` returns True.
    """
    if max_iter == 0:
        return Solution(start, 0, False, "no iteration was asked for (max_iter=0)")
    reason = ""
    n_iter = 0

    def after_iteration(intermediate_result: Any) -> None:
        nonlocal reason, n_iter
        n_iter += 1
        wants_stop = on_iteration is not None and on_iteration(
            n_iter, intermediate_result.x, float(intermediate_result.fun)
        )
        if objective.relative_gradient <= tol:
            reason = f"stationary: relative gradient {objective.relative_gradient:.1e} <= {tol:g}"
        elif wants_stop:
            reason = "stopped by the callback"
        if reason:
            raise StopIteration

    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        # Zero tolerances: when to stop is decided above, in units that suit any data.
        options={
            "maxcor": memory,
            "maxiter": max_iter,
            "maxfun": 20 * max_iter + 100,
            "ftol": 0.0,
            "gtol": 0.0,
        },
    )
    if reason:
        return Solution(found.x, n_iter, reason.startswith("stationary"), reason)
    if n_iter >= max_iter:
        return Solution(found.x, n_iter, False, f"stopped after max_iter={max_iter} iterations")
    return Solution(found.x, n_iter, True, "rounding errors allow no further decrease")
