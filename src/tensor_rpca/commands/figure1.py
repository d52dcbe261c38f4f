"""``tensor-rpca reproduce figure1``: recovery by each method, over rank and outliers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensor_rpca.commands.common import (
    Force,
    InterruptedRunError,
    Json,
    Out,
    Quiet,
    RefusalError,
    Seed,
    prepare_folder,
)

if TYPE_CHECKING:
    from tensor_rpca.experiments.cell_store import CellStore
    from tensor_rpca.experiments.figure1 import Grid

NAMES = ("figure1.png", "figure1.svg", "figure1.json", "figure1.md")
CELLS = "figure1.cells.jsonl"
KEY = ("method", "rank", "percent", "seed", "trials")


def figure1_command(
    out: Out = None,
    quick: Annotated[bool, typer.Option("--quick", help="16 cells, a few trials each.")] = False,
    full: Annotated[bool, typer.Option("--full", help="192 cells, 16 trials each.")] = False,
    methods: Annotated[
        str | None, typer.Option(help="Panels, separated by commas; all if left out.")
    ] = None,
    auto_trials: Annotated[
        int | None, typer.Option(min=1, max=16, help="Trials a cell of the default solver.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; as many as cores if left out.")] = 0,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Rerun Figure 1; finished cells are kept, and a second run goes on where the first ended."""
    import dataclasses

    from joblib import cpu_count

    from tensor_rpca.experiments import figure1
    from tensor_rpca.experiments.cell_store import CellStore
    from tensor_rpca.experiments.figure1_drawing import draw_figure1

    if quick and full:
        raise RefusalError("--quick and --full exclude each other")
    grid = figure1.FULL if full else figure1.QUICK
    if auto_trials is not None:
        grid = dataclasses.replace(grid, auto_trials=auto_trials)
    chosen = _chosen(methods, tuple(figure1.METHODS))
    folder = out or Path("tensor-rpca-figure1")
    png, svg, record, page = prepare_folder(folder, NAMES, force)
    store = CellStore(folder / CELLS, KEY)
    _run(store, grid, chosen, seed, jobs or cpu_count(), quiet)

    cells = [
        store.get(method, rank, percent, seed, trials)
        for method, rank, percent, trials in figure1.cells_of(grid, chosen)
    ]
    finished = [cell for cell in cells if cell is not None]
    rows = figure1.summarise_methods(finished)
    draw_figure1(finished, [png, svg])
    figure1.write_record(record, finished, rows, grid, seed)
    figure1.write_table(page, rows)
    if as_json:
        print(json.dumps({"methods": rows, "output": str(folder)}, indent=2))
    elif not quiet:
        _print_rows(rows, folder)


def _chosen(methods: str | None, known: Sequence[str]) -> list[str]:
    if methods is None:
        return list(known)
    listed = [name.strip() for name in methods.split(",")]
    for name in listed:
        if name not in known:
            raise RefusalError(f"--methods: {name!r} is unknown; choose from {', '.join(known)}")
    return [name for name in known if name in listed]


def _run(
    store: CellStore, grid: Grid, methods: Sequence[str], seed: int, jobs: int, quiet: bool
) -> None:
    """Compute what the store does not have."""
    from tensor_rpca.experiments import figure1

    cells = figure1.cells_of(grid, methods)
    missing = [cell for cell in cells if store.get(*cell[:3], seed, cell[3]) is None]
    if missing and len(missing) < len(cells) and not quiet:
        print(f"{len(cells) - len(missing)} of {len(cells)} cells are on disk", file=sys.stderr)
    try:
        with _bar(len(cells), len(cells) - len(missing), quiet) as advance:
            for cell in figure1.run_cells(missing, seed, jobs):
                store.add(cell)
                advance(cell)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; {len(store)} finished cells are kept, and the same command goes on",
            file=sys.stderr,
        )
        raise InterruptedRunError from None


@contextmanager
def _bar(total: int, done: int, quiet: bool) -> Iterator[Any]:
    """Yield what to call with each finished cell."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        MofNCompleteColumn(),
        TextColumn("cells"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left; {task.fields[method]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet, speed_estimate_period=120) as progress:
        task = progress.add_task("", total=total, completed=done, method="")
        yield lambda cell: progress.update(task, advance=1, method=cell["method"])


def _print_rows(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("method", "trials a cell", "cells recovered", "of", "highest R", "median s"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        table.add_row(
            row["title"],
            str(row["trials"]),
            f"{row['recovered']:.1f}",
            str(row["cells"]),
            str(row["highest_rank"] or "-"),
            f"{row['median_seconds']:.3g}",
        )
    Console().print(table)
    print(f"written to {folder}")
