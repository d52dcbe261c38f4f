"""``tensor-rpca reproduce newsgroups``: the paper's topics of 20 Newsgroups."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensor_rpca.commands.common import Force, Json, Out, Quiet, Seed, prepare_folder


def newsgroups_command(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of train.jsonl.gz and test.jsonl.gz; fetched if not given."),
    ] = None,
    out: Out = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Five topics of 20 Newsgroups: variational Bayes, tensor CPD, tensor RPCA, TensorLDA."""
    from tensor_rpca.experiments.newsgroups import run, to_markdown
    from tensor_rpca.files import written_whole

    folder = out or Path("newsgroups")
    files = prepare_folder(folder, ["newsgroups.md", "newsgroups.json"], force)
    if data is not None and (data / "newsgroups").is_dir():
        data = data / "newsgroups"

    def tell(method: str) -> None:
        if not quiet:
            print(f"{method} ...", file=sys.stderr, flush=True)

    rows = run(data, seed, tell)
    text = to_markdown(rows)
    record = json.dumps([dataclasses.asdict(row) for row in rows], indent=1)
    for file, content in zip(files, (text, record), strict=True):
        with written_whole(file) as temporary:
            temporary.write_text(content, encoding="utf-8")
    if as_json:
        print(record)
    elif not quiet:
        print(text)
