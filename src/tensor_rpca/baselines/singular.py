"""Maps that act on the singular values of a tensor's unfoldings, without forming the unfoldings.

The left singular vectors of a short, fat unfolding are the eigenvectors of its small Gram
matrix, which costs two passes over the tensor instead of a singular value decomposition. Its
eigenvalues are squares, so singular values below 1e-8 of the largest are noise; soft
thresholding at t is off by at most ``eps s_1^2 / (2 t)``, and falls back on a singular value
decomposition where this could be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

Array = NDArray[Any]

# Thresholds smaller than this part of the largest singular value need the decomposition proper.
SMALLEST_THRESHOLD = 1e-7
# Slices smaller than this are not worth a BLAS call each.
SLICE_ENTRIES = 4096


class Unfolding:
    """Mode-k unfolding of all tensors of one shape; tensors and results are C-ordered."""

    def __init__(self, shape: tuple[int, ...], mode: int):
        self.d = shape[mode]
        self.left = math.prod(shape[:mode])
        self.right = math.prod(shape[mode + 1 :])
        self.short = min(self.d, self.left * self.right)

    def soft_threshold(self, T: Array, threshold: float, out: Array) -> float:
        """Write the tensor with singular values ``max(s - t, 0)``; return their sum."""
        shrunk = 0.0

        def change(s: Array) -> Array:
            nonlocal shrunk
            kept = np.maximum(s - threshold, 0.0)
            shrunk = float(kept.sum())
            return kept

        self.change(T, change, out, exact_above=threshold)
        return shrunk

    def truncate(self, T: Array, rank: int, out: Array) -> None:
        """Write the nearest tensor whose unfolding has at most this rank."""

        def change(s: Array) -> Array:
            kept = s.copy()
            kept[rank:] = 0.0
            return kept

        self.change(T, change, out)

    def change(
        self,
        T: Array,
        change: Callable[[Array], Array],
        out: Array,
        exact_above: float = math.inf,
    ) -> None:
        """Write the tensor with singular values ``change(s)``, s descending, at most s."""
        if self.d > self.short:  # tall: its transpose is short and fat
            M = np.moveaxis(T.reshape(self.left, self.d, self.right), 1, 0)
            M = np.ascontiguousarray(M.reshape(self.d, -1).T)
            result = np.empty_like(M)
            Unfolding(M.shape, 0).change(M, change, result, exact_above)
            parts = result.T.reshape(self.d, self.left, self.right)
            out.reshape(self.left, self.d, self.right)[...] = np.moveaxis(parts, 0, 1)
            return
        s, U = self.left_singular(T)
        if exact_above < SMALLEST_THRESHOLD * s[0]:
            s, U = self._decompose(T)
        changed = change(s)
        kept = changed > 0
        factors = np.zeros_like(s)
        np.divide(changed, s, out=factors, where=kept)
        self._scale(T, U[:, kept], factors[kept], out)

    def left_singular(self, T: Array) -> tuple[Array, Array]:
        """Singular values, descending, and left singular vectors, from the Gram matrix."""
        squares, U, info = lapack.dsyevd(self._gram(T), lower=0, overwrite_a=1)
        if info != 0:
            return self._decompose(T)
        return np.sqrt(np.maximum(squares[::-1], 0.0)), U[:, ::-1]

    def _decompose(self, T: Array) -> tuple[Array, Array]:
        M = np.moveaxis(T.reshape(self.left, self.d, self.right), 1, 0).reshape(self.d, -1)
        U, s, _ = np.linalg.svd(M, full_matrices=False)
        return s, U

    def _gram(self, T: Array) -> Any:
        """Upper triangle of the unfolding times its transpose."""
        if self.left == 1:
            return dsyrk(1.0, T.reshape(self.d, self.right).T, trans=1)
        if self.right == 1:
            return dsyrk(1.0, T.reshape(self.left, self.d).T)
        slices = T.reshape(self.left, self.d, self.right)
        if self.d * self.right < SLICE_ENTRIES:
            M = np.ascontiguousarray(np.moveaxis(slices, 1, 0)).reshape(self.d, -1)
            return dsyrk(1.0, M.T, trans=1)
        gram = np.zeros((self.d, self.d), order="F")
        for part in slices:
            gram = dsyrk(1.0, part.T, beta=1.0, c=gram, trans=1, overwrite_c=1)
        return gram

    def _scale(self, T: Array, U: Array, factors: Array, out: Array) -> None:
        """Write ``U diag(factors) U^T`` times the unfolding."""
        if U.shape[1] == 0:
            out[...] = 0.0
            return
        few = 2 * U.shape[1] <= self.d
        scaled = U * factors
        if self.right == 1:
            M, into = T.reshape(self.left, self.d), out.reshape(self.left, self.d)
            np.matmul(M @ U, scaled.T, out=into) if few else np.matmul(M, U @ scaled.T, out=into)
            return
        slices = T.reshape(self.left, self.d, self.right)
        into_slices = out.reshape(self.left, self.d, self.right)
        if few:
            np.matmul(scaled, np.matmul(np.ascontiguousarray(U.T), slices), out=into_slices)
        else:
            np.matmul(scaled @ U.T, slices, out=into_slices)
