"""A first guess, on the small clip, at what moves: what the background must not learn from."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tensor_rpca.video.background import spatial_factors
from tensor_rpca.video.kernels import score_frame
from tensor_rpca.video.levels import Levels
from tensor_rpca.video.mask import (
    BESIDE,
    SIGMA,
    frame_blocks,
    grown,
    in_order,
    objects,
    smoothed,
    widened,
)

Array = NDArray[Any]

# Sample of frames for medians over time.
SAMPLE = 100
# Residuals count as large beyond so many times their usual size, which is at least FLOOR levels.
LARGE, FLOOR = 1.75, 10.0
EDGE = 0.7
# How many times stronger an edge must be in the background than in the frame, to be its own.
GHOST = 1.5
# A place must have been seen revealed so many times.
REVEALED = 3


def guess_moving(small: Array, pool: ThreadPoolExecutor, n_threads: int) -> NDArray[np.bool_]:
    """Where something seems to move in a small clip (T, h, w, C); of shape (T, h, w).

    The background is the median image, as bright as each frame asks for. Where that shows an
    object which most frames have and others lack, the others are right: see :func:`ghosts`.
    """
    T, h, w, C = small.shape
    still = np.median(small[:: max(1, T // SAMPLE)], axis=0).astype(np.float32)
    gains = np.array([_brightness(frame, still) for frame in small], np.float32)

    def against(still: Array, hidden: Array) -> NDArray[np.bool_]:
        spatial = still.reshape(-1, C, 1)
        return moving_against(gains[:, None], spatial, small, hidden, pool, n_threads)

    moving = against(still, np.zeros((T, h, w), np.bool_))
    edges = steepness(still[None])

    def reveal(block: slice) -> NDArray[np.bool_]:
        behind = np.abs(gains[block, None, None]) * edges
        return ghosts(moving[block], steepness(small[block]), behind)

    revealed = np.concatenate(list(pool.map(reveal, frame_blocks(small.shape))))
    often = revealed.sum(axis=0) >= max(REVEALED, T // 50)
    if not often.any():
        return moving
    seen = small[:, often] / gains[:, None, None]
    seen[~revealed[:, often]] = np.nan
    still[often] = np.nanmedian(seen, axis=0)
    return against(still, ~revealed & often)


def moving_against(
    temporal: Array,
    spatial: Array,
    small: Array,
    hidden: Array,
    pool: ThreadPoolExecutor,
    n_threads: int,
) -> NDArray[np.bool_]:
    """What moves before a background of temporal (T, R) and spatial (h * w, C, R) factors.

    What is unusually far from it is left out when each pixel's past is looked at; usual is what
    it is where ``hidden`` (T, h, w) does not say that something covers it.
    """
    T, h, w, _ = small.shape
    temporal = temporal.astype(np.float32)
    size = np.empty((T, h, w), np.uint8)

    blocks = frame_blocks(small.shape)
    flat = spatial.reshape(-1, spatial.shape[-1])

    def measure(block: slice) -> None:
        away = np.abs(small[block] - (temporal[block] @ flat.T).reshape(small[block].shape))
        size[block] = np.minimum(soft(away.max(axis=3)), 255)

    list(pool.map(measure, blocks))
    limit = LARGE * (ndimage.gaussian_filter(_usual(size, hidden), 3.0) + FLOOR)
    large = np.concatenate(list(pool.map(lambda b: _around(size[b], limit), blocks)))
    known = np.ascontiguousarray(~large.reshape(T, -1).T).astype(np.uint8)
    place = np.arange(h * w, dtype=np.int32).reshape(h, w)
    pixels, table = spatial_factors(
        small, Levels(), temporal, known, place, spatial, pool, n_threads
    )
    stream = smoothed(scored(small, Levels(), temporal, pixels, table, pool))
    stacks = (np.stack(list(islice(stream, b.stop - b.start))) for b in blocks)
    return np.concatenate(list(in_order(pool, lambda e: objects(e, 0.0), stacks)))


def _usual(size: Array, hidden: Array) -> NDArray[np.float32]:
    """Median over time, where visible; a pixel that never is takes everybody's."""
    some = slice(None, None, max(1, len(size) // SAMPLE))
    usual = np.median(size[some], axis=0).astype(np.float32)
    partly = hidden[some].any(axis=0)
    if partly.any():
        seen = size[some][:, partly].astype(np.float32)
        seen[hidden[some][:, partly]] = np.nan
        never = np.isnan(seen).all(axis=0)
        seen[:, never] = np.median(usual)
        usual[partly] = np.nanmedian(seen, axis=0)
    return usual


def _around(size: Array, limit: Array) -> NDArray[np.bool_]:
    """Where residuals are large, what of nearly that size hangs together with it, and a margin."""
    labels, n = ndimage.label(size > EDGE * limit, BESIDE)
    large = np.zeros(n + 1, np.bool_)
    large[labels[size > limit]] = True
    large[0] = False
    found: NDArray[np.bool_] = large[labels]
    return widened(found, -1) | widened(found, -2)


def ghosts(mask: Array, in_frame: Array, in_background: Array) -> NDArray[np.bool_]:
    """Parts of masks (n, H, W) whose outline is drawn in the background and not in the frame.

    How strong edges are in either is given, of the shape of the masks.

    An object brings its outline into the frame. Where the background has the edge instead, it
    shows something that this frame lacks.
    """
    labels, n = ndimage.label(mask, BESIDE)
    if not n:
        return mask
    inside = ~grown(~mask)
    inside[:, [0, -1]] = inside[:, :, [0, -1]] = False
    outline = ndimage.maximum_filter(labels, (1, 3, 3)) * ~inside
    edges = [
        np.bincount(outline.ravel(), image.ravel(), minlength=n + 1)
        for image in (in_frame, in_background)
    ]
    ghost = edges[1] > GHOST * edges[0]
    ghost[0] = False
    found: NDArray[np.bool_] = ghost[labels]
    return found


def steepness(images: Array) -> Array:
    """How steep images (n, H, W, C) are."""
    grey = images.mean(axis=3, dtype=np.float32)
    down, across = (
        ndimage.gaussian_filter(grey, (0, 1, 1), order=order) for order in ((0, 1, 0), (0, 0, 1))
    )
    size: Array = np.hypot(down, across)
    return size


def soft(frames: Array) -> Array:
    """Smooth frames (n, H, W) in space."""
    smooth: Array = ndimage.gaussian_filter(frames, (0, SIGMA, SIGMA), truncate=2.0)
    return smooth


def scored(
    frames: Array,
    levels: Levels,
    temporal: Array,
    spatial: Array,
    table: Array,
    pool: ThreadPoolExecutor,
) -> Iterator[Array]:
    """Evidence of each frame (H, W), smoothed in space; a few frames ahead of the reader."""
    H, W, C = frames.shape[1:]

    def score(block: slice) -> Array:
        evidence = np.empty((block.stop - block.start, H * W), np.float32)
        for t, row in zip(range(block.start, block.stop), evidence, strict=True):
            frame = np.ascontiguousarray(levels.of(frames[t]), np.float32).reshape(-1, C)
            score_frame(frame, temporal[t].astype(np.float32), spatial, table, row)
        return soft(evidence.reshape(-1, H, W))

    for found in in_order(pool, score, frame_blocks(frames.shape)):
        yield from found


def _brightness(frame: Array, still: Array) -> float:
    """The factor at which the still image fits a frame, objects that hide it disregarded."""
    z: Array = frame.ravel().astype(np.float32)
    s: Array = still.ravel()
    weight = s * (s > 1)
    gain = 1.0
    for _ in range(10):
        e = np.clip(z - gain * s, -8, 8)
        before, gain = gain, gain + float(weight @ e) / max(1e-9, float(weight @ s))
        if abs(gain - before) < 1e-3:
            break
    return gain
