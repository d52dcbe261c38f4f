"""How likely a residual is where a pixel is background: counts of the past, shared by neighbours.

Water, leaves and escalators show a pixel many values again and again; a wall shows one. The odds
of a residual are those of the foreground, for which any grey level is as good as any other,
against the share that this residual has in the pixel's and its neighbours' past. So a pixel's
noise and its recurring appearances need no model of their own, and no threshold but the odds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.video.kernels import BIN_LEVELS, N_BINS, weigh_evidence

Array = NDArray[Any]

# How much of a picture is foreground, before looking at it.
FOREGROUND = 0.2
# Before a pixel's first frame: noise of this deviation in levels, as if seen in so many frames.
NOISE, SEEN = 10.0, 20.0


class Density:
    """The table of evidence, filled as counts arrive, strip by strip from the top."""

    def __init__(self, height: int, width: int, pool: ThreadPoolExecutor, n_threads: int):
        self._pool = pool
        self._n_threads = n_threads
        self.table = np.empty((height, width, N_BINS), np.int8)
        centres = (np.arange(N_BINS) + 0.5 - N_BINS / 2) * BIN_LEVELS
        shape = np.exp(-0.5 * (centres / NOISE) ** 2)
        self._prior = (SEEN * shape / shape.sum()).astype(np.float32)
        widths = np.full(N_BINS, BIN_LEVELS)
        widths[[0, -1]] = 128.0
        self._odds = (FOREGROUND * widths / 256).astype(np.float32)
        self._waiting: Array | None = None
        self._done = 0

    def add(self, counts: Array) -> None:
        """Take the counts (rows, W, bins) of the next rows."""
        height = len(self.table)
        first = 0 if self._waiting is None else len(self._waiting) - 1
        block = counts if self._waiting is None else np.concatenate([self._waiting, counts])
        at_end = self._done + len(block) - first >= height
        last = len(block) if at_end else len(block) - 1
        start = self._done - first

        def weigh(rows: slice) -> None:
            target = self.table[start + rows.start : start + rows.stop]
            given = self._prior, np.float32(SEEN), self._odds
            weigh_evidence(block, rows.start, rows.stop, *given, target)

        list(self._pool.map(weigh, parts(slice(first, last), self._n_threads)))
        self._done += last - first
        self._waiting = block[-2:]


def parts(rows: slice, n: int) -> list[slice]:
    """Cut a range of rows into at most n of nearly the same size."""
    edges = np.linspace(rows.start, rows.stop, n + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges) if b > a]
