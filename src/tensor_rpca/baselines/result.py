"""What goes into every rival and what comes out of it."""

from __future__ import annotations

import dataclasses
import math
import numbers
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from tensor_rpca import validation
from tensor_rpca.objective.sweep import Sweep

Array = NDArray[Any]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Separation:
    """The two parts of a tensor, as a rival method sees them.

    Attributes
    ----------
    low_rank : ndarray of the shape of Z
        X, in float64.
    sparse : scipy.sparse.coo_array of the shape of Z
        S; ``sparse.toarray()`` makes it dense.
    n_iter : int
    converged : bool
        False if ``max_iter`` ended the run.
    history : dict of str to ndarray of shape (n_iter,)
        What the method watches, named in its docstring.
    seconds : float
    """

    low_rank: Array
    sparse: coo_array
    n_iter: int
    converged: bool
    history: dict[str, NDArray[np.float64]]
    seconds: float

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.low_rank.shape))
        how = "converged" if self.converged else "not converged"
        share = 100 * self.sparse.nnz / self.low_rank.size
        return (
            f"Separation of a {shape} tensor: S has {self.sparse.nnz:,} entries ({share:.3g} %); "
            f"{self.n_iter} iterations in {self.seconds:.3g} s, {how}"
        )


class Given:
    """A checked tensor: ``Z / unit`` in float64, C-ordered, with NaN where missing.

    All rivals work in units of a typical entry, so that ``c Z`` gives ``c X`` and ``c S``.
    """

    def __init__(self, Z: ArrayLike, mask: ArrayLike | None):
        self._began = time.perf_counter()
        array, known = validation.check_tensor(Z, mask)
        with Sweep(array, known, np.dtype(np.float64), 1) as sweep:
            survey = sweep.survey()
        validation.check_survey(survey, array.shape, np.dtype(np.float64))
        self.unit = survey.typical if survey.typical > 0 else 1.0
        self.shape = array.shape
        self.Z = np.empty(array.shape)
        np.multiply(array, 1 / self.unit, out=self.Z, casting="unsafe")
        self.complete = survey.n_observed == array.size
        if known is not None and not self.complete:
            self.Z[~known] = np.nan

    def filled(self) -> Array:
        """Return Z with zeros for what is missing."""
        return self.Z if self.complete else np.nan_to_num(self.Z)

    def result(
        self, X: Array, S: Array, converged: bool, history: dict[str, list[float]]
    ) -> Separation:
        """Turn the parts, in units and with S anything where Z is missing, into a result."""
        X = X.reshape(self.shape)
        S = S.reshape(self.shape)
        X *= self.unit
        S *= self.unit
        if not self.complete:
            S[np.isnan(self.Z)] = 0.0
        courses = {name: np.array(values, dtype=np.float64) for name, values in history.items()}
        return Separation(
            low_rank=X,
            sparse=coo_array(S),
            n_iter=max((len(course) for course in courses.values()), default=0),
            converged=converged,
            history=courses,
            seconds=time.perf_counter() - self._began,
        )


def check_weight(name: str, value: Any, default: float) -> float:
    """Return a positive number, the default for None."""
    return default if value is None else validation.check_positive(name, value)


def check_numbers(name: str, values: Any, count: int, what: str) -> list[float]:
    """Return as many positive numbers as there are modes."""
    listed = list(values) if np.iterable(values) else [values] * count
    if len(listed) != count:
        raise ValueError(
            f"{name} has {len(listed)} values; give one for each of the {count} {what}"
        )
    return [validation.check_positive(name, value) for value in listed]


def check_mode(mode: Any, n_modes: int) -> int:
    """Return the number of an axis, counted from the front."""
    if isinstance(mode, bool | np.bool_) or not isinstance(mode, numbers.Integral):
        raise TypeError(f"mode must be a whole number, got {mode!r}")
    if not -n_modes <= int(mode) < n_modes:
        raise ValueError(f"mode={mode} names no axis of a tensor of order {n_modes}")
    return int(mode) % n_modes


def check_ranks(ranks: Any, shape: tuple[int, ...]) -> list[int]:
    """Return a Tucker rank bound for each mode, cut to what a mode can have."""
    if not np.iterable(ranks) or len(list(ranks)) != len(shape):
        raise ValueError(
            f"ranks must hold one bound for each of the {len(shape)} modes, got {ranks!r}; "
            f"for example ranks={(2,) * len(shape)}"
        )
    bounds = []
    for rank, d in zip(ranks, shape, strict=True):
        if isinstance(rank, bool | np.bool_) or not isinstance(rank, numbers.Integral):
            raise TypeError(f"ranks must be whole numbers, got {rank!r}")
        if rank < 1:
            raise ValueError(f"ranks must be at least 1, got {rank}")
        bounds.append(min(int(rank), d, math.prod(shape) // d))
    return bounds
