"""``tensor-rpca reproduce``: the paper's experiments, rerun; one command an experiment."""

from __future__ import annotations

import typer

from tensor_rpca.commands.escalator import escalator_command
from tensor_rpca.commands.figure1 import figure1_command
from tensor_rpca.commands.newsgroups import newsgroups_command

reproduce_app = typer.Typer(help="Rerun an experiment of the paper.", no_args_is_help=True)


@reproduce_app.callback()
def _reproduce() -> None:
    """Rerun an experiment of the paper."""


reproduce_app.command("figure1")(figure1_command)
reproduce_app.command("escalator")(escalator_command)
reproduce_app.command("newsgroups")(newsgroups_command)
