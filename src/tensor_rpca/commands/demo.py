"""``tensor-rpca demo``: a generated film, taken apart."""

from __future__ import annotations

import json
from pathlib import Path

from tensor_rpca.commands.common import (
    Force,
    Json,
    Out,
    Quiet,
    Seed,
    prepare_folder,
    print_table,
    summarise,
)


def demo_command(
    out: Out = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Separate a generated film into background and passers-by; leave a picture to look at."""
    import numpy as np

    from tensor_rpca.datasets import flickering_scene
    from tensor_rpca.decomposition import decompose
    from tensor_rpca.report.figures import separation_figure

    folder = out or Path("tensor-rpca-demo")
    files = prepare_folder(folder, ["demo.png", "demo.npz"], force)
    Z, X, S = flickering_scene(random_state=seed)
    result = decompose(
        Z,
        rank=10,
        lambda_s=0.03,
        lambda_x=0.9,
        random_state=seed,
        progress=not quiet,
    )
    separation_figure(Z, result, files[0], frames=[12, 30, 48])
    result.save(files[1])
    error = float(np.linalg.norm(result.low_rank.to_dense() - X) / np.linalg.norm(X))
    found, true = np.abs(result.sparse.toarray()) > 0.2, np.abs(S) > 0.2
    f_measure = 2 * float((found & true).sum()) / float(found.sum() + true.sum())
    summary = summarise(result, files[1])
    summary |= {"picture": str(files[0]), "relative_error": error, "f_measure": f_measure}
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        print_table(summary)
