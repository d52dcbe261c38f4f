"""A first guess, on the small clip, at what moves: what the background must not learn from."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from tensor_rpca.video.background import spatial_factors
from tensor_rpca.video.kernels import score_frame
from tensor_rpca.video.levels import Levels
from tensor_rpca.video.mask import SIGMA, objects, smoothed

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
    revealed = np.stack(
        list(pool.map(lambda t: ghosts(moving[t], small[t], gains[t] * still), range(T)))
    )
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

    def measure(t: int) -> None:
        away = np.abs(small[t] - (spatial @ temporal[t]).reshape(small.shape[1:])).max(axis=2)
        size[t] = np.minimum(ndimage.gaussian_filter(away, SIGMA, truncate=2.0), 255)

    list(pool.map(measure, range(T)))
    limit = LARGE * (ndimage.gaussian_filter(_usual(size, hidden), 3.0) + FLOOR)
    large = np.stack(list(pool.map(lambda s: ndimage.binary_dilation(_around(s, limit)), size)))
    known = np.ascontiguousarray(~large.reshape(T, -1).T).astype(np.uint8)
    place = np.arange(h * w, dtype=np.int32).reshape(h, w)
    pixels, table = spatial_factors(
        small, Levels(), temporal, known, place, spatial, pool, n_threads
    )
    evidence = smoothed(scored(small, Levels(), temporal, pixels, table, pool))
    return np.stack(list(pool.map(lambda e: objects(e, 0.0), evidence)))


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
    """Where residuals are large, and what of at least half that size hangs together with it."""
    labels, n = ndimage.label(size > EDGE * limit)
    large = np.zeros(n + 1, np.bool_)
    large[labels[size > limit]] = True
    large[0] = False
    found: NDArray[np.bool_] = large[labels]
    return found


def ghosts(mask: Array, frame: Array, background: Array) -> NDArray[np.bool_]:
    """Parts of a mask (H, W) whose outline is drawn in the background and not in the frame.

    An object brings its outline into the frame. Where the background has the edge instead, it
    shows something that this frame lacks.
    """
    labels, n = ndimage.label(mask)
    if not n:
        return mask
    outline = ndimage.grey_dilation(labels, (3, 3)) * ~ndimage.binary_erosion(mask, np.ones((3, 3)))
    edges = [
        np.bincount(outline.ravel(), _gradient(image).ravel(), minlength=n + 1)
        for image in (frame, background)
    ]
    ghost = edges[1] > GHOST * edges[0]
    ghost[0] = False
    found: NDArray[np.bool_] = ghost[labels]
    return found


def _gradient(image: Array) -> Array:
    size: Array = ndimage.gaussian_gradient_magnitude(image.astype(np.float32).mean(axis=2), 1.0)
    return size


def scored(
    frames: Array,
    levels: Levels,
    temporal: Array,
    spatial: Array,
    table: Array,
    pool: ThreadPoolExecutor,
) -> Iterator[Array]:
    """Evidence of each frame (H, W), smoothed in space; a few frames ahead of the reader."""
    T, H, W, C = frames.shape

    def score(t: int) -> Array:
        evidence = np.empty(H * W, np.float32)
        frame = np.ascontiguousarray(levels.of(frames[t]), np.float32).reshape(-1, C)
        score_frame(frame, temporal[t].astype(np.float32), spatial, table, evidence)
        soft: Array = ndimage.gaussian_filter(evidence.reshape(H, W), SIGMA, truncate=2.0)
        return soft

    for first in range(0, T, 8):
        yield from pool.map(score, range(first, min(first + 8, T)))


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
