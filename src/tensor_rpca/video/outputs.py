"""The files that ``tensor-rpca video`` and the demonstration leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from tensor_rpca.files import written_whole
from tensor_rpca.video.report import write_report
from tensor_rpca.video.subtract import Separation
from tensor_rpca.video.write import write

Array = NDArray[Any]

NAMES = ("background.mp4", "foreground.mp4", "mask.mp4", "decomposition.npz", "report.html")


def write_outputs(
    folder: Path,
    result: Separation,
    title: str,
    rate: float,
    numbers: dict[str, str],
    tick: Callable[[int, int], None],
) -> None:
    """Write the files of :data:`NAMES`, each whole or not at all."""
    T = len(result.clip)
    parts = (result.background_frame, result.foreground_frame, result.mask_frame)
    for k, (name, part) in enumerate(zip(NAMES, parts, strict=False)):

        def count(done: int, before: int = k * T) -> None:
            tick(before + done, len(parts) * T)

        write(folder / name, _frames(part, T, result), rate, tick=count)
    result.decomposition.save(folder / NAMES[3])
    write_report(folder / NAMES[4], result, title, rate, numbers)


def draw_parts(path: Path, result: Separation, t: int) -> None:
    """Draw frame t: original, background, foreground and mask side by side."""
    H, W = result.clip.shape[1:3]
    parts = {
        "original": result.clip[t],
        "background": result.background_frame(t),
        "foreground": result.foreground_frame(t),
        "mask": result.mask_frame(t),
    }
    figure = Figure(figsize=(12, 12 / 4 * H / W + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, part) in zip(figure.subplots(1, 4), parts.items(), strict=True):
        axes.imshow(_shown(part, result), cmap="gray", vmin=0, vmax=1 if name == "mask" else 255)
        axes.set(xticks=[], yticks=[], title=name)
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=100)


def summary_of(result: Separation, rate: float) -> dict[str, Any]:
    """Numbers of a separation, for the table and ``--json``."""
    T, H, W = result.clip.shape[:3]
    found = result.decomposition
    rank = found.low_rank.rank
    # A pixel, or each of its colours: what matrix RPCA would call a row.
    features = H * W * result.model.shape[2]
    return {
        "frames": T,
        "width": W,
        "height": H,
        "rank": rank,
        "moving_fraction": float(
            np.unpackbits(result.packed, axis=2, count=W).mean(dtype=np.float64)
        ),
        "sparse_fraction": found.density,
        "degrees_of_freedom": rank * (T + features - rank),
        "features": features,
        "threshold": result.threshold,
        "iterations": found.n_iter,
        "seconds": result.seconds,
        "frames_per_second": T / result.seconds,
        "rate": rate,
    }


def described(summary: dict[str, Any]) -> dict[str, str]:
    """A summary in words, for the report's table."""
    s = summary
    return {
        "frames": f"{s['frames']:,} of {s['width']} x {s['height']} pixels",
        "rank of the background": str(s["rank"]),
        "foreground": f"{100 * s['moving_fraction']:.2f} % of the pixels",
        "degrees of freedom of the background": f"{s['degrees_of_freedom']:,}",
        "of a matrix of full rank": f"{s['frames'] * s['features']:,}",
        "iterations": str(s["iterations"]),
        "seconds": f"{s['seconds']:.2f}",
        "frames per second": f"{s['frames_per_second']:.0f}",
    }


def _frames(part: Callable[[int], Array], T: int, result: Separation) -> Iterator[Array]:
    for t in range(T):
        yield _shown(part(t), result)


def _shown(frame: Array, result: Separation) -> Array:
    """A frame as films and pictures take it: bytes or bool, grey or of three colours."""
    if frame.dtype not in (np.uint8, np.bool_):
        frame = np.clip(np.rint(result.model.levels.of(frame)), 0, 255).astype(np.uint8)
    return frame if frame.ndim == 2 or frame.shape[2] == 3 else frame[:, :, 0]
