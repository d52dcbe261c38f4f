"""HoRPCA-C: l1 subject to bounds on the ranks of all unfoldings."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.result import Given, Separation, check_ranks
from tensor_rpca.baselines.singular import Unfolding, workers
from tensor_rpca.baselines.splitting import Penalty, split

# Of the penalty parameter, for one mode and a typical entry of one: the start and what follows.
RHO, GROWTH = 0.5, 1.01


def horpca_c(
    Z: ArrayLike,
    ranks: Any,
    *,
    mask: ArrayLike | None = None,
    max_iter: int = 2000,
    tol: float = 1e-6,
) -> Separation:
    r"""Robust PCA with bounded Tucker rank, a nonconvex program, by a splitting over the modes.

    .. math:: \min_{X, S} \|S\|_1 \quad\text{subject to}\quad X + S = Z,
              \quad \mathrm{rank}(X_{(k)}) \le r_k

    The method is HoRPCA-S's, with projections onto matrices of bounded rank in place of
    singular value thresholding. The penalty parameter grows by 1 % an iteration from where only
    entries twice the typical size are outliers, which makes the method converge and, slowly
    enough, to the minimum wanted. Nothing says that it always does.

    Parameters
    ----------
    Z : array-like of shape (d_1, ..., d_K), K >= 2
        NaN marks a missing entry, where S is free.
    ranks : sequence of K ints
        r_k; with all ``r_k >= d_k`` nothing is bounded, and X = Z.
    mask : array-like of bool of the shape of Z, optional
        False marks a missing entry.
    max_iter : int
    tol : float
        Stop when the constraints hold, and S rests, to this fraction of Z.

    Returns
    -------
    Separation
        ``history`` has "primal" and "dual", the residuals compared with ``tol``. X is the mean
        of one tensor a mode, each of bounded rank; at convergence they agree to ``tol``.

    References
    ----------
    D. Goldfarb and Z. Qin, Robust low-rank tensor recovery: models and algorithms, SIAM J.
    Matrix Anal. Appl. 35 (2014).

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.baselines import horpca_c
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((15, 15, 15), rank=2, outliers=0.2, random_state=0)
    >>> result = horpca_c(Z, ranks=(2, 2, 2))
    >>> bool(np.linalg.norm(result.low_rank - X) < 1e-4 * np.linalg.norm(X))
    True
    """
    given = Given(Z, mask)
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    bounds = check_ranks(ranks, given.shape)
    n_modes = len(given.shape)
    with workers(given.Z.size) as pool:
        maps = [
            partial(_truncate, Unfolding(given.shape, k, pool), bounds[k]) for k in range(n_modes)
        ]
        penalty = Penalty(start=RHO / n_modes, growth=GROWTH)
        found = split(given.Z, maps, penalty, tol, max_iter, pool)
    return given.result(found.X, found.S, found.converged, found.history)


def _truncate(
    unfolding: Unfolding, rank: int, Y: NDArray[Any], t: float, out: NDArray[Any]
) -> None:
    unfolding.truncate(Y, rank, out)
