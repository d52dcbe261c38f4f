"""What is asked of a clip, said in terms of what to do about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def check_clip(clip: ArrayLike) -> Array:
    """As an array of shape (T, H, W) or (T, H, W, C) of real numbers, two frames or more."""
    array = np.asarray(clip)
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype.kind not in "uif":
        raise TypeError(f"the clip holds {array.dtype} values; grey levels must be real numbers")
    shape = " x ".join(map(str, array.shape)) or "a scalar"
    if array.ndim not in (3, 4):
        raise ValueError(
            f"the clip has shape {shape}; expected frames x height x width, or that x colours"
        )
    if array.ndim == 4 and not 1 <= array.shape[3] <= 4:
        raise ValueError(
            f"the clip has shape {shape}; the last of four axes is colours, 4 at most: is the "
            "order frames, height, width, colours?"
        )
    if array.shape[0] < 2:
        raise ValueError(f"the clip has {array.shape[0]} frames; two or more tell what moves")
    if min(array.shape) < 1:
        raise ValueError(f"the clip has shape {shape}: its frames have no pixels")
    return array


def check_frames(frames: ArrayLike, clip: Array) -> Array:
    """As an array of the frames' size and dtype of the clip."""
    array = np.asarray(frames)
    if array.ndim != clip.ndim or array.shape[1:] != clip.shape[1:] or not len(array):
        raise ValueError(
            f"new frames have shape {array.shape}; the clip's were {clip.shape[1:]}, so "
            f"(n, {', '.join(map(str, clip.shape[1:]))}) is needed, n at least 1"
        )
    if array.dtype.kind == "b":
        array = array.view(np.uint8)
    if array.dtype != clip.dtype:
        raise TypeError(f"new frames are {array.dtype}, the clip was {clip.dtype}; convert them")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("new frames contain NaN or infinite values; replace them")
    return array


def check_roi(roi: ArrayLike | None, height: int, width: int) -> NDArray[np.bool_] | None:
    """As a mask of shape (H, W)."""
    if roi is None:
        return None
    given = np.asarray(roi)
    if given.shape == (height, width):
        mask: NDArray[np.bool_] = given.astype(np.bool_)
    elif given.shape == (4,):
        x, y, w, h = (int(v) for v in given)
        if x < 0 or y < 0 or w < 1 or h < 1 or x + w > width or y + h > height:
            raise ValueError(
                f"roi {x},{y},{w},{h} (x, y, width, height) does not lie within the frames, which "
                f"are {width} x {height}"
            )
        mask = np.zeros((height, width), np.bool_)
        mask[y : y + h, x : x + w] = True
    else:
        raise ValueError(
            f"roi has shape {given.shape}; give (x, y, width, height) or a mask of shape "
            f"({height}, {width})"
        )
    if not mask.any():
        raise ValueError("roi selects no pixel")
    return mask
