"""Grey levels from 0 to 255, whatever numbers a clip is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Levels:
    """``level = (value - black) / per_level``; uint8 is levels already."""

    black: float = 0.0
    per_level: float = 1.0

    @property
    def plain(self) -> bool:
        """Whether values are levels."""
        return self.black == 0 and self.per_level == 1

    @property
    def sum_dtype(self) -> type:
        """What sums of values are held in."""
        return np.uint32 if self.plain else np.float64

    def of(self, values: Array) -> Array:
        """Levels of values, as float32 unless they are levels already."""
        if self.plain:
            return values
        return ((values - self.black) / self.per_level).astype(np.float32)

    def back(self, levels: Array, dtype: np.dtype[Any]) -> Array:
        """Values of levels, in the clip's dtype and within its range."""
        values = levels if self.plain else levels * self.per_level + self.black
        if dtype.kind in "ui":
            info = np.iinfo(dtype)
            return np.clip(np.rint(values), info.min, info.max).astype(dtype)
        return values.astype(dtype)

    @classmethod
    def for_clip(cls, clip: Array) -> Levels:
        """Find the range of a clip of another dtype than uint8; it must be finite."""
        if clip.dtype == np.uint8:
            return cls()
        low, high = np.inf, -np.inf
        for frame in clip:
            least, most = float(frame.min()), float(frame.max())
            if not (np.isfinite(least) and np.isfinite(most)):
                raise ValueError(
                    "the clip contains NaN or infinite values; replace them, for instance by the "
                    "frame before: clip[t][~np.isfinite(clip[t])] = ..."
                )
            low, high = min(low, least), max(high, most)
        return cls(low, (high - low) / 255 or 1.0)
