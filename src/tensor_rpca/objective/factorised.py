"""The paper's equation (marg): atomic norm penalty plus Huber fit, as a function of factors.

    f(a) = lambda_x / K  sum_r sum_k ||a_r^(k)||^K  +  phi(sum_r a_r^(1) o ... o a_r^(K))

At a minimum all factors of a component have the same norm, so the penalty is lambda_x times
the sum of the components' weights: the tensor atomic norm of X (Proposition 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective import kernels
from tensor_rpca.objective.sweep import Sweep

Array = NDArray[Any]


class FactorisedObjective:
    """Value and gradient of (marg) at a vector that holds all factors, one after another.

    Parameters
    ----------
    sweep : Sweep
    shape : tuple of int
    rank : int
        Columns of every factor.
    lambda_x, lambda_s : float
        In the sweep's units.
    dtype : float64 or float32
        Of the factors; the vector itself is float64, as SciPy's L-BFGS works in it.
    table : ndarray, optional
        Of another loss than Huber's (:mod:`tensor_rpca.objective.losses`), ``lambda_s`` its scale.
    """

    def __init__(
        self,
        sweep: Sweep,
        shape: tuple[int, ...],
        rank: int,
        lambda_x: float,
        lambda_s: float,
        dtype: np.dtype[Any],
        table: Array | None = None,
    ):
        self._sweep = sweep
        self._lambda_x = lambda_x
        self._lambda_s = lambda_s
        self._shapes = [(d, rank) for d in shape]
        self._edges = np.cumsum([0, *(d * rank for d in shape)]).tolist()
        self._dtype = dtype
        self._table = table
        self._column = np.empty(rank)
        self.n_evaluations = 0
        self.relative_gradient = math.inf

    def pack(self, factors: Sequence[Array]) -> NDArray[np.float64]:
        """Lay factors of shapes (d_k, R) out as one vector."""
        return np.concatenate([np.ravel(a) for a in factors]).astype(np.float64, copy=False)

    def unpack(self, x: Array) -> list[Array]:
        """Views of the factors inside a vector, each of shape (d_k, R)."""
        pieces = zip(self._edges, self._edges[1:], self._shapes, strict=False)
        return [x[a:b].reshape(shape) for a, b, shape in pieces]

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Value (float) and gradient (vector) at a vector.

        Notes the relative gradient ``||fit + penalty|| / (||fit|| + ||penalty||)``: at a
        stationary point the fit's pull and the penalty's cancel, whatever the data's units.
        """
        typed = x.astype(self._dtype, copy=False)
        gradient = np.empty_like(typed)
        factors, gradients = self.unpack(typed), self.unpack(gradient)
        value = self._sweep.loss_and_gradient(factors, gradients, self._lambda_s, self._table)
        of_fit = of_penalty = of_both = 0.0
        for a, g in zip(factors, gradients, strict=True):
            penalty, fit2, penalty2, both2 = kernels.add_penalty(
                a, self._lambda_x, len(factors), g, self._column
            )
            value += penalty
            of_fit += fit2
            of_penalty += penalty2
            of_both += both2
        pull = math.sqrt(of_fit) + math.sqrt(of_penalty)
        self.relative_gradient = math.sqrt(of_both) / pull if pull > 0 else 0.0
        self.n_evaluations += 1
        return value, gradient.astype(np.float64, copy=False)
