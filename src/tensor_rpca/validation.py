"""What users pass in, checked; each refusal names the trouble and the cure."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.sweep import Survey

Array = NDArray[Any]
RandomState = int | np.random.Generator | np.random.RandomState | None

# Vectors of the factors' size that a solve holds: SciPy's L-BFGS keeps 2 * 10 + 5, the
# objective, the start and the result a few more.
VECTORS_PER_SOLVE = 32


def check_tensor(Z: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Array | None]:
    """Z and mask as plain ndarrays, without copying an array; refuse what is no real tensor."""
    if scipy.sparse.issparse(Z):
        raise TypeError(
            "Z is a sparse array, whose absent entries could be zeros or missing; pass "
            "Z.toarray() if they are zeros, or a dense array with NaN if they are missing"
        )
    hidden = np.ma.getmaskarray(Z) if isinstance(Z, np.ma.MaskedArray) else None
    try:
        array = np.asarray(Z)
    except ValueError as error:
        raise ValueError(
            f"Z is no rectangular array of numbers: {error}; make its rows equally long, with NaN "
            "for what is missing"
        ) from None
    _check_kind(array)
    if array.ndim < 2:
        raise ValueError(
            f"Expected 2D array or a tensor of higher order, got {array.ndim}D array of shape "
            f"{array.shape} instead. Reshape your data: array.reshape(-1, 1) if it has a single "
            "feature or array.reshape(1, -1) if it is a single sample"
        )
    if array.size == 0:
        axis = array.shape.index(0)
        what = f"0 {'sample(s)' if axis == 0 else 'feature(s)'} (shape={array.shape})"
        raise ValueError(
            f"Found array with {what} while a minimum of 1 is required: Z is empty along axis "
            f"{axis}; check the file or the slice it comes from"
        )
    known = None if mask is None else _check_mask(mask, array.shape)
    if hidden is not None:
        known = ~hidden if known is None else known & ~hidden
    return array, known


def _check_kind(array: Array) -> None:
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(
            "Complex data not supported: decompose Z.real and Z.imag, or stack them as one "
            "more axis, np.stack([Z.real, Z.imag], axis=-1)"
        )
    if kind == "O":
        raise ValueError(
            "Z has dtype object; convert it with np.asarray(Z, dtype=float), and make ragged "
            "rows equally long"
        )
    if kind not in "fiub":
        raise ValueError(
            f"Z has dtype {array.dtype}, which is no real number type; "
            "convert it with Z.astype(float)"
        )


def _check_mask(mask: ArrayLike, shape: tuple[int, ...]) -> Array:
    known = np.asarray(mask)
    if known.dtype != np.bool_:
        raise TypeError(
            f"mask has dtype {known.dtype}; it must be bool, True where an entry is observed: "
            "pass mask.astype(bool)"
        )
    if known.shape != shape:
        raise ValueError(
            f"mask has shape {known.shape} but Z has shape {shape}; "
            "np.broadcast_to(mask, Z.shape) spreads one over the remaining axes"
        )
    return known


def check_survey(survey: Survey, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse infinite entries, entries whose squares are, and whatever has no entry at all."""
    if survey.n_infinite:
        raise ValueError(
            f"Z contains {survey.n_infinite} infinite entries (inf); replace them by NaN to "
            "treat them as missing: np.where(np.isinf(Z), np.nan, Z)"
        )
    if survey.n_observed == 0:
        raise ValueError(
            "every entry of Z is missing (NaN or mask False); is the mask inverted? "
            "True means observed"
        )
    reach = 1e150 if dtype == np.float64 else 1e15
    if survey.largest > 0 and not 1 / reach < survey.typical < reach:
        raise ValueError(
            f"entries of Z are typically {survey.typical:.1e} in size, and their squares leave the "
            f"range of {dtype}; rescale: decompose Z / {survey.typical:.1e}, then multiply X and S"
        )
    for axis, seen in enumerate(survey.seen):
        if not seen.all():
            empty = np.flatnonzero(~seen)
            listed = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
            raise ValueError(
                f"{len(empty)} of {shape[axis]} slices along axis {axis} have no observed entry "
                f"(index {listed}), so nothing can be said about them; leave them out: "
                f"np.delete(Z, [{listed}], axis={axis})"
            )


def check_rank(rank: Any, shape: tuple[int, ...]) -> int:
    """Return a positive integer whose factors fit into memory."""
    bound = _whole("rank", rank)
    if bound < 1:
        raise ValueError(f"rank must be at least 1, got {bound}; None lets the data choose")
    per_component = 8 * VECTORS_PER_SOLVE * sum(shape)
    available = int(psutil.virtual_memory().available)
    if bound * per_component > available:
        raise ValueError(
            f"rank={bound} needs about {bound * per_component / 2**30:,.1f} GiB for factors and "
            f"solver, and {available / 2**30:,.1f} GiB are available; "
            f"choose at most rank={max(1, available // per_component // 2)}"
        )
    return bound


def check_positive(name: str, value: Any) -> float:
    """Return a positive, finite real number."""
    number = _real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(
            f"{name} must be positive and finite, got {number:g}; None chooses it from the data"
        )
    return number


def check_max_iter(max_iter: Any) -> int:
    """Return a positive integer."""
    number = _whole("max_iter", max_iter)
    if number < 1:
        raise ValueError(f"max_iter must be at least 1, got {number}; None stands for 1,000")
    return number


def check_tol(tol: Any) -> float:
    """Return a number in [0, 1)."""
    number = _real("tol", tol)
    if not 0 <= number < 1:
        raise ValueError(f"tol must lie in [0, 1), got {number:g}; it bounds the relative gradient")
    return number


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be a whole number or None, got {value!r} of type {type(value).__name__}"
        )
    return int(value)


def _real(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a real number or None, got {value!r} of type {type(value).__name__}"
        )
    return float(value)


def check_init(init: Any, shape: tuple[int, ...], rank: int | None) -> KruskalTensor:
    """Return start factors that match Z and the rank bound."""
    if isinstance(init, KruskalTensor):
        start = init
    else:
        try:
            weights, factors = init if _is_pair(init) else (None, init)
            start = KruskalTensor(weights, list(factors))
        except (TypeError, ValueError) as error:
            raise ValueError(
                "init must be a KruskalTensor, a pair (weights, factors) or a list of factors "
                f"of shapes (d_k, R): {error}"
            ) from None
    if start.shape != shape:
        raise ValueError(
            f"init describes a tensor of shape {start.shape} but Z has shape {shape}; "
            "its factors must have one row for each index of their axis"
        )
    if rank is not None and start.rank != rank:
        raise ValueError(
            f"init has {start.rank} components but rank={rank}; leave rank out, or give init "
            "as many columns"
        )
    if not all(np.isfinite(a).all() for a in (start.weights, *start.factors)):
        raise ValueError("init contains NaN or infinite entries; start from finite factors")
    return start


def _is_pair(init: Any) -> bool:
    """Tell (weights, factors) from two factors of a matrix."""
    if not isinstance(init, Sequence) or len(init) != 2:
        return False
    return init[0] is None or np.ndim(init[0]) == 1


def check_generator(random_state: RandomState) -> np.random.Generator | np.random.RandomState:
    """Return a source of random numbers from a seed, as scikit-learn and NumPy accept them."""
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state must be None, a non-negative integer, a Generator or a RandomState: "
            f"{error}"
        ) from None
