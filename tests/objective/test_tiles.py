import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_rpca.objective import tiles
from tensor_rpca.objective.tiles import box_shape, plan_sweep
from tests.problems import tiny_tiles

shapes = st.lists(st.integers(1, 12), min_size=2, max_size=5).map(tuple)


@given(
    shape=shapes,
    rank=st.integers(0, 60),
    tile_entries=st.integers(1, 300),
    chunk_work=st.integers(1, 3000),
)
def test_every_entry_is_visited_exactly_once(shape, rank, tile_entries, chunk_work):
    with tiny_tiles(tile_entries, chunk_work):
        plan = plan_sweep(shape, rank)
    visits = np.zeros(shape, int)
    for box in itertools.chain(*plan.chunks):
        assert visits[box].size > 0
        visits[box] += 1
    assert (visits == 1).all()


@given(
    shape=shapes,
    rank=st.integers(1, 60),
    tile_entries=st.integers(1, 300),
    chunk_work=st.integers(1, 3000),
)
def test_workspaces_are_as_large_as_the_largest_tile(shape, rank, tile_entries, chunk_work):
    with tiny_tiles(tile_entries, chunk_work):
        plan = plan_sweep(shape, rank)
    assert 1 <= plan.split < len(shape)
    boxes = list(itertools.chain(*plan.chunks))
    rows = [math.prod(box_shape(box)[: plan.split]) for box in boxes]
    columns = [math.prod(box_shape(box)[plan.split :]) for box in boxes]
    assert (plan.rows, plan.columns) == (max(rows), max(columns))


@given(
    shape=shapes,
    rank=st.integers(1, 60),
    tile_entries=st.integers(1, 300),
    chunk_work=st.integers(1, 3000),
)
def test_chunks_own_disjoint_ascending_ranges_of_their_mode(shape, rank, tile_entries, chunk_work):
    # Threads write into one gradient of this mode: an overlap would be a race.
    with tiny_tiles(tile_entries, chunk_work):
        plan = plan_sweep(shape, rank)
        assert len(plan.chunks) <= max(1, min(math.prod(shape) * rank // chunk_work, 256))
    edge = 0
    for chunk in plan.chunks:
        touched = np.zeros(shape[plan.chunk_mode], bool)
        for box in chunk:
            touched[box[plan.chunk_mode]] = True
        where = np.flatnonzero(touched)
        assert where[0] == edge
        assert len(where) == where[-1] + 1 - edge
        edge = where[-1] + 1
    assert edge == shape[plan.chunk_mode]


REAL_SHAPES = [
    (130, 160, 200),
    (3, 100_000),
    (100_000, 3),
    (1, 2_000_000),
    (2000, 1, 1000),
    (200, 120, 160, 3),
    (50, 40, 30, 20, 10),
    (2,) * 22,
    (1000, 100, 100),
]


@pytest.mark.parametrize("shape", REAL_SHAPES)
def test_workspaces_stay_small_and_tiles_large(shape):
    # Cuts are rounded to even pieces, in two modes at most: 1.5 * 1.5 is the worst.
    plan = plan_sweep(shape, 20)
    assert plan.rows * plan.columns <= 2.5 * tiles.TILE_ENTRIES
    # Each tile costs a few calls from Python, which thousands of entries have to pay for.
    n_tiles = sum(map(len, plan.chunks))
    assert math.prod(shape) / n_tiles > 10_000


def test_large_tensors_have_work_for_many_threads():
    assert len(plan_sweep((400, 400, 400), 20).chunks) >= 16
    assert len(plan_sweep((10_000, 10_000), 20).chunks) >= 16


def test_small_tensors_wake_no_thread():
    assert len(plan_sweep((20, 20, 20), 50).chunks) == 1


def test_the_number_of_chunks_is_bounded():
    # Each costs an addition of all gradients.
    with tiny_tiles(tile_entries=1, chunk_work=1):
        assert len(plan_sweep((2000, 3), 10).chunks) == tiles.MAX_CHUNKS
