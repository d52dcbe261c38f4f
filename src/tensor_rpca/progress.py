"""A progress bar on standard error; Rich is imported only when one is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensor_rpca.result import State


@contextmanager
def progress_bar(shown: bool, max_iter: int | None) -> Iterator[Callable[[State], Any] | None]:
    """Yield a callback that draws iteration, objective, components alive and time left."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("iteration {task.completed:>5.0f}"),
        BarColumn(bar_width=24),
        TextColumn("objective {task.fields[objective]:.6g}"),
        TextColumn("components {task.fields[rank]}"),
        TimeElapsedColumn(),
        TextColumn("at most"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=max_iter, objective=float("nan"), rank="-")

        def draw(state: State) -> None:
            # Counting components costs as much as drawing: only when the bar is redrawn.
            if state.iteration % 10 == 1 or state.iteration == max_iter:
                progress.update(task, rank=state.rank)
            progress.update(task, completed=state.iteration, objective=state.objective)

        yield draw


@contextmanager
def counted(what: str, shown: bool, total: int) -> Iterator[Callable[[int], None] | None]:
    """Yield a callback that draws how many of so many things are done."""
    if not shown or total == 0:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description} {task.completed:>5.0f}"),
        BarColumn(bar_width=24),
        TextColumn("of {task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
