"""How much of what can be recovered at all is recovered: Figure 1's problem up to the limit.

``python -m benchmarks.frontier --write``, the second half of ``make bench``, prints the score and
writes docs/frontier.md and its picture. The cells are R = 5, 10, ..., m = 5 %, 10 %, ... of the
entries for which the free parameters of X and the outliers are together fewer than the entries.
"""

import argparse
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks.timing import machine, table

EXACT, PAPER = 1e-6, 1e-3
DOCS = Path(__file__).parent.parent / "docs"
METHODS = {"paper": "the paper's settings", "auto": "default"}


@dataclass(frozen=True)
class Setting:
    """A family of problems and the cells of it to run."""

    name: str
    shape: tuple[int, ...] = (20, 20, 20)
    kind: str = "normal"
    missing: float = 0.0
    bound: str = "R+10"
    ranks: int = 20
    outliers: float = 0.15


FIGURE_1 = Setting("Figure 1", ranks=5, outliers=0.05)
COARSE = Setting("Figure 1, coarser grid")
VARIANTS = (
    COARSE,
    replace(COARSE, name="rank bound 2R", bound="2R"),
    replace(COARSE, name="outliers a tenth as large", kind="tenth"),
    replace(COARSE, name="outliers ten times as large", kind="tenfold"),
    replace(COARSE, name="Cauchy outliers", kind="cauchy"),
    replace(COARSE, name="outliers of one sign", kind="one-signed"),
    replace(COARSE, name="30 % missing", missing=0.3),
    replace(COARSE, name="60 % missing", missing=0.6, ranks=10),
    replace(COARSE, name="15x20x30", shape=(15, 20, 30)),
    replace(COARSE, name="12x12x12x12", shape=(12, 12, 12, 12), ranks=60),
    replace(COARSE, name="40x40x40", shape=(40, 40, 40), ranks=90, outliers=0.2),
)


@dataclass
class Trial:
    """One tensor, one method; seconds of processor time, for one thread."""

    R: int
    m: float
    seed: int
    error: float
    rank: int
    seconds: float
    setting: Setting = field(repr=False)


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


def free_per_component(shape):
    return sum(shape) - len(shape) + 1


def cells(setting):
    """Pairs (R, m / N) below the information limit."""
    size = math.prod(setting.shape) * (1 - setting.missing)
    free = free_per_component(setting.shape)
    ranks, outliers = setting.ranks, setting.outliers
    grid = [
        (ranks * i, round(outliers * j, 6))
        for i in range(1, 1 + int(size / free / ranks))
        for j in range(1, math.ceil(0.85 / outliers) + 1)
    ]
    return [(R, m) for R, m in grid if m < 0.851 and R * free + m * size < size]


def parameters_an_entry(m):
    """How many free parameters an entry any loss can recover, R d / N in the limit of large N.

    A loss whose error is tau has next an error of ``tau'^2 = kappa / I(tau)`` at best, I the Fisher
    information of an entry's noise, outlier or none, blurred by tau g (Bean, Bickel, El Karoui and
    Yu 2013). It falls to zero if ``kappa < tau^2 I(tau)`` for all tau.
    """
    least = 1.0
    for tau in np.geomspace(1e-3, 10, 200):
        wide = math.hypot(1, tau)
        u = np.geomspace(1e-4 * tau, 12 * wide, 4000)
        clean = (1 - m) * np.exp(-0.5 * (u / tau) ** 2) / tau
        outlier = m * np.exp(-0.5 * (u / wide) ** 2) / wide
        density, slope = clean + outlier, clean * u / tau**2 + outlier * u / wide**2
        inner = np.divide(slope**2, density, out=np.zeros_like(u), where=density > 0)
        least = min(least, tau**2 * 2 * np.trapezoid(inner, u) / math.sqrt(2 * math.pi))
    return least


def trial(setting, method, R, m, seed):
    """Run one method on one tensor."""
    from tensor_rpca import decompose

    Z, X = problem(setting.shape, R, m, seed, setting.kind, setting.missing)
    bound = 2 * R if setting.bound == "2R" else R + 10
    how = {"solver": "lbfgs", "lambda_x": 1e-5, "lambda_s": 1e-3} if method == "paper" else {}
    start = time.process_time()
    result = decompose(Z, bound, random_state=seed, **how)
    seconds = time.process_time() - start
    error = float(np.linalg.norm(result.low_rank.to_dense() - X) / np.linalg.norm(X))
    return Trial(R, m, seed, error, result.low_rank.rank, seconds, setting)


def run_grid(setting, method, seeds, jobs=2, every=1):
    """All trials, in parallel processes of one thread each, the longest first."""
    work = [(R, m, seed) for R, m in reversed(cells(setting)[::every]) for seed in seeds]
    return Parallel(n_jobs=jobs, batch_size=1)(
        delayed(trial)(setting, method, *one) for one in work
    )


