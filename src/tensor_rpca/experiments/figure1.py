"""Figure 1: which ranks and numbers of outliers each method recovers, 20 x 20 x 20."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from tensor_rpca import baselines
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.decomposition import decompose
from tensor_rpca.files import written_whole

Array = NDArray[Any]

SIDE = 20
SHAPE = (SIDE, SIDE, SIDE)
SIZE = SIDE**3
# Section 6.1: recovered when the relative error of X is below this.
RECOVERED = 1e-3
# What decompose's own method may use beyond the true number of components.
SPARE = 10


@dataclass(frozen=True)
class Problem:
    """One trial's tensor and its truth."""

    Z: Array
    X: Array
    S: Array
    rank: int
    start: int


@dataclass(frozen=True)
class Method:
    """A panel: how X is recovered, and with which settings, in words."""

    title: str
    settings: str
    recover: Callable[[Problem], Array]


def _this_work(problem: Problem) -> Array:
    result = decompose(
        problem.Z,
        problem.rank + SPARE,
        solver="lbfgs",
        lambda_x=1e-5,
        lambda_s=1e-3,
        max_iter=1000,
        tol=0.0,
        random_state=problem.start,
    )
    return result.low_rank.to_dense()


def _auto(problem: Problem) -> Array:
    result = decompose(problem.Z, problem.rank + SPARE, random_state=problem.start)
    return result.low_rank.to_dense()


def _horpca_s_paper(problem: Problem) -> Array:
    return baselines.horpca_s(problem.Z, float(SIDE)).low_rank


def _horpca_s(problem: Problem) -> Array:
    return baselines.horpca_s(problem.Z).low_rank


def _horpca_c(problem: Problem) -> Array:
    return baselines.horpca_c(problem.Z, (min(problem.rank + 1, SIDE),) * 3).low_rank


def _matrix(problem: Problem) -> Array:
    nuclear = np.linalg.svd(problem.X.reshape(SIDE, -1), compute_uv=False).sum()
    best = float(nuclear / np.abs(problem.S).sum())
    return baselines.matrix_rpca(
        problem.Z, best, form="variational", epsilon=1e-5, max_iter=2000
    ).low_rank


def _tubal(problem: Problem) -> Array:
    return baselines.tubal_rpca(problem.Z).low_rank


METHODS = {
    "paper": Method(
        "This work",
        "L-BFGS, 1,000 iterations, rank bound R + 10, lambda_x = 1e-5, lambda_s = 1e-3",
        _this_work,
    ),
    "horpca-s-paper": Method(
        "HoRPCA-S, weights 20", "the paper's weights, 20 for each mode", _horpca_s_paper
    ),
    "horpca-s": Method(
        "HoRPCA-S, weights √20", "Goldfarb and Qin's weights, sqrt(20) for each mode", _horpca_s
    ),
    "horpca-c": Method("HoRPCA-C", "Tucker rank bounds min(R + 1, 20)", _horpca_c),
    "matrix": Method(
        "Matrix RPCA",
        "variational form, lambda from the true X and S, epsilon = 1e-5, 2,000 iterations",
        _matrix,
    ),
    "tubal": Method("Tubal RPCA", "lambda = 1 / sqrt(20 * 20)", _tubal),
    "auto": Method("This library's default", "rank bound R + 10, nothing else", _auto),
}


@dataclass(frozen=True)
class Grid:
    """Which cells, and how many trials each.

    Attributes
    ----------
    ranks : tuple of int
    percents : tuple of int
        Outliers in percent of the entries.
    trials : int
    auto_trials : int
        Of the default solver, which takes seconds where it fails.
    """

    ranks: tuple[int, ...]
    percents: tuple[int, ...]
    trials: int
    auto_trials: int

    def trials_of(self, method: str) -> int:
        """Trials a cell of a method."""
        return self.auto_trials if method == "auto" else self.trials


FULL = Grid(
    ranks=(2, *range(5, 50, 5), *range(50, 101, 10)),
    percents=tuple(range(5, 61, 5)),
    trials=16,
    auto_trials=2,
)
QUICK = Grid((5, 20, 35, 50), (5, 20, 35, 50), trials=4, auto_trials=1)


def draw_problem(rank: int, percent: int, seed: int, trial: int) -> Problem:
    """Draw a trial's problem: the same for all methods."""
    generator = np.random.default_rng([seed, rank, percent, trial])
    Z, X, S = low_rank_plus_sparse(SHAPE, rank, percent / 100, random_state=generator)
    return Problem(Z, X, S, rank, int(generator.integers(2**31)))


