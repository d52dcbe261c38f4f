import numpy as np
import pytest

from tensor_rpca import decompose
from tensor_rpca.objective.compact import CompactTensor
from tensor_rpca.objective.losses import root
from tensor_rpca.solvers.lbfgs_compiled import CompiledLBFGS
from tests.problems import PROBLEMS, random_factors


def start(problem, scale=0.5):
    tensor = CompactTensor(problem.Z)
    factors = random_factors(problem.Z.shape, problem.rank, 0)
    return tensor, scale * tensor.pack(factors)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_it_ends_at_a_stationary_point_as_low_as_scipys(problem):
    tensor, x = start(problem)
    descent = CompiledLBFGS(tensor, x, problem.lambda_s, None, problem.lambda_x, 0.0)
    trace = descent.run(3000)
    assert trace[-1, 1] < 1e-4
    assert (np.diff(trace[:, 0]) <= 0).all()
    weights = {"lambda_x": problem.lambda_x, "lambda_s": problem.lambda_s}
    other = decompose(problem.Z, problem.rank, solver="lbfgs", random_state=0, **weights)
    assert trace[-1, 0] <= other.objective * (1 + 1e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_instalments_give_the_same_bits(problem):
    tensor, x = start(problem)
    y, z = x.copy(), x.copy()
    at_once = CompiledLBFGS(tensor, x, 0.1, root().table, 0.05, 0.0)
    whole = at_once.run(40)
    one_by_one = CompiledLBFGS(tensor, y, 0.1, root().table, 0.05, 0.0)
    parts = np.concatenate([one_by_one.run(1) for _ in range(40)])
    uneven = CompiledLBFGS(tensor, z, 0.1, root().table, 0.05, 0.0)
    other = np.concatenate([uneven.run(n) for n in (7, 0, 1, 32)])
    np.testing.assert_array_equal(whole, parts)
    np.testing.assert_array_equal(whole, other)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(x, z)
    assert at_once.n_evaluations == one_by_one.n_evaluations == uneven.n_evaluations >= 41


def test_flat_ends_it():
    tensor, x = start(PROBLEMS[1])
    descent = CompiledLBFGS(tensor, x, 0.1, None, 0.05, 1e-3)
    trace = descent.run(1000)
    assert descent.stopped
    assert len(trace) < 200
    gains = -np.diff(trace[:, 0]) / trace[:-1, 0]
    assert gains[-1] <= 1e-3 < gains[:-1].min()
    assert len(descent.run(10)) == 0


def test_at_a_minimum_there_is_nothing_to_do():
    Z = np.zeros((3, 4, 5))
    tensor = CompactTensor(Z)
    descent = CompiledLBFGS(tensor, np.zeros(12 * 2), 1.0, None, 1.0, 0.0)
    assert len(descent.run(10)) == 0
    assert descent.stopped


def test_a_start_far_too_large_comes_down():
    tensor, x = start(PROBLEMS[1], scale=1e3)
    trace = CompiledLBFGS(tensor, x, 0.1, None, 1.0, 0.0).run(2000)
    assert np.isfinite(trace).all()
    assert trace[-1, 0] < 1e-6 * trace[0, 0]
