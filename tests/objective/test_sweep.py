import math
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensor_rpca.objective import sweep, tiles
from tensor_rpca.objective.sweep import Sweep
from tests.problems import (
    DTYPES,
    LAYOUTS,
    dense_objective,
    random_factors,
    shrink,
    tensor_of,
    tiny_tiles,
    working_dtype,
)

SHAPES = {2: (9, 13), 3: (5, 6, 7), 4: (4, 5, 3, 6), 5: (3, 2, 4, 3, 5), 6: (2, 3, 2, 3, 2, 4)}
THRESHOLD = 0.7


def loss_and_gradient(Z, factors, mask=None, *, unit=1.0, threshold=THRESHOLD, n_threads=2):
    dtype = working_dtype(Z)
    factors = [np.ascontiguousarray(a, dtype=dtype) for a in factors]
    gradients = [np.full_like(a, np.nan) for a in factors]  # to be overwritten
    with Sweep(Z, mask, dtype, n_threads) as passes:
        passes.measure_in(unit)
        loss = passes.loss_and_gradient(factors, gradients, threshold)
    return loss, gradients


def check_against_dense(Z, factors, mask=None, *, unit=1.0, threshold=THRESHOLD, n_threads=2):
    loss, gradients = loss_and_gradient(
        Z, factors, mask, unit=unit, threshold=threshold, n_threads=n_threads
    )
    wide = np.asarray(Z, dtype=np.float64) / unit
    expected_loss, expected = dense_objective(factors, wide, mask, 0.0, threshold)
    # An error of one rounding in X or Z is one in the clipped residual; gradients add those up.
    eps = float(np.finfo(working_dtype(Z)).eps)
    sizes = [np.abs(a).astype(np.float64) for a in factors]
    largest = np.nanmax(np.abs(wide), initial=0.0) + math.prod(a.max() for a in sizes)
    slope_error = 20 * eps * (threshold + largest * sizes[0].shape[1])
    assert loss == pytest.approx(expected_loss, rel=100 * eps, abs=slope_error * Z.size * threshold)
    for k, (gradient, reference) in enumerate(zip(gradients, expected, strict=True)):
        others = math.prod(a.sum(axis=0).max() for j, a in enumerate(sizes) if j != k)
        assert gradient.dtype == working_dtype(Z)
        np.testing.assert_allclose(gradient, reference, rtol=0, atol=slope_error * others)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype_in_any_layout(dtype, layout):
    Z = LAYOUTS[layout](tensor_of(dtype, (5, 6, 7)))
    with tiny_tiles():
        check_against_dense(Z, random_factors(Z.shape, 3))


@st.composite
def sweep_problems(draw):
    order = draw(st.integers(2, 5))
    shape = tuple(draw(st.integers(1, 7 if order < 4 else 4)) for _ in range(order))
    seed = draw(st.integers(0, 1000))
    missing = draw(st.sampled_from([0.0, 0.3]))
    Z = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](
        tensor_of(draw(st.sampled_from(DTYPES)), shape, seed, missing)
    )
    mask = None
    if draw(st.booleans()):
        mask = np.random.default_rng(seed).random(shape) < 0.7
        mask = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](mask)
    factors = random_factors(shape, draw(st.integers(1, 5)), seed)
    entries, work = (draw(st.sampled_from([1, 8, 40, 10**6])) for _ in range(2))
    return Z, mask, factors, (entries, work)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@given(problem=sweep_problems(), unit=st.sampled_from([0.5, 1.0, 30.0]))
def test_any_tensor_mask_and_tiling(n_threads, problem, unit):
    Z, mask, factors, sizes = problem
    with tiny_tiles(*sizes):
        check_against_dense(Z, factors, mask, unit=unit, n_threads=n_threads)


