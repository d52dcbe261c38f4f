"""Matrix RPCA of one unfolding: principal component pursuit, or the variational form."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.level_set import minimise_largest
from tensor_rpca.baselines.result import Given, Separation, check_mode, check_weight
from tensor_rpca.baselines.singular import Unfolding
from tensor_rpca.baselines.splitting import Penalty, split

FORMS = ("pursuit", "variational")


def matrix_rpca(
    Z: ArrayLike,
    lambda_s: float | None = None,
    *,
    form: str = "pursuit",
    epsilon: float | None = None,
    mode: int = 0,
    mask: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Separation:
    r"""Robust PCA of the unfolding ``Z_(mode)``; of Z itself, if it is a matrix.

    "pursuit" is principal component pursuit, solved by the inexact augmented Lagrangian method,

    .. math:: \min_{X, S} \|X\|_* + \lambda_s \|S\|_1 \quad\text{subject to}\quad X + S = Z,

    "variational" the form of the paper's experiments, solved by finding the level at which the
    constraint holds,

    .. math:: \min_{X, S} \max(\|X\|_*, \lambda_s \|S\|_1)
              \quad\text{subject to}\quad \tfrac12 \|X + S - Z\|_F^2 \le \epsilon.

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K), K >= 2
        NaN marks a missing entry.
    lambda_s : float, optional
        None is ``1 / sqrt(max(m, n))`` for an m x n unfolding. Who knows the answer can pass
        "variational" the best there is, ``||X||_* / ||S||_1``, as the paper does.
    form : {"pursuit", "variational"}
    epsilon : float, optional
        For "variational", in squared units of Z; None allows a residual of 1e-5 of Z's norm.
    mode : int
        Which axis of Z indexes the rows of the matrix.
    mask : array-like of bool of the shape of Z, optional
        False marks a missing entry.
    max_iter : int
    tol : float
        "pursuit" stops when the constraint holds, and S rests, to this fraction of their scale;
        "variational" when the residual exceeds the one allowed by at most this fraction of Z.

    Returns
    -------
    Separation
        ``history`` has "primal" and "dual" for "pursuit", the residuals compared with ``tol``;
        "residual", relative to Z, and "level", the bound on both norms, for "variational".

    References
    ----------
    E. Candes, X. Li, Y. Ma and J. Wright, Robust principal component analysis?, J. ACM 58
    (2011). Z. Lin, M. Chen and Y. Ma, The augmented Lagrange multiplier method for exact
    recovery of corrupted low-rank matrices (2010). A. Aravkin, S. Becker, V. Cevher and P.
    Olsen, A variational approach to stable principal component pursuit, UAI (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.baselines import matrix_rpca
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((60, 80), rank=2, outliers=0.05, random_state=0)
    >>> result = matrix_rpca(Z)
    >>> bool(np.linalg.norm(result.low_rank - X) < 1e-4 * np.linalg.norm(X))
    True
    """
    if form not in FORMS:
        raise ValueError(f"form={form!r} is unknown; choose one of {', '.join(FORMS)}")
    if epsilon is not None and form == "pursuit":
        raise ValueError('epsilon belongs to form="variational"; "pursuit" allows no residual')
    given = Given(Z, mask)
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    mode = check_mode(mode, len(given.shape))
    unfolding = Unfolding(given.shape, mode)
    d = given.shape[mode]
    weight = check_weight("lambda_s", lambda_s, 1 / math.sqrt(max(d, given.Z.size // d)))
    if form == "pursuit":
        return _pursuit(given, unfolding, weight, tol, max_iter)
    size = float(np.linalg.norm(given.filled()))
    allowed = 1e-5 * size
    if epsilon is not None:
        allowed = math.sqrt(2 * validation.check_positive("epsilon", epsilon)) / given.unit
    found = minimise_largest(given.Z, unfolding, weight, allowed, tol * size, max_iter)
    history = found.history
    history["residual"] = [r / max(size, 1e-300) for r in history["residual"]]
    history["level"] = [level * given.unit for level in history["level"]]
    return given.result(found.X, found.S, found.converged, history)


def _pursuit(
    given: Given, unfolding: Unfolding, weight: float, tol: float, max_iter: int
) -> Separation:
    maps = [partial(_shrink, unfolding, 1 / weight)]
    # The start that Lin, Chen and Ma take, for the l1 norm with weight one.
    largest = unfolding.left_singular(given.filled())[0][0]
    start = 1.25 / (weight * max(largest, 1e-300))
    penalty = Penalty(start=start, balance_until=max_iter // 2)
    found = split(given.Z, maps, penalty, tol, max_iter)
    return given.result(found.X, found.S, found.converged, found.history)


def _shrink(
    unfolding: Unfolding, weight: float, Y: NDArray[Any], t: float, out: NDArray[Any]
) -> float:
    return unfolding.soft_threshold(Y, weight * t, out)
