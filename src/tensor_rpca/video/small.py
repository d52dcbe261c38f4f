"""The clip made small: block means of about ten thousand pixels a frame.

What a camera's light and a background's rhythms do over time shows at any size, so it is found
where looking is cheap; only then do the pixels get their turn, each on its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.video.levels import Levels

Array = NDArray[Any]

PIXELS = 10_000


def factor_for(height: int, width: int) -> int:
    """Side of the blocks."""
    return max(1, math.ceil(math.sqrt(height * width / PIXELS)))


def shrink(frames: Array, levels: Levels, factor: int) -> NDArray[np.uint8]:
    """Block means of frames (T, H, W, C), rounded; incomplete blocks at the edges count too."""
    T, H, W, C = frames.shape
    h, w = -(-H // factor), -(-W // factor)
    small = np.empty((T, h, w, C), np.uint8)
    rows, columns = np.arange(0, H, factor), np.arange(0, W, factor)
    size = np.outer(np.diff(rows, append=H), np.diff(columns, append=W))[:, :, None]
    for frame, target in zip(frames, small, strict=True):
        if factor == 1:
            target[...] = np.clip(np.rint(levels.of(frame)), 0, 255)
            continue
        sums = np.add.reduceat(frame, rows, axis=0, dtype=levels.sum_dtype)
        sums = np.add.reduceat(sums, columns, axis=1)
        target[...] = np.clip(np.rint(levels.of(sums / size)), 0, 255)
    return small


def places(height: int, width: int, factor: int) -> NDArray[np.int32]:
    """Which block each pixel belongs to, of shape (H, W)."""
    w = -(-width // factor)
    down, across = np.arange(height) // factor, np.arange(width) // factor
    return (down[:, None] * w + across).astype(np.int32)
