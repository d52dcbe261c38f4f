"""How much of what can be recovered at all is recovered: Figure 1's problem up to the limit.

``python -m benchmarks.frontier`` runs the cells R = 5, 10, ..., m = 5 %, 10 %, ... of the entries
for which the free parameters of X and the outliers are together fewer than the entries.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks.timing import table

EXACT, PAPER = 1e-6, 1e-3


def problem(shape, rank, outliers, seed, kind="normal", missing=0.0):
    """Z with NaN for what is missing, and X."""
    rng = np.random.default_rng([seed, rank, round(1000 * outliers)])
    factors = [rng.standard_normal((d, rank)) for d in shape]
    X = factors[0]
    for a in factors[1:]:
        X = np.einsum("...r,dr->...dr", X, a)
    X = X.sum(axis=-1)
    where = rng.permutation(X.size)[: round(outliers * X.size)]
    values = {
        "normal": rng.standard_normal,
        "tenth": lambda n: 0.1 * rng.standard_normal(n),
        "tenfold": lambda n: 10 * rng.standard_normal(n),
        "cauchy": rng.standard_cauchy,
        "one-signed": lambda n: np.abs(rng.standard_normal(n)),
    }[kind](where.size)
    Z = X.copy()
    Z.ravel()[where] += values
    if missing:
        Z.ravel()[rng.permutation(Z.size)[: round(missing * Z.size)]] = np.nan
    return Z, X


def cells(shape, missing=0.0, ranks=5, outliers=0.05):
    """Pairs (R, m / N) below the information limit."""
    size = math.prod(shape)
    free = sum(shape) - len(shape) + 1
    found = []
    for i in range(1, 1 + size // free // ranks):
        for j in range(1, math.ceil(0.85 / outliers) + 1):
            R, m = ranks * i, outliers * j
            if m < 0.851 and R * free + m * (1 - missing) * size < (1 - missing) * size:
                found.append((R, round(m, 6)))
    return found


def trial(shape, R, m, seed, options):
    """Run one trial of one method."""
    from tensor_rpca import decompose

    Z, X = problem(shape, R, m, seed, options["kind"], options["missing"])
    bound = 2 * R if options["bound"] == "2R" else R + 10
    how = {"solver": "auto"}
    if options["method"] == "paper":
        how = {"solver": "lbfgs", "lambda_x": 1e-5, "lambda_s": 1e-3}
    start = time.perf_counter()
    result = decompose(Z, bound, random_state=seed, **how)
    seconds = time.perf_counter() - start
    error = float(np.linalg.norm(result.low_rank.to_dense() - X) / np.linalg.norm(X))
    return {
        "R": R,
        "m": m,
        "seed": seed,
        "error": error,
        "rank": result.low_rank.rank,
        "seconds": seconds,
        "evaluations": result.n_evaluations,
    }


def run_grid(shape, options, chosen, seeds, jobs):
    """All trials, in parallel processes of one thread each."""
    work = [(R, m, seed) for R, m in chosen for seed in seeds]
    return Parallel(n_jobs=jobs, batch_size=1)(
        delayed(trial)(shape, R, m, seed, options) for R, m, seed in work
    )


def summary(trials):
    """Cells recovered, each the fraction of its seeds."""
    n_seeds = len({t["seed"] for t in trials})
    exact = [t for t in trials if t["error"] < EXACT]
    right = sum(t["rank"] == t["R"] for t in exact)
    return {
        "cells": len(trials) // n_seeds,
        "seeds": n_seeds,
        "exact": len(exact) / n_seeds,
        "paper": sum(t["error"] < PAPER for t in trials) / n_seeds,
        "right": right / max(1, len(exact)),
        "seconds": float(np.median([t["seconds"] for t in trials])),
        "mean": float(np.mean([t["seconds"] for t in trials])),
    }


def picture(trials):
    """Print a map: rows R, columns outliers; # exact, + within 1e-3, . neither, for each seed."""
    ranks = sorted({t["R"] for t in trials})
    columns = sorted({t["m"] for t in trials})
    marks = {}
    for t in trials:
        mark = "#" if t["error"] < EXACT else "+" if t["error"] < PAPER else "."
        marks[t["R"], t["m"]] = marks.get((t["R"], t["m"]), "") + mark
    width = max(map(len, marks.values()))
    for R in ranks:
        print(f"{R:4d} " + " ".join(marks.get((R, m), "").ljust(width) for m in columns))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="20x20x20")
    parser.add_argument("--method", choices=["auto", "paper"], default="auto")
    parser.add_argument("--kind", default="normal")
    parser.add_argument("--missing", type=float, default=0.0)
    parser.add_argument("--bound", choices=["R+10", "2R"], default="R+10")
    parser.add_argument("--ranks", type=int, default=5, help="step of R")
    parser.add_argument("--outliers", type=float, default=0.05, help="step of m / N")
    parser.add_argument("--every", type=int, default=1, help="only every so many cells")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    shape = tuple(int(d) for d in given.shape.split("x"))
    options = {k: getattr(given, k) for k in ("method", "kind", "missing", "bound")}
    chosen = cells(shape, given.missing, given.ranks, given.outliers)[:: given.every]
    trials = run_grid(shape, options, chosen, given.seeds, given.jobs)
    picture(trials)
    s = summary(trials)
    print(
        table(
            ["method", "cells", "seeds", "exact", "%", "within 1e-3", "rank right", "median s"],
            [
                [
                    given.method,
                    str(s["cells"]),
                    str(s["seeds"]),
                    f"{s['exact']:.1f}",
                    f"{100 * s['exact'] / s['cells']:.1f}",
                    f"{s['paper']:.1f}",
                    f"{s['right']:.1%}",
                    f"{s['seconds']:.2f}",
                ]
            ],
        )
    )
    print(f"mean seconds {s['mean']:.2f}")
    if given.json:
        given.json.write_text(json.dumps(trials))


if __name__ == "__main__":
    main()