def run_cell(method: str, rank: int, percent: int, seed: int, trials: int) -> dict[str, Any]:
    """Run the trials of a cell."""
    errors, seconds, tucker = [], [], []
    for trial in range(trials):
        problem = draw_problem(rank, percent, seed, trial)
        tucker.append(tucker_rank(problem.X))
        began = time.perf_counter()
        X = METHODS[method].recover(problem)
        seconds.append(round(time.perf_counter() - began, 4))
        error = float(np.linalg.norm(X - problem.X) / np.linalg.norm(problem.X))
        errors.append(float(f"{error:.2e}"))
    return {
        "method": method,
        "rank": rank,
        "percent": percent,
        "seed": seed,
        "trials": trials,
        "errors": errors,
        "seconds": seconds,
        # The paper's claim: (R, R, R) up to 20, full from there on.
        "tucker_rank": tucker,
    }


def tucker_rank(X: Array) -> list[int]:
    """Ranks of the unfoldings."""
    return [
        int(np.linalg.matrix_rank(np.moveaxis(X, k, 0).reshape(X.shape[k], -1)))
        for k in range(X.ndim)
    ]


def cells_of(grid: Grid, methods: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """All cells as (method, rank, percent, trials)."""
    return [
        (method, rank, percent, grid.trials_of(method))
        for method in methods
        for rank in grid.ranks
        for percent in grid.percents
    ]


def run_cells(
    cells: Sequence[tuple[str, int, int, int]], seed: int, jobs: int
) -> Iterator[dict[str, Any]]:
    """Run cells in parallel processes of one thread each; yield each as it is finished."""
    work = Parallel(
        n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=2 * jobs
    )
    yield from work(
        delayed(run_cell)(method, rank, percent, seed, trials)
        for method, rank, percent, trials in cells
    )


def recovered(cell: dict[str, Any]) -> float:
    """Fraction of a cell's trials that were recovered."""
    return float(np.mean(np.array(cell["errors"]) < RECOVERED))


def summarise_methods(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a method: cells recovered, each the fraction of its trials, and median seconds."""
    rows = []
    for name, method in METHODS.items():
        own = [cell for cell in cells if cell["method"] == name]
        if not own:
            continue
        fractions = [recovered(cell) for cell in own]
        seconds = np.concatenate([cell["seconds"] for cell in own])
        rows.append(
            {
                "method": name,
                "title": method.title,
                "settings": method.settings,
                "trials": len(own[0]["errors"]),
                "cells": len(own),
                "recovered": math.fsum(fractions),
                "fully": sum(f == 1 for f in fractions),
                "highest_rank": max(
                    (c["rank"] for c, f in zip(own, fractions, strict=True) if f >= 0.5), default=0
                ),
                "median_seconds": float(np.median(seconds)),
            }
        )
    return rows


def write_record(
    path: Path,
    cells: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    grid: Grid,
    seed: int,
) -> None:
    """Write every trial; what all methods share, the Tucker ranks, once a problem."""
    tucker = {(c["rank"], c["percent"]): c["tucker_rank"] for c in cells}
    for cell in cells:  # of several methods, the one with most trials
        key = cell["rank"], cell["percent"]
        tucker[key] = max(tucker[key], cell["tucker_rank"], key=len)
    record = {
        "about": "Figure 1 rerun: relative error of X and seconds of every trial",
        "shape": SHAPE,
        "seed": seed,
        "recovered_below": RECOVERED,
        "ranks": grid.ranks,
        "percents": grid.percents,
        "methods": rows,
        "tucker_ranks": [
            {"rank": rank, "percent": percent, "trials": ranks}
            for (rank, percent), ranks in sorted(tucker.items())
        ],
        "cells": [
            {k: cell[k] for k in ("method", "rank", "percent", "errors", "seconds")}
            for cell in cells
        ],
    }
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the summary as a Markdown table."""
    lines = [
        "| method | settings | trials a cell | cells recovered | of | highest R | median s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['title']} | {row['settings']} | {row['trials']} | {row['recovered']:.1f} | "
        f"{row['cells']} | {row['highest_rank'] or '-'} | {row['median_seconds']:.3g} |"
        for row in rows
    ]
    with written_whole(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