@pytest.mark.parametrize("order", SHAPES)
@pytest.mark.parametrize("missing", ["nothing", "NaN", "mask"])
def test_gradients_are_those_of_the_loss(order, missing):
    shape = SHAPES[order]
    Z = tensor_of("f8", shape, missing=0.3 if missing == "NaN" else 0.0)
    mask = np.random.default_rng(0).random(shape) < 0.7 if missing == "mask" else None
    factors = random_factors(shape, 3, seed=1)
    directions = random_factors(shape, 3, seed=2)
    step = 1e-6

    def loss_at(k, t):
        moved = [a + t * d if j == k else a for j, (a, d) in enumerate(pairs)]
        return loss_and_gradient(Z, moved, mask)[0]

    pairs = list(zip(factors, directions, strict=True))
    with tiny_tiles():
        _, gradients = loss_and_gradient(Z, factors, mask)
        for k, (gradient, direction) in enumerate(zip(gradients, directions, strict=True)):
            slope = (loss_at(k, step) - loss_at(k, -step)) / (2 * step)
            # A kink that lies inside the step costs step * (second derivative).
            assert slope == pytest.approx(np.vdot(gradient, direction), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("order", SHAPES)
def test_default_tiling_gives_the_same_as_tiny_tiles(order):
    Z = tensor_of("f8", SHAPES[order], missing=0.2)
    factors = random_factors(Z.shape, 4)
    loss, gradients = loss_and_gradient(Z, factors)
    with tiny_tiles():
        tiny_loss, tiny_gradients = loss_and_gradient(Z, factors)
    assert tiny_loss == pytest.approx(loss, rel=1e-12)
    for tiny, gradient in zip(tiny_gradients, gradients, strict=True):
        np.testing.assert_allclose(tiny, gradient, rtol=0, atol=1e-11)


@pytest.mark.parametrize("missing", ["NaN", "mask"])
def test_missing_entries_cost_nothing_and_pull_nowhere(missing):
    Z = tensor_of("f8", (5, 6, 7))
    factors = random_factors(Z.shape, 3)
    mask = np.ones(Z.shape, bool)
    mask[2, :, 3] = False
    hidden = np.where(mask, Z, np.nan if missing == "NaN" else 1e6)
    loss, gradients = loss_and_gradient(hidden, factors, mask if missing == "mask" else None)
    expected_loss, expected = dense_objective(factors, np.where(mask, Z, np.nan), None, 0, 0.7)
    assert loss == pytest.approx(expected_loss, rel=1e-13)
    for gradient, reference in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=0, atol=1e-12)


def test_nan_and_mask_agree_bit_for_bit():
    Z = tensor_of("f8", (6, 7, 8))
    mask = np.random.default_rng(0).random(Z.shape) < 0.6
    factors = random_factors(Z.shape, 3)
    with tiny_tiles():
        by_mask = loss_and_gradient(Z, factors, mask)
        by_nan = loss_and_gradient(np.where(mask, Z, np.nan), factors)
    assert by_mask[0] == by_nan[0]
    for a, b in zip(by_mask[1], by_nan[1], strict=True):
        np.testing.assert_array_equal(a, b)


def sparse_part(Z, factors, mask=None, *, n_threads=2, threshold=THRESHOLD):
    dtype = working_dtype(Z)
    factors = [np.ascontiguousarray(a, dtype=dtype) for a in factors]
    with Sweep(Z, mask, dtype, n_threads) as passes:
        return passes.sparse_part(factors, threshold)


@given(sweep_problems())
def test_sparse_part_is_the_shrunk_residual(problem):
    Z, mask, factors, sizes = problem
    with tiny_tiles(*sizes):
        loss, coords, values = sparse_part(Z, factors, mask)
    letters = "abcde"[: Z.ndim]
    X = np.einsum(",".join(f"{c}z" for c in letters) + "->" + letters, *factors)
    wide = np.asarray(Z, dtype=np.float64)
    residual = wide - X if mask is None else np.where(mask, wide - X, np.nan)
    S = np.zeros(Z.shape)
    S[coords] = values
    eps = float(np.finfo(working_dtype(Z)).eps)
    error = 50 * eps * (1 + np.nanmax(np.abs(wide), initial=0.0) + np.abs(X).max())
    np.testing.assert_allclose(S, shrink(residual, THRESHOLD), rtol=0, atol=error)
    # Coordinates are a set of entries, none twice, none with value zero.
    assert len(set(zip(*(c.tolist() for c in coords), strict=True))) == len(values)
    assert (values != 0).all()
    assert values.dtype == working_dtype(Z)
    assert all(c.dtype.kind == "i" for c in coords)
    reference, _ = dense_objective(factors, residual + X, None, 0.0, THRESHOLD)
    assert loss == pytest.approx(reference, rel=100 * eps, abs=Z.size * THRESHOLD * error)


def test_sparse_part_of_no_components_is_that_of_the_data():
    Z = tensor_of("f8", (5, 6, 7), missing=0.2)
    _, coords, values = sparse_part(Z, [np.empty((d, 0)) for d in Z.shape])
    S = np.zeros(Z.shape)
    S[coords] = values
    np.testing.assert_allclose(S, shrink(Z, THRESHOLD), rtol=0, atol=1e-15)


