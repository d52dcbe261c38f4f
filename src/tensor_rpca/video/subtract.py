"""subtract_background(): what is there, what moves, and where."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.recorder import Callback
from tensor_rpca.result import Decomposition, coo_from_parts
from tensor_rpca.video.background import Model, spatial_factors, temporal_factors
from tensor_rpca.video.check import check_clip, check_roi
from tensor_rpca.video.levels import Levels
from tensor_rpca.video.mask import REACH, frame_blocks, grown, in_order, objects, smoothed
from tensor_rpca.video.moving import guess_moving, moving_against, scored
from tensor_rpca.video.small import factor_for, places, shrink

Array = NDArray[Any]
Tick = Callable[[int, int], None]

RANK = 10
MAX_ITER = 30


@dataclass(frozen=True, repr=False, eq=False)
class Separation:
    """A clip taken apart.

    What is as large as the clip is computed when first asked for, and kept.

    Attributes
    ----------
    background : ndarray like the clip
    foreground : ndarray like the clip
        The clip where the mask is True, 0 elsewhere.
    mask : ndarray of bool of shape (T, H, W)
    decomposition : Decomposition
        Of the clip as a matrix, frames by pixels (by colours): ``low_rank`` is the background in
        grey levels, ``sparse`` what the mask's pixels differ from it. Objective, history and
        certificate are those of the solve, which is one of a small version of the clip.
    temporal : ndarray of shape (T, R)
        Temporal factors.
    model : Model
        What is known of the background; what :meth:`update` goes on with.
    seconds : float
    """

    clip: Array
    temporal: Array
    model: Model
    packed: Array
    latest: tuple[Array, ...]
    solve: Decomposition
    threshold: float
    roi: Array | None
    seconds: float
    following: Model | None = None

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Where something moves or stands that does not belong to the background."""
        return self._mask

    @cached_property
    def _mask(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.packed, axis=2, count=self.clip.shape[2]).view(np.bool_)

    def __repr__(self) -> str:
        T, H, W = self.clip.shape[:3]
        return (
            f"Separation of {T} frames of {W} x {H}: background of rank {self.temporal.shape[1]}, "
            f"{self.seconds:.2f} s"
        )

    def mask_frame(self, t: int) -> NDArray[np.bool_]:
        """One frame of the mask."""
        return np.unpackbits(self.packed[t], axis=1, count=self.clip.shape[2]).view(np.bool_)

    def background_frame(self, t: int) -> Array:
        """One frame of the background, as the clip's frames are."""
        levels = self.model.background(self.temporal[t]).reshape(self.clip.shape[1:])
        if self.clip.dtype == np.uint8:
            return np.clip(np.rint(levels), 0, 255).astype(np.uint8)
        return self.model.levels.back(levels, self.clip.dtype)

    def foreground_frame(self, t: int) -> Array:
        """One frame of the foreground."""
        mask = self.mask_frame(t)
        frame: Array = self.clip[t] * (mask if self.clip.ndim == 3 else mask[:, :, None])
        return frame

    @cached_property
    def background(self) -> Array:
        """What is there."""
        return np.stack([self.background_frame(t) for t in range(len(self.clip))])

    @cached_property
    def foreground(self) -> Array:
        """What moves."""
        return np.stack([self.foreground_frame(t) for t in range(len(self.clip))])

    @cached_property
    def decomposition(self) -> Decomposition:
        """The background's factors, and the foreground as a sparse array."""
        H, W, C = self.model.shape
        T, R = self.temporal.shape
        spatial = self.model.spatial.reshape(H * W * C, R)
        frames, pixels, values = [], [], []
        for t in range(T):
            e = self.model.levels.of(self.clip[t]).reshape(H, W, C) - self.model.background(
                self.temporal[t]
            )
            at = np.flatnonzero(np.repeat(self.mask_frame(t).ravel(), C))
            frames.append(np.full(len(at), t, np.int32))
            pixels.append(at.astype(np.int32))
            values.append(e.ravel()[at].astype(np.float32))
        coords = (np.concatenate(frames), np.concatenate(pixels))
        low_rank = KruskalTensor(None, [self.temporal, spatial])
        solve = self.solve
        return Decomposition(
            low_rank=low_rank,
            sparse=coo_from_parts(np.concatenate(values), coords, (T, H * W * C)),
            lambda_x=solve.lambda_x,
            lambda_s=solve.lambda_s,
            objective=solve.objective,
            n_iter=solve.n_iter,
            n_evaluations=solve.n_evaluations,
            converged=solve.converged,
            message=solve.message,
            history=solve.history,
            certificate=solve.certificate,
            seconds=self.seconds,
        )

    def update(self, frames: ArrayLike) -> Separation:
        """Separate frames that arrive later, against the background as it is known.

        Parameters
        ----------
        frames : array-like of shape (n, H, W) or (n, H, W, C)
            Of the clip's dtype. One or more; several at once can vote for each other.

        Returns
        -------
        Separation
            Of the new frames. Its own :meth:`update` goes on from there: the spatial factors
            follow the frames slowly.
        """
        from tensor_rpca.video.update import separate_later

        return separate_later(self, frames)


