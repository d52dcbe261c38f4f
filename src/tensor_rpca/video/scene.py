"""A film that draws itself, with ground truth: people crossing a lobby with an escalator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[Any]

# Digits of three columns and five rows, a row an octal number.
DIGITS = ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717")
NOISE = 2.5


@dataclass(frozen=True)
class _Walker:
    """Somebody: where the feet are at a time between 0 and 1, and how they look."""

    x: tuple[float, ...]
    times: tuple[float, ...]
    y: float
    height: float
    coat: float
    legs: float


# Across the frame: two at a walk, one slowly, one who stops for a third of the film.
_WALKERS = (
    _Walker((-0.1, 1.1), (0.02, 0.45), 0.93, 0.42, 45, 70),
    _Walker((1.1, -0.1), (0.30, 0.80), 0.80, 0.34, 215, 60),
    _Walker((1.08, 0.62), (0.10, 1.00), 0.72, 0.30, 75, 35),
    _Walker((-0.1, 0.38, 0.38, 1.1), (0.05, 0.30, 0.65, 0.98), 0.97, 0.46, 190, 225),
)


def lobby_scene(
    frames: int = 200, height: int = 130, width: int = 160, *, random_state: int | None = 0
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Draw the film.

    The steps of an escalator move with a period of eight frames, a clock counts frames, the light
    drifts by a tenth, and the sensor is noisy. All that is background; people are foreground.

    Returns
    -------
    clip : ndarray of uint8 of shape (frames, height, width)
    truth : ndarray of bool of the same shape
        Where people are.

    Examples
    --------
    >>> from tensor_rpca.video.scene import lobby_scene
    >>> clip, truth = lobby_scene(10, 48, 64)
    >>> clip.shape, clip.dtype.name, truth.dtype.name
    ((10, 48, 64), 'uint8', 'bool')
    """
    generator = np.random.default_rng(random_state)
    still = _lobby(height, width, generator)
    phases = generator.uniform(0, 2 * np.pi, 2)
    speckle = ndimage.gaussian_filter(generator.standard_normal((height, width)), 1.5)
    clip = np.empty((frames, height, width), np.uint8)
    truth = np.zeros(clip.shape, np.bool_)
    for t, (frame, people) in enumerate(zip(clip, truth, strict=True)):
        time = t / max(1, frames - 1)
        picture = still.copy()
        _escalator(picture, t)
        for walker in _WALKERS:
            _walk(picture, people, walker, time, speckle)
        light = 1 + 0.07 * np.sin(2.1 * time + phases[0]) + 0.03 * np.sin(9 * time + phases[1])
        picture *= light
        _clock(picture, people, t)
        picture += NOISE * generator.standard_normal(picture.shape)
        frame[...] = np.clip(np.rint(picture), 0, 255)
    return clip, truth


def _lobby(height: int, width: int, generator: np.random.Generator) -> Array:
    """A wall with doors and pictures over a floor of tiles."""
    y, x = np.mgrid[0:height, 0:width] / np.array([height, width]).reshape(2, 1, 1)
    picture = np.where(y < 0.45, 165 - 40 * y, 105 + 60 * y)
    tiles = (np.floor((x - 0.5) / (0.25 + y) * 14) + np.floor(12 / (0.3 + y))) % 2
    picture += np.where(y >= 0.45, 12 * tiles, 0)
    for left, top, right, bottom in ((0.05, 0.12, 0.17, 0.5), (0.24, 0.15, 0.4, 0.32)):
        inside = (x > left) & (x < right) & (y > top) & (y < bottom)
        picture[inside] = generator.uniform(60, 120)
    picture += 6 * ndimage.gaussian_filter(generator.standard_normal(picture.shape), 1.0)
    soft: Array = ndimage.gaussian_filter(picture, 0.6)
    return soft


def _escalator(picture: Array, t: int) -> None:
    """Steps that climb by an eighth of their height a frame."""
    height, width = picture.shape
    rows, columns = slice(int(0.1 * height), int(0.78 * height)), slice(int(0.68 * width), width)
    y, x = np.mgrid[rows, columns]
    step = 8.0
    rise = (y + 0.5 * (x - columns.start) + t * step / 8) % step / step
    picture[rows, columns] = 95 + 70 * np.clip(3 * rise - 1, 0, 1) - 25 * (rise < 0.2)
    rail = (x - columns.start) < max(2, width // 50)
    picture[rows, columns][rail] = 50


def _walk(picture: Array, people: Array, walker: _Walker, time: float, speckle: Array) -> None:
    """Draw a head, a coat and two legs that swing."""
    height, width = picture.shape
    if not walker.times[0] <= time <= walker.times[-1]:
        return
    x0 = float(np.interp(time, walker.times, walker.x)) * width
    tall = walker.height * height
    foot = walker.y * height
    y, x = np.mgrid[0:height, 0:width]
    up, aside = (foot - y) / tall, (x - x0) / tall
    walking = np.interp(time + 0.005, walker.times, walker.x) * width != x0
    swing = 0.1 * np.sin(x0 / tall * 12) if walking else 0.05
    head = (up - 0.91) ** 2 + aside**2 < 0.075**2
    coat = (np.abs(aside) < 0.12) & (up > 0.42) & (up < 0.84)
    spread = swing * (0.45 - up) / 0.45
    legs = (np.abs(np.abs(aside) - np.abs(spread)) < 0.05) & (up >= 0) & (up <= 0.43)
    for part, grey in ((legs, walker.legs), (coat, walker.coat), (head, 150.0)):
        picture[part] = grey + 25 * speckle[part]
        people |= part


def _clock(picture: Array, people: Array, t: int) -> None:
    """Write the number of the frame over everything, as recorders do."""
    size = max(1, picture.shape[0] // 65)
    for k, digit in enumerate(f"{t:04d}"):
        rows = [[int(bit) for bit in f"{int(row, 8):03b}"] for row in DIGITS[int(digit)]]
        glyph = np.kron(np.array(rows), np.ones((size, size)))
        top, left = 2 * size, (2 + 4 * k) * size
        box = np.s_[top : top + glyph.shape[0], left : left + glyph.shape[1]]
        picture[box] = np.where(glyph, 245, 25)[: picture[box].shape[0], : picture[box].shape[1]]
        people[box] = False
