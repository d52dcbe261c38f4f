"""From evidence to objects: neighbours in space and time agree, and specks are no objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[Any]

# Of the smoothing over rows, columns, and frames: one pixel, one frame.
SIGMA = 1.0
REACH = 2
# Objects begin where evidence exceeds the threshold by one and extend to where it reaches it.
CERTAIN = 1.0
# As fractions of a frame: smaller objects are specks, smaller gaps in objects are holes.
SPECK = 1 / 1000
HOLE = 1 / 200


def smoothed(evidence: Iterable[Array], past: Sequence[Array] = ()) -> Iterator[Array]:
    """Average evidence frames (H, W), already smooth in space, over time.

    Up to :data:`REACH` frames of the ``past`` take part without being returned.

    A neighbouring frame counts by a Gaussian of its distance times the overlap of what seems to
    move in both: where objects have moved on, or the scene was cut, frames stand alone.
    """
    weights = np.exp(-0.5 * (np.arange(REACH + 1) / SIGMA) ** 2)
    ring = deque((frame, frame > 0) for frame in past)
    centre = len(ring)
    source = iter(evidence)
    while True:
        while len(ring) <= centre + REACH and (frame := next(source, None)) is not None:
            ring.append((frame, frame > 0))
        if centre >= len(ring):
            return
        here, moving = ring[centre]
        total, weight = here.copy(), 1.0
        for k, (other, also) in enumerate(ring):
            distance = abs(k - centre)
            if distance and distance <= REACH:
                share = float(weights[distance]) * _overlap(moving, also)
                total += np.float32(share) * other
                weight += share
        total /= np.float32(weight)
        yield total
        if centre == REACH:
            ring.popleft()
        else:
            centre += 1


def _overlap(one: Array, two: Array) -> float:
    """Intersection over union; a few pixels of noise decide nothing."""
    noise = one.size / 1000
    return float(((one & two).sum() + noise) / ((one | two).sum() + noise))


def objects(evidence: Array, threshold: float, roi: Array | None = None) -> NDArray[np.bool_]:
    """What of a frame is foreground, given smooth evidence (H, W)."""
    mask = evidence > threshold
    if not mask.any():
        return mask
    labels, n = ndimage.label(mask)
    certain = np.zeros(n + 1, bool)
    certain[labels[evidence > threshold + CERTAIN]] = True
    certain[0] = False
    mask = certain[labels]
    mask |= ndimage.binary_closing(np.pad(mask, 1), np.ones((3, 3)))[1:-1, 1:-1]
    mask = _without_small(mask, SPECK * mask.size)
    mask = ~_without_small(~mask, HOLE * mask.size)
    if roi is not None:
        mask &= roi
    return mask


def _without_small(mask: Array, area: float) -> NDArray[np.bool_]:
    """Drop connected parts of fewer pixels than ``area``."""
    labels, n = ndimage.label(mask)
    large = np.bincount(labels.ravel(), minlength=n + 1) >= area
    large[0] = False
    kept: NDArray[np.bool_] = large[labels]
    return kept
