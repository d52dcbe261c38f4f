"""The background of a clip: temporal factors shared by all pixels, and each pixel's own weights.

Background frame t is ``sum_r temporal[t, r] * spatial[r]``. Rows and columns are one mode: a still
image has full matrix rank, so separable components would be spent on it alone. Three steps:

1. On the small clip, with the still image and its brightness as the background, find roughly
   what moves.
2. There, with that left out, solve ``lambda_x ||X||_* + huber(Z - X; lambda_s)`` for the temporal
   factors. What has been left out cannot be absorbed, however long it stays.
3. Regress each pixel's past on the temporal factors, again without what moved, and count its
   residuals: how this pixel looks when it is background.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.decomposition import decompose
from tensor_rpca.recorder import Callback
from tensor_rpca.result import Decomposition
from tensor_rpca.video import kernels
from tensor_rpca.video.density import Density, parts
from tensor_rpca.video.levels import Levels

Array = NDArray[Any]

# In grey levels: beyond it a residual pulls no harder. Sensor noise stays well below.
LIMIT = 8.0
# A pixel that was hidden most of the time borrows from its block, as if seen so many frames.
RIDGE = 2.0
STEPS = 3
# Floats of one strip of pixels with all its frames: 16 MiB.
STRIP = 2**22


@dataclass(frozen=True)
class Model:
    """What a clip's background looks like.

    Attributes
    ----------
    spatial : ndarray of float32 of shape (H * W, C, R)
    table : ndarray of int8 of shape (H * W, bins)
        Evidence for something in front of the background, by residual.
    small : ndarray of float32 of shape (h * w * C, R)
        Spatial factors of the small clip, on which new frames are regressed.
    """

    shape: tuple[int, int, int]
    factor: int
    levels: Levels
    spatial: Array
    table: Array
    small: Array

    def background(self, temporal: Array) -> Array:
        """A background frame in levels, of shape (H, W, C), from its row of temporal factors."""
        frame: Array = self.spatial @ temporal.astype(np.float32)
        return frame.reshape(self.shape)


def temporal_factors(
    small: Array, moving: Array, rank: int, max_iter: int, seed: int, callback: Callback | None
) -> tuple[Array, Array, Decomposition]:
    """Solve for the background of the small clip (T, h, w, C), ``moving`` (T, h, w) left out.

    Returns temporal factors of shape (T, R) with mean square 1, spatial ones of shape
    (h * w * C, R), and the decomposition.
    """
    T = len(small)
    Z = small.reshape(T, -1)
    rank = min(rank, *Z.shape)
    known = np.repeat(~moving.reshape(T, -1), small.shape[3], axis=1)
    known[:, ~known.any(axis=0)] = True  # never seen: better what hides it than nothing
    known[~known.any(axis=1)] = True
    still = np.median(Z[:: max(1, T // 50)], axis=0)
    generator = np.random.default_rng(seed)
    A = 0.1 * generator.standard_normal((T, rank))
    B = generator.standard_normal((Z.shape[1], rank))
    A[:, 0], B[:, 0] = 1.0, still + 1e-3
    found = decompose(
        Z,
        rank,
        lambda_x=LIMIT,
        lambda_s=LIMIT,
        mask=known,
        solver="lbfgs",
        max_iter=max_iter,
        init=[A, B],
        random_state=seed,
        callback=callback,
    )
    X = found.low_rank
    if not X.rank:  # nothing but black, or nearly
        return np.ones((T, 1)), np.array(still, np.float32)[:, None], found
    spatial = X.factors[1] * (X.weights / np.sqrt(T))
    return X.factors[0] * np.sqrt(T), spatial.astype(np.float32), found


def spatial_factors(
    clip: Array,
    levels: Levels,
    temporal: Array,
    known: Array,
    place: Array,
    start: Array,
    pool: ThreadPoolExecutor,
    n_threads: int,
) -> tuple[Array, Array]:
    """Every pixel's weights (H * W, C, R) and its table of evidence (H * W, bins).

    Parameters
    ----------
    clip : ndarray of shape (T, H, W, C)
    temporal : ndarray of shape (T, R)
    known : ndarray of uint8 of shape (h * w, T)
    place : ndarray of int32 of shape (H, W)
        Which row of ``known`` and ``start`` a pixel goes by.
    start : ndarray of shape (h * w, C, R)
    """
    T, H, W, C = clip.shape
    R = temporal.shape[1]
    A = np.ascontiguousarray(temporal.T, np.float32)
    spatial = np.empty((H, W, C, R), np.float32)
    begin = [np.ascontiguousarray(start[:, c], np.float32) for c in range(C)]
    density = Density(H, W, pool, n_threads)
    for rows in _strips(H, W * C * T):
        counts = np.zeros((rows.stop - rows.start, W, kernels.N_BINS), np.uint16)

        def visit(part: slice, counts: Array = counts, top: int = rows.start) -> None:
            block = levels.of(clip[:, part]).reshape(T, -1, C)
            at = np.ascontiguousarray(place[part].ravel())
            # A colour channel is a pixel of its own, with its block's state.
            e = np.empty((len(at), C, T), np.float32)
            for c in range(C):
                Z = np.ascontiguousarray(block[:, :, c].T, np.float32)
                b, r = np.empty((len(at), R), np.float32), np.empty(Z.shape, np.float32)
                kernels.regress_pixels(Z, known, at, A, begin[c], RIDGE, LIMIT, STEPS, b, r)
                spatial[part, :, c] = b.reshape(-1, W, R)
                e[:, c] = r
            here = counts[part.start - top : part.stop - top].reshape(-1, kernels.N_BINS)
            kernels.count_residuals(e, known, at, here)

        list(pool.map(visit, parts(rows, n_threads)))
        density.add(counts)
    return spatial.reshape(H * W, C, R), density.table.reshape(H * W, -1)


def _strips(height: int, per_row: int) -> Iterator[slice]:
    step = max(1, STRIP // per_row)
    for first in range(0, height, step):
        yield slice(first, min(first + step, height))
