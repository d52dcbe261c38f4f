"""Run the benchmarks and write docs/benchmarks.md.

``--quick`` prints small versions and writes nothing; ``--only video topics`` measures these
sections anew and leaves the others as they are.
"""

import argparse
import re
import sys
from pathlib import Path

from benchmarks import (
    batches,
    calls,
    memory,
    noise,
    peers,
    rivals,
    scale,
    sweeps,
    topics,
    video,
)
from benchmarks.timing import machine

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
SECTIONS = {
    module.__name__.split(".")[-1]: module
    for module in (sweeps, calls, batches, peers, rivals, memory, scale, noise, video, topics)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION")
    given = parser.parse_args()
    # Each section stands after a comment with its name.
    kept = dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!-- |\Z)", PAGE.read_text(), re.S))
    for name in given.only or SECTIONS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        kept[name] = SECTIONS[name].run(given.quick)
        print(kept[name], flush=True)
        if not given.quick:
            _write(kept)


def _write(sections: dict[str, str]) -> None:
    parts = [
        "# Benchmarks\n\nWritten by `make bench`; every section is measured in one run on one "
        f"machine, so the ratios are what carries over.\n\nMachine: {machine()}.\n"
    ]
    present = [name for name in SECTIONS if name in sections]
    parts += [f"<!-- {name} -->\n{sections[name].strip()}\n" for name in present]
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
