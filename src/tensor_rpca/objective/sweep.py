"""One pass over Z: the Huber loss of Z - X and its gradient for every factor.

This is the engine for arrays in (or mapped into) this machine's memory. Per tile, with
``L`` and ``P`` the Khatri-Rao products of the left and the right modes' factors::

    E   = clip(L P^T - Z, lambda_s)       one matrix product, one pass over the tile
    phi = sum E * (X - Z - E / 2)         in the same pass
    d phi / d L = E P,  d phi / d P = E^T L      two matrix products

and the factors' own gradients follow from those of L and P at a cost that a tile's entries
dwarf. So 6 N R operations and one read of Z are all there is; X is never held.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import get_index_dtype

from tensor_rpca.objective import kernels
from tensor_rpca.objective.tally import Tally
from tensor_rpca.objective.tiles import Box, box_shape, plan_sweep

Array = NDArray[Any]


# How many entries the survey keeps to find a typical one.
SAMPLE_SIZE = 2**15


@dataclass(frozen=True)
class Survey:
    """What one look at a tensor tells; ``seen[k][i]``: slice i of mode k has an entry."""

    n_observed: int
    n_infinite: int
    largest: float
    typical: float
    seen: tuple[NDArray[np.bool_], ...]


class Sweep:
    """Passes over one tensor, tile by tile, on several threads.

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K)
        Read by tiles only. NaN marks missing entries.
    mask : ndarray of bool of the same shape, or None
        False marks missing entries.
    dtype : float64 or float32
        What is computed in; other dtypes are converted a tile at a time.
    n_threads : int
    """

    def __init__(self, Z: Array, mask: Array | None, dtype: np.dtype[Any], n_threads: int):
        # Memory order decides which way tiles run; a transposed view costs nothing.
        self._axes = _memory_order(Z)
        self._Z = Z if self._axes == tuple(range(Z.ndim)) else Z.transpose(self._axes)
        self._mask = None if mask is None else mask.transpose(self._axes)
        self._dtype = dtype
        self._per_unit = dtype.type(1)
        self._n_threads = n_threads
        self._pool = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None
        self._release()

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._release()  # what comes next can use the memory

    def _release(self) -> None:
        self._planned: tuple[int, tuple[int, ...]] | None = None
        self._workspaces: list[_Workspace] = []
        self._spare: list[list[Array]] = []

    def measure_in(self, unit: float) -> None:
        """From now on see ``Z / unit``."""
        self._per_unit = self._dtype.type(1.0 / unit)

    def in_units(self) -> Array:
        """All of ``Z / unit`` in float64, NaN where missing; for small tensors."""
        Z = self._Z.astype(np.float64) * float(self._per_unit)
        if self._mask is not None:
            Z[~self._mask] = np.nan
        return Z.transpose(np.argsort(self._axes))

    def survey(self) -> Survey:
        """Read Z once: what is missing, what is infinite, and how large entries are."""
        self._prepare(1)
        every = max(1, self._Z.size // SAMPLE_SIZE) | 1
        parts: dict[tuple[int, ...], tuple[int, int, float, float, Array]] = {}
        seen = [np.zeros(d, np.bool_) for d in self._Z.shape]
        lock = threading.Lock()

        def visit(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            block = self._load(box, work, (1, -1))
            n_observed, n_infinite, total, top = kernels.survey_block(block)
            sample = np.abs(block[0, ::every])
            parts[_corner(box)] = (n_observed, n_infinite, total, top, sample[sample > 0])
            present: Array = np.asarray(True)
            if n_observed < block.size:
                present = ~np.isnan(block).reshape(box_shape(box))
            with lock:
                for k, part in enumerate(box):
                    others = tuple(j for j in range(len(box)) if j != k)
                    seen[k][part] |= present.any(axis=others) if present.ndim else present
            return 0.0

        self._run(visit, self._nothing())
        observed, infinite, totals, tops, samples = zip(
            *(parts[corner] for corner in sorted(parts)), strict=True
        )
        sample = np.concatenate(samples)
        mean = math.fsum(totals) / max(1, sum(observed))
        return Survey(
            n_observed=sum(observed),
            n_infinite=sum(infinite),
            largest=max(tops),
            typical=float(np.median(sample)) if sample.size else mean,
            seen=tuple(seen[self._axes.index(k)] for k in range(len(seen))),
        )

    def loss_and_gradient(
        self,
        factors: Sequence[Array],
        gradients: Sequence[Array],
        threshold: float,
        table: Array | None = None,
        directions: Sequence[Array] | None = None,
    ) -> float:
        """Loss of the residual; overwrites ``gradients``, arrays like the factors.

        It is the Huber loss, or the one in ``table`` with ``threshold`` as its scale.

        With ``directions``, arrays of shapes (d_k, n), column s of ``gradients[k]`` becomes
        the loss's derivative contracted with column s of all directions but the k-th.
        """
        A = [np.ascontiguousarray(factors[k]) for k in self._axes]
        B = A if directions is None else [np.ascontiguousarray(directions[k]) for k in self._axes]
        G = [gradients[k] for k in self._axes]
        self._prepare(A[0].shape[1])
        limit = self._dtype.type(threshold)

        def visit(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            L, P, X, Z = self._form(box, A, work)
            value: float
            if table is None:
                value = kernels.clip_residual(X, Z, self._per_unit, limit)
            else:
                value = kernels.tabulated_residual(X, Z, self._per_unit, limit, table)
            split, parts, into = self._plan.split, _cut(B, box), _cut(partial, box)
            left, right = parts[:split], parts[split:]
            if B is A:  # L will have served by then: its buffer takes its gradient
                dL, dP = work.L[: len(L)], work.dP[: len(P)]
            else:
                L, P = _product(left, _room(left)), _product(right, _room(right))
                dL, dP = _room(left), _room(right)
            _pull_back(np.matmul(X.T, L, out=dP), right, into[split:])
            _pull_back(np.matmul(X, P, out=dL), left, into[:split])
            return value

        return self._run(visit, G)

    def gram(
        self, factors: Sequence[Array], threshold: float, modes: Sequence[int]
    ) -> NDArray[np.float64]:
        """Gram matrix ``M M^T`` of the clipped residual, unfolded with ``modes`` as its rows.

        Of shape (m, m), m the product of these modes' lengths; summed in float64. Without
        modes M is a single row, and the result its squared norm.
        """
        A = [np.ascontiguousarray(factors[k]) for k in self._axes]
        rows = tuple(self._axes.index(k) for k in modes)
        order = rows + tuple(k for k in range(len(A)) if k not in rows)
        self._prepare(A[0].shape[1], rows)
        limit = self._dtype.type(threshold)
        m = math.prod(len(A[k]) for k in rows)

        def visit(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            _, _, X, Z = self._form(box, A, work)
            loss: float = kernels.clip_residual(X, Z, self._per_unit, limit)
            M = X.reshape(box_shape(box)).transpose(order).reshape(m, -1).astype(float, copy=False)
            partial[0][...] += M @ M.T
            return loss

        total = np.empty((m, m))
        self._run(visit, [total], disjoint=False)
        return total

    def sparse_part(
        self, factors: Sequence[Array], threshold: float
    ) -> tuple[float, tuple[Array, ...], Array]:
        """Huber loss, then coordinates and values of ``S = shrink(Z - X, threshold)``."""
        A = [np.ascontiguousarray(factors[k]) for k in self._axes]
        self._prepare(A[0].shape[1])
        limit = self._dtype.type(threshold)
        counts = dict.fromkeys(map(_corner, self._plan.boxes()), 0)

        def shrink(box: Box, work: _Workspace) -> tuple[float, Array]:
            _, _, X, Z = self._form(box, A, work)
            loss: float = kernels.shrink_residual(X, Z, self._per_unit, limit)
            return loss, X.reshape(box_shape(box))

        def count(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            loss, S = shrink(box, work)
            counts[_corner(box)] = int(np.count_nonzero(S))
            return loss

        # Two passes, the first to count: what is held of S is the result alone.
        loss = self._run(count, self._nothing())
        total = sum(counts.values())
        first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
        index = get_index_dtype(maxval=max(self._Z.shape))  # as narrow as SciPy's own
        coords = [np.empty(total, index) for _ in A]
        values = np.empty(total, self._dtype)

        def fill(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            _, S = shrink(box, work)
            corner = _corner(box)
            here = slice(first[corner], first[corner] + counts[corner])
            at = np.nonzero(S)
            values[here] = S[at]
            for coord, places, start in zip(coords, at, corner, strict=True):
                np.add(places, start, out=coord[here], casting="unsafe")
            return 0.0

        self._run(fill, self._nothing())
        return loss, tuple(coords[self._axes.index(k)] for k in range(len(A))), values

    def tally(self, factors: Sequence[Array]) -> Tally:
        """How large the residuals Z - X are."""
        A = [np.ascontiguousarray(factors[k]) for k in self._axes]
        self._prepare(A[0].shape[1])
        parts: dict[tuple[int, ...], Array] = {}

        def visit(box: Box, work: _Workspace, partial: Sequence[Array]) -> float:
            _, _, X, Z = self._form(box, A, work)
            bins = parts[_corner(box)] = np.zeros((kernels.N_BINS, 2))
            kernels.tally_residual(X, Z, self._per_unit, bins)
            return 0.0

        self._run(visit, self._nothing())
        return Tally(np.sum([parts[corner] for corner in sorted(parts)], axis=0))

    def _nothing(self) -> list[Array]:
        """Stand-ins for gradients where a pass computes none."""
        return [np.empty((0, 1), self._dtype)] * self._Z.ndim

    def _prepare(self, rank: int, whole: tuple[int, ...] = ()) -> None:
        """Plan the pass and make the buffers; those of the last pass serve again if they fit."""
        if self._planned == (rank, whole):
            return
        self._plan = plan_sweep(self._Z.shape, rank, whole)
        self._planned = rank, whole
        self._spare = []
        n_workers = min(self._n_threads, len(self._plan.chunks))
        rows, columns = self._plan.rows, self._plan.columns
        self._workspaces = [_Workspace(rows, columns, rank, self._dtype) for _ in range(n_workers)]

    def _form(self, box: Box, A: Sequence[Array], work: _Workspace) -> tuple[Array, ...]:
        """The tile's L, P, X = L P^T and Z, the last as a contiguous matrix."""
        split = self._plan.split
        parts = _cut(A, box)
        L = _product(parts[:split], work.L)
        P = _product(parts[split:], work.P)
        X = work.X[: len(L) * len(P)].reshape(len(L), len(P))
        np.matmul(L, P.T, out=X)
        return L, P, X, self._load(box, work, X.shape)

    def _load(self, box: Box, work: _Workspace, shape: tuple[int, int]) -> Array:
        """A tile of Z as a contiguous matrix of our dtype with NaN for what is missing."""
        block = self._Z[box]
        usable = (
            self._mask is None
            and block.dtype == self._dtype
            and block.flags.c_contiguous
            and block.flags.aligned
        )
        if not usable:
            raw, block = block, work.Z[: block.size].reshape(block.shape)
            np.copyto(block, raw, casting="unsafe")
            if self._mask is not None:
                np.copyto(block, np.nan, where=~self._mask[box])
        return block.reshape(shape)

    def _run(self, visit: Callable[..., float], G: Sequence[Array], disjoint: bool = True) -> float:
        """Visit every tile; add losses and gradients up in the plan's order, not in time's.

        ``disjoint``: G has one array a mode, and a tile adds to its own rows of it only.

        Workers take chunks in order. A finished chunk's gradients wait in their accumulator
        until all earlier ones are added, so a slow thread delays nobody and the sum is
        always the same one. Whoever holds the next chunk also holds an accumulator, hence
        somebody can always go on.
        """
        plan = self._plan
        for g in G:
            g[...] = 0
        if len(plan.chunks) == 1:
            return sum(visit(box, self._workspaces[0], G) for box in plan.chunks[0])

        n_workers = len(self._workspaces)
        shared = G[plan.chunk_mode] if disjoint else None  # chunks own disjoint rows of it
        free: SimpleQueue[list[Array]] = SimpleQueue()
        fit = self._spare and [a.shape for a in self._spare[0]] == [g.shape for g in G]
        for _ in range(n_workers + 2):
            kept = self._spare.pop() if fit else map(np.zeros_like, G)
            free.put([shared if g is shared else part for g, part in zip(G, kept, strict=True)])
        lock = threading.Lock()
        waiting: dict[int, tuple[float, list[Array]]] = {}
        losses: list[float] = []
        todo = iter(enumerate(plan.chunks))
        failed = threading.Event()

        def worker(work: _Workspace) -> None:
            partial = free.get()
            try:
                while not failed.is_set():
                    with lock:
                        index, chunk = next(todo, (-1, ()))
                    if index < 0:
                        break
                    waiting[index] = sum(visit(box, work, partial) for box in chunk), partial
                    with lock:
                        while len(losses) in waiting:
                            loss, done = waiting.pop(len(losses))
                            losses.append(loss)
                            for g, part in zip(G, done, strict=True):
                                if g is not shared:
                                    g += part
                                    part[...] = 0
                            free.put(done)
                    partial = free.get()
            except BaseException:
                failed.set()
                raise
            finally:
                # Whoever ends hands an accumulator on, so that nobody waits for one in vain.
                free.put(partial)

        others = []
        if self._pool is not None:
            others = [self._pool.submit(worker, work) for work in self._workspaces[1:]]
        try:
            worker(self._workspaces[0])
        finally:
            for other in others:
                other.exception()  # waits; the result below raises
        for other in others:
            other.result()
        if G[0].size:  # all zero again, and as good as new
            self._spare = [free.get() for _ in range(n_workers + 2)]
        return math.fsum(losses)


