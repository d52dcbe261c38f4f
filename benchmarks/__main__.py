"""Run all benchmarks and write docs/benchmarks.md; ``--quick`` prints a few and writes nothing."""

import sys
from pathlib import Path

from benchmarks import batches, calls, memory, noise, peers, rivals, scale, sweeps, video
from benchmarks.timing import machine

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    parts = [
        "# Benchmarks\n\nWritten by `make bench`; every figure is measured in one run on one "
        f"machine, so the ratios are what carries over.\n\nMachine: {machine()}.\n"
    ]
    for section in (sweeps, calls, batches, peers, rivals, memory, scale, noise, video):
        print(f"{section.__name__} ...", file=sys.stderr, flush=True)
        parts.append(section.run(quick))
    page = "\n".join(parts)
    print(page)
    if not quick:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
