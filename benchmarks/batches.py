"""Many small tensors: one call for all against one call each."""

import numpy as np

from benchmarks.frontier import problem
from benchmarks.timing import alternate, table

CASES = [(5, 0.1), (10, 0.1), (25, 0.2)]
N = 24


def run(quick):
    """Return a Markdown section."""
    from tensor_rpca import decompose, decompose_batch

    rows = []
    for R, m in CASES[:1] if quick else CASES:
        Zs = np.stack([problem((20, 20, 20), R, m, seed)[0] for seed in range(N)])
        seconds = alternate(
            {
                "each": lambda Zs=Zs, R=R: [
                    decompose(Z, R + 10, random_state=i) for i, Z in enumerate(Zs)
                ],
                "batch": lambda Zs=Zs, R=R: decompose_batch(Zs, R + 10, random_state=0),
            },
            1,
        )
        per_second = {name: N / s for name, s in seconds.items()}
        rows.append(
            [
                str(R),
                f"{m:.0%}",
                f"{per_second['each']:.1f}",
                f"{per_second['batch']:.1f}",
                f"{per_second['batch'] / per_second['each']:.2f}",
            ]
        )
    head = ["R", "outliers", "one call each, tensors a second", "decompose_batch", "ratio"]
    return f"## Batches\n\n{N} tensors of 20x20x20, default solver.\n\n{table(head, rows)}"


if __name__ == "__main__":
    print(run(quick=False))
