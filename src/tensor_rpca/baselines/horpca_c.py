"""HoRPCA-C: l1 subject to bounds on the ranks of all unfoldings."""

from __future__ import annotations

from functools import partial
from typing import Any

from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.result import Given, Separation, check_ranks
from tensor_rpca.baselines.singular import Unfolding
from tensor_rpca.baselines.splitting import Penalty, split


def horpca_c(
    Z: ArrayLike,
    ranks: Any,
    *,
    mask: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Separation:
    r"""Robust PCA with bounded Tucker rank, a nonconvex program, by the same splitting.

    .. math:: \min_{X, S} \|S\|_1 \quad\text{subject to}\quad X + S = Z,
              \quad \mathrm{rank}(X_{(k)}) \le r_k
    """
    given = Given(Z, mask)
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    bounds = check_ranks(ranks, given.shape)
    n_modes = len(given.shape)
    maps = [partial(_truncate, Unfolding(given.shape, k), bounds[k]) for k in range(n_modes)]
    penalty = Penalty(start=RHO / n_modes, growth=GROWTH)
    found = split(given.Z, maps, penalty, tol, max_iter)
    return given.result(found.X, found.S, found.converged, found.history)


RHO, GROWTH = 3.0, 1.01


def _truncate(
    unfolding: Unfolding, rank: int, Y: NDArray[Any], t: float, out: NDArray[Any]
) -> None:
    unfolding.truncate(Y, rank, out)
