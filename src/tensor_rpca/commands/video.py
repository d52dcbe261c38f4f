"""``tensor-rpca video``: a film in; its background, what moves in it, and a report out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensor_rpca.commands.common import (
    Force,
    InterruptedRunError,
    Json,
    Out,
    Quiet,
    Seed,
    interruptible,
    prepare_folder,
    print_table,
)


def video_command(
    clip: Annotated[
        Path,
        typer.Argument(
            metavar="CLIP", help="A film, a folder of images, or an .npy/.npz, frames first."
        ),
    ],
    out: Out = None,
    frames: Annotated[
        str | None, typer.Option(help="N, START:STOP or START:STOP:STEP, from 0.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Of width and height; 0.5 halves them.")] = 1.0,
    color: Annotated[bool, typer.Option("--color/--gray", help="Keep colours.")] = False,
    rank: Annotated[int, typer.Option(help="Temporal factors of the background, at most.")] = 10,
    threshold: Annotated[
        float, typer.Option(help="Log odds from which on a pixel is foreground.")
    ] = 0.0,
    roi: Annotated[
        str | None, typer.Option(help="Where to look: X,Y,WIDTH,HEIGHT or a black and white image.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Separate what moves in a film from what is there.

    The camera must stand still. Writes background.mp4, foreground.mp4, mask.mp4,
    decomposition.npz and report.html.
    """
    from tensor_rpca.files import refuse_absent, refuse_unwritable
    from tensor_rpca.progress import counting_bar, progress_bar
    from tensor_rpca.video.outputs import NAMES, described, summary_of, write_outputs
    from tensor_rpca.video.read import read_film, read_roi
    from tensor_rpca.video.subtract import MAX_ITER, subtract_background

    refuse_absent(clip)
    folder = out or Path(f"{clip.stem or 'film'}-separated")
    region = None if roi is None else read_roi(roi)
    with counting_bar(not quiet, "reading") as tick:
        film = read_film(clip, frames=frames, scale=scale, color=color, tick=tick)
    for remark in film.remarks:
        print(f"note: {remark}", file=sys.stderr)
    files = prepare_folder(folder, NAMES, force)
    for file in files:
        refuse_unwritable(file)
    with interruptible() as interrupted:
        with progress_bar(not quiet, MAX_ITER) as draw:
            result = subtract_background(
                film.frames,
                rank=rank,
                threshold=threshold,
                roi=region,
                random_state=seed,
                callback=lambda state: bool((draw and draw(state)) or interrupted),
            )
        summary = summary_of(result, film.rate)
        with counting_bar(not quiet, "writing") as tick:
            write_outputs(folder, result, clip.name, film.rate, described(summary), tick)
    summary |= {"lost_frames": film.lost, "output": str(folder), "report": str(files[-1])}
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        print_table(summary)
    if interrupted:
        print(f"interrupted: what was found by then is in {folder}", file=sys.stderr)
        raise InterruptedRunError
