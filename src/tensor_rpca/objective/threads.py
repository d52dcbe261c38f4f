"""Who may use which core: BLAS runs single-threaded inside, the sweep's own threads outside.

A multi-threaded BLAS called on the short vectors of a quasi-Newton method waits for its
slowest thread at every call, which is ruinous when another program keeps a core busy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before the controller looks)
import threadpoolctl

_lock = threading.Lock()
_here = threading.local()
_active = 0
_limiter: Any = None
_n_threads = 1


@cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[int]:
    """Limit BLAS to one thread; yield how many threads it would have used, ours to use.

    So OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and threadpoolctl's limits mean what users
    expect. Nested and concurrent uses share one limit, lifted when the last one ends.
    """
    global _active, _limiter, _n_threads
    with _lock:
        if _active == 0:
            blas = _controller().select(user_api="blas")
            _take_control()
            _n_threads = max((pool["num_threads"] for pool in blas.info()), default=1)
            _limiter = blas.limit(limits=1)
        _active += 1
        n_threads = _n_threads
    try:
        yield 1 if getattr(_here, "alone", False) else n_threads
    finally:
        with _lock:
            _active -= 1
            if _active == 0:
                _take_control()
                _limiter.restore_original_limits()
                _take_control()


@contextmanager
def without_helpers() -> Iterator[None]:
    """Let what this thread does inside use this thread only."""
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = False


def _take_control() -> None:
    """Let whichever thread comes next set limits.

    From version 3.8 on, threadpoolctl ignores requests by any but the first thread that made
    one. Our lock and count already keep the threads that come here from disagreeing.
    """
    release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
