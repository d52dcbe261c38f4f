"""``tensor-rpca decompose``: a file in, a decomposition out."""

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
    RefusalError,
    Seed,
    interruptible,
    print_table,
    refuse_existing,
    save_result,
    summarise,
)


def decompose_command(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="A tensor: .npy, .npz, .mat, .h5 or .zarr.")
    ],
    rank: Annotated[int | None, typer.Option(help="Upper bound on the components.")] = None,
    out: Out = None,
    array: Annotated[str | None, typer.Option(help="Which array, if INPUT holds several.")] = None,
    lambda_x: Annotated[float | None, typer.Option(help="Weight of the low-rank part.")] = None,
    lambda_s: Annotated[float | None, typer.Option(help="Weight of the sparse part.")] = None,
    solver: Annotated[str, typer.Option(help="auto or lbfgs.")] = "auto",
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative gradient to stop at.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Split a tensor into a low-rank and a sparse part, written to one .npz file.

    Ctrl-C stops after the running iteration and saves the point reached.
    """
    from tensor_rpca.decomposition import decompose
    from tensor_rpca.files import refuse_absent
    from tensor_rpca.io import read_tensor

    if not source.name:
        raise RefusalError(f"{source} is a folder; name a file in it")
    if out is not None and not out.name:
        raise RefusalError(f"{out} is a folder; name a file in it")
    target = out or source.with_name(f"{source.stem}.decomposition.npz")
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    refuse_absent(source)
    refuse_existing(target, force)
    Z = read_tensor(source, array)
    with interruptible() as interrupted:
        result = decompose(
            Z,
            rank,
            lambda_x=lambda_x,
            lambda_s=lambda_s,
            solver=solver,
            max_iter=max_iter,
            tol=tol,
            random_state=seed,
            progress=not quiet,
            callback=lambda _: bool(interrupted),
        )
        written = save_result(result, target)
    summary = summarise(result, written)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        print_table(summary)
    if interrupted:
        print(f"interrupted: the point reached is in {written}", file=sys.stderr)
        raise InterruptedRunError
