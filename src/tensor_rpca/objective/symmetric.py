"""(marg) of a symmetric tensor: one factor serves all modes.

    f(A) = lambda_x sum_r ||a_r||^K + phi(sum_r a_r o ... o a_r)

A constraint of the problem, not another problem: the gradient is the sum of the modes' gradients
at factors that are all equal. Components of a tensor of odd order need no sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.factorised import FactorisedObjective

Array = NDArray[Any]


class SymmetricObjective:
    """Ties the factors of an objective together.

    Parameters
    ----------
    objective : FactorisedObjective
        Of a tensor of odd order whose modes are all as long.
    order : int
    """

    def __init__(self, objective: FactorisedObjective, order: int):
        self._objective = objective
        self._order = order

    @property
    def relative_gradient(self) -> float:
        """Of the last point."""
        return self._objective.relative_gradient

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far."""
        return self._objective.n_evaluations

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Value (float) and gradient (vector) at a factor (d, R), laid out as a vector."""
        value, gradient = self._objective(np.tile(x, self._order))
        return value, gradient.reshape(self._order, -1).sum(axis=0)
