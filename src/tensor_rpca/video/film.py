"""A film in memory and how a user may ask for a part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from tensor_rpca.files import FileError

Array = NDArray[Any]


@dataclass(frozen=True)
class Film:
    """Frames and what is known of them.

    Attributes
    ----------
    frames : ndarray of uint8 of shape (T, H, W) or (T, H, W, 3)
    rate : float
        Frames per second.
    lost : int
        Frames that the file announces and that could not be decoded.
    remarks : tuple of str
        What a user should know of the reading.
    """

    frames: Array
    rate: float
    lost: int = 0
    remarks: tuple[str, ...] = ()


def parse_frames(text: str | int | slice | None) -> slice:
    """Read ``N``, ``START:STOP`` or ``START:STOP:STEP``, as Python slices, not negative."""
    if text is None:
        return slice(0, None, 1)
    if isinstance(text, slice):
        parts = [text.start, text.stop, text.step]
    else:
        try:
            parts = [int(p) if p.strip() else None for p in str(text).split(":")]
        except ValueError:
            parts = [-1]
        if len(parts) == 1:
            parts.insert(0, 0)
    start, stop, step = (*parts, None)[:3] if len(parts) <= 3 else (-1, None, None)
    start, step = 0 if start is None else start, 1 if step is None else step
    if start < 0 or step < 1 or (stop is not None and stop <= start):
        raise ValueError(
            f"frames={text!r} names no frames; write a number (the first so many), START:STOP or "
            "START:STOP:STEP, counted from 0"
        )
    return slice(start, stop, step)


def check_scale(scale: float) -> float:
    """Between 0 (not included) and 4."""
    if not 0 < scale <= 4:
        raise ValueError(f"scale={scale} is not between 0 and 4; 0.5 halves width and height")
    return float(scale)


def refuse_too_large(name: str, frames: int, shape: tuple[int, ...]) -> None:
    """Raise if so many frames would not fit into memory together with what is made of them."""
    needed = 1.7 * frames * float(np.prod(shape, dtype=np.float64))
    available = int(psutil.virtual_memory().available)
    if needed > available:
        fitting = max(1, int(frames * available / needed * 0.9))
        raise FileError(
            f"{name}: {frames:,} frames of {' x '.join(map(str, shape))} need about "
            f"{needed / 2**30:,.1f} GiB and {available / 2**30:,.1f} GiB are available; take a "
            f"part (frames: --frames {fitting}), or smaller frames (--scale 0.5)"
        )


class Growing:
    """Frames gathered into one array that is never held twice."""

    def __init__(self, name: str, expected: int):
        self._name = name
        self._expected = expected
        self._kept: Array | None = None
        self.count = 0

    def add(self, frame: Array) -> None:
        """Append; the first frame decides the shape."""
        if self._kept is None:
            refuse_too_large(self._name, max(1, self._expected), frame.shape)
            self._kept = np.empty((max(1, self._expected), *frame.shape), np.uint8)
        if frame.shape != self._kept.shape[1:]:
            first, other = (
                " x ".join(map(str, s[1::-1])) for s in (self._kept.shape[1:], frame.shape)
            )
            raise FileError(
                f"{self._name}: frame {self.count} is {other} pixels, the first is {first}; "
                "a film must keep its size: cut it where the size changes (--frames), or convert it"
            )
        if self.count == len(self._kept):
            longer = self.count + max(16, self.count // 4)
            refuse_too_large(self._name, longer - self.count, frame.shape)
            self._kept.resize((longer, *frame.shape), refcheck=False)
        self._kept[self.count] = frame
        self.count += 1

    def whole(self) -> Array:
        """All frames, at least two."""
        if self._kept is None or self.count < 2:
            raise FileError(
                f"{self._name} gave {self.count} frame{'s' * (self.count != 1)}; two or more are "
                "needed to tell what moves"
            )
        self._kept.resize((self.count, *self._kept.shape[1:]), refcheck=False)
        return self._kept
