"""Tensor RPCA of the reduced third moment: one factor for all three modes.

    min over A   lambda_x sum_r ||a_r||^3 + phi(sum_r a_r o a_r o a_r)

with the Huber loss phi of the moment's residual, so that entries which no topic explains are left
to the sparse part. The core's L-BFGS walks from each start twice: at lambda_s itself, which leaves
errors alone from the outset, and by way of larger ones, which have fewer minima. The lowest
minimum is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.objective.symmetric import SymmetricObjective
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.solvers.lbfgs import lbfgs

Array = NDArray[Any]

# In units of a typical entry. Most entries are sampling noise, so ten times that is an error.
LAMBDA_S = 10.0
LAMBDA_X = 0.01
MAX_ITER = 300
FLAT, ROUGHLY = 1e-6, 1e-4
# Of lambda_s on the way down from the largest entry.
FALL = 0.1


@dataclass(frozen=True)
class SymmetricDecomposition:
    """The two parts of a symmetric tensor.

    Attributes
    ----------
    factor : ndarray of shape (m, R)
        ``low_rank = sum_r a_r o a_r o a_r``.
    sparse : ndarray of shape (m, m, m)
    objective : float
    lambda_x, lambda_s : float
    """

    factor: Array
    sparse: Array
    objective: float
    lambda_x: float
    lambda_s: float

    @property
    def low_rank(self) -> Array:
        """X, of shape (m, m, m)."""
        return cubes(self.factor)

    @property
    def n_errors(self) -> int:
        """Entries of the sparse part, of which symmetry makes up to six of one."""
        return int(np.count_nonzero(self.sparse))


def decompose_symmetric(
    T: Array,
    starts: Iterable[Array],
    *,
    lambda_x: float | None = None,
    lambda_s: float | None = None,
    direct: bool = True,
    max_iter: int = MAX_ITER,
) -> SymmetricDecomposition:
    """Split a symmetric tensor into symmetric rank-one components and a sparse part.

    Parameters
    ----------
    T : ndarray of shape (m, m, m)
    starts : iterable of ndarrays of shape (m, R)
        Directions of components; their lengths do not matter.
    lambda_x, lambda_s : float, optional
        In the units of T; None chooses from its typical entry.
    direct : bool
        Walk from each start without larger thresholds, too.
    max_iter : int
        For each start and threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.topics.symmetric import cubes, decompose_symmetric
    >>> generator = np.random.default_rng(0)
    >>> A = generator.standard_normal((10, 2))
    >>> T = cubes(A)
    >>> T[0, 0, 0] += 100
    >>> starts = generator.standard_normal((5, 10, 2))
    >>> found = decompose_symmetric(T, starts, lambda_x=1e-3, lambda_s=0.01)
    >>> bool(abs(found.low_rank - cubes(A)).max() < 0.01), found.n_errors
    (True, 1)
    """
    best: tuple[float, Array] | None = None
    with single_threaded_blas() as n_threads, Sweep(T, None, T.dtype, n_threads) as sweep:
        survey = sweep.survey()
        unit = survey.typical or 1.0
        sweep.measure_in(unit)
        weight_x = LAMBDA_X if lambda_x is None else lambda_x / unit
        weight_s = LAMBDA_S if lambda_s is None else lambda_s / unit
        largest = survey.largest / unit
        ways = [_descending(largest, weight_s), [weight_s]][: 1 + direct]
        for start, scales in itertools.product(starts, ways):
            x = _scaled(start, largest).ravel()
            for scale in scales:
                weight = weight_x * scale / weight_s
                tied = _objective(sweep, T, start.shape[1], weight, scale)
                flat = FLAT if scale == weight_s else ROUGHLY
                x = lbfgs(tied, x, max_iter=max_iter, tol=1e-8, flat=flat).x
            value, _ = tied(x)
            if best is None or value < best[0]:
                best = value, x.reshape(start.shape)
    if best is None:
        raise ValueError("there are no starts; give at least one array of shape (m, R)")
    value, factor = best
    residual = T / unit - cubes(factor)
    sparse = np.sign(residual) * np.maximum(np.abs(residual) - weight_s, 0.0)
    return SymmetricDecomposition(
        factor=factor * np.cbrt(unit),
        sparse=sparse * unit,
        objective=value * unit * unit,
        lambda_x=weight_x * unit,
        lambda_s=weight_s * unit,
    )


def _objective(
    sweep: Sweep, T: Array, rank: int, lambda_x: float, lambda_s: float
) -> SymmetricObjective:
    untied = FactorisedObjective(sweep, T.shape, rank, lambda_x, lambda_s, T.dtype)
    return SymmetricObjective(untied, T.ndim)


def _descending(largest: float, last: float) -> list[float]:
    """Thresholds from the largest entry to the last one."""
    scales = []
    while largest > last / FALL:
        scales.append(largest)
        largest *= FALL
    return [*scales, last]


def cubes(factor: Array) -> Array:
    """``sum_r a_r o a_r o a_r``, of shape (m, m, m), for columns a_r."""
    m, R = factor.shape
    pairs = (factor[:, None, :] * factor[None, :, :]).reshape(m * m, R)
    out: Array = (pairs @ factor.T).reshape(m, m, m)
    return out


def _scaled(start: Array, largest: float) -> Array:
    """Columns of one length, such that the components together are of the size of T."""
    length = np.linalg.norm(start, axis=0)
    safe = np.where(length > 0, length, 1.0)
    scaled: Array = start / safe * np.cbrt(largest / start.shape[1])
    return scaled
