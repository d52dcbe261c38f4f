"""Loops over single pixels, compiled by Numba; called from several threads at once.

A pixel's past is a row: its grey levels, then what the background explains of them, are vectors
along time, so that all loops but the smallest run over time.
"""

from __future__ import annotations

import math

import numba
import numpy as np

# Residuals are counted in bins of four levels up to 128 either way; the outermost take the rest.
N_BINS = 64
BIN_LEVELS = 4.0
# Evidence (log odds) is kept in bytes: 20 steps a unit, up to 6 either way.
STEPS = 20.0
MOST = 6.0


def _compiled(function):  # type: ignore[no-untyped-def]
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache
        return numba.njit(**options)(function)


@_compiled
def bin_of(e):  # type: ignore[no-untyped-def]
    """Which bin a residual belongs to."""
    return min(max(int(e / BIN_LEVELS + N_BINS / 2), 0), N_BINS - 1)


@_compiled
def _factorise(M):  # type: ignore[no-untyped-def]
    """Cholesky's factor of a small positive definite matrix, in its lower triangle."""
    for i in range(len(M)):
        for j in range(i + 1):
            s = M[i, j]
            for k in range(j):
                s -= M[i, k] * M[j, k]
            M[i, j] = math.sqrt(s) if i == j else s / M[j, j]


@_compiled
def _solve(L, v):  # type: ignore[no-untyped-def]
    for i in range(len(v)):
        for k in range(i):
            v[i] -= L[i, k] * v[k]
        v[i] /= L[i, i]
    for i in range(len(v) - 1, -1, -1):
        for k in range(i + 1, len(v)):
            v[i] -= L[k, i] * v[k]
        v[i] /= L[i, i]


@_compiled
def regress_pixels(Z, known, place, A, start, ridge, limit, steps, B, residuals):  # type: ignore[no-untyped-def]
    """Regress every pixel's past on the temporal factors, robustly.

    Minimises ``sum_t known * huber(z_t - a_t b; limit) + ridge/2 |b - start|^2``: least
    squares, then steps that move the fit by what is left of the residual once clipped.

    Parameters
    ----------
    Z : (P, T) grey levels
    known : (Q, T) of uint8, 0 where something hides the background
    place : (P,) which row of ``known`` and ``start`` a pixel goes by
    A : (R, T) temporal factors
    start : (Q, R)
    ridge, limit : float
    steps : int
    B : (P, R), overwritten with the coefficients
    residuals : (P, T) of float32, overwritten
    """
    n_factors, T = A.shape
    G = np.empty((n_factors, n_factors))
    for i in range(n_factors):
        for j in range(n_factors):
            s = 0.0
            for t in range(T):
                s += A[i, t] * A[j, t]
            G[i, j] = s
    M = np.empty((n_factors, n_factors))
    v = np.empty(n_factors)
    b = np.empty(n_factors)
    for p in range(len(Z)):
        q = place[p]
        e = residuals[p]
        M[:] = G
        for t in range(T):
            if known[q, t] == 0:
                for i in range(n_factors):
                    for j in range(i + 1):
                        M[i, j] -= A[i, t] * A[j, t]
        for i in range(n_factors):
            M[i, i] += ridge
            b[i] = start[q, i]
        _factorise(M)
        for step in range(steps + 1):
            for t in range(T):
                e[t] = Z[p, t]
            for i in range(n_factors):
                c = np.float32(b[i])
                for t in range(T):
                    e[t] -= c * A[i, t]
            reach = np.float32(1e9 if step == 0 else limit)
            for i in range(n_factors):
                pull = np.float32(0)
                for t in range(T):
                    pull += A[i, t] * known[q, t] * min(max(e[t], -reach), reach)
                v[i] = pull + ridge * (start[q, i] - b[i])
            _solve(M, v)
            for i in range(n_factors):
                b[i] += v[i]
        for t in range(T):
            e[t] = Z[p, t]
        for i in range(n_factors):
            B[p, i] = b[i]
            c = np.float32(b[i])
            for t in range(T):
                e[t] -= c * A[i, t]


@_compiled
def count_residuals(residuals, known, place, counts):  # type: ignore[no-untyped-def]
    """Count in (P, bins) the residuals (P, C, T) at known times; of colours the largest."""
    for p in range(len(counts)):
        q = place[p]
        for t in range(residuals.shape[2]):
            if known[q, t]:
                e = residuals[p, 0, t]
                for c in range(1, residuals.shape[1]):
                    other = residuals[p, c, t]
                    if abs(other) > abs(e):
                        e = other
                counts[p, bin_of(e)] += 1


@_compiled
def weigh_evidence(counts, first, last, prior, expected, odds, table):  # type: ignore[no-untyped-def]
    """Turn counts (rows, W, bins) into log odds against the background, in bytes.

    A residual's probability is its share among the counts of this and the neighbouring pixels
    and bins, to which ``prior`` of shape (bins,) is added, ``expected`` in all. Against it stand
    ``odds`` (bins,), the probabilities of the bins under the foreground times the odds of meeting
    it. Rows ``first`` to ``last`` are computed, the others are neighbours only.
    """
    H, W, bins = counts.shape
    across = np.empty(bins, np.float32)
    certain = math.exp(-MOST) - 1e-3
    for y in range(first, last):
        for x in range(W):
            across[:] = 0
            for dy in range(-1, 2):
                yy = min(max(y + dy, 0), H - 1)
                for dx in range(-1, 2):
                    xx = min(max(x + dx, 0), W - 1)
                    weight = np.float32((2 - abs(dy)) * (2 - abs(dx)) / 16)
                    for k in range(bins):
                        across[k] += weight * counts[yy, xx, k]
            total = expected
            for k in range(bins):
                total += across[k]
            for k in range(bins):
                before, after = across[max(k - 1, 0)], across[min(k + 1, bins - 1)]
                share = (0.25 * (before + after) + 0.5 * across[k] + prior[k]) / total
                if share <= certain * odds[k]:  # most bins are empty: spare them the logarithm
                    evidence = MOST
                else:
                    evidence = math.log(odds[k] / (share + 1e-3 * odds[k]))
                table[y - first, x, k] = int(STEPS * min(max(evidence, -MOST), MOST))


@_compiled
def score_frame(frame, a, B, table, evidence):  # type: ignore[no-untyped-def]
    """Evidence of each pixel of a frame: (P,) from levels (P, C), B (P, C, R), table (P, bins)."""
    for p in range(len(frame)):
        e = np.float32(0)
        for c in range(frame.shape[1]):
            other = np.float32(frame[p, c])
            for i in range(len(a)):
                other -= B[p, c, i] * a[i]
            if abs(other) >= abs(e):
                e = other
        evidence[p] = table[p, bin_of(e)] / np.float32(STEPS)


@_compiled
def follow_frame(frame, a, B, hidden, rate, limit):  # type: ignore[no-untyped-def]
    """Move each visible pixel's first weight so that ``rate`` of its residual is gone.

    The first factor is the still image; the others, rhythms that residuals of single frames say
    little about, stay.
    """
    for p in range(len(frame)):
        if hidden[p]:
            continue
        for c in range(frame.shape[1]):
            e = np.float32(frame[p, c])
            for i in range(len(a)):
                e -= B[p, c, i] * a[i]
            B[p, c, 0] += (
                np.float32(rate) * min(max(e, -np.float32(limit)), np.float32(limit)) / a[0]
            )
