"""``tensor-rpca reproduce``: the paper's experiments, rerun; one command an experiment."""

from __future__ import annotations

import typer

reproduce_app = typer.Typer(help="Rerun an experiment of the paper.", no_args_is_help=True)
