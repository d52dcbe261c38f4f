"""Robust regression of many samples on the same columns, each sample a convex problem.

    min over a   sum_j huber(z_j - (P a)_j; lambda_s),    huber(e; t) = min(e^2/2, t|e| - t^2/2)

The loss is piecewise quadratic, so Newton's method ends exactly once it has the right
pieces. Where a Newton step does not descend, the sample takes one of iteratively
reweighted least squares, which always does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[Any]

# Floats held at once by a block of samples while Hessians are formed: 32 MiB.
BLOCK_FLOATS = 2**22
# Relative to lambda_s and the residual's size; rounding keeps gradients above 1e-13 or so.
TOLERANCE = 1e-11


def huber_regression(
    Z: Array, P: Array, threshold: float, *, max_iter: int = 200
) -> NDArray[np.float64]:
    """Regress each row of Z on the columns of P.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        One sample a row; NaN marks missing entries.
    P : ndarray of shape (D, R)
    threshold : float
        ``lambda_s``.
    max_iter : int

    Returns
    -------
    ndarray of shape (n, R)
        Coefficients; those of least norm, as seen from P's singular vectors, where P or
        what is observed leaves a choice.
    """
    # Orthonormal columns make one damping fit all directions.
    Q, R = scipy.linalg.qr(P.astype(np.float64, copy=False), mode="economic")
    u, s, vt = scipy.linalg.svd(R)
    kept = s > 1e-12 * s.max(initial=0.0)
    Q = Q @ u[:, kept]
    back = vt[kept] / s[kept, None]
    coefficients = np.empty((len(Z), P.shape[1]))
    step = max(1, BLOCK_FLOATS // max(1, Q.size))
    for first in range(0, len(Z), step):
        rows = slice(first, first + step)
        coefficients[rows] = _solve_block(Z[rows], Q, threshold, max_iter) @ back
    return coefficients


def _solve_block(Z: Array, Q: Array, threshold: float, max_iter: int) -> Array:
    observed = ~np.isnan(Z)
    Z = np.where(observed, Z, 0.0)
    B = _weighted_step(Q, observed, Z @ Q)
    active = np.arange(len(Z))
    for _ in range(max_iter):
        z, o, b = Z[active], observed[active], B[active]
        residual = np.where(o, b @ Q.T - z, 0.0)
        clipped = np.clip(residual, -threshold, threshold)
        gradient = clipped @ Q
        size = np.abs(clipped) @ np.abs(Q)
        moving = (np.abs(gradient) > TOLERANCE * size).any(axis=1)
        if not moving.any():
            break
        active, z, o, b = active[moving], z[moving], o[moving], b[moving]
        residual, clipped, gradient = residual[moving], clipped[moving], gradient[moving]
        loss = _loss(residual, clipped)
        moved = b - _weighted_step(Q, o & (np.abs(residual) <= threshold), gradient)
        worse = ~(_huber(moved, z, o, Q, threshold) < loss)
        if worse.any():
            weights = o[worse] * threshold / np.maximum(np.abs(residual[worse]), threshold)
            moved[worse] = b[worse] - _weighted_step(Q, weights, gradient[worse])
            stuck = ~(_huber(moved[worse], z[worse], o[worse], Q, threshold) < loss[worse])
            rested = np.flatnonzero(worse)[stuck]
            moved[rested] = b[rested]  # rounding allows no further descent
            B[active] = moved
            active = np.delete(active, rested)
            if not active.size:
                break
        else:
            B[active] = moved
    return B


def _weighted_step(Q: Array, weights: Array, gradient: Array) -> Array:
    """Solve ``(Q^T diag(w) Q + tiny) step = gradient`` for every sample."""
    hessian = np.matmul(Q.T, weights[:, :, None] * Q)
    # So small that it only decides directions of which the sample's entries say nothing.
    hessian += 1e-10 * np.eye(Q.shape[1])
    step: Array = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    return step


def _huber(b: Array, z: Array, observed: Array, Q: Array, threshold: float) -> Array:
    residual = np.where(observed, b @ Q.T - z, 0.0)
    return _loss(residual, np.clip(residual, -threshold, threshold))


def _loss(residual: Array, clipped: Array) -> Array:
    loss: Array = np.einsum("ij,ij->i", clipped, residual - 0.5 * clipped)
    return loss
