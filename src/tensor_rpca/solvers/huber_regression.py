"""Robust regression of many samples on the same columns, each sample a convex problem.

    min over a   sum_j huber(z_j - (P a)_j; lambda_s),    huber(e; t) = min(e^2/2, t|e| - t^2/2)

The loss is piecewise quadratic and convex. Newton's method with an exact line search ends
once it has the right pieces; it starts as least squares, and the threshold falls to its
target as a sample gets them right, so that few pieces change at a time.
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
EPS = float(np.finfo(np.float64).eps)


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
    u, s, vt = scipy.linalg.svd(R, full_matrices=False)
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
    # Each sample starts as least squares; its threshold falls as it gets its pieces right.
    current = np.maximum(np.abs(B @ Q.T - Z).max(axis=1, initial=0.0, where=observed), threshold)
    active = np.arange(len(Z))
    for _ in range(max_iter):
        if not active.size:
            break
        z, o, b, t = Z[active], observed[active], B[active], current[active, None]
        residual = np.where(o, b @ Q.T - z, 0.0)
        clipped = np.clip(residual, -t, t)
        free = o & (np.abs(residual) <= t)
        gradient = clipped @ Q
        rounding = 8 * EPS * ((free * (np.abs(z) + np.abs(residual))) @ np.abs(Q))
        precision = np.where(t > threshold, 1e-2, TOLERANCE)
        bound = precision * (np.abs(clipped) @ np.abs(Q)) + rounding
        moving = (np.abs(gradient) > bound).any(axis=1)
        last = current[active] <= threshold
        lower = active[~moving & ~last]
        current[lower] = np.maximum(threshold, current[lower] / 5)
        rows = active[moving]
        if rows.size:
            step = -_weighted_step(Q, free[moving], gradient[moving])
            along = np.where(o[moving], step @ Q.T, 0.0)
            length = _exact_search(residual[moving], along, clipped[moving], t[moving])
            B[rows] += length[:, None] * step
        active = active[moving | ~last]
    return B


def _exact_search(e: Array, q: Array, clipped: Array, t: Array) -> Array:
    """The a > 0 at which the loss of ``e + a q`` is least, for every sample.

    Its derivative is continuous and piecewise linear in a: sort the places where an entry
    enters or leaves the quadratic piece, and interpolate where the derivative changes sign.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        one, two = (-t - e) / q, (t - e) / q
    enter = np.where(q == 0, -1.0, np.minimum(one, two))
    leave = np.where(q == 0, -1.0, np.maximum(one, two))
    q2 = q * q
    at = np.concatenate([np.maximum(enter, 0.0), np.maximum(leave, 0.0)], axis=1)
    change = np.concatenate([np.where(enter > 0, q2, 0.0), np.where(leave > 0, -q2, 0.0)], axis=1)
    order = np.argsort(at, axis=1)
    at, change = np.take_along_axis(at, order, 1), np.take_along_axis(change, order, 1)
    slope = np.where((enter <= 0) & (leave > 0), q2, 0.0).sum(axis=1, keepdims=True)
    slope = slope + np.cumsum(change, axis=1) - change  # before each event
    start = np.einsum("ij,ij->i", q, clipped)[:, None]
    derivative = start + np.cumsum(slope * np.diff(at, axis=1, prepend=0.0), axis=1)
    reached = derivative >= 0
    first = np.argmax(reached, axis=1)[:, None]
    before = np.maximum(first - 1, 0)
    a = np.where(first > 0, np.take_along_axis(at, before, 1), 0.0)
    d = np.where(first > 0, np.take_along_axis(derivative, before, 1), start)
    s = np.take_along_axis(slope, first, 1)
    a = a - np.divide(d, s, out=np.zeros_like(d), where=s > 0)
    a = np.minimum(a, np.take_along_axis(at, first, 1))
    return np.where(reached.any(axis=1) & (start[:, 0] < 0), a[:, 0], 0.0)


def _weighted_step(Q: Array, weights: Array, gradient: Array) -> Array:
    """Solve ``(Q^T diag(w) Q + tiny) step = gradient`` for every sample."""
    hessian = np.matmul(Q.T, weights[:, :, None] * Q)
    # So small that it only decides directions of which the sample's entries say nothing, and so
    # large that rounding errors of the gradient, over it, are no step along them.
    hessian += 1e-9 * np.eye(Q.shape[1])
    step: Array = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    return step
