"""Frames that arrive later: regressed on a background that is known, which then follows them."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca.solvers.huber_regression import huber_regression
from tensor_rpca.video.background import LIMIT, Model
from tensor_rpca.video.check import check_frames
from tensor_rpca.video.kernels import follow_frame
from tensor_rpca.video.small import places, shrink

if TYPE_CHECKING:
    from tensor_rpca.video.subtract import Separation

Array = NDArray[Any]

# By how much of a frame's residual the background moves towards it: about fifty frames' memory.
RATE = 0.02
# Frames of less than this of the usual light teach nothing.
DARK = 0.2


def separate_later(fitted: Separation, frames: ArrayLike) -> Separation:
    """Separate new frames; the result's model has followed them.

    Each frame's temporal factors minimise the Huber loss of its residual, as
    :meth:`tensor_rpca.TensorRPCA.transform` does; pixels' tables of evidence stay.
    """
    from tensor_rpca.video.subtract import pack_masks, workers

    began = time.perf_counter()
    model = fitted.following or fitted.model
    given = check_frames(frames, fitted.clip)
    T = len(given)
    clip = given.reshape(T, *model.shape)
    small = shrink(clip, model.levels, model.factor)
    with workers() as (pool, _):
        temporal = huber_regression(small.reshape(T, -1).astype(float), model.small, LIMIT)
        packed, latest = pack_masks(
            clip, model, temporal, fitted.threshold, fitted.roi, pool, None, fitted.latest
        )
    return dataclasses.replace(
        fitted,
        clip=given,
        model=model,
        temporal=temporal,
        packed=packed,
        latest=latest,
        following=_followed(model, clip, small, temporal, packed),
        seconds=time.perf_counter() - began,
    )


def _followed(model: Model, clip: Array, small: Array, temporal: Array, packed: Array) -> Model:
    """The model after these frames; what they hide stays as it was."""
    H, W, C = model.shape
    R = temporal.shape[1]
    spatial = model.spatial.copy()
    blocks = model.small.reshape(-1, C, R).copy()
    place = places(H, W, model.factor).ravel()
    for frame, thumb, a, bits in zip(clip, small, temporal.astype(np.float32), packed, strict=True):
        if abs(a[0]) < DARK:
            continue
        hidden = np.unpackbits(bits, axis=1, count=W).ravel()
        levels = np.ascontiguousarray(model.levels.of(frame), np.float32).reshape(-1, C)
        follow_frame(levels, a, spatial, hidden, RATE, LIMIT)
        any_hidden = np.zeros(len(blocks), np.uint8)
        any_hidden[place[hidden > 0]] = 1
        follow_frame(thumb.reshape(-1, C).astype(np.float32), a, blocks, any_hidden, RATE, LIMIT)
    return dataclasses.replace(model, spatial=spatial, small=blocks.reshape(-1, R))
