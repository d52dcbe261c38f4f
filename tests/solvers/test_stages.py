"""Each stage of the default solver, alone on a small problem."""

import numpy as np
import pytest

from tensor_rpca import KruskalTensor
from tensor_rpca.objective.losses import bounded, root
from tensor_rpca.objective.sweep import Sweep
from tensor_rpca.recorder import Recorder
from tensor_rpca.solvers import workbench
from tensor_rpca.solvers.adapt import adapt
from tensor_rpca.solvers.anneal import anneal
from tensor_rpca.solvers.candidate import assess, nothing, weigh
from tensor_rpca.solvers.polish import polish
from tensor_rpca.solvers.prune import mean_entries, merge_parallel
from tensor_rpca.solvers.trim import trim
from tensor_rpca.solvers.workbench import Workbench


def tensor_of(factors):
    return KruskalTensor(None, factors).to_dense()


SHAPE, RANK = (12, 13, 14), 4
RNG = np.random.default_rng(0)
FACTORS = [RNG.standard_normal((d, RANK)) for d in SHAPE]
X = tensor_of(FACTORS)
OUTLIERS = RNG.random(SHAPE) < 0.2
Z = X + np.where(OUTLIERS, RNG.standard_normal(SHAPE), 0)
Z.flags.writeable = False


def perturbed(size, seed=1):
    rng = np.random.default_rng(seed)
    return [a + size * rng.standard_normal(a.shape) for a in FACTORS]


@pytest.fixture(params=["compact", "swept"])
def bench(request, monkeypatch):
    yield from open_bench(request.param, monkeypatch, Z)


def open_bench(how, monkeypatch, Z, max_iter=None):
    if how == "swept":
        monkeypatch.setattr(workbench, "MOST_ENTRIES", 0)
    float64 = np.dtype(np.float64)
    with Sweep(Z, None, float64, 1) as sweep:
        sweep.survey()
        yield Workbench(sweep, SHAPE, float64, max_iter, Recorder(float64, 1.0, None))


def error(factors):
    return np.linalg.norm(tensor_of(factors) - X) / np.linalg.norm(X)


def test_minimise_lowers_a_loss(bench):
    found = bench.minimise(perturbed(0.1), bounded(), 0.5, max_iter=50, flat=1e-12)
    assert error(found) < 0.1 * error(perturbed(0.1))
    assert 0 < bench.n_iter <= 50
    assert bench.n_evaluations >= bench.n_iter


def test_the_bound_on_iterations_holds_for_all_stages_together(monkeypatch):
    for how in ("compact", "swept"):
        for bench in open_bench(how, monkeypatch, Z, max_iter=7):
            factors = bench.minimise(perturbed(0.1), root(), 0.5, max_iter=4, flat=0.0)
            factors = bench.minimise(factors, root(), 0.5, max_iter=50, flat=0.0)
            assert bench.n_iter == 7
            assert bench.stopped == "stopped after max_iter=7 iterations"
            assert bench.minimise(factors, root(), 0.5, max_iter=50, flat=0.0) is factors


def test_anneal_holds_spare_components_back(bench):
    rng = np.random.default_rng(2)
    start = [0.3 * rng.standard_normal((d, RANK + 3)) for d in SHAPE]
    found = anneal(bench, start, (3.0, 0.9), penalty=0.5, max_iter=400)
    # What spare components are left with is a part of others, or next to nothing.
    means = np.sort(mean_entries(merge_parallel(KruskalTensor(None, found))))[::-1]
    assert np.all(means[RANK:] < 0.2 * means[RANK - 1])


def test_adapt_ends_where_only_outliers_are_left(bench):
    assert error(adapt(bench, perturbed(0.2))) < 1e-4


def test_adapt_with_too_few_components_ends_too(bench):
    found = adapt(bench, [a[:, :2] for a in perturbed(0.2)])
    assert np.isfinite(found[0]).all()


def test_polish_is_exact(bench):
    assert error(polish(bench, perturbed(1e-3))) < 1e-10


def test_polish_does_not_lose_an_exact_fit(bench):
    assert error(polish(bench, FACTORS)) < 1e-10


def test_an_exact_fit_is_proven(bench):
    exact = assess(bench, FACTORS)
    assert exact.proven
    clean = X.size - np.count_nonzero(OUTLIERS)
    assert abs(exact.surplus - (clean - bench.free(FACTORS))) <= 2
    rough = weigh(bench, perturbed(0.05))
    assert not rough.proven
    assert exact.worth > rough.worth > 0


def test_worth_prefers_the_right_rank(bench):
    worth = {}
    for rank in (2, 3, 4, 5, 6):
        start = [
            np.hstack([a, 0.1 * RNG.standard_normal((len(a), 2))])[:, :rank] for a in perturbed(0.1)
        ]
        worth[rank] = assess(bench, adapt(bench, start)).worth
    assert max(worth, key=worth.get) == RANK


def test_parameters_that_fit_noise_are_worth_nothing(monkeypatch):
    noise = np.random.default_rng(5).standard_normal(SHAPE)
    for bench in open_bench("compact", monkeypatch, noise):
        found = weigh(bench, adapt(bench, perturbed(0.1)))
        assert found.worth < 0 == nothing(bench).worth


def test_trim_drops_what_is_worth_nothing(bench):
    rng = np.random.default_rng(3)
    spare = [np.hstack([a, 0.2 * rng.standard_normal((len(a), 2))]) for a in FACTORS]
    found = assess(bench, polish(bench, spare))
    trimmed = trim(bench, found)
    assert trimmed.X.rank == RANK
    assert trimmed.worth > found.worth
    assert error(trimmed.X.balanced_factors()) < 1e-9


def test_trim_keeps_what_is_needed(bench):
    exact = assess(bench, FACTORS)
    assert trim(bench, exact).X.rank == RANK


def test_agreement(bench):
    one = assess(bench, polish(bench, perturbed(1e-2, seed=1)))
    same = assess(bench, [a[:, ::-1] for a in polish(bench, perturbed(1e-2, seed=2))])
    other = weigh(bench, perturbed(0.1))
    assert other.agrees(weigh(bench, [a[:, ::-1] for a in perturbed(0.1)]))
    assert not one.agrees(other)
    assert not one.agrees(nothing(bench))
    assert abs(one.worth - same.worth) < 0.2 * one.worth
