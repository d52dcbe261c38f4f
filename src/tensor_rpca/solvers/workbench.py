"""What a solver of several stages works with: factors in, factors out.

It keeps the count of iterations, stops every stage when the user does, and knows that a tensor of
one tile has a compiled solver of its own.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.compact import MOST_ENTRIES, CompactTensor
from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.losses import Loss
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.tally import Tally
from tensor_rpca.recorder import Recorder
from tensor_rpca.solvers.lbfgs import lbfgs
from tensor_rpca.solvers.lbfgs_compiled import CompiledLBFGS

Array = NDArray[Any]
Factors = list[Array]


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
    recorder : Recorder
    """

    def __init__(
        self,
        sweep: Sweep,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        max_iter: int | None,
        recorder: Recorder,
    ):
        self._sweep = sweep
        self.shape = shape
        self._dtype = dtype
        self._left = max_iter
        self._recorder = recorder
        small = math.prod(shape) <= MOST_ENTRIES
        self._compact = CompactTensor(sweep.in_units()) if small else None
        # Of Z itself, as residuals of X = 0.
        self.alone = self.tally([np.zeros((d, 1)) for d in shape])
        self.n_observed = self.alone.n
        self.n_iter = 0
        self.n_evaluations = 0
        self.stopped = ""

    def minimise(
        self,
        factors: Factors,
        loss: Loss,
        scale: float,
        *,
        lambda_x: float = 0.0,
        max_iter: int,
        flat: float,
    ) -> Factors:
        """Lower ``lambda_x ||X||_* + loss(Z - X; scale)`` from here.

        Ends after ``max_iter`` iterations, or one that gains less than the fraction ``flat``.
        """
        if self.stopped or factors[0].shape[1] == 0:
            return factors
        allowed = max_iter if self._left is None else min(max_iter, self._left - self.n_iter)
        if self._compact is not None:
            found = self._descend(self._compact, factors, loss, scale, lambda_x, allowed, flat)
        else:
            found = self._sweep_down(factors, loss, scale, lambda_x, allowed, flat)
        if not self.stopped and self._left is not None and self.n_iter >= self._left:
            self.stopped = f"stopped after max_iter={self._left} iterations"
        return found

    def _descend(
        self,
        tensor: CompactTensor,
        factors: Factors,
        loss: Loss,
        scale: float,
        lambda_x: float,
        allowed: int,
        flat: float,
    ) -> Factors:
        """In one compiled call, or in one for each iteration if somebody listens."""
        descent = CompiledLBFGS(tensor, tensor.pack(factors), scale, loss.table, lambda_x, flat)
        left = allowed
        while left > 0 and not descent.stopped and not self.stopped:
            began = time.perf_counter()
            trace = descent.run(1 if self._recorder.listening else left)
            left -= max(1, len(trace))
            self.n_iter += len(trace)
            if not self._recorder.listening:
                self._recorder.note(trace, began)
            elif len(trace) and self._tell(descent.x, trace[0], tensor):
                self.stopped = "stopped by the callback"
        self.n_evaluations += descent.n_evaluations
        return [a.copy() for a in tensor.unpack(descent.x)]

    def _tell(self, x: Array, row: Array, tensor: CompactTensor) -> bool:
        return self._recorder.watch(x, float(row[0]), float(row[1]), tensor.unpack)

    def _sweep_down(
        self,
        factors: Factors,
        loss: Loss,
        scale: float,
        lambda_x: float,
        allowed: int,
        flat: float,
    ) -> Factors:
        rank = factors[0].shape[1]
        objective = FactorisedObjective(
            self._sweep, self.shape, rank, lambda_x, scale, self._dtype, loss.table
        )

        def on_iteration(iteration: int, x: Array, value: float) -> bool:
            self.n_iter += 1
            slope = objective.relative_gradient
            return self._recorder.watch(x, value * scale * scale, slope, objective.unpack)

        found = lbfgs(
            _InUnitsOf(objective, scale),
            objective.pack(factors),
            max_iter=allowed,
            tol=0.0,
            flat=flat,
            on_iteration=on_iteration,
        )
        self.n_evaluations += objective.n_evaluations
        if found.message == "stopped by the callback":
            self.stopped = found.message
        return [a.copy() for a in objective.unpack(found.x)]

    def free(self, factors: Factors) -> int:
        """How many parameters the factors have, scale exchanges aside."""
        rank = int(factors[0].shape[1])
        if len(self.shape) == 2:  # a matrix's factors may be rotated
            return rank * (sum(self.shape) - rank)
        return rank * (sum(self.shape) - len(self.shape) + 1)

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