def row(method, trials):
    """A line of a table: cells recovered, each the fraction of its seeds."""
    seeds = len({t.seed for t in trials})
    exact = [t for t in trials if t.error < EXACT]
    n = len(trials) // seeds
    right = sum(t.rank == t.R for t in exact)
    return [
        trials[0].setting.name,
        METHODS[method],
        str(n),
        str(seeds),
        f"{len(exact) / seeds:.1f} ({100 * len(exact) / len(trials):.0f} %)",
        f"{sum(t.error < PAPER for t in trials) / seeds:.1f}",
        f"{100 * right / max(1, len(exact)):.0f} %" if exact else "-",
        f"{np.median([t.seconds for t in trials]):.2f}",
    ]


HEAD = ["problem", "method", "cells", "seeds", "to 1e-6", "to 1e-3", "rank right", "median CPU s"]


def frontier_map(trials):
    """Rows R, columns m; one mark a seed: # to 1e-6, + to 1e-3, . neither."""
    columns = sorted({t.m for t in trials})
    marks = {}
    for t in sorted(trials, key=lambda t: t.seed):
        mark = "#" if t.error < EXACT else "+" if t.error < PAPER else "."
        marks[t.R, t.m] = marks.get((t.R, t.m), "") + mark
    width = max(map(len, marks.values()))
    lines = [
        f"{R:4d} " + " ".join(marks.get((R, m), "").ljust(width) for m in columns).rstrip()
        for R in sorted({t.R for t in trials})
    ]
    return "\n".join(lines)


def costs(paper, auto):
    """Seconds of the default over the paper's, where the latter succeed, and where only it does."""
    reference = {(t.R, t.m, t.seed): t for t in paper}
    ratios = {True: [], False: []}
    for t in auto:
        other = reference[t.R, t.m, t.seed]
        if t.error < EXACT:
            ratios[other.error < PAPER].append(t.seconds / other.seconds)
    both, alone = (np.array(ratios[key] or [math.nan]) for key in (True, False))
    return (
        f"Time of the default over that of the paper's settings: median {np.median(both):.2f}, at "
        f"most {both.max():.1f}, in the {both.size} trials that the latter recover to 1e-3; median "
        f"{np.median(alone):.1f}, 90 % below {np.quantile(alone, 0.9):.0f}, at most "
        f"{alone.max():.0f}, in the {alone.size} that the default alone recovers."
    )


def _below(trials, highest):
    """The score without the highest ranks."""
    low = [t for t in trials if highest >= t.R]
    seeds = len({t.seed for t in low})
    exact = sum(t.error < EXACT for t in low)
    return (
        f"With R up to {highest}, {len(low) // seeds} cells, the default recovers "
        f"{exact / seeds:.1f} of them to 1e-6: {100 * exact / len(low):.1f} %."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every so many cells")
    parser.add_argument("--no-variants", action="store_true", help="Figure 1's problem only")
    parser.add_argument("--write", action="store_true", help="docs/frontier.md and its picture")
    given = parser.parse_args()
    results = {m: run_grid(FIGURE_1, m, given.seeds, given.jobs, given.every) for m in METHODS}
    rows = [row(m, trials) for m, trials in results.items()]
    print(frontier_map(results["auto"]), *rows, sep="\n", flush=True)
    others = []
    for setting in () if given.no_variants else VARIANTS:
        for m in METHODS:
            others.append(row(m, run_grid(setting, m, given.seeds[:1], given.jobs, given.every)))
            print(others[-1], flush=True)
    page = _page(results, rows, others)
    print(page)
    if given.write:
        from benchmarks.frontier_figure import draw

        draw(results, DOCS / "images" / "frontier.png")
        (DOCS / "frontier.md").write_text(page)


def _page(results, rows, others):
    within = sum(
        R * free_per_component((20, 20, 20)) / 8000 < parameters_an_entry(m)
        for R, m in cells(FIGURE_1)
    )
    text = f"""# The frontier

Written by `python -m benchmarks.frontier --write`. Machine: {machine()}.

![How far the rank can rise with the outliers](images/frontier.png)

Figure 1's problem, 20x20x20 with normal factors and outliers and a rank bound of R + 10, in all
cells R = 5, 10, ..., m = 5 %, 10 %, ..., 85 % where parameters and outliers are together fewer than
entries: `R (3d - 2) + m < d^3`.

{table(HEAD, rows)}

{_below(results["auto"], 120)}

{costs(results["paper"], results["auto"])}

In the limit of large tensors, {within} of these {len(cells(FIGURE_1))} cells can be recovered by
minimising any sum of losses of the residuals, or by approximate message passing
(`benchmarks.frontier.parameters_an_entry`); the line in the picture. Between that line and the
information limit the true X is the only one that fits so many entries, but no known method of
polynomial cost finds it.

One mark a seed, rows R, columns m: # recovered to 1e-6, + to 1e-3, . neither.

```
{frontier_map(results["auto"])}
```
"""
    if others:
        text += f"\n## Other outliers, shapes and bounds\n\n{table(HEAD, others)}\n"
    return text


if __name__ == "__main__":
    main()
