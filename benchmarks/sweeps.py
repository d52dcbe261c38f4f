"""One sweep against the naive one and against the machine's GEMM peak."""

import numpy as np

from benchmarks.naive import naive_sweep
from benchmarks.timing import alternate, gemm_peak, table
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas

SCENE = (130, 160, 200)
CASES = [
    # shape, rank, dtype, fraction missing
    (SCENE, 50, "float64", 0.0),
    (SCENE, 5, "float64", 0.0),
    (SCENE, 20, "float64", 0.0),
    (SCENE, 100, "float64", 0.0),
    (SCENE, 5, "float32", 0.0),
    (SCENE, 20, "float32", 0.0),
    (SCENE, 50, "float32", 0.0),
    (SCENE, 100, "float32", 0.0),
    (SCENE, 5, "uint8", 0.0),
    (SCENE, 20, "uint8", 0.0),
    (SCENE, 50, "uint8", 0.0),
    (SCENE, 100, "uint8", 0.0),
    (SCENE, 50, "float64", 0.3),
    ((20800, 200), 50, "float64", 0.0),
    ((2000, 2080), 50, "float64", 0.0),
    ((45, 45, 45, 45), 50, "float64", 0.0),
    ((1_000_000, 2, 2), 50, "float64", 0.0),
    ((20, 20, 20), 25, "float64", 0.0),
]


def run(quick: bool) -> str:
    rng = np.random.default_rng(0)
    peak = {dtype: gemm_peak(dtype) for dtype in ("float64", "float32")}
    rows = []
    for shape, rank, dtype, missing in CASES[:3] if quick else CASES:
        compute = "float32" if dtype == "float32" else "float64"
        if dtype == "uint8":
            Z = rng.integers(0, 256, size=shape, dtype=np.uint8)
        else:
            Z = rng.standard_normal(shape).astype(dtype)
        Z[rng.random(shape) < missing] = np.nan if missing else 0
        factors = [rng.standard_normal((d, rank)).astype(compute) for d in shape]
        gradients = [np.empty_like(a) for a in factors]
        # The naive one has all cores to itself; ours brings its own threads.
        repeats = 9 if Z.size > 1e6 else 500
        with single_threaded_blas() as n_threads:
            pass
        with Sweep(Z, None, np.dtype(compute), n_threads) as sweep:

            def ours(sweep=sweep, factors=factors, gradients=gradients):
                with single_threaded_blas():
                    sweep.loss_and_gradient(factors, gradients, 0.1)

            def naive(Z=Z, factors=factors):
                naive_sweep(Z, factors, 0.1)

            seconds = alternate({"ours": ours, "naive": naive}, repeats)
        floor = 6 * Z.size * rank / peak[compute]
        rows.append(
            [
                " x ".join(map(str, shape)),
                str(rank),
                dtype + (f", {missing:.0%} missing" if missing else ""),
                f"{1e3 * seconds['ours']:.3g}",
                f"{1e3 * seconds['naive']:.3g}",
                f"{seconds['ours'] / seconds['naive']:.2f}",
                f"{floor / seconds['ours']:.0%}",
            ]
        )
    header = ["shape", "R", "dtype", "ms", "naive ms", "ratio to naive", "of GEMM peak"]
    return (
        "## One sweep\n\n"
        "Loss and all gradients in one pass. The naive sweep materialises X, clips, and forms one "
        "MTTKRP a mode, in NumPy with all cores. The last column is `6 N R` operations over the "
        f"time, relative to a {2000} x {2000} matrix product "
        f"({peak['float64'] / 1e9:.0f} Gflop/s in float64, {peak['float32'] / 1e9:.0f} in "
        "float32): small R and few columns are bound by memory, not by arithmetic.\n\n"
        + table(header, rows)
    )
