"""Films from whatever FFmpeg reads, folders of images, and arrays; as uint8, frames first."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from tensor_rpca.files import FileError, refuse_absent
from tensor_rpca.io import read_tensor
from tensor_rpca.video.film import Film, Growing, check_scale, parse_frames, refuse_too_large

Array = NDArray[Any]
Tick = Callable[[int, int], None]

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".pgm", ".ppm", ".webp"}
DEFAULT_RATE = 25.0


def read(
    source: str | Path,
    *,
    frames: str | int | slice | None = None,
    scale: float = 1.0,
    color: bool = False,
) -> Array:
    """Read a film.

    Parameters
    ----------
    source : path
        Anything FFmpeg reads, a folder of images (in natural order of their names), or an .npy or
        .npz file with frames first.
    frames : int, str or slice, optional
        The first so many, or "START:STOP:STEP".
    scale : float
        Of width and height.
    color : bool
        False converts to grey. An alpha channel is dropped; more than 8 bits become 8.

    Returns
    -------
    ndarray of uint8 of shape (T, H, W), or (T, H, W, 3)
        Damaged frames are left out with a warning.

    Raises
    ------
    FileError
        A ValueError that names the trouble and the cure.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from tensor_rpca.video import read, write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write(os.path.join(folder, "a.mp4"), np.zeros((5, 16, 32), np.uint8))
    ...     read(path).shape
    (5, 16, 32)
    """
    film = read_film(source, frames=frames, scale=scale, color=color)
    for remark in film.remarks:
        warnings.warn(remark, stacklevel=2)
    return film.frames


def read_film(
    source: str | Path,
    *,
    frames: str | int | slice | None = None,
    scale: float = 1.0,
    color: bool = False,
    tick: Tick | None = None,
) -> Film:
    """Read as :func:`read` does, keeping the frame rate and remarks instead of warning.

    ``tick(done, expected)`` is called now and then.
    """
    path, chosen, scale = Path(source), parse_frames(frames), check_scale(scale)
    refuse_absent(path)
    if path.is_dir():
        return _read_folder(path, chosen, scale, color, tick)
    if path.suffix.lower() in (".npy", ".npz"):
        return _read_array(path, chosen, scale, color)
    return _read_film(path, chosen, scale, color, tick)


def _read_film(path: Path, chosen: slice, scale: float, color: bool, tick: Tick | None) -> Film:
    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError) as error:
        raise FileError(
            f"{path} is no film that FFmpeg can read ({_reason(error)}); if it was cut short, "
            "fetch or convert it again"
        ) from None
    with container:
        if not container.streams.video:
            raise FileError(f"{path} holds no video stream; is it sound only?")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        announced = _announced(container, stream)
        expected = len(range(announced)[chosen]) if announced else 0
        growing = Growing(str(path), expected)
        if announced and stream.codec_context.width:
            refuse_too_large(str(path), expected, _size(stream.codec_context, scale, color))
        damage = _Damage()
        times: list[int] = []
        for frame in islice(damage.whole_frames(container, stream), *_bounds(chosen)):
            growing.add(_pixels(frame, scale, color))
            if frame.pts is not None:
                times.append(frame.pts)
            if tick is not None:
                tick(growing.count, expected)
        rate = float(stream.average_rate or stream.guessed_rate or DEFAULT_RATE)
    lost = damage.lost
    if chosen.stop is None or damage.decoded < chosen.stop:
        missing = announced - damage.decoded
        # A duration tells the number of frames only roughly, and nothing if they come unevenly.
        doubtful = 0 if stream.frames else max(2, announced // 50)
        if missing > doubtful and (stream.frames or not _uneven(times)):
            lost = max(lost, missing)
    if growing.count < 2 and lost:
        raise FileError(
            f"{path} is damaged: {growing.count} frames could be decoded and {lost} are lost; "
            "fetch or convert it again"
        )
    remarks = []
    if lost:
        remarks.append(f"{path} is damaged: {lost} frames are lost, {growing.count} were decoded")
    if _uneven(times):
        remarks.append(
            f"{path} has a variable frame rate; frames are taken as they come, and written at "
            f"{rate:.4g} a second"
        )
    return Film(growing.whole(), rate / chosen.step, lost, tuple(remarks))


class _Damage:
    """Decoding that goes on behind damaged packets, and counts."""

    def __init__(self) -> None:
        self.decoded = 0
        self.lost = 0

    def whole_frames(self, container: Any, stream: Any) -> Iterator[Any]:
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
            except (StopIteration, av.error.EOFError):
                return
            except av.error.FFmpegError:  # the container itself is cut short
                return
            try:
                found = packet.decode()
            except av.error.EOFError:
                continue
            except av.error.FFmpegError:
                self.lost += 1
                continue
            for frame in found:
                if frame.is_corrupt:
                    self.lost += 1
                    continue
                self.decoded += 1
                yield frame


def _announced(container: Any, stream: Any) -> int:
    """Frames that the file says it has; 0 if it does not."""
    if stream.frames:
        return int(stream.frames)
    rate = stream.average_rate
    if rate and stream.duration and stream.time_base:
        return round(float(stream.duration * stream.time_base * rate))
    if rate and container.duration:
        return round(float(Fraction(container.duration, av.time_base) * rate))
    return 0


def _size(codec: Any, scale: float, color: bool) -> tuple[int, ...]:
    height, width = _scaled(codec.height, codec.width, scale)
    return (height, width, 3) if color else (height, width)


def _scaled(height: int, width: int, scale: float) -> tuple[int, int]:
    return max(1, round(height * scale)), max(1, round(width * scale))


def _pixels(frame: Any, scale: float, color: bool) -> Array:
    """A decoded frame as uint8; FFmpeg scales, converts, and drops alpha and spare bits."""
    height, width = _scaled(frame.height, frame.width, scale)
    converted = frame.reformat(
        width=width,
        height=height,
        format="rgb24" if color else "gray",
        interpolation="AREA" if scale < 1 else "BICUBIC",
        dst_color_range="JPEG",
    )
    pixels: Array = converted.to_ndarray()
    return pixels


def read_roi(text: str) -> Array:
    """Read ``X,Y,WIDTH,HEIGHT``, or an image that is white where to look."""
    parts = text.split(",")
    if len(parts) == 4 and all(p.strip().lstrip("-").isdigit() for p in parts):
        return np.array([int(p) for p in parts])
    path = Path(text)
    if not path.is_file():
        raise FileError(
            f"roi {text!r} is neither X,Y,WIDTH,HEIGHT (whole numbers) nor an image's file"
        )
    try:
        with av.open(str(path)) as container:
            return _pixels(next(container.decode(video=0)), 1.0, False) > 127
    except (av.error.FFmpegError, StopIteration) as error:
        raise FileError(f"{path} is no image that FFmpeg can read ({_reason(error)})") from None


def _bounds(chosen: slice) -> tuple[int, int | None, int]:
    return chosen.start, chosen.stop, chosen.step


def _uneven(times: list[int]) -> bool:
    """Whether frames come at intervals that differ by more than rounding."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    return bool(gaps.size > 1 and gaps.max() > 1.5 * np.median(gaps) + 1)


