"""The command line: a thin face of the library; errors exit with 2, interrupts with 130."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tensor_rpca.commands.common import InterruptedRunError, RefusalError
from tensor_rpca.commands.decompose import decompose_command
from tensor_rpca.commands.demo import demo_command
from tensor_rpca.commands.reproduce import reproduce_app
from tensor_rpca.commands.topics import topics_command
from tensor_rpca.commands.video import video_command

app = typer.Typer(
    name="tensor-rpca",
    help="Low rank plus outliers, for tensors of any order.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

app.command("decompose")(decompose_command)
app.command("video")(video_command)
app.command("demo")(demo_command)
app.command("topics")(topics_command)
app.add_typer(reproduce_app, name="reproduce")

INTERRUPTED = 130  # what Typer returns for a KeyboardInterrupt


def main() -> None:
    """Run the command line."""
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code or 0)
    except InterruptedRunError:
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
