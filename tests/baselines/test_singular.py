"""Maps on singular values of unfoldings against the decomposition proper."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_rpca.baselines import kernels
from tensor_rpca.baselines.singular import Unfolding
from tensor_rpca.baselines.tubal_rpca import tubal_soft_threshold

# Tall, wide and square unfoldings, slices large and small, orders two to five.
SHAPES = [(6, 9), (9, 6), (4, 5, 6), (40, 3, 2), (3, 70, 80), (2, 3, 30), (3, 4, 2, 5), (2,) * 5]
CASES = [(shape, mode) for shape in SHAPES for mode in range(len(shape))]


def dense(T, mode, change):
    M = np.moveaxis(T, mode, 0)
    U, s, V = np.linalg.svd(M.reshape(M.shape[0], -1), full_matrices=False)
    return np.moveaxis(((U * change(s)) @ V).reshape(M.shape), 0, mode)


@pytest.mark.parametrize(("shape", "mode"), CASES)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.8, 1.1])
def test_soft_threshold(shape, mode, part):
    T = np.random.default_rng(0).standard_normal(shape)
    s = np.linalg.svd(np.moveaxis(T, mode, 0).reshape(shape[mode], -1), compute_uv=False)
    threshold = part * s[0]
    out = np.full(shape, np.nan)
    total = Unfolding(shape, mode).soft_threshold(T, threshold, out)
    expected = dense(T, mode, lambda s: np.maximum(s - threshold, 0))
    np.testing.assert_allclose(out, expected, atol=1e-12 * s[0])
    assert total == pytest.approx(np.maximum(s - threshold, 0).sum(), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("shape", "mode"), CASES)
@pytest.mark.parametrize("rank", [1, 2, 100])
def test_truncation(shape, mode, rank):
    T = np.random.default_rng(1).standard_normal(shape)
    out = np.full(shape, np.nan)
    Unfolding(shape, mode).truncate(T, rank, out)
    kept = dense(T, mode, lambda s: np.where(np.arange(len(s)) < rank, s, 0))
    np.testing.assert_allclose(out, kept, atol=1e-12)


@pytest.mark.parametrize("threshold", [1e-3, 1e-6, 1e-9, 1e-12])
def test_small_thresholds_are_exact_although_squares_lose_digits(threshold):
    rng = np.random.default_rng(2)
    U, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    V, _ = np.linalg.qr(rng.standard_normal((40, 12)))
    T = (U * np.logspace(0, -14, 12)) @ V.T
    out = np.empty_like(T)
    Unfolding(T.shape, 0).soft_threshold(T, threshold, out)
    expected = dense(T, 0, lambda s: np.maximum(s - threshold, 0))
    np.testing.assert_allclose(out, expected, atol=1e-9)
    assert np.linalg.norm(out - T, 2) <= threshold * (1 + 1e-3) + 1e-14


def test_zero_stays_zero():
    T = np.zeros((4, 5, 6))
    out = np.full(T.shape, np.nan)
    assert Unfolding(T.shape, 1).soft_threshold(T, 0.5, out) == 0.0
    assert not out.any()


@pytest.mark.parametrize("shape", [(5, 7, 4), (7, 5, 3), (5, 5, 1), (4, 6, 2)])
@pytest.mark.parametrize("threshold", [0.0, 1e-12, 1.5, 100.0])
def test_tubal_soft_threshold_is_that_of_the_fourier_slices(shape, threshold):
    T = np.random.default_rng(3).standard_normal(shape)
    slices = np.moveaxis(np.fft.fft(T, axis=2), 2, 0)
    U, s, V = np.linalg.svd(slices, full_matrices=False)
    shrunk = (U * np.maximum(s - threshold, 0)[:, None]) @ V
    expected = np.fft.ifft(np.moveaxis(shrunk, 0, 2), axis=2).real
    out = np.full(shape, np.nan)
    tubal_soft_threshold(T, threshold, out)
    np.testing.assert_allclose(out, expected, atol=1e-11)


@pytest.mark.parametrize("guess", [0.0, 0.1, 3.0, 1e9])
@pytest.mark.parametrize("total", [1e-9, 0.5, 7.0])
def test_simplex_threshold(total, guess):
    sizes = np.abs(np.random.default_rng(4).standard_normal(50))
    t = kernels.simplex_threshold(sizes, total, guess)
    assert np.maximum(sizes - t, 0).sum() == pytest.approx(total, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("rank", [0, 3, 40, 300])
def test_few_of_many_singular_values(rank, monkeypatch):
    """Lanczos iterations agree with the whole decomposition, and hand over if there are many."""
    rng = np.random.default_rng(5)
    T = rng.standard_normal((450, 600))
    if rank:
        T += 3 * rng.standard_normal((450, rank)) @ rng.standard_normal((rank, 600))
    threshold = 50.0  # the noise reaches sqrt(450) + sqrt(600) = 46
    out, expected = np.empty_like(T), np.empty_like(T)
    few = Unfolding(T.shape, 0)
    sums = [few.soft_threshold(T, threshold, out) for _ in range(2)]
    monkeypatch.setattr("tensor_rpca.baselines.singular.LARGE", 10**9)
    total = Unfolding(T.shape, 0).soft_threshold(T, threshold, expected)
    assert sums == pytest.approx([total, total], rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(out, expected, atol=1e-9 * max(1.0, np.abs(T).max()))
    assert (np.linalg.matrix_rank(expected) if rank else 0) == rank
