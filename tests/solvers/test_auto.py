"""The default solver recovers what can be recovered, says what it found, and nothing else."""

import numpy as np
import pytest
import scipy.optimize

from tensor_rpca import KruskalTensor, decompose
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.solvers import workbench


def tensor_of(factors):
    return KruskalTensor(None, factors).to_dense()


def error(result, X):
    return np.linalg.norm(result.low_rank.to_dense() - X) / np.linalg.norm(X)


def corrupted(shape, rank, outliers, values, seed=0):
    """X of normal factors, and Z with this part of the entries changed by values(generator, n)."""
    rng = np.random.default_rng(seed)
    X = tensor_of([rng.standard_normal((d, rank)) for d in shape])
    where = rng.permutation(X.size)[: round(outliers * X.size)]
    Z = X.copy()
    Z.ravel()[where] += values(rng, where.size)
    return Z, X


KINDS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "tenth": lambda rng, n: 0.1 * rng.standard_normal(n),
    "tenfold": lambda rng, n: 10 * rng.standard_normal(n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "one-signed": lambda rng, n: np.abs(rng.standard_normal(n)),
    "constant": lambda rng, n: np.full(n, 5.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_outliers(kind):
    Z, X = corrupted((20, 20, 20), 20, 0.3, KINDS[kind])
    result = decompose(Z, rank=30, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == 20
    assert result.converged


@pytest.mark.parametrize(
    ("shape", "rank", "outliers"),
    [((15, 20, 30), 20, 0.3), ((12, 12, 12, 12), 10, 0.3), ((5, 6, 7, 8, 9), 6, 0.2)],
)
def test_whatever_the_shape(shape, rank, outliers):
    Z, X = corrupted(shape, rank, outliers, KINDS["normal"])
    result = decompose(Z, rank=2 * rank, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == rank


@pytest.mark.parametrize("shape", [(60, 80), (40, 500)])
def test_matrices(shape):
    Z, X, _ = low_rank_plus_sparse(shape, 4, 0.15, random_state=1)
    result = decompose(Z, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == 4


@pytest.mark.parametrize(("rank", "outliers"), [(5, 0.75), (60, 0.2)])
def test_far_beyond_the_papers_frontier(rank, outliers):
    Z, X = corrupted((20, 20, 20), rank, outliers, KINDS["normal"], seed=1)
    result = decompose(Z, rank=rank + 10, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == rank


def test_missing_entries():
    Z, X = corrupted((20, 20, 20), 15, 0.2, KINDS["normal"])
    Z[np.random.default_rng(1).random(Z.shape) < 0.5] = np.nan
    result = decompose(Z, rank=25, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == 15


def test_larger_tensors_are_swept(monkeypatch):
    monkeypatch.setattr(workbench, "MOST_ENTRIES", 0)
    Z, X = corrupted((20, 20, 20), 10, 0.2, KINDS["normal"])
    result = decompose(Z, rank=20, random_state=0)
    assert error(result, X) < 1e-6
    assert result.low_rank.rank == 10


def test_float32_to_its_precision():
    Z, X = corrupted((20, 20, 20), 10, 0.2, KINDS["normal"])
    result = decompose(Z.astype(np.float32), rank=20, random_state=0)
    assert result.low_rank.dtype == np.float32
    assert error(result, X) < 1e-5
    assert result.low_rank.rank == 10


def oracle(Z, clean, factors):
    """Least squares on the clean entries, from the true factors."""
    shapes = [a.shape for a in factors]
    edges = np.cumsum([a.size for a in factors])[:-1]

    def split(x):
        return [part.reshape(s) for part, s in zip(np.split(x, edges), shapes, strict=True)]

    def residual(x):
        return (tensor_of(split(x)) - Z)[clean]

    start = np.concatenate([a.ravel() for a in factors])
    return tensor_of(split(scipy.optimize.least_squares(residual, start, method="trf").x))


@pytest.mark.parametrize("decibels", [20, 40])
def test_noise_costs_little_more_than_an_oracle_pays(decibels):
    rng = np.random.default_rng(3)
    factors = [rng.standard_normal((10, 2)) for _ in range(3)]
    X = tensor_of(factors)
    clean = rng.random(X.shape) > 0.1
    Z = X + np.where(clean, 0, rng.standard_normal(X.shape))
    Z += 10 ** (-decibels / 20) * np.linalg.norm(X) / X.size**0.5 * rng.standard_normal(X.shape)
    best = np.linalg.norm(oracle(Z, clean, factors) - X) / np.linalg.norm(X)
    result = decompose(Z, rank=6, random_state=0)
    assert result.low_rank.rank == 2
    assert error(result, X) < 1.3 * best


@pytest.mark.parametrize("shape", [(12, 12, 12), (30, 40), (5, 6, 7, 8)])
@pytest.mark.parametrize("noise", ["normal", "cauchy"])
def test_nothing_is_found_in_noise(shape, noise):
    Z = KINDS[noise](np.random.default_rng(0), int(np.prod(shape))).reshape(shape)
    result = decompose(Z, random_state=0)
    assert result.low_rank.rank == 0
    assert "no component" in result.message


def test_the_bound_is_kept():
    Z, _ = corrupted((10, 10, 10), 6, 0.05, KINDS["normal"])
    assert decompose(Z, rank=3, random_state=0).low_rank.rank <= 3


def test_a_start_is_used():
    Z, X = corrupted((10, 10, 10), 3, 0.1, KINDS["normal"])
    first = decompose(Z, rank=6, random_state=0)
    again = decompose(Z, init=first.low_rank, random_state=0)
    assert error(again, X) < 1e-6
    assert again.n_iter < first.n_iter
