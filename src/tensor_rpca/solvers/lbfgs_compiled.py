"""L-BFGS for tensors of one tile, compiled together with its objective.

The same method as in ``lbfgs.py``: two-loop recursion, a memory of 10, a line search for the
strong Wolfe conditions. It can stop after any iteration and go on later with the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from tensor_rpca.objective.compact import (
    FUNCTION,
    MATRIX,
    PROBLEM,
    VECTOR,
    CompactTensor,
    compiled,
    evaluate,
)

Array = NDArray[Any]

MEMORY = 10
# Of the strong Wolfe conditions: sufficient decrease, and how flat a step must end.
DECREASE, FLATTER = 1e-3, 0.9
MOST_TRIALS = 20
HUBER = np.empty((0, 3))


class CompiledLBFGS:
    """A descent from a start, in as many instalments as the caller likes.

    Parameters
    ----------
    tensor : CompactTensor
    x : ndarray of shape (n,)
        The start; overwritten with the point reached.
    scale : float
    table : ndarray, optional
        Of the loss; None is Huber's.
    lambda_x : float
    flat : float
        Stop when an iteration lowers the value by less than this fraction.

    Attributes
    ----------
    n_evaluations : int
    stopped : bool
        There is nothing more to gain.
    """

    def __init__(
        self,
        tensor: CompactTensor,
        x: Array,
        scale: float,
        table: Array | None,
        lambda_x: float,
        flat: float,
    ):
        self.x = x
        self._problem = tensor.problem(len(x) // sum(tensor.shape))
        self._function = (scale, HUBER if table is None else table, lambda_x)
        self._flat = flat
        self._vectors = np.zeros((2 * MEMORY + 4, len(x)))
        self._alpha = np.zeros(2 * MEMORY)
        # value, pairs kept, where the next goes, evaluations (0 before the first), stopped
        self._state = np.zeros(5)

    @property
    def n_evaluations(self) -> int:
        """Evaluations so far."""
        return int(self._state[3])

    @property
    def stopped(self) -> bool:
        """True if further iterations would gain nothing."""
        return bool(self._state[4])

    def run(self, n_iter: int) -> Array:
        """Make at most so many iterations; return (value, relative gradient) after each."""
        trace = np.empty((n_iter, 2))
        n = _descend(
            self.x,
            self._problem,
            self._function,
            self._flat,
            self._vectors,
            self._alpha,
            self._state,
            trace,
        )
        return trace[:n]


@compiled(types.float64(VECTOR, VECTOR))
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled(types.void(VECTOR, VECTOR, MATRIX, VECTOR, types.int64, types.int64))
def _direction(d, g, vectors, alpha, kept, head):  # type: ignore[no-untyped-def]
    """Two-loop recursion: d = -H g; alpha[MEMORY + j] is 1 / <s_j, y_j>."""
    for i in range(len(d)):
        d[i] = -g[i]
    for back in range(1, kept + 1):
        j = (head - back) % MEMORY
        s, y = vectors[2 * j], vectors[2 * j + 1]
        alpha[j] = alpha[MEMORY + j] * _dot(s, d)
        for i in range(len(d)):
            d[i] -= alpha[j] * y[i]
    if kept > 0:
        y = vectors[2 * ((head - 1) % MEMORY) + 1]
        factor = 1.0 / (alpha[MEMORY + (head - 1) % MEMORY] * _dot(y, y))
        for i in range(len(d)):
            d[i] *= factor
    for back in range(kept, 0, -1):
        j = (head - back) % MEMORY
        s, y = vectors[2 * j], vectors[2 * j + 1]
        change = alpha[j] - alpha[MEMORY + j] * _dot(y, d)
        for i in range(len(d)):
            d[i] += change * s[i]


@compiled(types.float64(*[types.float64] * 6))
def _cubic(a, value_a, slope_a, b, value_b, slope_b):  # type: ignore[no-untyped-def]
    """Minimum of the cubic through two points, kept off both ends."""
    new = 0.5 * (a + b)
    if math.isfinite(value_b) and math.isfinite(slope_b):
        one = slope_a + slope_b - 3.0 * (value_a - value_b) / (a - b)
        square = one * one - slope_a * slope_b
        if square >= 0.0:
            two = math.copysign(math.sqrt(square), b - a)
            bottom = slope_b - slope_a + 2.0 * two
            if bottom != 0.0:
                new = b - (b - a) * (slope_b + two - one) / bottom
    margin = 0.1 * abs(b - a)
    return min(max(new, min(a, b) + margin), max(a, b) - margin)


_NUMBER = types.float64


@compiled(
    types.Tuple((_NUMBER, _NUMBER, types.int64))(
        VECTOR, VECTOR, VECTOR, VECTOR, _NUMBER, _NUMBER, _NUMBER, PROBLEM, FUNCTION
    )
)
def _line_search(x, d, x_new, g_new, value, slope, step, problem, function):  # type: ignore[no-untyped-def]
    """Look along d for a step that satisfies the strong Wolfe conditions, or nearly."""
    low, value_low, slope_low = 0.0, value, slope
    high, value_high, slope_high = -1.0, 0.0, 0.0
    value_new, relative = value, 0.0
    for trial in range(1, MOST_TRIALS + 1):
        for i in range(len(x)):
            x_new[i] = x[i] + step * d[i]
        value_new, relative = evaluate(x_new, g_new, problem, function)
        slope_new = _dot(g_new, d)
        if not (value_new <= value + DECREASE * step * slope) or value_new > value_low:
            high, value_high, slope_high = step, value_new, slope_new
        elif abs(slope_new) <= -FLATTER * slope:
            return value_new, relative, trial
        elif high < 0.0 and slope_new < 0.0:  # downhill still: go farther
            before = low
            low, value_low, slope_low = step, value_new, slope_new
            step = step + 3.0 * (step - before)
            continue
        else:
            if high < 0.0 or slope_new * (high - low) >= 0.0:
                high, value_high, slope_high = low, value_low, slope_low
            low, value_low, slope_low = step, value_new, slope_new
        step = _cubic(low, value_low, slope_low, high, value_high, slope_high)
    return value_new, relative, MOST_TRIALS


@compiled(types.int64(VECTOR, PROBLEM, FUNCTION, types.float64, MATRIX, VECTOR, VECTOR, MATRIX))
def _descend(x, problem, function, flat, vectors, alpha, state, trace):  # type: ignore[no-untyped-def]
    g, g_new = vectors[2 * MEMORY], vectors[2 * MEMORY + 1]
    d, x_new = vectors[2 * MEMORY + 2], vectors[2 * MEMORY + 3]
    if state[3] == 0.0:
        state[0], _ = evaluate(x, g, problem, function)
        state[3] = 1.0
    n = 0
    while n < len(trace) and state[4] == 0.0:
        value, kept, head = state[0], int(state[1]), int(state[2])
        _direction(d, g, vectors, alpha, kept, head)
        slope = _dot(d, g)
        found = False
        if slope < 0.0:
            step = 1.0 if kept > 0 else min(1.0, 1.0 / math.sqrt(_dot(g, g)))
            value_new, relative, trials = _line_search(
                x, d, x_new, g_new, value, slope, step, problem, function
            )
            state[3] += trials
            found = value_new < value
        if not found:  # start anew from the gradient; if that was the start, it is the end
            if kept == 0:
                state[4] = 1.0
            state[1] = 0.0
            continue
        s, y = vectors[2 * head], vectors[2 * head + 1]
        for i in range(len(x)):
            s[i] = x_new[i] - x[i]
            y[i] = g_new[i] - g[i]
            x[i] = x_new[i]
            g[i] = g_new[i]
        curvature = _dot(s, y)
        if curvature > 2.2e-16 * _dot(y, y):
            alpha[MEMORY + head] = 1.0 / curvature
            state[1] = min(kept + 1, MEMORY)
            state[2] = (head + 1) % MEMORY
        state[0] = value_new
        trace[n, 0], trace[n, 1] = value_new, relative
        n += 1
        if value - value_new <= flat * max(abs(value), abs(value_new), function[0] ** 2):
            state[4] = 1.0
    return n
