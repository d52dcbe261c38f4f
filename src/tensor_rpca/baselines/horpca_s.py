"""HoRPCA-S: the sum of nuclear norms of all unfoldings, plus l1."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.result import Given, Separation, check_numbers
from tensor_rpca.baselines.singular import Unfolding
from tensor_rpca.baselines.splitting import Penalty, split


def horpca_s(
    Z: ArrayLike,
    weights: Any = None,
    *,
    mask: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Separation:
    r"""Robust PCA by the sum of nuclear norms, from a splitting over the modes.

    .. math:: \min_{X, S} \sum_k w_k \|X_{(k)}\|_* + \|S\|_1
              \quad\text{subject to}\quad X + S = Z

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K), K >= 2
        NaN marks a missing entry, where S is free.
    weights : float, sequence of K floats or "provable", optional
        w_k; None is Goldfarb and Qin's ``sqrt(max_k d_k)`` for all modes. "provable" is
        ``sqrt(max(d_k, N / d_k))`` with N entries in all, for which Huang et al. prove recovery
        of large tensors: d for a d x d x d tensor, as in the paper's experiment. At small d it
        is so large that X = 0 is often the minimum.
    mask : array-like of bool of the shape of Z, optional
        False marks a missing entry.
    max_iter : int
    tol : float
        Stop when the constraints hold, and S rests, to this fraction of their scale.

    Returns
    -------
    Separation
        ``history`` has "primal" and "dual", the residuals compared with ``tol``.

    References
    ----------
    D. Goldfarb and Z. Qin, Robust low-rank tensor recovery: models and algorithms, SIAM J.
    Matrix Anal. Appl. 35 (2014). B. Huang, C. Mu, D. Goldfarb and J. Wright, Provable models
    for robust low-rank tensor completion, Pac. J. Optim. 11 (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.baselines import horpca_s
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((30, 30, 30), rank=2, outliers=0.05, random_state=0)
    >>> result = horpca_s(Z)
    >>> bool(np.linalg.norm(result.low_rank - X) < 1e-4 * np.linalg.norm(X))
    True
    """
    given = Given(Z, mask)
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    w, n_modes = _weights(weights, given.shape), len(given.shape)
    maps = [partial(_shrink, Unfolding(given.shape, k), w[k]) for k in range(n_modes)]
    # S begins with the entries above half a typical one.
    penalty = Penalty(start=RHO / n_modes, balance_until=max_iter // 2)
    found = split(given.Z, maps, penalty, tol, max_iter)
    return given.result(found.X, found.S, found.converged, found.history)


RHO = 1.0


def _weights(weights: Any, shape: tuple[int, ...]) -> list[float]:
    if weights is None:
        return [math.sqrt(max(shape))] * len(shape)
    if isinstance(weights, str):
        if weights != "provable":
            raise ValueError(f'weights={weights!r} is unknown; pass numbers, "provable" or None')
        return [math.sqrt(max(d, math.prod(shape) / d)) for d in shape]
    return check_numbers("weights", weights, len(shape), "modes")


def _shrink(
    unfolding: Unfolding, weight: float, Y: NDArray[Any], t: float, out: NDArray[Any]
) -> float:
    return unfolding.soft_threshold(Y, weight * t, out)
