"""The command line: a thin face of decompose(); errors exit with 2, interrupts with 130."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tensor_rpca.result import Decomposition

app = typer.Typer(
    name="tensor-rpca",
    help="Low rank plus outliers, for tensors of any order.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

Out = Annotated[Path | None, typer.Option("-o", "--out", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Seed = Annotated[int, typer.Option(help="Of the random start; the same seed, the same result.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no table.")]


INTERRUPTED = 130  # what Typer returns for a KeyboardInterrupt


class _SavedError(Exception):
    """Interrupted, and the point reached is saved."""


class RefusalError(Exception):
    """A message for the user; the command ends with exit code 2."""


def main() -> None:
    """Run the command line."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code or 0)
    except _SavedError:
        sys.exit(130)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Print one line that a user can act on; what we did not foresee keeps its traceback."""
    if hasattr(error, "format_message"):  # Click's own: a wrong option or argument
        error.show()  # type: ignore[attr-defined]
        return 2
    if isinstance(error, RefusalError | ValueError | TypeError | MemoryError | OSError):
        print(f"error: {error or type(error).__name__}", file=sys.stderr)
        return 2
    raise error


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"tensor-rpca {installed('tensor-rpca')}")
        raise typer.Exit


@app.command("decompose")
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
    _refuse_unwritable(target, force)
    Z = read_tensor(source, array)
    with _interruptible() as interrupted:
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
        written = _save(result, target)
    summary = _summary(result, written)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        _print_table(summary)
    if interrupted:
        print(f"interrupted: the point reached is in {written}", file=sys.stderr)
        raise _SavedError


@app.command("demo")
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
    files = [folder / name for name in ("demo.png", "demo.npz")]
    if folder.exists() and not folder.is_dir():
        raise RefusalError(f"{folder} is a file; name a folder with -o")
    for file in files:
        if file.exists() and not force:
            raise RefusalError(f"{file} exists; --force overwrites it, -o names another folder")
    folder.mkdir(parents=True, exist_ok=True)
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
    summary = _summary(result, files[1])
    summary |= {"picture": str(files[0]), "relative_error": error, "f_measure": f_measure}
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        _print_table(summary)


def _refuse_unwritable(target: Path, force: bool) -> None:
    """Find out before hours of work whether the result can be kept."""
    from tensor_rpca.files import refuse_unwritable

    if target.is_file() and not force:
        raise RefusalError(f"{target} exists; --force overwrites it, -o names another file")
    refuse_unwritable(target)


def _save(result: Decomposition, target: Path) -> Path:
    """Save; if the disk has filled up meanwhile, rather elsewhere than not at all."""
    try:
        return result.save(target)
    except (OSError, ValueError) as error:
        rescue = Path(tempfile.mkdtemp(prefix="tensor-rpca-")) / target.name
        result.save(rescue)
        print(f"error: {error}; the result is in {rescue} instead", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Collect Ctrl-C in a list that is true once it happened; the second one ends the program."""
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nstopping after this iteration and saving; Ctrl-C again gives up", file=sys.stderr)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield caught
    finally:
        signal.signal(signal.SIGINT, before)


def _summary(result: Decomposition, written: Path) -> dict[str, Any]:
    return {
        "shape": list(result.low_rank.shape),
        "rank": result.low_rank.rank,
        "weights": [float(w) for w in result.low_rank.weights],
        "degrees_of_freedom": result.low_rank.degrees_of_freedom,
        "sparse_entries": int(result.sparse.nnz),
        "sparse_fraction": result.density,
        "lambda_x": result.lambda_x,
        "lambda_s": result.lambda_s,
        "objective": result.objective,
        "iterations": result.n_iter,
        "evaluations": result.n_evaluations,
        "converged": result.converged,
        "message": result.message,
        "verdict": result.certificate.verdict,
        "seconds": result.seconds,
        "output": str(written),
    }


def _print_table(summary: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in summary.items():
        if name == "shape":
            text = " x ".join(map(str, value))
        elif name == "weights":
            text = ", ".join(f"{w:.4g}" for w in value[:6]) + (", ..." if len(value) > 6 else "")
        elif isinstance(value, float):
            text = f"{value:.4g}"
        elif isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, int):
            text = f"{value:,}"
        else:
            text = str(value)
        table.add_row(name.replace("_", " "), Text(text))
    Console().print(table)
