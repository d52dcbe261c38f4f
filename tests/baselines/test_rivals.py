"""What all rivals have in common, and the home ground of each."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

from tensor_rpca import baselines
from tensor_rpca.baselines import (
    gradient_rpca,
    horpca_c,
    horpca_s,
    matrix_rpca,
    singular,
    tubal_rpca,
)
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.objective.threads import single_threaded_blas

RIVALS = {
    "horpca_s": horpca_s,
    "horpca_c": lambda Z, **given: horpca_c(Z, (2,) * np.ndim(Z), **given),
    "pursuit": matrix_rpca,
    "variational": lambda Z, **given: matrix_rpca(Z, form="variational", **given),
    "tubal_rpca": tubal_rpca,
}
each_rival = pytest.mark.parametrize("rival", RIVALS.values(), ids=RIVALS)


def relative_error(result, X):
    return np.linalg.norm(result.low_rank - X) / np.linalg.norm(X)


def outliers(shape, fraction, size, seed):
    rng = np.random.default_rng(seed)
    S = np.zeros(shape)
    where = rng.permutation(S.size)[: round(fraction * S.size)]
    S.ravel()[where] = size * rng.choice([-1.0, 1.0], where.size)
    return S


def low_tucker(shape, ranks, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(ranks)
    for k, (d, r) in enumerate(zip(shape, ranks, strict=True)):
        X = np.moveaxis(np.tensordot(rng.standard_normal((d, r)), X, axes=(1, k)), 0, k)
    return X / X.std()


def low_tubal(shape, rank, seed):
    rng = np.random.default_rng(seed)
    A = np.fft.fft(rng.standard_normal((shape[0], rank, shape[2])))
    B = np.fft.fft(rng.standard_normal((rank, shape[1], shape[2])))
    X = np.fft.ifft(np.einsum("irk,rjk->ijk", A, B)).real
    return X / X.std()


@each_rival
def test_results_scale_with_the_data(rival):
    Z = low_rank_plus_sparse((7, 8, 9), 2, 0.1, random_state=0)[0]
    one, large = rival(Z, max_iter=50), rival(1e6 * Z, max_iter=50)
    np.testing.assert_allclose(large.low_rank, 1e6 * one.low_rank, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(
        large.sparse.toarray(), 1e6 * one.sparse.toarray(), rtol=1e-6, atol=1e-3
    )


@each_rival
def test_same_bits_twice_and_the_input_is_left_alone(rival):
    Z = low_rank_plus_sparse((40, 50, 60), 2, 0.1, random_state=0)[0]
    before = Z.copy()
    first, second = (rival(Z, max_iter=7) for _ in range(2))
    np.testing.assert_array_equal(first.low_rank, second.low_rank)
    np.testing.assert_array_equal(Z, before)
    assert first.n_iter == len(next(iter(first.history.values()))) <= 7
    assert not first.converged
    assert first.seconds > 0


@each_rival
def test_same_bits_for_any_number_of_threads(rival):
    """In several pieces, which threads share."""
    Z = low_rank_plus_sparse((60, 70, 80), 2, 0.1, random_state=0)[0]
    alone, shared = (low_rank_on_threads(rival, Z, n) for n in (1, 3))
    np.testing.assert_array_equal(alone, shared)


def low_rank_on_threads(rival, Z, n_threads):
    with mock.patch.object(singular, "single_threaded_blas", return_value=threads(n_threads)):
        return rival(Z, max_iter=3).low_rank


@contextmanager
def threads(number):
    with single_threaded_blas():
        yield number


@each_rival
def test_missing_entries_do_not_matter_and_are_filled_in(rival):
    X = low_tucker((20, 20, 20), (1, 1, 1), seed=0)
    Z = X + outliers(X.shape, 0.03, 2.0, seed=1)
    known = np.random.default_rng(2).random(X.shape) > 0.1
    with_nan = np.where(known, Z, np.nan)
    with_junk = np.where(known, Z, 1e3)
    one, other = rival(with_nan, max_iter=40), rival(with_junk, mask=known, max_iter=40)
    np.testing.assert_allclose(one.low_rank, other.low_rank, atol=1e-9)
    assert not one.sparse.toarray()[~known].any()
    result = rival(with_nan)
    missing = ~known
    assert np.linalg.norm((result.low_rank - X)[missing]) < 0.5 * np.linalg.norm(X[missing])


@each_rival
@pytest.mark.parametrize("dtype", ["f4", "i2", "u1", ">f8"])
def test_any_real_dtype_and_layout(rival, dtype):
    Z = (20 + 20 * np.random.default_rng(0).random((5, 6, 7))).astype(dtype)
    expected = rival(np.asarray(Z, dtype=float), max_iter=20)
    result = rival(np.asfortranarray(Z), max_iter=20)
    np.testing.assert_allclose(result.low_rank, expected.low_rank, rtol=1e-6)
    assert result.low_rank.dtype == np.float64


@each_rival
def test_zero_is_zero(rival):
    result = rival(np.zeros((4, 5, 6)))
    assert result.converged
    assert not result.low_rank.any()
    assert result.sparse.nnz == 0


@each_rival
@pytest.mark.parametrize(
    ("Z", "error", "words"),
    [
        (np.ones(5), ValueError, "Expected 2D array"),
        (np.full((3, 4, 5), np.inf), ValueError, "infinite entries"),
        (np.ones((3, 0, 5)), ValueError, "minimum of 1 is required"),
        (np.ones((3, 4, 5), complex), ValueError, "Complex data"),
        (np.full((3, 4, 5), np.nan), ValueError, "every entry of Z is missing"),
    ],
)
def test_refuses_what_is_no_tensor(rival, Z, error, words):
    with pytest.raises(error, match=words):
        rival(Z)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda Z: horpca_s(Z, [1.0, 2.0]), ValueError, "weights has 2 values"),
        (lambda Z: horpca_s(Z, -1.0), ValueError, "weights must be positive"),
        (lambda Z: horpca_s(Z, "best"), ValueError, "'best' is unknown"),
        (lambda Z: horpca_s(Z, max_iter=0), ValueError, "max_iter must be at least 1"),
        (lambda Z: horpca_s(Z, tol=2), ValueError, "tol must lie"),
        (lambda Z: horpca_c(Z, (1, 1)), ValueError, "each of the 3 modes"),
        (lambda Z: horpca_c(Z, 3), ValueError, "each of the 3 modes"),
        (lambda Z: horpca_c(Z, (1, 0, 1)), ValueError, "at least 1"),
        (lambda Z: horpca_c(Z, (1, 1.5, 1)), TypeError, "whole numbers"),
        (lambda Z: matrix_rpca(Z, form="svd"), ValueError, "choose one of"),
        (lambda Z: matrix_rpca(Z, epsilon=1.0), ValueError, "variational"),
        (lambda Z: matrix_rpca(Z, mode=3), ValueError, "names no axis"),
        (lambda Z: matrix_rpca(Z, mode=0.0), TypeError, "whole number"),
        (lambda Z: matrix_rpca(Z, 0.0), ValueError, "lambda_s must be positive"),
        (lambda Z: tubal_rpca(Z[0]), ValueError, "order 3"),
        (lambda Z: gradient_rpca(Z, 2), ValueError, "equal sides"),
        (lambda Z: gradient_rpca(Z[:, :3, :3], 2), ValueError, "symmetric"),
        (lambda Z: gradient_rpca(np.ones((3, 3, 3)), 4), ValueError, "do not fit"),
        (lambda Z: gradient_rpca(np.full((3,) * 3, np.nan), 1), ValueError, "missing"),
    ],
)
def test_refuses_bad_parameters(call, error, words):
    with pytest.raises(error, match=words):
        call(np.random.default_rng(0).standard_normal((3, 4, 5)))


def test_all_are_exported():
    assert set(RIVALS) - {"pursuit", "variational"} < set(baselines.__all__)


@pytest.mark.parametrize("seed", [0, 1])
def test_horpca_s_recovers_low_tucker_rank(seed):
    X = low_tucker((40, 50, 60), (3, 4, 5), seed)
    result = horpca_s(X + outliers(X.shape, 0.1, 2.0, seed))
    assert relative_error(result, X) < 1e-4
    assert result.sparse.nnz == pytest.approx(0.1 * X.size, rel=0.02)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("ranks", [(3, 4, 5), (4, 5, 6)])
def test_horpca_c_recovers_low_tucker_rank_under_many_outliers(seed, ranks):
    """With the true ranks, and with bounds one too large as in the paper."""
    X = low_tucker((20, 25, 30), (3, 4, 5), seed)
    result = horpca_c(X + outliers(X.shape, 0.3, 2.0, seed), ranks)
    assert result.converged
    assert relative_error(result, X) < 1e-4
    for k, rank in enumerate(ranks):
        M = np.moveaxis(result.low_rank, k, 0).reshape(X.shape[k], -1)
        s = np.linalg.svd(M, compute_uv=False)
        assert s[rank] < 1e-4 * s[0]


def test_horpca_c_without_bounds_keeps_everything():
    Z = low_rank_plus_sparse((6, 7, 8), 2, 0.1, random_state=0)[0]
    result = horpca_c(Z, (6, 7, 8))
    assert result.converged
    np.testing.assert_allclose(result.low_rank, Z, atol=1e-10)


@pytest.mark.parametrize("form", ["pursuit", "variational"])
@pytest.mark.parametrize("shape", [(80, 120), (120, 80)])
def test_matrix_rpca_recovers_low_rank_matrices(form, shape):
    Z, X, S = low_rank_plus_sparse(shape, 3, 0.08, random_state=0)
    best = np.linalg.svd(X, compute_uv=False).sum() / np.abs(S).sum()
    given = {} if form == "pursuit" else {"lambda_s": best, "max_iter": 5000}
    result = matrix_rpca(Z, form=form, **given)
    assert result.converged
    assert relative_error(result, X) < 1e-3


@pytest.mark.parametrize("seed", [0, 1])
def test_tubal_rpca_recovers_low_tubal_rank(seed):
    X = low_tubal((50, 40, 20), 3, seed)
    Z = X + outliers(X.shape, 0.1, 2.0, seed)
    assert relative_error(tubal_rpca(Z), X) < 1e-5
    # No home ground for those that see unfoldings: the third has full rank.
    assert relative_error(horpca_s(Z, max_iter=200), X) > 1e-2


@pytest.mark.parametrize("d", [20, 30])
@pytest.mark.parametrize("order", [3, 4])
def test_gradient_rpca_recovers_symmetric_orthogonal_tensors(order, d):
    d = d if order == 3 else d // 2
    rng = np.random.default_rng(order)
    u, _ = np.linalg.qr(rng.standard_normal((d, 2)))
    weights = np.array([2.0, -1.0])
    X = sum(w * symmetric_power(v, order) for w, v in zip(weights, u.T, strict=True))
    S = np.zeros(X.shape)
    for index in rng.integers(0, d, (4 * d, order)):
        value = 5 * X.std() * rng.standard_normal()
        for permuted in itertools.permutations(index):
            S[permuted] = value
    result = gradient_rpca(X + S, 2, random_state=0)
    assert result.converged
    assert relative_error(result, X) < 1e-5


def symmetric_power(v, order):
    power = v
    for _ in range(order - 1):
        power = np.multiply.outer(power, v)
    return power
