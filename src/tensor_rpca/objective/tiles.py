"""How one pass over a tensor is cut into tiles that fit a core's cache.

The modes are split into a left and a right group, so that a tile is a matrix of
``rows x columns`` entries and its share of X is one product of two Khatri-Rao matrices.
Tiles are dealt to chunks, ranges of one mode, which are what threads work on. The plan
depends on the tensor alone and never on the number of threads, so results do not either.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

Box = tuple[slice, ...]

# 1 MiB of float64. Between 0.5 and 4 MiB the sweep's speed is flat to within 3 %.
TILE_ENTRIES = 2**17
# Entries times components that pay for waking another thread: a few tenths of a millisecond.
CHUNK_WORK = 2_000_000
MAX_CHUNKS = 256
# Smaller tensors get smaller tiles, until there are as many as this for threads to share.
ENOUGH_TILES = 16
# Entries of a Khatri-Rao product that a tile with whole modes may need.
PRODUCT_ENTRIES = 2**19


@dataclass(frozen=True)
class Plan:
    """Modes left of ``split`` are a tile's rows; chunks are disjoint along ``chunk_mode``."""

    split: int
    chunk_mode: int
    chunks: tuple[tuple[Box, ...], ...]
    rows: int
    columns: int

    def boxes(self) -> list[Box]:
        """All tiles, in order."""
        return [box for chunk in self.chunks for box in chunk]


def plan_sweep(shape: tuple[int, ...], rank: int, whole: tuple[int, ...] = ()) -> Plan:
    """Cut a C-ordered tensor of this shape for factors with ``rank`` columns.

    Modes in ``whole`` are never cut, so that a tile has whole columns of that unfolding.
    """
    # Of equally good splits the rightmost: tiles are then whole pieces of memory.
    split = min(
        range(1, len(shape)), key=lambda s: (math.prod(shape[:s]) + math.prod(shape[s:]), -s)
    )
    # Both sides of a tile stay long, or its matrix products would be starved for data.
    affordable = max(1, min(math.prod(shape) * rank // CHUNK_WORK, MAX_CHUNKS))
    entries = min(TILE_ENTRIES, math.prod(shape) // min(affordable, ENOUGH_TILES))
    longest = max(math.isqrt(entries), entries // math.prod(shape[:split]))
    right = _fit(shape[split:], longest)
    tile = _fit(shape[:split], entries // math.prod(right)) + right
    if whole:
        rows = math.prod(shape[k] for k in whole)
        # As many columns as rows, or products of the tile would be mostly their results.
        columns = max(rows, entries // rows)
        cut = _fit(tuple(1 if k in whole else d for k, d in enumerate(shape)), columns)
        tile = tuple(d if k in whole else cut[k] for k, d in enumerate(shape))
        tile = _balanced(tile, shape, split, whole, max(1, PRODUCT_ENTRIES // max(rank, 1)))

    pieces = [max(1, round(d / t)) for d, t in zip(shape, tile, strict=True)]
    n_chunks = [min(n, affordable) for n in pieces]
    mode = n_chunks.index(max(n_chunks))

    cuts = [_even_cuts(0, d, n) for d, n in zip(shape, pieces, strict=True)]
    chunks = []
    for part in _even_cuts(0, shape[mode], n_chunks[mode]):
        within = max(1, round((part.stop - part.start) / tile[mode]))
        here = [*cuts]
        here[mode] = _even_cuts(part.start, part.stop, within)
        chunks.append(tuple(itertools.product(*here)))
    boxes = [box for chunk in chunks for box in chunk]
    return Plan(
        split,
        mode,
        tuple(chunks),
        rows=max(math.prod(box_shape(box[:split])) for box in boxes),
        columns=max(math.prod(box_shape(box[split:])) for box in boxes),
    )


def _balanced(
    tile: tuple[int, ...], shape: tuple[int, ...], split: int, whole: tuple[int, ...], most: int
) -> tuple[int, ...]:
    """Shorten a tile on its right, where its factors' product would be long, not on its left."""
    lengths = list(tile)
    right = [k for k in range(split, len(shape)) if k not in whole]
    left = [k for k in range(split) if k not in whole]
    while math.prod(lengths[split:]) > most and any(lengths[k] > 1 for k in right):
        k = max(right, key=lambda k: lengths[k])
        lengths[k] = -(-lengths[k] // 2)
        if left:
            j = min(left, key=lambda j: lengths[j] / shape[j])
            lengths[j] = min(shape[j], 2 * lengths[j])
    return tuple(lengths)


def box_shape(box: Box) -> tuple[int, ...]:
    """Lengths of a box along its modes."""
    return tuple(part.stop - part.start for part in box)


def _fit(shape: tuple[int, ...], entries: int) -> tuple[int, ...]:
    """Shorten the leading modes, as memory order likes it, until at most ``entries`` remain."""
    lengths = list(shape)
    for mode in range(len(lengths)):
        rest = math.prod(lengths[mode + 1 :])
        lengths[mode] = max(1, min(lengths[mode], entries // rest))
    return tuple(lengths)


def _even_cuts(start: int, stop: int, pieces: int) -> list[slice]:
    """Cut a range into pieces whose lengths differ by one at most."""
    edges = [start + (stop - start) * i // pieces for i in range(pieces + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
