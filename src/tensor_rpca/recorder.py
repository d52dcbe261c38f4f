"""The history of a solve, and its listeners: progress bars and users' callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.kruskal import KruskalTensor
from tensor_rpca.result import State

Array = NDArray[Any]
Callback = Callable[[State], Any]
Unpack = Callable[[Array], Sequence[Array]]


class Recorder:
    """Writes the history and shows users the state, both in the units of Z.

    Parameters
    ----------
    dtype : float64 or float32
        Of the factors.
    unit : float
        In which the solver measures Z.
    callback : callable, optional
    """

    def __init__(self, dtype: np.dtype[Any], unit: float, callback: Callback | None):
        self._dtype = dtype
        self._unit = unit
        self._began = time.perf_counter()
        self._callback = callback
        self._rows: list[tuple[float, float, float]] = []
        self.bar: Callback | None = None

    @property
    def listening(self) -> bool:
        """Whether anybody wants to see each iteration as it happens."""
        return self.bar is not None or self._callback is not None

    def watch(self, x: Array, value: float, slope: float, unpack: Unpack) -> bool:
        """Note an iteration; return True if the user wants to stop."""
        value *= self._unit * self._unit
        self._rows.append((value, slope, time.perf_counter() - self._began))
        listeners = [f for f in (self.bar, self._callback) if f is not None]
        if not listeners:
            return False
        count = partial(self._count, x.copy(), unpack)
        state = State(len(self._rows), value, slope, count)
        answers = [f(state) for f in listeners]
        # Only True stops: a callback that happens to return something else goes on.
        return any(isinstance(a, bool | np.bool_) and bool(a) for a in answers)

    def note(self, trace: Array, since: float) -> None:
        """Note iterations that nobody listened to, evenly spread over the time since then.

        ``trace`` has shape (n, 2): value and slope after each.
        """
        times = np.linspace(since, time.perf_counter(), len(trace) + 1)[1:] - self._began
        values, slopes = trace.T
        rows = np.column_stack([values * self._unit * self._unit, slopes, times])
        self._rows.extend(map(tuple, rows.tolist()))

    def _count(self, x: Array, unpack: Unpack) -> int:
        return alive(components(unpack(x.astype(self._dtype, copy=False)))).rank

    def history(self) -> dict[str, NDArray[np.float64]]:
        """One entry an iteration."""
        table = np.array(self._rows, dtype=np.float64).reshape(-1, 3)
        names = ("objective", "relative_gradient", "seconds")
        return {name: table[:, i].copy() for i, name in enumerate(names)}


def components(factors: Sequence[Array]) -> KruskalTensor:
    """Components of X from factors; for a matrix, its singular vectors.

    A matrix's factors are determined up to a rotation only; its singular values are not, and
    add up to the nuclear norm.
    """
    if len(factors) > 2:
        return KruskalTensor(None, factors)
    (Q, R), (P, T) = map(np.linalg.qr, factors)
    u, s, vt = np.linalg.svd(R @ T.T, full_matrices=False)
    return KruskalTensor(s, [Q @ u, P @ vt.T])


def alive(X: KruskalTensor) -> KruskalTensor:
    """Drop the components that vanished: as seen from the heaviest, or from one entry of Z."""
    cutoff = 1e-6 if X.dtype == np.float64 else 1e-4
    top = max(1.0, float(X.weights.max(initial=0.0)))
    return X.truncate(int(np.count_nonzero(X.weights > cutoff * top)))
