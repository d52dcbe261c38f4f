"""Films as H.264 in .mp4, which browsers play; written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from tensor_rpca.files import FileError, written_whole

Array = NDArray[Any]


def write(
    path: str | Path,
    frames: Iterable[Array],
    rate: float = 25.0,
    *,
    quality: int = 18,
    tick: Callable[[int], None] | None = None,
) -> Path:
    """Write a film.

    Parameters
    ----------
    path : path
        Ends in .mp4, .mkv or .mov.
    frames : ndarray or iterable of ndarrays
        Of uint8 or bool (white where True), each (H, W) or (H, W, 3); read one at a time.
    rate : float
        Frames per second.
    quality : int
        H.264's rate factor, from 0 (lossless) to 51; 18 shows no loss.
    tick : callable, optional
        Called with the number of frames written so far.

    Returns
    -------
    Path

    Notes
    -----
    H.264 stores colour at half resolution, so an odd width or height grows by one pixel, the
    outermost one repeated.
    """
    target = Path(path)
    if target.suffix.lower() not in (".mp4", ".mkv", ".mov"):
        raise FileError(f"{target}: write films as .mp4, .mkv or .mov")
    if not 0 < rate <= 1000:
        raise ValueError(f"rate={rate} must be between 0 and 1,000 frames a second")
    source = iter(frames)
    first = next(source, None)
    if first is None:
        raise ValueError("there are no frames to write")
    with written_whole(target) as temporary, av.open(str(temporary), "w") as container:
        options = {"crf": str(quality), "preset": "veryfast"}
        stream = container.add_stream("libx264", Fraction(rate).limit_denominator(60000), options)
        picture = _even(first)
        stream.height, stream.width = picture.shape[:2]
        stream.pix_fmt = "yuv420p"
        shape = np.shape(first)
        for t, frame in enumerate(chain([first], source)):
            if np.shape(frame) != shape:
                raise ValueError(f"frame {t} is {np.shape(frame)}, the first is {shape}")
            container.mux(stream.encode(_video_frame(_even(frame))))
            if tick is not None:
                tick(t + 1)
        container.mux(stream.encode(None))
    return target


def _even(frame: Array) -> Array:
    """As uint8 with an even number of rows and columns."""
    frame = np.asarray(frame)
    if frame.dtype == np.bool_:
        frame = frame * np.uint8(255)
    if frame.dtype != np.uint8 or frame.ndim not in (2, 3) or frame.shape[2:] not in ((), (3,)):
        raise ValueError(
            f"frames must be uint8 or bool of shape (H, W) or (H, W, 3), not {frame.dtype} of "
            f"{frame.shape}"
        )
    extra = [(0, n % 2) for n in frame.shape[:2]] + [(0, 0)] * (frame.ndim - 2)
    return np.pad(frame, extra, mode="edge") if any(e for _, e in extra) else frame


def _video_frame(pixels: Array) -> Any:
    kind = "gray" if pixels.ndim == 2 else "rgb24"
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=kind)
    return frame.reformat(format="yuv420p", src_color_range="JPEG", dst_color_range="MPEG")
