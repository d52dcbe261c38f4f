"""The loss is convex: where its gradient vanishes is the answer, whoever found it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares, linprog

from tensor_rpca.solvers import huber_regression as module
from tensor_rpca.solvers.huber_regression import huber_regression


def problem(n=20, D=50, R=4, outliers=0.2, missing=0.2, noise=0.05, seed=0):
    """Samples Z = A P^T + noise, with gross outliers and missing entries."""
    rng = np.random.default_rng(seed)
    P, A = rng.standard_normal((D, R)), rng.standard_normal((n, R))
    Z = A @ P.T + noise * rng.standard_normal((n, D))
    hit = rng.random(Z.shape) < outliers
    Z[hit] += 10 * rng.standard_normal(hit.sum())
    Z[rng.random(Z.shape) < missing] = np.nan
    return Z, P, A


def residuals(B, Z, P):
    """Zero where nothing was observed."""
    return np.nan_to_num(B @ P.T - Z)


def gradient(B, Z, P, threshold):
    """As a fraction of the forces that have to cancel in it."""
    clipped = np.clip(residuals(B, Z, P), -threshold, threshold)
    return np.abs(clipped @ P) / np.maximum(np.abs(clipped) @ np.abs(P), 1e-300)


def loss(B, Z, P, threshold):
    size = np.abs(residuals(B, Z, P))
    huber = np.where(size <= threshold, size**2 / 2, threshold * (size - threshold / 2))
    return huber.sum(axis=1)


CASES = [
    pytest.param(1e-5, 0.3, id="nearly absolute values"),
    pytest.param(1e-2, 0.3, id="far below the noise"),
    pytest.param(0.1, 0.6, id="mostly outliers"),
    pytest.param(0.1, 0.2, id="usual"),
    pytest.param(1.0, 0.3, id="above the noise"),
    pytest.param(1e4, 0.3, id="least squares"),
]


@pytest.mark.parametrize(("threshold", "outliers"), CASES)
def test_the_gradient_vanishes(threshold, outliers):
    Z, P, _ = problem(n=60, D=60, R=15, outliers=outliers)
    B = huber_regression(Z, P, threshold)
    assert gradient(B, Z, P, threshold).max() < 1e-8


@pytest.mark.parametrize("threshold", [0.05, 0.3, 2.0])
def test_agrees_with_scipy(threshold):
    Z, P, _ = problem(n=6, D=40, R=3)
    B = huber_regression(Z, P, threshold)
    for z, b in zip(Z, B, strict=True):
        seen = ~np.isnan(z)
        found = least_squares(
            lambda x, z=z, seen=seen: P[seen] @ x - z[seen],
            np.zeros(3),
            jac=lambda x, seen=seen: P[seen],
            loss="huber",
            f_scale=threshold,
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=10_000,
        )
        assert loss(b[None], z[None], P, threshold)[0] <= found.cost * (1 + 1e-12)
        np.testing.assert_allclose(b, found.x, atol=1e-6)


def test_a_tiny_threshold_gives_least_absolute_values():
    Z, P, _ = problem(n=12, D=50, R=10, missing=0)
    B = huber_regression(Z, P, 1e-7)
    for z, b in zip(Z, B, strict=True):
        # min sum(up + down)  subject to  P x + up - down = z
        cost = np.concatenate([np.zeros(10), np.ones(100)])
        equal = np.hstack([P, np.eye(50), -np.eye(50)])
        best = linprog(cost, A_eq=equal, b_eq=z, bounds=[(None, None)] * 10 + [(0, None)] * 100)
        assert np.abs(P @ b - z).sum() <= best.fun * (1 + 1e-7)


def test_a_huge_threshold_gives_least_squares():
    Z, P, _ = problem(missing=0)
    expected = np.linalg.lstsq(P, Z.T, rcond=None)[0].T
    np.testing.assert_allclose(huber_regression(Z, P, 1e6), expected, rtol=1e-8)


def test_a_huge_threshold_gives_least_squares_of_what_is_observed():
    Z, P, _ = problem(missing=0.4)
    for z, b in zip(Z, huber_regression(Z, P, 1e6), strict=True):
        seen = ~np.isnan(z)
        expected = np.linalg.lstsq(P[seen], z[seen], rcond=None)[0]
        np.testing.assert_allclose(b, expected, rtol=1e-8)


@pytest.mark.parametrize("threshold", [1e-2, 1e-4, 1e-6])
def test_gross_outliers_do_not_bend_noiseless_samples(threshold):
    Z, P, A = problem(n=30, D=60, R=3, outliers=0.3, missing=0.1, noise=0)
    B = huber_regression(Z, P, threshold)
    # Each outlier pulls with a force of at most the threshold.
    assert np.abs(B - A).max() < threshold
    spoilt = np.nan_to_num(Z) @ np.linalg.pinv(P).T
    assert np.abs(spoilt - A).max() > 1


def test_missing_entries_have_no_say():
    Z, P, A = problem(outliers=0, missing=0.3, noise=0)
    np.testing.assert_allclose(huber_regression(Z, P, 0.1), A, atol=1e-7)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_that_repeat_share_their_coefficient(dtype):
    Z, P, _ = problem()
    single = huber_regression(Z, P.astype(dtype), 0.1)
    double = huber_regression(Z, np.hstack([P, P[:, :1]]).astype(dtype), 0.1)
    assert double.dtype == np.float64
    # Of all choices the one of least norm halves what the twins have to carry.
    np.testing.assert_allclose(double[:, 0], single[:, 0] / 2, atol=1e-6)
    np.testing.assert_allclose(double[:, 4], single[:, 0] / 2, atol=1e-6)
    np.testing.assert_allclose(double[:, 1:4], single[:, 1:], atol=1e-6)


def test_columns_that_nearly_repeat_are_told_apart():
    Z, P, A = problem(outliers=0.1, noise=0)
    P[:, 1] = P[:, 0] + 1e-5 * P[:, 1]
    Z = np.where(np.isnan(Z), np.nan, A @ P.T)
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_allclose(B, A, atol=1e-4)


def test_columns_of_zeros_get_zero():
    Z, P, _ = problem()
    P[:, 2] = 0
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_array_equal(B[:, 2], 0)
    assert gradient(B, Z, P[:, [0, 1, 3]] @ np.eye(4)[[0, 1, 3]], 0.1).max() < 1e-8
    np.testing.assert_array_equal(huber_regression(Z, np.zeros((50, 4)), 0.1), np.zeros((20, 4)))


def test_with_fewer_observations_than_columns_the_samples_are_met():
    rng = np.random.default_rng(0)
    P, A = rng.standard_normal((30, 6)), rng.standard_normal((10, 6))
    Z = np.full((10, 30), np.nan)
    for i in range(10):
        seen = rng.choice(30, size=i % 6, replace=False)
        Z[i, seen] = A[i] @ P[seen].T
    B = huber_regression(Z, P, 0.1)
    assert np.abs(residuals(B, Z, P)).max() < 1e-6
    # Least norm as seen from P's singular vectors: of P b among those that meet the sample.
    u, _, _ = np.linalg.svd(P, full_matrices=False)
    for z, b in zip(Z, B, strict=True):
        seen = ~np.isnan(z)
        expected = u @ (np.linalg.pinv(u[seen]) @ z[seen])
        np.testing.assert_allclose(P @ b, expected, atol=1e-6)
    np.testing.assert_array_equal(B[0], 0)


def test_rows_made_of_outliers_still_reach_their_minimum():
    rng = np.random.default_rng(0)
    P = rng.standard_normal((40, 3))
    Z = 100 * rng.standard_normal((10, 40))
    B = huber_regression(Z, P, 1.0)
    assert gradient(B, Z, P, 1.0).max() < 1e-8


def test_rows_of_zeros_give_zeros():
    Z, P, _ = problem()
    Z[[2, 5]] = 0
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_array_equal(B[[2, 5]], 0)
    assert np.abs(B[[1, 3]]).min() > 0


def test_rows_without_observations_give_zeros_and_harm_no_others():
    Z, P, _ = problem()
    expected = huber_regression(Z, P, 0.1)
    Z[3] = np.nan
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_array_equal(B[3], 0)
    np.testing.assert_allclose(np.delete(B, 3, 0), np.delete(expected, 3, 0), atol=1e-9)


@pytest.mark.parametrize("n", [0, 1])
def test_few_samples(n):
    Z, P, _ = problem()
    B = huber_regression(Z[:n], P, 0.1)
    assert B.shape == (n, 4)
    np.testing.assert_allclose(B, huber_regression(Z, P, 0.1)[:n], atol=1e-9)


def test_no_columns():
    Z, P, _ = problem()
    assert huber_regression(Z, P[:, :0], 0.1).shape == (20, 0)


def test_more_columns_than_entries_of_a_sample():
    rng = np.random.default_rng(0)
    P, Z = rng.standard_normal((3, 5)), rng.standard_normal((7, 3))
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_allclose(B, Z @ np.linalg.pinv(P).T, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e6])
def test_other_units_change_nothing_but_the_units(unit):
    Z, P, _ = problem()
    B = huber_regression(Z, P, 0.1)
    np.testing.assert_allclose(huber_regression(unit * Z, P, unit * 0.1), unit * B, rtol=1e-6)
    np.testing.assert_allclose(huber_regression(Z, unit * P, 0.1), B / unit, rtol=1e-6)


def test_moving_the_samples_moves_the_coefficients():
    Z, P, _ = problem()
    shift = np.random.default_rng(1).standard_normal((20, 4))
    moved = huber_regression(Z + shift @ P.T, P, 0.1)
    np.testing.assert_allclose(moved, huber_regression(Z, P, 0.1) + shift, atol=1e-6)


def test_blocks_do_not_show(monkeypatch):
    Z, P, _ = problem()
    expected = huber_regression(Z, P, 0.1)
    monkeypatch.setattr(module, "BLOCK_FLOATS", 3 * P.size)
    np.testing.assert_allclose(huber_regression(Z, P, 0.1), expected, atol=1e-9)


def test_leaves_its_arguments_alone():
    Z, P, _ = problem()
    before = Z.copy(), P.copy()
    huber_regression(Z, P, 0.1)
    np.testing.assert_array_equal(Z, before[0])
    np.testing.assert_array_equal(P, before[1])