def test_sparse_part_of_a_perfect_fit_is_empty():
    factors = random_factors((5, 6, 7), 2)
    Z = np.einsum("az,bz,cz->abc", *factors)
    loss, coords, values = sparse_part(Z, factors)
    assert loss == pytest.approx(0, abs=1e-25)
    assert len(values) == 0
    assert [len(c) for c in coords] == [0, 0, 0]


def survey_of(Z, mask=None, *, n_threads=2):
    with Sweep(Z, mask, working_dtype(Z), n_threads) as passes:
        return passes.survey()


def check_survey(Z, mask=None):
    survey = survey_of(Z, mask)
    wide = np.asarray(Z, dtype=working_dtype(Z))
    if mask is not None:
        wide = np.where(mask, wide, np.nan)
    observed = ~np.isnan(wide)
    size = np.abs(wide[observed])
    finite = size[np.isfinite(size)]
    assert survey.n_observed == np.count_nonzero(observed)
    assert survey.n_infinite == np.count_nonzero(np.isinf(size))
    assert survey.largest == finite.max(initial=0.0)
    assert survey.typical == (np.median(size[size > 0]) if size.any() else 0.0)
    for k, seen in enumerate(survey.seen):
        others = tuple(j for j in range(Z.ndim) if j != k)
        np.testing.assert_array_equal(seen, observed.any(axis=others))


@given(sweep_problems())
def test_survey(problem):
    Z, mask, _, sizes = problem
    with tiny_tiles(*sizes):
        check_survey(Z, mask)


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=4, max_side=5),
        elements=st.sampled_from([0.0, 1.0, -2.0, 3.5, np.nan, np.inf, -np.inf]),
    )
)
def test_survey_of_infinite_missing_and_zero_entries(Z):
    with tiny_tiles(8, 8):
        check_survey(Z)


@pytest.mark.parametrize("layout", ["C", "Fortran", "transposed"])
def test_slices_without_an_entry_are_told_by_their_axis(layout):
    # Tiles run in memory's order, reports in that of the axes.
    Z = tensor_of("f8", (3, 4, 5, 6))
    Z[1] = Z[:, 0] = Z[:, 3] = Z[:, :, 4] = Z[:, :, :, 5] = np.nan
    with tiny_tiles():
        seen = survey_of(LAYOUTS[layout](Z)).seen
    unseen = [np.flatnonzero(~axis).tolist() for axis in seen]
    assert unseen == [[1], [0, 3], [4], [5]]


def test_masked_infinities_are_not_counted():
    Z = tensor_of("f8", (4, 5))
    Z[1, 2] = np.inf
    mask = np.isfinite(Z)
    survey = survey_of(Z, mask)
    assert (survey.n_observed, survey.n_infinite) == (19, 0)
    assert survey.largest == np.abs(Z[mask]).max()


def test_a_typical_entry_of_a_large_tensor_comes_from_a_sample(monkeypatch):
    monkeypatch.setattr(sweep, "SAMPLE_SIZE", 200)
    Z = tensor_of("f8", (20, 30, 40))
    with tiny_tiles(1000, 64):
        survey = survey_of(Z)
    assert survey.typical == pytest.approx(np.median(np.abs(Z)), rel=0.2)
    assert survey.n_observed == Z.size


def test_a_sample_without_a_nonzero_entry_falls_back_on_the_mean(monkeypatch):
    # Else a tensor of rare counts would have no unit, and rounding would depend on its scale.
    monkeypatch.setattr(sweep, "SAMPLE_SIZE", 1)
    Z = np.zeros((20, 30))
    Z[7, 11] = 6.0
    assert survey_of(Z).typical == pytest.approx(6.0 / 600)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("order", SHAPES)
def test_results_are_the_same_bits_on_any_number_of_threads(order, dtype, n_threads):
    shape = tuple(2 * d for d in SHAPES[order]) if order < 5 else SHAPES[order]
    Z = tensor_of(dtype, shape, missing=0.1)
    factors = random_factors(shape, 3, dtype=dtype)

    def everything(n_threads):
        loss, gradients = loss_and_gradient(Z, factors, n_threads=n_threads)
        sparse_loss, coords, values = sparse_part(Z, factors, n_threads=n_threads)
        survey = survey_of(Z, n_threads=n_threads)
        return [loss, sparse_loss, survey.typical, *gradients, *coords, values]

    with tiny_tiles():
        assert len(tiles.plan_sweep(shape, 3).chunks) >= 3  # or there is nothing to test
        for ours, reference in zip(everything(n_threads), everything(3), strict=True):
            np.testing.assert_array_equal(ours, reference)


