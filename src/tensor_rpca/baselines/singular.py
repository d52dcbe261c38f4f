"""Maps that act on the singular values of a tensor's unfoldings, without forming the unfoldings.

The left singular vectors of a short, fat unfolding are the eigenvectors of its small Gram
matrix, which costs two passes over the tensor instead of a singular value decomposition. Its
eigenvalues are squares, so singular values below 1e-8 of the largest are noise; soft
thresholding at t is off by at most ``eps s_1^2 / (2 t)``, and falls back on a singular value
decomposition where this could be seen.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse.linalg import eigsh

from tensor_rpca.objective.threads import single_threaded_blas

Array = NDArray[Any]

# Thresholds smaller than this part of the largest singular value need the decomposition proper.
SMALLEST_THRESHOLD = 1e-7
# Slices smaller than this are not worth a BLAS call each.
SLICE_ENTRIES = 4096
# Sides from which on a few eigenvectors cost less than all.
LARGE = 400
# Entries that a thread takes at a time: fixed, so that sums have the same bits for any number.
PIECE = 2**18


class Unfolding:
    """Mode-k unfolding of all tensors of one shape; tensors and results are C-ordered.

    Parameters
    ----------
    shape : tuple of int
    mode : int
    pool : Executor, optional
        Shares the pieces of large tensors, which BLAS is to take with one thread each.
    """

    def __init__(self, shape: tuple[int, ...], mode: int, pool: Executor | None = None):
        self.d = shape[mode]
        self.left = math.prod(shape[:mode])
        self.right = math.prod(shape[mode + 1 :])
        self.short = min(self.d, self.left * self.right)
        self._pool = pool
        self._expected = 5  # singular values above the threshold, the last time

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

    def shrink(self, weight: float) -> Callable[[Array, float, Array], float]:
        """Return the proximal map of ``weight`` times the nuclear norm."""
        return lambda Y, t, out: self.soft_threshold(Y, weight * t, out)

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
        s, U = self.left_singular(T, above=exact_above)
        if exact_above < SMALLEST_THRESHOLD * s[0]:
            s, U = self._decompose(T)
        changed = change(s)
        kept = changed > 0
        factors = np.zeros_like(s)
        np.divide(changed, s, out=factors, where=kept)
        self._scale(T, U[:, kept], factors[kept], out)

    def left_singular(self, T: Array, above: float = 0.0) -> tuple[Array, Array]:
        """Singular values, descending, and left singular vectors, from the Gram matrix.

        Those up to ``above`` may be left out, which pays if few are left of many.
        """
        gram = self._gram(T)
        if self.short >= LARGE and 0.0 < above < math.inf:
            found = self._largest(gram, above)
            if found is not None:
                return found
        squares, U, info = lapack.dsyevd(gram)
        if info != 0:
            return self._decompose(T)
        return np.sqrt(np.maximum(squares[::-1], 0.0)), U[:, ::-1]

    def _largest(self, gram: Array, above: float) -> tuple[Array, Array] | None:
        """Find what exceeds ``above`` by Lanczos iterations, None if it is too much."""
        count = self._expected + 5
        while count <= len(gram) // 8:
            # From a fixed start, for the same bits.
            squares, U = eigsh(gram, count, which="LA", v0=np.ones(len(gram)))
            s = np.sqrt(np.maximum(squares[::-1], 0.0))
            if s[-1] <= above:
                self._expected = int((s > above).sum())
                return s, U[:, ::-1]
            count *= 2
        return None

    def _decompose(self, T: Array) -> tuple[Array, Array]:
        M = np.moveaxis(T.reshape(self.left, self.d, self.right), 1, 0).reshape(self.d, -1)
        U, s, _ = np.linalg.svd(M, full_matrices=False)
        return s, U

    def _gram(self, T: Array) -> Array:
        """Return the unfolding times its transpose, summed in the same order however shared."""
        grams = self._each(_gram_of_piece, self._pieces(T))
        total: Array = functools.reduce(np.add, grams)
        return total

    def _scale(self, T: Array, U: Array, factors: Array, out: Array) -> None:
        """Write ``U diag(factors) U^T`` times the unfolding."""
        if U.shape[1] == 0:
            out[...] = 0.0
            return
        scaled, few = U * factors, 2 * U.shape[1] <= self.d
        onto = np.ascontiguousarray(U.T)
        product = scaled if few else scaled @ onto

        def scale(piece: Array, into: Array) -> None:
            np.matmul(product, onto @ piece if few else piece, out=into)

        self._each(scale, self._pieces(T), self._pieces(out))

    def _each(self, function: Callable[..., Any], *pieces: list[Array]) -> list[Any]:
        share = map if self._pool is None or len(pieces[0]) == 1 else self._pool.map
        return list(share(function, *pieces))

    def _pieces(self, T: Array) -> list[Array]:
        """Views of shapes (slices, d, columns) that make up the unfolding's columns."""
        slices = T.reshape(self.left, self.d, self.right)
        if self.right == 1:  # rows of a matrix, of which the unfolding is the transpose
            slices = slices.reshape(self.left, self.d).T[None]
        axis = 2 if slices.shape[0] == 1 else 0
        length = slices.shape[axis]
        step = max(1, length * PIECE // max(T.size, 1))
        cuts = [slice(begin, begin + step) for begin in range(0, length, step)]
        return [slices[:, :, cut] if axis == 2 else slices[cut] for cut in cuts]


def _gram_of_piece(piece: Array) -> Array:
    # A product of an array with its own transpose is half the work, and NumPy knows.
    if len(piece) == 1:
        gram: Array = piece[0] @ piece[0].T
    elif piece.shape[1] * piece.shape[2] < SLICE_ENTRIES:
        M = np.ascontiguousarray(np.moveaxis(piece, 1, 0)).reshape(piece.shape[1], -1)
        gram = M @ M.T
    else:
        gram = np.zeros((piece.shape[1], piece.shape[1]))
        for part in piece:
            gram += part @ part.T
    return gram


@contextmanager
def workers(size: int) -> Iterator[Executor | None]:
    """Yield as many threads as BLAS would use, and keep BLAS to one; None for small tensors."""
    with single_threaded_blas() as n_threads:
        if n_threads == 1 or size <= PIECE:
            yield None
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                yield pool
