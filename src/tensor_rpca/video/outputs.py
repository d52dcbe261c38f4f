"""The files that ``tensor-rpca video`` and the demonstration leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        frame = part(t)
        if frame.dtype not in (np.uint8, np.bool_):
            frame = np.clip(np.rint(result.model.levels.of(frame)), 0, 255).astype(np.uint8)
        yield frame if frame.ndim == 2 or frame.shape[2] == 3 else frame[:, :, 0]
