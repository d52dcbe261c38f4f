"""Tubal RPCA: the nuclear norm of the t-SVD, plus l1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.result import Given, Separation, check_weight
from tensor_rpca.baselines.splitting import Penalty, split

Array = NDArray[Any]


def tubal_rpca(
    Z: ArrayLike,
    lambda_s: float | None = None,
    *,
    mask: ArrayLike | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Separation:
    r"""Robust PCA of low tubal rank: matrices along the first two axes, tubes along the third."""
    given = Given(Z, mask)
    if len(given.shape) != 3:
        raise ValueError(f"tubal_rpca needs a tensor of order 3, got shape {given.shape}")
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    d1, d2, d3 = given.shape
    weight = check_weight("lambda_s", lambda_s, 1 / math.sqrt(max(d1, d2) * d3))

    def shrink(Y: Array, t: float, out: Array) -> None:
        tubal_soft_threshold(Y, t / weight, out)

    penalty = Penalty(start=RHO, balance_until=max_iter // 2)
    found = split(given.Z, [shrink], penalty, tol, max_iter)
    return given.result(found.X, found.S, found.converged, found.history)


RHO = 1.0


def tubal_soft_threshold(T: Array, threshold: float, out: Array) -> None:
    """Write the proximal map of the tubal nuclear norm, slice by slice of the Fourier transform.

    The norm is the mean of the slices' nuclear norms, and the transform stretches by
    ``sqrt(d3)``, so that each slice is shrunk by the threshold itself. Half of the slices are
    conjugates of the others. As in :mod:`singular`, the small side's Gram matrix does.
    """
    slices = np.moveaxis(scipy.fft.rfft(T, axis=2), 2, 0)
    if slices.shape[1] > slices.shape[2]:
        slices = slices.swapaxes(1, 2)
    slices = np.ascontiguousarray(slices)
    squares, U = np.linalg.eigh(slices @ slices.conj().swapaxes(1, 2))
    s = np.sqrt(np.maximum(squares, 0.0))
    if threshold < 1e-7 * s.max():
        U, s, _ = np.linalg.svd(slices, full_matrices=False)
    factors = np.zeros_like(s)
    np.divide(s - threshold, s, out=factors, where=s > threshold)
    shrunk = (U * factors[:, None, :]) @ (U.conj().swapaxes(1, 2) @ slices)
    if T.shape[0] > T.shape[1]:
        shrunk = shrunk.swapaxes(1, 2)
    out[...] = scipy.fft.irfft(np.moveaxis(shrunk, 0, 2), T.shape[2], axis=2)