class _Workspace:
    """One thread's buffers for a tile."""

    def __init__(self, rows: int, columns: int, rank: int, dtype: np.dtype[Any]):
        self.X = np.empty(rows * columns, dtype)
        self.Z = np.empty(rows * columns, dtype)  # touched only if Z must be converted
        self.L = np.empty((rows, rank), dtype)
        self.P, self.dP = (np.empty((columns, rank), dtype) for _ in range(2))


def _corner(box: Box) -> tuple[int, ...]:
    return tuple(part.start for part in box)


def _memory_order(Z: Array) -> tuple[int, ...]:
    """Axes by falling stride: the order in which memory is laid out."""
    return tuple(sorted(range(Z.ndim), key=lambda k: (-abs(Z.strides[k]), k)))


def _cut(arrays: Sequence[Array], box: Box) -> list[Array]:
    return [a[part] for a, part in zip(arrays, box, strict=True)]


def _product(factors: Sequence[Array], out: Array) -> Array:
    """Khatri-Rao product of one or more factors; a single one is returned as it is."""
    if len(factors) == 1:
        return factors[0]
    first, rest = factors[0], factors[1]
    if len(factors) > 2:
        rest = _product(factors[1:], _room(factors[1:]))
    target = out[: len(first) * len(rest)]
    kernels.khatri_rao(first, rest, target)
    return target


def _pull_back(T: Array, factors: Sequence[Array], gradients: Sequence[Array]) -> None:
    """Add to the factors' gradients, given the gradient T of their Khatri-Rao product."""
    if len(factors) == 1:
        gradients[0][...] += T
        return
    if len(factors) == 2:
        kernels.split_khatri_rao(T, *factors, *gradients)
        return
    rest = _product(factors[1:], _room(factors[1:]))
    gradient = np.zeros_like(rest)
    kernels.split_khatri_rao(T, factors[0], rest, gradients[0], gradient)
    _pull_back(gradient, factors[1:], gradients[1:])


def _room(factors: Sequence[Array]) -> Array:
    """Return an empty array for the factors' Khatri-Rao product."""
    return np.empty((math.prod(len(f) for f in factors), factors[0].shape[1]), factors[0].dtype)
