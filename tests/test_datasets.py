"""Generated tensors have the parts that they are said to have."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_rpca.datasets import flickering_scene, low_rank_plus_sparse

SHAPES = [(12, 9), (8, 9, 10), (4, 5, 6, 7), (3, 2, 3, 2, 3)]


def ranks(X: np.ndarray) -> list[int]:
    """Return the rank of each unfolding."""
    return [
        int(np.linalg.matrix_rank(np.moveaxis(X, k, 0).reshape(X.shape[k], -1)))
        for k in range(X.ndim)
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_z_is_the_sum_of_its_parts(shape):
    Z, X, S = low_rank_plus_sparse(shape, 2, 0.1, random_state=0)
    assert Z.shape == X.shape == S.shape == shape
    assert Z.dtype == X.dtype == S.dtype == np.float64
    np.testing.assert_array_equal(Z, X + S)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rank", [1, 2])
def test_x_has_the_rank_asked_for(rank, shape):
    _, X, _ = low_rank_plus_sparse(shape, rank, 0.1, random_state=0)
    assert ranks(X) == [rank] * len(shape)


def test_x_is_a_sum_of_products_of_standard_normal_numbers():
    _, X, _ = low_rank_plus_sparse((60, 50, 40), 30, 0.0, random_state=0)
    # Each entry is a sum of 30 products of variance 1.
    assert X.var() == pytest.approx(30, rel=0.2)


@pytest.mark.parametrize(
    ("outliers", "count"), [(0.0, 0), (0.1, 72), (0.1003, 72), (0.5, 360), (1.0, 720)]
)
def test_s_has_the_fraction_asked_for(outliers, count):
    _, _, S = low_rank_plus_sparse((8, 9, 10), 2, outliers, random_state=0)
    assert np.count_nonzero(S) == count


def test_outliers_are_standard_normal_and_anywhere():
    _, _, S = low_rank_plus_sparse((40, 40, 40), 1, 0.2, random_state=0)
    assert S[S != 0].mean() == pytest.approx(0, abs=0.05)
    assert S[S != 0].std() == pytest.approx(1, rel=0.05)
    for axis in range(3):
        share = (S != 0).mean(axis=tuple({0, 1, 2} - {axis}))
        assert np.abs(share - 0.2).max() < 0.06


def test_noise_has_the_deviation_asked_for_and_changes_nothing_else():
    Z, X, S = low_rank_plus_sparse((30, 30, 30), 2, 0.1, noise=0.5, random_state=0)
    noise = Z - X - S
    assert noise.std() == pytest.approx(0.5, rel=0.05)
    assert np.count_nonzero(noise) == noise.size
    _, X0, S0 = low_rank_plus_sparse((30, 30, 30), 2, 0.1, random_state=0)
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(S, S0)


@pytest.mark.parametrize(
    "state", [lambda: 7, lambda: np.random.default_rng(7), lambda: np.random.RandomState(7)]
)
def test_the_same_state_draws_the_same(state):
    first = low_rank_plus_sparse((5, 6, 7), 2, 0.1, noise=0.1, random_state=state())
    again = low_rank_plus_sparse((5, 6, 7), 2, 0.1, noise=0.1, random_state=state())
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    other = low_rank_plus_sparse((5, 6, 7), 2, 0.1, noise=0.1, random_state=8)
    assert np.abs(first[1] - other[1]).max() > 0


def test_without_a_state_every_call_is_another():
    a, b = (low_rank_plus_sparse((5, 6), 1, 0.1)[1] for _ in range(2))
    assert np.abs(a - b).max() > 0


@pytest.fixture(scope="module")
def scene():
    return flickering_scene(random_state=0)


def test_scene_is_background_and_passers_by_and_little_noise(scene):
    Z, X, S = scene
    assert Z.shape == X.shape == S.shape == (60, 64, 80)
    noise = Z - X - S
    assert noise.std() == pytest.approx(0.01, rel=0.05)
    assert np.abs(noise).max() < 0.1


def test_scene_has_a_background_of_five_patterns(scene):
    _, X, _ = scene
    assert ranks(X)[0] == 5
    assert max(ranks(X)) == 5


def test_scene_has_few_and_clear_outliers(scene):
    _, _, S = scene
    share = np.count_nonzero(S) / S.size
    assert 0.02 < share < 0.15
    assert np.abs(S[S != 0]).min() > 0.05


def test_passers_by_cross_the_scene(scene):
    _, _, S = scene
    for brightness in (0.8, -0.7, 0.6):
        frames, _, columns = np.nonzero(np.equal(S, brightness))
        assert frames.size > 500
        assert columns.min() < 10
        assert columns.max() > 60
        early = columns[frames <= np.quantile(frames, 0.2)].mean()
        late = columns[frames >= np.quantile(frames, 0.8)].mean()
        assert late > early + 20


@pytest.mark.parametrize("size", [(5, 24, 20), (3, 40, 9), (10, 100, 120)], ids=str)
def test_scene_of_another_size(size):
    Z, X, S = flickering_scene(*size)
    assert Z.shape == X.shape == S.shape == size
    assert np.isfinite(Z).all()


@pytest.mark.parametrize("height", [8, 16, 20])
def test_a_low_scene(height):
    assert flickering_scene(5, height, 20)[0].shape == (5, height, 20)


def test_scene_repeats_with_its_seed(scene):
    Z, _, _ = scene
    np.testing.assert_array_equal(flickering_scene()[0], Z)
    assert np.abs(flickering_scene(random_state=1)[0] - Z).max() > 0.5
