"""KruskalTensor: a low-rank tensor as weights and unit columns, never as its entries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


class KruskalTensor:
    """The tensor ``sum_r weights[r] * factors[0][:, r] o ... o factors[K-1][:, r]``.

    It behaves as the pair ``(weights, factors)``, so that TensorLy's functions take it.

    Parameters
    ----------
    weights : array-like of shape (R,), or None
        None stands for ones.
    factors : sequence of K >= 2 array-likes of shapes (d_k, R)
        Of any scale. Columns are normalised, the lengths move to the weights, and
        components are sorted by falling weight; the tensor stays what it is.

    Attributes
    ----------
    weights : ndarray of shape (R,)
        Non-negative, falling.
    factors : tuple of K ndarrays of shapes (d_k, R)
        With unit columns.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca import KruskalTensor
    >>> T = KruskalTensor(None, [np.ones((3, 1)), np.ones((4, 1)), [[3.0], [4.0]]])
    >>> T
    KruskalTensor of shape 3 x 4 x 2, rank 1, weights 17.32
    >>> T[0, :, 1]
    array([4., 4., 4., 4.])
    """

    weights: Array
    factors: tuple[Array, ...]

    def __init__(self, weights: ArrayLike | None, factors: Sequence[ArrayLike]):
        columns = [np.asarray(a) for a in factors]
        if len(columns) < 2 or any(a.ndim != 2 for a in columns):
            raise ValueError("factors must be two or more matrices of shapes (d_k, R)")
        if any(a.dtype.kind not in "fiub" for a in columns):
            kinds = ", ".join(str(a.dtype) for a in columns)
            raise ValueError(f"factors must be real numbers; their dtypes are {kinds}")
        if len({a.shape[1] for a in columns}) != 1:
            shapes = ", ".join(str(a.shape) for a in columns)
            raise ValueError(f"factors must have equally many columns; their shapes are {shapes}")
        dtype = np.result_type(np.float32, *columns)
        rank = columns[0].shape[1]
        w = np.ones(rank) if weights is None else np.asarray(weights, dtype=np.float64)
        if w.shape != (rank,):
            raise ValueError(
                f"weights must have shape ({rank},), one a component; theirs is {w.shape}"
            )
        norms = [_lengths(a, float(np.finfo(dtype).eps)) for a in columns]
        total = w * np.prod(norms, axis=0)
        size: Array = np.abs(total)
        order = np.argsort(-size, kind="stable")
        unit = []
        for k, (a, norm) in enumerate(zip(columns, norms, strict=True)):
            divisor = np.where(norm > 0, norm, 1.0)
            if k == 0:
                divisor = np.where(total < 0, -divisor, divisor)
            unit.append(np.ascontiguousarray((a / divisor)[:, order], dtype=dtype))
        self.weights = size[order].astype(dtype)
        self.factors = tuple(unit)

    @property
    def rank(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the modes."""
        return tuple(len(a) for a in self.factors)

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return len(self.factors)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating type of weights and factors."""
        return self.weights.dtype

    @property
    def degrees_of_freedom(self) -> int:
        """The paper's count ``R * (d_1 + ... + d_K)``, section 6.2."""
        return self.rank * sum(self.shape)

    def norm(self) -> float:
        """Frobenius norm, from the factors' Gram matrices alone."""
        gram = np.ones((self.rank, self.rank))
        for a in self.factors:
            wide = a.astype(np.float64, copy=False)
            gram *= wide.T @ wide
        w = self.weights.astype(np.float64, copy=False)
        return math.sqrt(max(0.0, float(w @ gram @ w)))

    def to_dense(self) -> Array:
        """All entries, as an ndarray of shape ``shape``."""
        dense: Array = self[...]
        return dense

    def truncate(self, rank: int) -> KruskalTensor:
        """Keep the ``rank`` heaviest components."""
        return KruskalTensor(self.weights[:rank], [a[:, :rank] for a in self.factors])

    def balanced_factors(self) -> list[Array]:
        """Factors of shapes (d_k, R) that carry the weights in equal shares."""
        share = self.weights ** (1.0 / self.ndim)
        return [a * share for a in self.factors]

    def __getitem__(self, index: Any) -> Any:
        """Compute only the entries that NumPy's basic indexing, with lists, would pick.

        At most one index may be a list or an array of integers or booleans.
        """
        parts = _expand(index, self.ndim)
        rows = []
        for k, (part, a) in enumerate(zip(parts, self.factors, strict=True)):
            try:
                rows.append(a[part])
            except IndexError as error:
                raise IndexError(f"index for axis {k}: {error}") from None
        kept = [a for a in rows if a.ndim == 2]
        single = self.weights.copy()
        for a in rows:
            if a.ndim == 1:
                single = single * a
        if not kept:
            return single.sum()
        if len(kept) == 1:
            return kept[0] @ single
        # A matrix product of two Khatri-Rao halves: as few operations as there are, at GEMM speed.
        half = max(1, len(kept) // 2)
        left = khatri_rao([kept[0] * single, *kept[1:half]])
        right = khatri_rao(kept[half:])
        return (left @ right.T).reshape([len(a) for a in kept])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Dense entries for ``np.asarray``; a view does not exist."""
        if copy is False:
            raise ValueError("the entries of a KruskalTensor are computed, so copy=False cannot be")
        dense: Array = self.to_dense()
        return dense if dtype is None else dense.astype(dtype)

    def __iter__(self) -> Iterator[Any]:
        yield self.weights
        yield self.factors

    def __len__(self) -> int:
        return 2  # as a pair, for TensorLy

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        shown = ", ".join(f"{w:.4g}" for w in self.weights[:4])
        more = ", ..." if self.rank > 4 else ""
        weights = f", weights {shown}{more}" if self.rank else ""
        return f"KruskalTensor of shape {shape}, rank {self.rank}{weights}"


def _lengths(a: Array, eps: float) -> Array:
    """Lengths of the columns; what is 1 up to rounding is 1, so unit columns keep their bits."""
    lengths: Array = np.linalg.norm(a.astype(np.float64, copy=False), axis=0)
    return np.where(np.abs(lengths - 1) <= 8 * eps, 1.0, lengths)


def _expand(index: Any, ndim: int) -> list[Any]:
    """One index per axis: fills in the ellipsis and trailing axes; integers stay integers."""
    given = list(index) if isinstance(index, tuple) else [index]
    holes = [i for i, part in enumerate(given) if part is Ellipsis]
    if len(holes) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if any(part is None for part in given):
        raise IndexError("a KruskalTensor has no new axes; index its to_dense() instead")
    at = holes[0] if holes else len(given)
    before, after = given[:at], given[at + 1 :]
    missing = ndim - len(before) - len(after)
    if missing < 0:
        raise IndexError(f"too many indices: the tensor has {ndim} axes")
    parts = [*before, *[slice(None)] * missing, *after]
    fancy = 0
    for i, part in enumerate(parts):
        if np.ndim(part) == 0 and np.asarray(part).dtype.kind in "iu":
            parts[i] = int(part)
        elif not isinstance(part, slice):
            parts[i] = np.asarray(part, dtype=np.intp if np.size(part) == 0 else None)
            fancy += 1
            if parts[i].ndim != 1 or parts[i].dtype.kind not in "iub":
                raise IndexError(
                    "indices are integers, slices, '...' or one 1-d list of integers or booleans; "
                    "index to_dense() for anything else"
                )
    if fancy > 1:
        raise IndexError("at most one index may be a list; index to_dense() for more")
    chosen = [i for i, part in enumerate(parts) if not isinstance(part, slice)]
    if fancy and chosen != list(range(chosen[0], chosen[-1] + 1)):
        raise IndexError(
            "an integer and a list with a slice between them would move axes, as NumPy has it; "
            "index with the integer first, or index to_dense()"
        )
    return parts


def khatri_rao(factors: Sequence[Array]) -> Array:
    """Column-wise Kronecker product of matrices (d_k, R), of shape (prod d_k, R)."""
    out = factors[0]
    for a in factors[1:]:
        out = (out[:, None, :] * a[None]).reshape(len(out) * len(a), out.shape[1])
    return out
