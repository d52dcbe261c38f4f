"""From evidence to objects: neighbours in space and time agree, and specks are no objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[Any]
Item = TypeVar("Item")
Found = TypeVar("Found")

# Many small calls cost more than what they compute: so many pixels at a time, of several frames.
BLOCK = 2**19
# Of the smoothing over rows, columns, and frames: one pixel, one frame.
SIGMA = 1.0
REACH = 2
# Objects begin where evidence exceeds the threshold by one and extend to where it reaches it.
CERTAIN = 1.0
# As fractions of a frame: smaller objects are specks, smaller gaps in objects are holes.
SPECK = 1 / 1000
HOLE = 1 / 200
# Neighbours by an edge, in the same frame.
BESIDE = ndimage.generate_binary_structure(3, 1) & np.array([0, 1, 0], bool)[:, None, None]


def frame_blocks(shape: Sequence[int]) -> list[slice]:
    """Cut frames (T, H, W, ...) into blocks of about :data:`BLOCK` pixels."""
    step = max(1, BLOCK // (shape[1] * shape[2]))
    return [slice(t, min(t + step, shape[0])) for t in range(0, shape[0], step)]


def in_order(
    pool: ThreadPoolExecutor, function: Callable[[Item], Found], items: Iterable[Item]
) -> Iterator[Found]:
    """Like ``pool.map``, but only a few items ahead of the reader."""
    waiting: deque[Future[Found]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > 4:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def smoothed(evidence: Iterable[Array], past: Sequence[Array] = ()) -> Iterator[Array]:
    """Average evidence frames (H, W), already smooth in space, over time.

    Up to :data:`REACH` frames of the ``past`` take part without being returned.

    A neighbouring frame counts by a Gaussian of its distance times the overlap of what seems to
    move in both: where objects have moved on, or the scene was cut, frames stand alone.
    """
    weights = np.exp(-0.5 * (np.arange(REACH + 1) / SIGMA) ** 2)
    ring = deque(_seen(frame) for frame in past)
    centre = len(ring)
    source = iter(evidence)
    while True:
        while len(ring) <= centre + REACH and (frame := next(source, None)) is not None:
            ring.append(_seen(frame))
        if centre >= len(ring):
            return
        total, weight = ring[centre][0].copy(), 1.0
        for k, other in enumerate(ring):
            distance = abs(k - centre)
            if distance and distance <= REACH:
                share = float(weights[distance]) * _overlap(ring[centre], other)
                total += np.float32(share) * other[0]
                weight += share
        total /= np.float32(weight)
        yield total
        if centre == REACH:
            ring.popleft()
        else:
            centre += 1


def _seen(frame: Array) -> tuple[Array, Array, int]:
    """Evidence, where it speaks for something that moves, and of how many pixels."""
    moving = frame > 0
    return frame, moving, int(np.count_nonzero(moving))


def _overlap(one: tuple[Array, Array, int], two: tuple[Array, Array, int]) -> float:
    """Intersection over union; a few pixels of noise decide nothing."""
    noise = one[1].size / 1000
    both = np.count_nonzero(one[1] & two[1])
    return (both + noise) / (one[2] + two[2] - both + noise)


def objects(evidence: Array, threshold: float, roi: Array | None = None) -> NDArray[np.bool_]:
    """What of frames (n, H, W) is foreground, given smooth evidence."""
    mask = evidence > threshold
    if not mask.any():
        return mask
    labels, n = ndimage.label(mask, BESIDE)
    certain = np.zeros(n + 1, bool)
    certain[labels[evidence > threshold + CERTAIN]] = True
    certain[0] = False
    mask = certain[labels]
    mask |= _closed(mask)
    mask = _without_small(mask, SPECK * mask[0].size)
    mask = ~_without_small(~mask, HOLE * mask[0].size)
    if roi is not None:
        mask &= roi
    return mask


def widened(mask: Array, axis: int) -> NDArray[np.bool_]:
    """Grow frames (..., H, W) by a pixel either way along an axis."""
    grown: NDArray[np.bool_] = mask.copy()
    before, after = mask.swapaxes(axis, -1), grown.swapaxes(axis, -1)
    after[..., 1:] |= before[..., :-1]
    after[..., :-1] |= before[..., 1:]
    return grown


def grown(mask: Array) -> NDArray[np.bool_]:
    """Grow frames (..., H, W) by a pixel all around, corners included."""
    return widened(widened(mask, -2), -1)


def _closed(mask: Array) -> NDArray[np.bool_]:
    """Fill frames' gaps of up to two pixels."""
    return ~grown(~grown(np.pad(mask, ((0, 0), (1, 1), (1, 1)))))[:, 1:-1, 1:-1]


def _without_small(mask: Array, area: float) -> NDArray[np.bool_]:
    """Drop connected parts of fewer pixels than ``area``."""
    labels, n = ndimage.label(mask, BESIDE)
    large = np.bincount(labels.ravel(), minlength=n + 1) >= area
    large[0] = False
    kept: NDArray[np.bool_] = large[labels]
    return kept
