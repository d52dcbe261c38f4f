"""With dense noise: the default against an oracle that knows rank, support and a perfect start."""

import numpy as np
from joblib import Parallel, delayed

from benchmarks.frontier import problem
from benchmarks.timing import table

SHAPE = (20, 20, 20)
CASES = [(R, m, dB) for R in (5, 10, 20) for m in (0.1, 0.3) for dB in (20, 40, 60)]


def trial(R, m, decibels, seed):
    """Errors of the default and the oracle, F1 of the support, and the rank found."""
    from tensor_rpca import decompose

    clean, X = problem(SHAPE, R, m, seed)
    support = clean != X
    size = np.sqrt(np.mean(X**2))
    noise = np.random.default_rng(seed).standard_normal(SHAPE) * size * 10 ** (-decibels / 20)
    Z = clean + noise
    found = decompose(Z, R + 10, random_state=seed)
    rng = np.random.default_rng([seed, R, round(1000 * m)])
    start = [rng.standard_normal((d, R)) for d in SHAPE]  # those that made X
    # Huber's loss below its threshold is least squares, and lambda_x next to nothing.
    best = decompose(
        np.where(support, np.nan, Z),
        init=start,
        solver="lbfgs",
        lambda_x=1e-9 * size,
        lambda_s=1e6 * size,
        tol=1e-9,
        max_iter=3000,
    )
    marked = found.sparse.toarray() != 0
    hits = np.count_nonzero(marked & support)
    f1 = 2 * hits / (np.count_nonzero(marked) + np.count_nonzero(support))
    errors = [np.linalg.norm(r.low_rank.to_dense() - X) / np.linalg.norm(X) for r in (found, best)]
    return errors[0], errors[1], f1, found.low_rank.rank == R


def run(quick):
    """Return a Markdown section."""
    cases = CASES[::6] if quick else CASES
    seeds = range(1 if quick else 5)
    trials = Parallel(n_jobs=2, batch_size=1)(
        delayed(trial)(*case, seed) for case in cases for seed in seeds
    )
    rows = []
    for case, of_case in zip(
        cases, np.array(trials, float).reshape(len(cases), -1, 4), strict=True
    ):
        ours, best, f1, right = of_case.mean(axis=0)
        worst = np.max(of_case[:, 0] / of_case[:, 1])
        R, m, decibels = case
        rows.append(
            [
                str(R),
                f"{m:.0%}",
                f"{decibels} dB",
                f"{ours:.2e}",
                f"{best:.2e}",
                f"{ours / best:.2f}",
                f"{worst:.2f}",
                f"{f1:.2f}",
                f"{right:.0%}",
            ]
        )
    head = [
        "R",
        "outliers",
        "noise",
        "error",
        "oracle",
        "ratio",
        "worst",
        "support F1",
        "rank right",
    ]
    return (
        "## Dense noise\n\n20x20x20, normal outliers, rank bound R + 10; the oracle knows rank "
        f"and support and starts at the truth. {len(seeds)} seeds. F1 counts every outlier, also "
        f"those smaller than the noise.\n\n{table(head, rows)}"
    )


if __name__ == "__main__":
    print(run(quick=False))
