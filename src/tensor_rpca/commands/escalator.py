"""``tensor-rpca reproduce escalator``: section 6.2 on the paper's clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tensor_rpca.commands.common import Force, Json, Out, Quiet, RefusalError, Seed, prepare_folder

NAMES = ("escalator.png", "escalator.md", "escalator.json")


def escalator_command(
    data: Annotated[
        Path | None, typer.Option(help="The clip's .npz, .npy or .mat; fetched if left out.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Bound of matrix RPCA, for pixels from 0 to 1; see docs/video.md."),
    ] = None,
    out: Out = None,
    quick: Annotated[bool, typer.Option("--quick", help="100 iterations.")] = False,
    full: Annotated[bool, typer.Option("--full", help="2,000 iterations.")] = False,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Separate the escalator clip by tensor and by matrix RPCA, with the paper's settings."""
    from tensor_rpca.experiments import escalator
    from tensor_rpca.progress import counting_bar, progress_bar
    from tensor_rpca.validation import check_positive

    if epsilon is not None:
        epsilon = check_positive("epsilon", epsilon)
    if quick and full:
        raise RefusalError("--quick and --full exclude each other")
    limit = 100 if quick else 2000 if full else 500
    clip = escalator.load_escalator(data)
    png, page, saved = prepare_folder(out or Path("tensor-rpca-escalator"), NAMES, force)
    with progress_bar(not quiet, limit) as draw:
        tensor = escalator.run_tensor(clip, limit, seed, draw)
    with counting_bar(not quiet, "matrix RPCA"):
        matrix = escalator.run_matrix(clip, epsilon, limit)
    rows = [matrix, tensor]
    escalator.draw_escalator(clip, rows, png)
    escalator.write_table(page, rows)
    escalator.write_record(saved, rows)
    if as_json:
        print(json.dumps({"methods": escalator.record(rows), "output": str(png.parent)}, indent=2))
    elif not quiet:
        print(page.read_text(encoding="utf-8"), end="")
        print(f"written to {png.parent}")
