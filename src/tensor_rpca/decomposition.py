"""decompose(): from a tensor to its low-rank and sparse parts; and what it returns."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import defaults, validation
from tensor_rpca.certificates import certify
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.spectral import MAX_ITER, SMALL
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.progress import progress_bar
from tensor_rpca.recorder import Callback, Recorder, alive, components
from tensor_rpca.result import Decomposition, coo_from_parts
from tensor_rpca.solvers import auto
from tensor_rpca.solvers.lbfgs import Solution, lbfgs
from tensor_rpca.solvers.workbench import Workbench

Array = NDArray[Any]

SOLVERS = ("auto", "lbfgs")
# Without noise, what still counts as an outlier, in units of a typical entry.
SMALLEST_OUTLIER = 1e-6


def decompose(
    Z: ArrayLike,
    rank: int | None = None,
    *,
    lambda_x: float | None = None,
    lambda_s: float | None = None,
    mask: ArrayLike | None = None,
    solver: str = "auto",
    max_iter: int | None = None,
    tol: float | None = None,
    init: Any = None,
    random_state: validation.RandomState = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> Decomposition:
    """Split a tensor into a low-rank and a sparse part, ``Z = X + S + noise``.

    Minimises ``lambda_x ||X||_* + lambda_s ||S||_1 + 1/2 ||X + S - Z||^2`` over the factors
    of X, with the tensor's atomic norm ``||X||_*`` (Driggs, Becker and Boyd-Graber).

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K), K >= 2
        Of any real dtype and memory layout, memory maps included; it is read a tile at a
        time and never copied. NaN marks a missing entry. Axis 0 is samples or time. float32
        and float16 are computed in float32, everything else in float64.
    rank : int, optional
        Upper bound on the number of components of X.
    lambda_x, lambda_s : float, optional
        Weights of the two parts, in the units of Z. The larger ``lambda_s``, the fewer
        entries of S; the larger ``lambda_x``, the fewer components.
    mask : array-like of bool of the shape of Z, optional
        False marks a missing entry.
    solver : {"auto", "lbfgs"}
        "lbfgs" is the paper's method. "auto" is the best there is; at present the same.
    max_iter : int, optional
        Most iterations, 1,000 if None.
    tol : float, optional
        Stop when the two parts of the gradient, the fit's and the penalty's, cancel up to
        this fraction of their norms; None is 1e-6, or 1e-3 in float32.
    init : KruskalTensor, (weights, factors) or list of factors, optional
        Where to start; None draws normal random factors of the size of Z.
    random_state : int, Generator or RandomState, optional
        An int makes the result repeatable bit for bit, whatever the number of threads.
    progress : bool
        Show a progress bar on standard error.
    callback : callable, optional
        Called with a :class:`State` after each iteration; returning True stops, and the
        point reached is returned.

    Returns
    -------
    Decomposition
        With ``low_rank`` (KruskalTensor) and ``sparse`` (coo_array), among others.

    Notes
    -----
    As many threads are used as BLAS would use (``OMP_NUM_THREADS`` or threadpoolctl's
    limits hold).

    Examples
    --------
    >>> from tensor_rpca import decompose
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((20, 20, 20), rank=3, outliers=0.1, random_state=0)
    >>> result = decompose(Z, rank=3, lambda_x=1e-5, lambda_s=1e-3, random_state=0)
    >>> float(abs(result.low_rank.to_dense() - X).max()) < 1e-2
    True
    """
    began = time.perf_counter()
    array, known = validation.check_tensor(Z, mask)
    shape = array.shape
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}")
    if rank is not None:
        rank = validation.check_rank(rank, shape)
    begin_at = None if init is None else validation.check_init(init, shape, rank)
    bound = begin_at.rank if begin_at is not None else rank or defaults.default_rank(shape)
    max_iter = None if max_iter is None else validation.check_max_iter(max_iter)
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    dtype = np.dtype(np.float32 if single else np.float64)
    tol = defaults.default_tol(dtype) if tol is None else validation.check_tol(tol)
    given_x = None if lambda_x is None else validation.check_positive("lambda_x", lambda_x)
    given_s = None if lambda_s is None else validation.check_positive("lambda_s", lambda_s)
    generator = validation.check_generator(random_state)

    with _sweep(array, known, dtype) as sweep:
        survey = sweep.survey()
        validation.check_survey(survey, shape, dtype)
        # All that follows sees Z in units of a typical entry: equivariance costs nothing.
        unit = survey.typical if survey.typical > 0 else 1.0
        sweep.measure_in(unit)
        recorder = Recorder(dtype, unit, callback)
        start = None if begin_at is None else _in_units(begin_at, unit)
        if survey.largest == 0:
            found = _zero(shape, given_x, given_s)
        elif solver == "auto" and given_x is None and given_s is None:
            bench = Workbench(sweep, shape, dtype, max_iter, recorder)
            with progress_bar(progress, max_iter) as recorder.bar:
                found = _without_weights(bench, bound, generator, start)
        else:
            weight_s = defaults.default_lambda_s() if given_s is None else given_s / unit
            weight_x = (
                defaults.default_lambda_x(weight_s, shape) if given_x is None else given_x / unit
            )
            limit = max_iter or defaults.MAX_ITER
            objective = FactorisedObjective(sweep, shape, bound, weight_x, weight_s, dtype)
            begin = objective.pack(start or _random_start(shape, bound, generator))
            with progress_bar(progress, limit) as recorder.bar:
                solution = lbfgs(
                    objective,
                    begin,
                    max_iter=limit,
                    tol=tol,
                    on_iteration=partial(_watch, recorder, objective),
                )
            found = _Found(
                objective.unpack(solution.x),
                weight_x,
                weight_s,
                solution,
                objective.n_evaluations,
            )
        X = alive(components([a.astype(dtype) for a in found.factors]))
        loss, coords, values = sweep.sparse_part(X.balanced_factors(), found.lambda_s)
        values *= dtype.type(unit)

    value = found.lambda_x * float(X.weights.sum(dtype=np.float64)) + loss
    low_rank = KruskalTensor(X.weights * dtype.type(unit), X.factors)
    lambda_x = found.lambda_x * unit if given_x is None else given_x
    lambda_s = found.lambda_s * unit if given_s is None else given_s
    certificate = certify(
        array,
        low_rank,
        lambda_x,
        lambda_s,
        known,
        vanished=bound - X.rank,
        # A large tensor's search is kept in proportion to its solve.
        max_iter=None if array.size <= SMALL else min(MAX_ITER, 2 + found.n_evaluations // 50),
        unit=unit,
    )
    return Decomposition(
        low_rank=low_rank,
        sparse=coo_from_parts(values, coords, shape),
        lambda_x=lambda_x,
        lambda_s=lambda_s,
        objective=value * unit * unit,
        n_iter=found.solution.n_iter,
        n_evaluations=found.n_evaluations,
        converged=found.solution.converged,
        message=found.solution.message,
        history=recorder.history(),
        certificate=certificate,
        seconds=time.perf_counter() - began,
    )


def _watch(
    recorder: Recorder, objective: FactorisedObjective, iteration: int, x: Array, value: float
) -> bool:
    return recorder.watch(x, value, objective.relative_gradient, objective.unpack)


@dataclass
class _Found:
    """What a solve ends with, in units of a typical entry."""

    factors: list[Array]
    lambda_x: float
    lambda_s: float
    solution: Solution
    n_evaluations: int


def _zero(shape: tuple[int, ...], given_x: float | None, given_s: float | None) -> _Found:
    """The answer to Z = 0."""
    weight_s = given_s or defaults.default_lambda_s()
    weight_x = given_x or defaults.default_lambda_x(weight_s, shape)
    message = "Z is zero, and so are X and S"
    solution = Solution(np.empty(0), 0, True, message, 0.0)
    return _Found([np.zeros((d, 1)) for d in shape], weight_x, weight_s, solution, 0)


def _without_weights(
    bench: Workbench, rank: int, generator: Any, start: list[Array] | None
) -> _Found:
    """Run the default solver, and say which weights its answer corresponds to."""
    best = auto.solve(bench, rank, generator, start)
    noise = min(best.noise, 1.0)
    # Entries beyond three standard deviations of the noise are outliers.
    weight_s = max(auto.NOISE_SCALES * noise, SMALLEST_OUTLIER)
    message = bench.stopped or (
        f"{best.surplus:,} more entries fit than there are free parameters; noise {noise:.1e} "
        "of a typical entry"
    )
    solution = Solution(np.empty(0), bench.n_iter, not bench.stopped, message, math.nan)
    weight_x = defaults.default_lambda_x(weight_s, bench.shape)
    return _Found(best.X.balanced_factors(), weight_x, weight_s, solution, bench.n_evaluations)


@contextmanager
def _sweep(Z: Array, mask: Array | None, dtype: np.dtype[Any]) -> Iterator[Sweep]:
    with single_threaded_blas() as n_threads, Sweep(Z, mask, dtype, n_threads) as sweep:
        yield sweep


def _in_units(init: KruskalTensor, unit: float) -> list[Array]:
    return KruskalTensor(init.weights / unit, init.factors).balanced_factors()


def _random_start(
    shape: tuple[int, ...], rank: int, generator: np.random.Generator | np.random.RandomState
) -> list[Array]:
    """Factors to start from, such that X has entries of about 1, a typical entry."""
    size = rank ** (-0.5 / len(shape))
    return [size * generator.standard_normal((d, rank)) for d in shape]