def subtract_background(
    clip: ArrayLike,
    *,
    rank: int = RANK,
    threshold: float = 0.0,
    roi: ArrayLike | None = None,
    max_iter: int = MAX_ITER,
    random_state: int = 0,
    callback: Callback | None = None,
    tick: Tick | None = None,
) -> Separation:
    """Separate what moves from what is there, in a clip of a camera that stands still.

    Parameters
    ----------
    clip : array-like of shape (T, H, W) or (T, H, W, C)
        Frames first; of any real dtype. uint8 is never converted whole.
    rank : int
        Temporal factors of the background, at most: light that drifts, things that go to and fro.
    threshold : float
        Log odds from which on a pixel is foreground; 0 is where both are equally likely.
    roi : array-like of bool of shape (H, W), or (x, y, width, height), optional
        Where to look; the mask is False elsewhere.
    max_iter : int
        Iterations of the solver.
    random_state : int
    callback : callable, optional
        Called with a State after each iteration; returning True stops the solver.
    tick : callable, optional
        Called with (frames done, frames in all) while the mask is made.

    Returns
    -------
    Separation

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.video import subtract_background
    >>> rng = np.random.default_rng(0)
    >>> clip = (rng.random((40, 50)) * 60 + rng.normal(80, 2, (30, 40, 50))).astype(np.uint8)
    >>> for t in range(30):
    ...     clip[t, 10:20, t : t + 10] = 220
    >>> result = subtract_background(clip)
    >>> bool(result.mask[12, 15, 17]), bool(result.mask[12, 30, 17])
    (True, False)
    """
    began = time.perf_counter()
    given = check_clip(clip)
    T, H, W = given.shape[:3]
    rank = validation.check_rank(rank, (T, H * W))
    if not np.isfinite(threshold):
        raise ValueError(
            f"threshold={threshold} is no log odds; 0 is where both are equally likely"
        )
    region = check_roi(roi, H, W)
    frames = given.reshape(T, H, W, -1) if given.ndim == 3 else given
    levels = Levels.for_clip(given)
    with workers() as (pool, n_threads):
        factor = factor_for(H, W)
        small = shrink(frames, levels, factor)
        moving = guess_moving(small, pool, n_threads)
        temporal, start, solve = temporal_factors(
            small, moving, rank, max_iter, random_state, callback
        )
        R, C = temporal.shape[1], frames.shape[3]
        blocks = start.reshape(-1, C, R)
        moving = moving_against(temporal, blocks, small, moving, pool, n_threads)
        known = np.ascontiguousarray(~grown(moving).reshape(T, -1).T).astype(np.uint8)
        place = places(H, W, factor)
        spatial, table = spatial_factors(
            frames, levels, temporal, known, place, blocks, pool, n_threads
        )
        model = Model((H, W, C), factor, levels, spatial, table, start)
        packed, latest = pack_masks(frames, model, temporal, threshold, region, pool, tick)
    return Separation(
        clip=given,
        temporal=temporal,
        model=model,
        packed=packed,
        latest=latest,
        solve=solve,
        threshold=threshold,
        roi=region,
        seconds=time.perf_counter() - began,
    )


def pack_masks(
    frames: Array,
    model: Model,
    temporal: Array,
    threshold: float,
    roi: Array | None,
    pool: ThreadPoolExecutor,
    tick: Tick | None,
    past: Sequence[Array] = (),
) -> tuple[NDArray[np.uint8], tuple[Array, ...]]:
    """Masks of all frames, eight pixels a byte, and the evidence of the last ones."""
    T, H, W, _ = frames.shape
    packed = np.empty((T, H, -(-W // 8)), np.uint8)
    latest: deque[Array] = deque(past, REACH)

    def evidence() -> Iterator[Array]:
        for e in scored(frames, model.levels, temporal, model.spatial, model.table, pool):
            latest.append(e)
            yield e

    def pack(evidence: Array) -> Array:
        return np.packbits(objects(evidence, threshold, roi), axis=2)

    blocks = frame_blocks(frames.shape)
    stream = smoothed(evidence(), past)
    stacks = (np.stack(list(islice(stream, b.stop - b.start))) for b in blocks)
    for block, bits in zip(blocks, in_order(pool, pack, stacks), strict=True):
        packed[block] = bits
        if tick is not None:
            tick(block.stop, T)
    return packed, tuple(latest)


@contextmanager
def workers() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Threads for loops over pixels, as many as BLAS would use."""
    with single_threaded_blas() as n, ThreadPoolExecutor(n) as pool:
        yield pool, n
