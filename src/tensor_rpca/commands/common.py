"""What commands share: options, refusals, interrupts, saving, and the summary table."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tensor_rpca.result import Decomposition

Out = Annotated[Path | None, typer.Option("-o", "--out", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Seed = Annotated[int, typer.Option(help="Of the random start; the same seed, the same result.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no table.")]


class InterruptedRunError(Exception):
    """Interrupted, and the point reached is saved."""


class RefusalError(Exception):
    """A message for the user; the command ends with exit code 2."""


def refuse_existing(target: Path, force: bool) -> None:
    """Find out before hours of work whether the result can be kept."""
    from tensor_rpca.files import refuse_unwritable

    if target.is_file() and not force:
        raise RefusalError(f"{target} exists; --force overwrites it, -o names another file")
    refuse_unwritable(target)


def prepare_folder(folder: Path, names: Sequence[str], force: bool) -> list[Path]:
    """Paths of files to be written into a folder, made if absent; refuse to overwrite them."""
    if folder.exists() and not folder.is_dir():
        raise RefusalError(f"{folder} is a file; name a folder with -o")
    files = [folder / name for name in names]
    for file in files:
        if file.exists() and not force:
            raise RefusalError(f"{file} exists; --force overwrites it, -o names another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusalError(f"cannot make the folder {folder}: {error.strerror}") from None
    return files


def save_result(result: Decomposition, target: Path) -> Path:
    """Save; if the disk has filled up meanwhile, rather elsewhere than not at all."""
    try:
        return result.save(target)
    except (OSError, ValueError) as error:
        rescue = Path(tempfile.mkdtemp(prefix="tensor-rpca-")) / target.name
        result.save(rescue)
        print(f"error: {error}; the result is in {rescue} instead", file=sys.stderr)
        raise typer.Exit(2) from None


@contextmanager
def interruptible() -> Iterator[list[int]]:
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


def summarise(result: Decomposition, written: Path) -> dict[str, Any]:
    """What the table and ``--json`` tell of a result."""
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


def print_table(summary: dict[str, Any]) -> None:
    """Print a summary for people."""
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
        table.add_row(name.replace("_", " "), Text(text, overflow="fold"))
    Console().print(table)