def test_one_sweep_serves_many_passes_and_ranks():
    # Plans and buffers are kept between passes; a stale one would show here.
    Z = tensor_of("f8", (6, 7, 8), missing=0.1)
    with tiny_tiles(), Sweep(Z, None, np.dtype(np.float64), 2) as passes:
        passes.survey()
        for rank in (3, 1, 5, 3):
            factors = random_factors(Z.shape, rank, seed=rank)
            gradients = [np.empty_like(a) for a in factors]
            loss = passes.loss_and_gradient(factors, gradients, THRESHOLD)
            expected_loss, expected = dense_objective(factors, Z, None, 0.0, THRESHOLD)
            assert loss == pytest.approx(expected_loss, rel=1e-12)
            for gradient, reference in zip(gradients, expected, strict=True):
                np.testing.assert_allclose(gradient, reference, rtol=0, atol=1e-11)
            passes.sparse_part(factors, THRESHOLD)


class FaultyArray(np.ndarray):
    """Fails to be read at times, as a memory map on a broken disk does."""

    reads = 0
    fails = staticmethod(lambda read: False)

    def __getitem__(self, index):
        FaultyArray.reads += 1
        if FaultyArray.fails(FaultyArray.reads):
            raise OSError("broken disk")
        return np.asarray(super().__getitem__(index))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("when", ["always", "once", "in the caller", "in other threads"])
def test_a_failing_read_neither_hangs_nor_spoils_the_sweep(monkeypatch, when, n_threads):
    Z = tensor_of("f8", (12, 10, 8))
    factors = random_factors(Z.shape, 3)
    outcome = {}

    def attempt():
        caller = threading.current_thread()
        failures = []

        def fails(read):
            ours = threading.current_thread() is caller
            failing = {
                "always": True,
                "once": read == 7,
                "in the caller": ours,
                "in other threads": not ours,
            }[when]
            failures.extend([read] * failing)
            return failing

        gradients = [np.empty_like(a) for a in factors]
        with Sweep(Z.view(FaultyArray), None, np.dtype(np.float64), n_threads) as passes:
            monkeypatch.setattr(FaultyArray, "reads", 0)
            monkeypatch.setattr(FaultyArray, "fails", fails)
            try:
                passes.loss_and_gradient(factors, gradients, THRESHOLD)
                outcome["raised"] = False
            except OSError:
                outcome["raised"] = True
            outcome["failed"] = bool(failures)
            monkeypatch.setattr(FaultyArray, "fails", lambda read: False)
            outcome["loss"] = passes.loss_and_gradient(factors, gradients, THRESHOLD)
            outcome["gradients"] = gradients

    def guarded():
        try:
            attempt()
        except BaseException as error:
            outcome["unexpected"] = error

    with tiny_tiles():
        assert len(tiles.plan_sweep(Z.shape, 3).chunks) > 5
        # On a thread of its own, so that a deadlock fails this test and not the suite.
        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        thread.join(timeout=60)
    assert not thread.is_alive(), "deadlock"
    if "unexpected" in outcome:
        raise outcome["unexpected"]
    # Which thread reads is a race, but no failure may pass in silence.
    assert outcome["raised"] == outcome["failed"]
    if when in ("always", "once"):
        assert outcome["raised"]
    expected_loss, expected = dense_objective(factors, Z, None, 0.0, THRESHOLD)
    assert outcome["loss"] == pytest.approx(expected_loss, rel=1e-12)
    for gradient, reference in zip(outcome["gradients"], expected, strict=True):
        np.testing.assert_allclose(gradient, reference, rtol=0, atol=1e-11)


def test_a_sweep_leaves_no_threads_behind():
    before = threading.active_count()
    with tiny_tiles():
        loss_and_gradient(tensor_of("f8", (6, 7, 8)), random_factors((6, 7, 8), 2), n_threads=4)
    assert threading.active_count() == before


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@pytest.mark.parametrize("masked", [False, True])
def test_data_are_never_copied_whole(layout, masked):
    Z = LAYOUTS[layout](np.ones((300, 150, 100), np.uint8))
    mask = np.broadcast_to(np.arange(100) % 7 > 0, Z.shape) if masked else None
    factors = random_factors(Z.shape, 2)
    gradients = [np.empty_like(a) for a in factors]
    tracemalloc.start()
    try:
        with Sweep(Z, mask, np.dtype(np.float64), 2) as passes:
            passes.survey()
            passes.loss_and_gradient(factors, gradients, 0.01)
            passes.sparse_part(factors, 1e6)  # empty, for S itself is no copy
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    as_float64 = 8 * Z.size
    assert peak < as_float64 / 2
