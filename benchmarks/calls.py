"""Whole calls against the sweeps they consist of."""

import contextlib
import time

import numpy as np
from scipy.optimize import minimize

from benchmarks.naive import naive_sweep
from benchmarks.timing import alternate, busy_neighbour, table
from tensor_rpca import decompose
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas


def run(quick: bool) -> str:
    rows = [_large(busy, 20 if quick else 100) for busy in (False, True)]
    large = table(
        ["neighbour", "evaluations", "call s", "sweep ms", "call / (evaluations x sweep)"], rows
    )
    small = table(
        ["evaluations", "call ms", "naive ms", "SciPy's own ms", "call / (naive + SciPy)"],
        [_small()],
    )
    return (
        "## Whole calls\n\n"
        "130 x 160 x 200, R = 50, float64, alone and with another program on one core:\n\n"
        f"{large}\n"
        "20 x 20 x 20, R = 25, 1,000 iterations; the milliseconds in the middle are for one "
        "evaluation, SciPy's L-BFGS-B timed on a function that costs nothing:\n\n"
        f"{small}"
    )


def _large(busy: bool, iterations: int) -> list[str]:
    Z, _, _ = low_rank_plus_sparse((130, 160, 200), 40, 0.05, random_state=0)
    factors = [np.random.default_rng(1).standard_normal((d, 50)) for d in Z.shape]
    gradients = [np.empty_like(a) for a in factors]
    with busy_neighbour() if busy else contextlib.nullcontext():
        found = decompose(Z, 50, lambda_x=3.0, lambda_s=1.0, max_iter=5, random_state=0)
        ratios, calls, sweeps = [], [], []
        for _ in range(3):
            with single_threaded_blas() as n, Sweep(Z, None, Z.dtype, n) as sweep:

                def one(sweep=sweep):
                    sweep.loss_and_gradient(factors, gradients, 1.0)

                seconds = alternate({"sweep": one}, 30)["sweep"]
            start = time.perf_counter()
            found = decompose(
                Z, 50, lambda_x=3.0, lambda_s=1.0, max_iter=iterations, random_state=0
            )
            call = time.perf_counter() - start
            ratios.append(call / (found.n_evaluations * seconds))
            calls.append(call)
            sweeps.append(seconds)
    return [
        "busy" if busy else "idle",
        str(found.n_evaluations),
        f"{np.median(calls):.2f}",
        f"{1e3 * np.median(sweeps):.1f}",
        f"{np.median(ratios):.2f}",
    ]


def _small() -> list[str]:
    Z, _, _ = low_rank_plus_sparse((20, 20, 20), 15, 0.1, random_state=0)
    factors = [np.random.default_rng(1).standard_normal((20, 25)) for _ in range(3)]
    start = np.random.default_rng(2).standard_normal(60 * 25)
    curvature = np.linspace(1, 1e6, start.size)

    def free(x):
        gradient = curvature * x
        return 0.5 * float(gradient @ x), gradient

    def scipy_alone():
        options = {"maxcor": 10, "maxiter": 300, "maxfun": 10_000, "ftol": 0.0, "gtol": 0.0}
        return minimize(free, start, jac=True, method="L-BFGS-B", options=options).nfev

    def ours():
        return decompose(Z, 25, lambda_x=1e-5, lambda_s=1e-3, solver="lbfgs", random_state=0)

    evaluations, own = ours().n_evaluations, scipy_alone()
    with single_threaded_blas():  # the naive one is faster so at this size
        seconds = alternate(
            {"naive": lambda: [naive_sweep(Z, factors, 0.1) for _ in range(300)]}, 5
        )
        seconds |= alternate({"scipy": scipy_alone}, 5)
    seconds |= alternate({"ours": ours}, 5)
    naive, scipy = seconds["naive"] / 300, seconds["scipy"] / own
    return [
        str(evaluations),
        f"{1e3 * seconds['ours']:.0f}",
        f"{1e3 * naive:.3f}",
        f"{1e3 * scipy:.3f}",
        f"{seconds['ours'] / (evaluations * (naive + scipy)):.2f}",
    ]
