"""What a solver of several stages works with: factors in, factors out.

It keeps the count of iterations, and stops every stage when the user does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.tally import Tally
from tensor_rpca.solvers.lbfgs import lbfgs

Factors = list[NDArray[Any]]
Watch = Callable[[FactorisedObjective, int, NDArray[Any], float], bool]


class Workbench:
    """Minimisations over factors of any rank, for one tensor.

    Parameters
    ----------
    sweep : Sweep
        Its unit is a typical entry.
    shape : tuple of int
    dtype : float64 or float32
    max_iter : int or None
        Bound on the iterations of all stages together.
    watch : callable
        Called as ``watch(objective, iteration, x, value)``; True stops.
    """

    def __init__(
        self,
        sweep: Sweep,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        max_iter: int | None,
        watch: Watch,
    ):
        self._sweep = sweep
        self.shape = shape
        self._dtype = dtype
        self._left = max_iter
        self._watch = watch
        self.n_iter = 0
        self.n_evaluations = 0
        self.stopped = ""

    def minimise(
        self,
        factors: Factors,
        loss: str,
        scale: float,
        *,
        lambda_x: float = 0.0,
        max_iter: int,
        flat: float,
    ) -> Factors:
        """Lower ``lambda_x ||X||_* + loss(Z - X; scale)`` from here."""
        if self.stopped:
            return factors
        rank = factors[0].shape[1]
        objective = FactorisedObjective(
            self._sweep, self.shape, rank, lambda_x, scale, self._dtype, loss
        )
        scaled = _InUnitsOf(objective, scale)
        allowed = max_iter if self._left is None else min(max_iter, self._left - self.n_iter)

        def on_iteration(iteration: int, x: NDArray[Any], value: float) -> bool:
            self.n_iter += 1
            return self._watch(objective, self.n_iter, x, value * scale * scale)

        found = lbfgs(
            scaled,
            objective.pack(factors),
            max_iter=allowed,
            tol=0.0,
            flat=flat,
            on_iteration=on_iteration,
        )
        self.n_evaluations += objective.n_evaluations
        if found.message == "stopped by the callback":
            self.stopped = found.message
        elif self._left is not None and self.n_iter >= self._left:
            self.stopped = f"stopped after max_iter={self._left} iterations"
        return [a.copy() for a in objective.unpack(found.x)]

    def free(self, factors: Factors) -> int:
        """How many parameters the factors have, scale exchanges aside."""
        return int(factors[0].shape[1]) * (sum(self.shape) - len(self.shape) + 1)

    def noise(self, factors: Factors) -> float:
        """Standard deviation of the entries that fit."""
        return self.tally(factors).noise(self.free(factors))

    def tally(self, factors: Factors) -> Tally:
        """How large the residuals are."""
        return self._sweep.tally([a.astype(self._dtype) for a in factors])


class _InUnitsOf:
    """An objective over the square of its scale: an outlier costs about 1, at any scale."""

    def __init__(self, objective: FactorisedObjective, scale: float):
        self._objective = objective
        self._factor = 1.0 / (scale * scale)

    @property
    def relative_gradient(self) -> float:
        return self._objective.relative_gradient

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, gradient = self._objective(x)
        gradient *= self._factor
        return value * self._factor, gradient