def _read_folder(path: Path, chosen: slice, scale: float, color: bool, tick: Tick | None) -> Film:
    found = sorted((f for f in path.iterdir() if f.suffix.lower() in IMAGES), key=_natural)
    if not found:
        raise FileError(f"{path} holds no images; known are {', '.join(sorted(IMAGES))}")
    files = found[chosen]
    growing = Growing(str(path), len(files))
    lost = []
    for file in files:
        try:
            with av.open(str(file)) as container:
                picture = next(container.decode(video=0))
                growing.add(_pixels(picture, scale, color))
        except (av.error.FFmpegError, StopIteration, OSError):
            lost.append(file.name)
        if tick is not None:
            tick(growing.count, len(files))
    remarks: tuple[str, ...] = ()
    if lost:
        shown = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        remarks = (f"{path}: {len(lost)} images are damaged and left out: {shown}",)
    return Film(growing.whole(), DEFAULT_RATE, len(lost), remarks)


def _natural(file: Path) -> list[tuple[int, int | str]]:
    """Order frame2 before frame10."""
    parts: list[tuple[int, int | str]] = []
    text, digits = file.name, ""
    for letter in text + "\0":
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits)))
            digits = ""
        parts.append((1, letter))
    return parts


def _read_array(path: Path, chosen: slice, scale: float, color: bool) -> Film:
    array = read_tensor(path)
    shape = " x ".join(map(str, array.shape))
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] not in (1, 3, 4)):
        raise FileError(
            f"{path} holds an array of {shape}; a film is frames x height x width, or that x 3 for "
            "colour"
        )
    if array.dtype.kind not in "uifb":
        raise FileError(f"{path} holds {array.dtype} numbers; grey values must be real")
    rows = array[chosen]
    if len(rows) < 2:
        raise FileError(
            f"{path} gave {len(rows)} frame{'s' * (len(rows) != 1)} (of {shape}); two or more are "
            "needed to tell what moves"
        )
    low, per_level = _levels(rows)
    plain = rows.dtype == np.uint8 and scale == 1 and rows.ndim == 3
    if plain:
        return Film(np.ascontiguousarray(rows), DEFAULT_RATE)
    growing = Growing(str(path), len(rows))
    for row in rows:
        pixels = row if row.dtype == np.uint8 else _to_levels(row, low, per_level)
        growing.add(_reshaped(pixels, scale, color))
    return Film(growing.whole(), DEFAULT_RATE)


def _levels(rows: Array) -> tuple[float, float]:
    """What is black, and how much is one of 255 levels."""
    if rows.dtype == np.uint8:
        return 0.0, 1.0
    low, high = np.inf, -np.inf
    for row in rows:
        if not np.isfinite(row).all():
            raise FileError("the film contains NaN or infinite values; replace them first")
        low, high = min(low, float(row.min())), max(high, float(row.max()))
    if rows.dtype.kind == "u" or (low >= 0 and high <= 1):
        # Cameras of 10, 12 or 14 bits fill the lower part of 16.
        low, high = 0.0, float(2 ** np.ceil(np.log2(high + 1)) - 1) if high > 1 else 1.0
    return low, (high - low) / 255 or 1.0


def _to_levels(row: Array, low: float, per_level: float) -> Array:
    level = np.rint((row.astype(np.float64) - low) / per_level)
    return np.clip(level, 0, 255).astype(np.uint8)


def _reshaped(pixels: Array, scale: float, color: bool) -> Array:
    """Convert colour and size with FFmpeg, as for films."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    formats = {2: "gray", 3: "rgb24", 4: "rgba"}
    kind = formats[2 if pixels.ndim == 2 else pixels.shape[2]]
    if kind == "gray" and scale == 1:
        return pixels
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format=kind)
    return _pixels(frame, scale, color and kind != "gray")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
