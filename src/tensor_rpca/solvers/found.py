"""What a solver of the whole problem returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Found:
    """Factors of X, and how they came about; everything in units of a typical entry.

    Attributes
    ----------
    factors : list of K ndarrays of shapes (d_k, R)
    lambda_x, lambda_s : float
        Weights of the program that they solve, or that the answer corresponds to.
    n_iter, n_evaluations : int
    converged : bool
    message : str
    """

    factors: list[NDArray[Any]]
    lambda_x: float
    lambda_s: float
    n_iter: int
    n_evaluations: int
    converged: bool
    message: str
