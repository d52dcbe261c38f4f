"""Problems with a known answer that every solver is run on, and slow, obvious references."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.objective import tiles


@dataclass(frozen=True, eq=False)
class Problem:
    """``Z = X + S + noise`` with weights for which solvers converge in a tenth of a second.

    ``rank`` is a bound above the true rank, so that components have to vanish.
    """

    name: str
    Z: np.ndarray
    X: np.ndarray
    S: np.ndarray
    rank: int
    lambda_x: float
    lambda_s: float


def _problem(name, shape, true_rank, rank, lambda_x, lambda_s):
    # Noise, or the minimum would be so sharp that no first-order method reaches it.
    Z, X, S = low_rank_plus_sparse(shape, true_rank, outliers=0.08, noise=0.05, random_state=1)
    for array in (Z, X, S):
        array.flags.writeable = False  # shared by all tests
    return Problem(name, Z, X, S, rank, lambda_x, lambda_s)


MATRIX = _problem("matrix", (30, 40), true_rank=3, rank=8, lambda_x=2.0, lambda_s=0.3)
CUBE = _problem("cube", (15, 15, 15), true_rank=3, rank=6, lambda_x=1.0, lambda_s=0.2)
SLAB = _problem("slab", (15, 20, 30), true_rank=4, rank=8, lambda_x=2.0, lambda_s=0.2)
FOUR = _problem("four", (7, 8, 9, 10), true_rank=3, rank=6, lambda_x=1.0, lambda_s=0.1)
PROBLEMS = (MATRIX, CUBE, SLAB, FOUR)


def figure1(rank: int, outliers: float, random_state: int) -> Problem:
    """One trial of the paper's Figure 1, with its parameters."""
    Z, X, S = low_rank_plus_sparse((20, 20, 20), rank, outliers, random_state=random_state)
    return Problem("figure1", Z, X, S, rank + 10, lambda_x=1e-5, lambda_s=1e-3)


def dense_objective(
    factors: Sequence[np.ndarray],
    Z: np.ndarray,
    mask: np.ndarray | None,
    lambda_x: float,
    lambda_s: float,
) -> tuple[float, list[np.ndarray]]:
    """Value and gradients of equation (marg), straight from the formula, in float64."""
    factors = [np.asarray(a, dtype=np.float64) for a in factors]
    order = len(factors)
    letters = "abcdefghij"[:order]
    columns = [f"{c}z" for c in letters]
    X = np.einsum(",".join(columns) + "->" + letters, *factors)
    residual = X - np.asarray(Z, dtype=np.float64)
    observed = ~np.isnan(residual) if mask is None else mask & ~np.isnan(residual)
    residual = np.where(observed, residual, 0.0)
    size = np.abs(residual)
    huber = np.where(size <= lambda_s, residual**2 / 2, lambda_s * (size - lambda_s / 2))
    slope = np.where(size <= lambda_s, residual, lambda_s * np.sign(residual))
    norms = [np.sqrt((a**2).sum(axis=0)) for a in factors]
    value = huber.sum() + lambda_x / order * sum((norm**order).sum() for norm in norms)
    gradients = []
    for k, (a, norm) in enumerate(zip(factors, norms, strict=True)):
        others = [columns[j] for j in range(order) if j != k]
        spec = ",".join([letters, *others]) + "->" + columns[k]
        fit = np.einsum(spec, slope, *(factors[j] for j in range(order) if j != k))
        gradients.append(fit + lambda_x * norm ** (order - 2) * a)
    return float(value), gradients


def shrink(A: np.ndarray, threshold: float) -> np.ndarray:
    """Soft thresholding; missing entries become zero."""
    return np.nan_to_num(np.sign(A) * np.maximum(np.abs(A) - threshold, 0.0))


def random_factors(shape: Sequence[int], rank: int, seed: int = 0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((d, rank)).astype(dtype) for d in shape]


@contextmanager
def tiny_tiles(tile_entries: int = 16, chunk_work: int = 16) -> Iterator[None]:
    """Cut small tensors into many tiles and chunks, as large ones are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE_ENTRIES", tile_entries)
        patch.setattr(tiles, "CHUNK_WORK", chunk_work)
        yield


def _strided(Z: np.ndarray) -> np.ndarray:
    wide = np.zeros([2 * d + 1 for d in Z.shape], Z.dtype)
    view = wide[tuple(slice(1, None, 2) for _ in Z.shape)]
    view[...] = Z
    return view


def _negative(Z: np.ndarray) -> np.ndarray:
    backwards = tuple(slice(None, None, -1) for _ in Z.shape)
    return np.ascontiguousarray(Z[backwards])[backwards]


def _broadcast(Z: np.ndarray) -> np.ndarray:
    """Strides of zero in the last mode; the one layout that changes the values."""
    return np.broadcast_to(Z[..., :1], Z.shape)


def _read_only(Z: np.ndarray) -> np.ndarray:
    Z = Z.copy()
    Z.flags.writeable = False
    return Z


def _misaligned(Z: np.ndarray) -> np.ndarray:
    buffer = np.zeros(Z.nbytes + 1, np.uint8)[1:]
    view = buffer.view(Z.dtype).reshape(Z.shape)
    view[...] = Z
    return view


def _memmap(Z: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryFile() as stream:
        mapped = np.memmap(stream, dtype=Z.dtype, mode="w+", shape=Z.shape)
    mapped[...] = Z
    return mapped


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": lambda Z: np.ascontiguousarray(np.moveaxis(Z, 0, -1)).transpose(
        [Z.ndim - 1, *range(Z.ndim - 1)]
    ),
    "strided": _strided,
    "negative strides": _negative,
    "broadcast": _broadcast,
    "read-only": _read_only,
    "misaligned": _misaligned,
    "memmap": _memmap,
}

DTYPES = ("f8", "f4", "f2", "u1", "i2", "?", ">f8", "longdouble")


def tensor_of(dtype: str, shape: Sequence[int], seed: int = 0, missing: float = 0.0) -> np.ndarray:
    """Entries that any dtype can hold well enough; floating ones may miss a fraction."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal(shape) * 3
    kind = np.dtype(dtype).kind
    if kind == "b":
        return Z > 0
    if kind == "u":
        return np.abs(Z * 20).astype(dtype)
    if kind == "i":
        return (Z * 20).astype(dtype)
    Z[rng.random(shape) < missing] = np.nan
    return Z.astype(dtype)


def working_dtype(Z: np.ndarray) -> np.dtype:
    """What decompose() computes in for this Z."""
    return np.dtype(np.float32 if Z.dtype in (np.float16, np.float32) else np.float64)
