"""``tensor-rpca demo``: a generated film, taken apart and compared with the truth."""

from __future__ import annotations

import json
from pathlib import Path

from tensor_rpca.commands.common import Force, Json, Out, Quiet, Seed, prepare_folder, print_table


def demo_command(
    out: Out = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Separate people from a lobby with a moving escalator, in a film drawn for the purpose."""
    from tensor_rpca.progress import counting_bar, progress_bar
    from tensor_rpca.video import subtract_background, write
    from tensor_rpca.video.outputs import NAMES, described, draw_parts, summary_of, write_outputs
    from tensor_rpca.video.scene import lobby_scene
    from tensor_rpca.video.subtract import MAX_ITER

    folder = out or Path("tensor-rpca-demo")
    names = ["original.mp4", "demo.png", *NAMES]
    original, picture, *files = prepare_folder(folder, names, force)
    clip, truth = lobby_scene(random_state=seed)
    write(original, clip)
    with progress_bar(not quiet, MAX_ITER) as draw:
        result = subtract_background(clip, random_state=seed, callback=draw)
    both = int((result.mask & truth).sum())
    f_measure = 2 * both / (int(result.mask.sum()) + int(truth.sum()))
    summary = summary_of(result, 25.0)
    numbers = described(summary) | {"F-measure against the truth": f"{f_measure:.3f}"}
    with counting_bar(not quiet, "writing") as tick:
        write_outputs(folder, result, "A lobby with a moving escalator", 25.0, numbers, tick)
    draw_parts(picture, result, len(clip) // 2)
    summary |= {"output": str(folder), "f_measure": f_measure, "report": str(files[-1])}
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        print_table(summary)
