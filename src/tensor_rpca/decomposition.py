"""decompose(): from a tensor to its low-rank and sparse parts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import defaults, validation
from tensor_rpca.certificates import certify
from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.objective.spectral import search_effort
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.progress import progress_bar
from tensor_rpca.recorder import Callback, Recorder, alive, components
from tensor_rpca.result import Decomposition, coo_from_parts
from tensor_rpca.solvers.auto import solve_unweighted
from tensor_rpca.solvers.found import Found
from tensor_rpca.solvers.weighted import solve_weighted
from tensor_rpca.solvers.workbench import Workbench

Array = NDArray[Any]

SOLVERS = ("auto", "lbfgs")


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

    X is a sum of few rank-one terms, S is zero nearly everywhere. By default nothing has to
    be known of either: rank, noise and outliers are estimated from Z. With weights, minimises
    ``lambda_x ||X||_* + lambda_s ||S||_1 + 1/2 ||X + S - Z||^2`` over the factors of X, with
    the tensor's atomic norm ``||X||_*`` (Driggs, Becker and Boyd-Graber).

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K), K >= 2
        Of any real dtype and memory layout, memory maps included; it is read a tile at a
        time and never copied. NaN marks a missing entry. Axis 0 is samples or time. float32
        and float16 are computed in float32, everything else in float64.
    rank : int, optional
        Upper bound on the number of components of X. A generous one costs time, little else;
        None is a bound that suits the shape, at most 50.
    lambda_x, lambda_s : float, optional
        Weights of the two parts, in the units of Z. The larger ``lambda_s``, the fewer
        entries of S; the larger ``lambda_x``, the fewer components. If one is given, the other
        is chosen to match.
    mask : array-like of bool of the shape of Z, optional
        False marks a missing entry.
    solver : {"auto", "lbfgs"}
        "auto" without weights recovers X as exactly as the data allow; with weights it minimises
        their program, and leaves stationary points that are not global as long as the rank
        bound has room. "lbfgs" is the paper's method: one run of L-BFGS on that program.
    max_iter : int, optional
        Most iterations; None is 1,000 where weights are given or "lbfgs" is asked for, else
        as many as it takes.
    tol : float, optional
        Stop when the two parts of the gradient, the fit's and the penalty's, cancel up to
        this fraction of their norms; None is 1e-6, or 1e-3 in float32. Without weights it has
        no meaning.
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
        With ``low_rank`` (KruskalTensor) and ``sparse`` (coo_array), among others. Without
        weights, ``lambda_s`` is three standard deviations of the noise found, the line between
        noise and S, and ``lambda_x`` the weight that suits it.

    Notes
    -----
    As many threads are used as BLAS would use (``OMP_NUM_THREADS`` or threadpoolctl's
    limits hold).

    Examples
    --------
    >>> from tensor_rpca import decompose
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((20, 20, 20), rank=3, outliers=0.1, random_state=0)
    >>> result = decompose(Z, rank=10, random_state=0)
    >>> result.low_rank.rank, float(abs(result.low_rank.to_dense() - X).max()) < 1e-6
    (3, True)
    """
    began = time.perf_counter()
    call = _check(Z, rank, lambda_x, lambda_s, mask, solver, max_iter, tol, init, random_state)
    with (
        single_threaded_blas() as n_threads,
        Sweep(call.Z, call.known, call.dtype, n_threads) as sweep,
    ):
        survey = sweep.survey()
        validation.check_survey(survey, call.Z.shape, call.dtype)
        # All that follows sees Z in units of a typical entry: equivariance costs nothing.
        unit = survey.typical if survey.typical > 0 else 1.0
        sweep.measure_in(unit)
        recorder = Recorder(call.dtype, unit, callback)
        with progress_bar(progress, call.limit) as recorder.bar:
            found = (
                _zero(call, unit) if survey.largest == 0 else _solve(call, sweep, unit, recorder)
            )
        X = alive(components([a.astype(call.dtype) for a in found.factors]))
        loss, coords, values = sweep.sparse_part(X.balanced_factors(), found.lambda_s)

    value = found.lambda_x * float(X.weights.sum(dtype=np.float64)) + loss
    in_z = call.dtype.type(unit)
    values *= in_z
    low_rank = KruskalTensor(X.weights * in_z, X.factors)
    lambda_x = found.lambda_x * unit if call.lambda_x is None else call.lambda_x
    lambda_s = found.lambda_s * unit if call.lambda_s is None else call.lambda_s
    certificate = certify(
        call.Z,
        low_rank,
        lambda_x,
        lambda_s,
        call.known,
        vanished=max(0, call.bound - X.rank),
        max_iter=search_effort(call.Z.shape, found.n_evaluations),
        unit=unit,
    )
    return Decomposition(
        low_rank=low_rank,
        sparse=coo_from_parts(values, coords, call.Z.shape),
        lambda_x=lambda_x,
        lambda_s=lambda_s,
        objective=value * unit * unit,
        n_iter=found.n_iter,
        n_evaluations=found.n_evaluations,
        converged=found.converged,
        message=found.message,
        history=recorder.history(),
        certificate=certificate,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class _Call:
    """What decompose() was asked for, checked."""

    Z: Array
    known: Array | None
    dtype: np.dtype[Any]
    solver: str
    bound: int
    lambda_x: float | None
    lambda_s: float | None
    max_iter: int | None
    tol: float
    init: KruskalTensor | None
    generator: np.random.Generator | np.random.RandomState

    @property
    def unweighted(self) -> bool:
        """Whether everything is left to us."""
        return self.solver == "auto" and self.lambda_x is None and self.lambda_s is None

    @property
    def limit(self) -> int | None:
        """Most iterations."""
        return self.max_iter if self.unweighted else self.max_iter or defaults.MAX_ITER

    def weights(self, unit: float) -> tuple[float, float]:
        """lambda_x and lambda_s in units of a typical entry."""
        s = defaults.default_lambda_s() if self.lambda_s is None else self.lambda_s / unit
        x = (
            defaults.default_lambda_x(s, self.Z.shape)
            if self.lambda_x is None
            else self.lambda_x / unit
        )
        return x, s


def _check(
    Z: ArrayLike,
    rank: Any,
    lambda_x: Any,
    lambda_s: Any,
    mask: ArrayLike | None,
    solver: Any,
    max_iter: Any,
    tol: Any,
    init: Any,
    random_state: Any,
) -> _Call:
    array, known = validation.check_tensor(Z, mask)
    if solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is unknown; choose one of {', '.join(SOLVERS)}")
    if rank is not None:
        rank = validation.check_rank(rank, array.shape)
    start = None if init is None else validation.check_init(init, array.shape, rank)
    bound = rank or defaults.default_rank(array.shape)
    if start is not None and rank is None:
        bound = start.rank if solver == "lbfgs" else max(bound, start.rank)
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    dtype = np.dtype(np.float32 if single else np.float64)
    return _Call(
        array,
        known,
        dtype,
        solver,
        bound,
        None if lambda_x is None else validation.check_positive("lambda_x", lambda_x),
        None if lambda_s is None else validation.check_positive("lambda_s", lambda_s),
        None if max_iter is None else validation.check_max_iter(max_iter),
        defaults.default_tol(dtype) if tol is None else validation.check_tol(tol),
        start,
        validation.check_generator(random_state),
    )


def _solve(call: _Call, sweep: Sweep, unit: float, recorder: Recorder) -> Found:
    shape = call.Z.shape
    start = None
    if call.init is not None:
        start = KruskalTensor(call.init.weights / unit, call.init.factors).balanced_factors()
    if call.unweighted:
        bench = Workbench(sweep, shape, call.dtype, call.max_iter, recorder)
        return solve_unweighted(bench, call.bound, call.generator, start)
    if start is None:
        # X has entries of about 1, a typical entry.
        size = call.bound ** (-0.5 / len(shape))
        start = [size * call.generator.standard_normal((d, call.bound)) for d in shape]
    return solve_weighted(
        sweep,
        start,
        *call.weights(unit),
        bound=call.bound if call.solver == "auto" else 0,
        dtype=call.dtype,
        max_iter=call.limit or defaults.MAX_ITER,
        tol=call.tol,
        recorder=recorder,
    )


def _zero(call: _Call, unit: float) -> Found:
    """The answer to Z = 0."""
    message = "Z is zero, and so are X and S"
    factors = [np.zeros((d, 1)) for d in call.Z.shape]
    return Found(factors, *call.weights(unit), 0, 0, True, message)
