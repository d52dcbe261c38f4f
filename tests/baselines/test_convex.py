"""The convex rivals against a convex solver on tiny problems."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

from tensor_rpca.baselines import horpca_s, matrix_rpca, tubal_rpca
from tensor_rpca.datasets import low_rank_plus_sparse

SHAPE = (4, 5, 6)
# Entries of the referee's solution are right to about this, relative to Z.
CLOSE = 2e-4


def problem(seed, shape=SHAPE, missing=0.0):
    Z = low_rank_plus_sparse(shape, 2, 0.1, noise=0.3, random_state=seed)[0]
    Z *= 7.0  # no method may rely on a scale
    Z[np.random.default_rng(seed).random(shape) < missing] = np.nan
    return Z


def unfold(Z, mode):
    return np.moveaxis(Z, mode, 0).reshape(Z.shape[mode], -1)


def unfolding(x, shape, mode):
    """Mode-k unfolding of a CVXPY vector in C order."""
    order = unfold(np.arange(math.prod(shape)).reshape(shape), mode)
    return cp.reshape(x[order.ravel()], order.shape, order="C")


def nuclear(M):
    return float(np.linalg.svd(M, compute_uv=False).sum())


def referee(Z, norm_of_x, weight):
    """Minimise norm_of_x(x) + weight ||S||_1 with X + S = Z where Z is known."""
    known = np.flatnonzero(~np.isnan(Z.ravel()))
    x = cp.Variable(Z.size)
    objective = norm_of_x(x) + weight * cp.norm1(Z.ravel()[known] - x[known])
    value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    return value, x.value.reshape(Z.shape)


def outliers(X, Z):
    return float(np.nansum(np.abs(Z - X)))


def check(result, Z, value, X, expected):
    scale = np.nanmax(np.abs(Z))
    assert result.converged
    residual = (result.low_rank + result.sparse.toarray() - Z)[~np.isnan(Z)]
    assert np.abs(residual).max() < CLOSE * scale
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(result.low_rank, X, atol=CLOSE * scale)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("weights", [None, [1.5, 2.0, 3.0], "provable"])
def test_horpca_s_is_the_convex_minimum(weights, missing):
    Z = problem(1, missing=missing)
    w = {None: [6**0.5] * 3, "provable": [30**0.5, 24**0.5, 20**0.5]}.get(
        weights if not isinstance(weights, list) else 0, weights
    )
    expected, X = referee(
        Z, lambda x: sum(w[k] * cp.normNuc(unfolding(x, SHAPE, k)) for k in range(3)), 1.0
    )
    result = horpca_s(Z, weights, tol=1e-8, max_iter=20000)
    value = sum(w[k] * nuclear(unfold(result.low_rank, k)) for k in range(3))
    check(result, Z, value + outliers(result.low_rank, Z), X, expected)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("mode", [0, 1, -1])
def test_pursuit_is_the_convex_minimum(mode, missing):
    Z = problem(2, missing=missing)
    M = unfold(Z, mode)
    weight = 1 / math.sqrt(max(M.shape))
    expected, X = referee(Z, lambda x: cp.normNuc(unfolding(x, SHAPE, mode % 3)), weight)
    result = matrix_rpca(Z, mode=mode, tol=1e-8, max_iter=20000)
    value = nuclear(unfold(result.low_rank, mode)) + weight * outliers(result.low_rank, Z)
    check(result, Z, value, X, expected)


@pytest.mark.parametrize("shape", [(3, 4, 3), (4, 3, 2), (6, 4, 1)])
def test_tubal_rpca_is_the_convex_minimum(shape):
    """The tubal nuclear norm is that of the block circulant matrix, over d3."""
    Z = problem(3, shape)
    d1, d2, d3 = shape
    index = np.arange(Z.size).reshape(shape)
    order = np.block([[index[:, :, (i - j) % d3] for j in range(d3)] for i in range(d3)])
    weight = 1 / math.sqrt(max(d1, d2) * d3)

    def norm(x):
        return cp.normNuc(cp.reshape(x[order.ravel()], order.shape, order="C")) / d3

    expected, X = referee(Z, norm, weight)
    result = tubal_rpca(Z, tol=1e-8, max_iter=20000)
    value = nuclear(result.low_rank.ravel()[order]) / d3 + weight * outliers(result.low_rank, Z)
    check(result, Z, value, X, expected)


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("allowed", [1e-3, 0.1, 0.5])
def test_variational_form_is_the_convex_minimum(allowed, missing):
    Z = problem(4, missing=missing)
    M = unfold(Z, 1)
    known = ~np.isnan(M)
    epsilon = 0.5 * (allowed * np.linalg.norm(M[known])) ** 2
    weight = 0.4
    L, S = cp.Variable(M.shape), cp.Variable(M.shape)
    misfit = cp.norm(cp.multiply(known, L + S - np.nan_to_num(M)), "fro")
    program = cp.Problem(
        cp.Minimize(cp.maximum(cp.normNuc(L), weight * cp.norm1(S))),
        [misfit <= math.sqrt(2 * epsilon)],
    )
    expected = program.solve(solver=cp.CLARABEL)

    result = matrix_rpca(
        Z, weight, form="variational", epsilon=epsilon, mode=1, tol=1e-7, max_iter=50000
    )
    assert result.converged
    X, sparse = unfold(result.low_rank, 1), unfold(result.sparse.toarray(), 1)
    residual = np.linalg.norm((X + sparse - M)[known])
    assert residual <= (1 + 1e-6) * (math.sqrt(2 * epsilon) + 1e-7 * np.linalg.norm(M[known]))
    value = max(nuclear(X), weight * np.abs(sparse).sum())
    assert value == pytest.approx(expected, rel=1e-4)
    assert result.history["level"][-1] == pytest.approx(value, rel=1e-6)


def test_levels_rise_and_never_pass_the_minimum():
    Z = problem(5)
    result = matrix_rpca(Z, 0.3, form="variational", epsilon=1.0, max_iter=20000)
    levels = result.history["level"]
    assert (np.diff(levels) >= 0).all()
    assert len(set(levels)) > 3


@pytest.mark.parametrize("weight", [20.0, 21.0])
def test_paper_weights_make_zero_the_minimum_of_figure_1(weight):
    """sign(Z) / 3 in each mode's ball is a proof that X = 0 is optimal."""
    Z = low_rank_plus_sparse((20, 20, 20), 5, 0.05, random_state=0)[0]
    bound = max(np.linalg.norm(unfold(np.sign(Z), k), 2) for k in range(3)) / 3
    assert bound < weight
    result = horpca_s(Z, weight)
    assert result.converged
    assert np.linalg.norm(result.low_rank) < 1e-5 * np.linalg.norm(Z)
