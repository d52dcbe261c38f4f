import numpy as np
import pytest

from tensor_rpca import KruskalTensor
from tensor_rpca.solvers.prune import drop, keep, likely_ranks, mean_entries, merge_parallel
from tests.problems import random_factors


def tensor(weights, shape=(6, 7, 8), seed=0):
    return KruskalTensor(weights, random_factors(shape, len(weights), seed))


def with_means(means):
    """Components whose mean entries are these, all entries of a component alike."""
    return KruskalTensor(means, [np.ones((4, len(means)))] * 3)


@pytest.mark.parametrize("apart", [0, 1, 2])
@pytest.mark.parametrize("signs", [(1, 1), (-1, -1), (1, -1)])
def test_components_that_are_one_are_joined_exactly(apart, signs):
    X = tensor([5.0, 3.0, 2.0])
    factors = [a.copy() for a in X.factors]
    others = [k for k in range(3) if k != apart]
    for k, sign in zip(others, signs, strict=True):
        factors[k][:, 2] = sign * factors[k][:, 0]
    split = KruskalTensor(X.weights, factors)
    merged = merge_parallel(split)
    assert merged.rank == 2
    np.testing.assert_allclose(merged.to_dense(), split.to_dense(), atol=1e-12)


def test_different_components_stay():
    X = tensor([5.0, 3.0, 2.0])
    merged = merge_parallel(X)
    assert merged.rank == 3
    np.testing.assert_allclose(merged.to_dense(), X.to_dense(), atol=1e-12)


def test_dead_components_go():
    assert merge_parallel(tensor([5.0, 0.0, 2.0])).rank == 2


def test_mean_entries():
    X = tensor([5.0, 3.0, 2.0])
    expected = [np.abs(keep_only(X, r).to_dense()).mean() for r in range(3)]
    np.testing.assert_allclose(mean_entries(X), expected)


def keep_only(X, r):
    return KruskalTensor(X.weights[[r]], [a[:, [r]] for a in X.factors])


def test_one_spike_weighs_little():
    spike = np.eye(6)[:, :1]
    broad = np.ones((6, 1)) / 6**0.5
    X = KruskalTensor([9.0, 3.0], [np.hstack([spike, broad])] * 3)
    assert keep(X, 1).weights == pytest.approx([3.0])


def test_drop_and_keep_complement_each_other():
    X = tensor([5.0, 3.0, 2.0])
    left = drop(X, 1).to_dense() + keep_only(X, 1).to_dense()
    np.testing.assert_allclose(left, X.to_dense(), atol=1e-12)


@pytest.mark.parametrize(
    ("means", "first"),
    [
        ([1.0, 0.9, 0.8, 1e-6, 1e-7], [3]),
        ([1.0, 0.9, 0.8, 0.05, 0.04], [3, 5]),  # a clear gap, but the rest may be real
        ([1.0, 0.6, 0.4, 0.3], [4]),  # no clear gap: all first
        ([1.0], [1]),
    ],
)
def test_likely_ranks(means, first):
    assert likely_ranks(with_means(means))[: len(first)] == first


def test_nothing_has_no_likely_rank():
    assert likely_ranks(tensor([])) == []
