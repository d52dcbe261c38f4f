import numpy as np
import pytest
import scipy.optimize

from tensor_rpca import KruskalTensor, decompose
from tensor_rpca.escape import escape, find_escape
from tensor_rpca.objective.sweep import Sweep
from tests.problems import CUBE, FOUR, MATRIX, PROBLEMS, SLAB
from tests.test_certificates import orthogonal_problem, primal_value, solve


def value(problem, X, Z=None):
    Z = problem.Z if Z is None else Z
    return primal_value(Z, X.to_dense(), X.weights, problem.lambda_x, problem.lambda_s)


def leave(problem, X, **options):
    Z = options.pop("Z", problem.Z)
    return find_escape(Z, X, problem.lambda_x, problem.lambda_s, **options)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_way_out_lowers_the_objective(problem, rank):
    if rank:
        stuck = solve(problem, rank)
    else:
        stuck = solve(problem, init=[np.zeros((d, 1)) for d in problem.Z.shape])
    X = stuck.low_rank
    found = leave(problem, X)
    assert found.pull > 1.1 * problem.lambda_x
    np.testing.assert_allclose([np.linalg.norm(u) for u in found.direction], 1, rtol=1e-12)
    out = found.added_to(X)
    assert out.rank == X.rank + 1
    assert value(problem, X) - value(problem, out) == pytest.approx(found.decrease, rel=1e-6)
    # As |u| = 1, the objective falls at least like a parabola of curvature one.
    assert found.decrease >= (found.pull - problem.lambda_x) ** 2 / 2
    better = solve(problem, init=out)
    assert better.objective <= value(problem, out)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_weight_is_the_best_one(problem):
    X = solve(problem, 1).low_rank
    found = leave(problem, X)

    def along(weight):
        rank_one = KruskalTensor([weight], [u[:, None] for u in found.direction])
        return primal_value(
            problem.Z - X.to_dense(),
            rank_one.to_dense(),
            [weight],
            problem.lambda_x,
            problem.lambda_s,
        )

    best = scipy.optimize.minimize_scalar(along, (0, found.weight), method="brent", tol=1e-10)
    assert found.weight == pytest.approx(best.x, rel=2e-3)
    assert along(found.weight) == pytest.approx(best.fun, rel=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_escapes_lead_from_nothing_to_a_global_minimum(problem):
    # Rank-revealing: start without components, add one wherever the solver gets stuck.
    result = solve(problem, init=[np.zeros((d, 1)) for d in problem.Z.shape], max_iter=3000)
    for _ in range(2 * problem.rank):
        found = leave(problem, result.low_rank)
        if found is None or found.pull < (1 + 1e-4) * problem.lambda_x:
            break
        result = solve(problem, init=found.added_to(result.low_rank), max_iter=3000)
    assert result.certificate.verdict == ("global" if problem is MATRIX else "likely global")
    reference = min(solve(problem, random_state=s, max_iter=3000).objective for s in range(3))
    assert result.objective <= reference * (1 + 1e-5)


def test_there_is_no_way_out_of_a_minimum():
    T = orthogonal_problem((8, 9, 10), [9.0, 5.0, 2.0])
    X = KruskalTensor(T.weights - 1.01, T.factors)  # on the safe side of rounding
    assert find_escape(T.to_dense() * 0.99, X, 1.01, 6.0) is None
    assert leave(CUBE, KruskalTensor(None, [np.zeros((15, 0))] * 3)) is not None
    assert find_escape(np.zeros((3, 4, 5)), [np.zeros((d, 1)) for d in (3, 4, 5)], 1.0, 1.0) is None


def test_an_orthogonal_component_comes_back_with_its_weight():
    T = orthogonal_problem((8, 9, 10), [9.0, 5.0, 2.0])
    X = KruskalTensor(T.weights[:1] - 1, [a[:, :1] for a in T.factors])
    found = find_escape(T.to_dense(), X, 1.0, 6.0)
    assert found.pull == pytest.approx(5, rel=1e-3)
    assert found.weight == pytest.approx(4, rel=2e-3)
    for u, a in zip(found.direction, T.factors, strict=True):
        assert abs(u @ a[:, 1]) > 0.999


@pytest.mark.parametrize("c", [1e-140, 1e-3, 1e100])
def test_scale_does_not_matter(c):
    X = solve(SLAB, 2).low_rank
    one = leave(SLAB, X)
    other = find_escape(
        c * SLAB.Z,
        KruskalTensor(c * X.weights, X.factors),
        c * SLAB.lambda_x,
        c * SLAB.lambda_s,
    )
    assert other.weight == pytest.approx(c * one.weight, rel=1e-6)
    assert other.pull == pytest.approx(c * one.pull, rel=1e-6)
    assert other.decrease == pytest.approx(c * one.decrease * c, rel=1e-6)


def test_missing_entries():
    mask = np.random.default_rng(3).random(CUBE.Z.shape) < 0.8
    gone = np.where(mask, CUBE.Z, np.nan)
    X = solve(CUBE, 1, Z=gone).low_rank
    by_nan = leave(CUBE, X, Z=gone)
    by_mask = leave(CUBE, X, Z=np.where(mask, CUBE.Z, -1e6), mask=mask)
    assert by_nan.weight == by_mask.weight
    before, after = (value(CUBE, x, gone) for x in (X, by_nan.added_to(X)))
    assert before - after == pytest.approx(by_nan.decrease, rel=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_in_the_middle_of_a_solve(dtype):
    # With the solver's own sweep, in its units and dtype, and a direction that it knows.
    Z = FOUR.Z.astype(dtype)
    X = decompose(Z, 1, lambda_x=FOUR.lambda_x, lambda_s=FOUR.lambda_s, random_state=0).low_rank
    with Sweep(Z, None, Z.dtype, 2) as sweep:
        found = escape(sweep, X, FOUR.lambda_x, FOUR.lambda_s)
        same = escape(sweep, X, FOUR.lambda_x, FOUR.lambda_s, direction=found.direction)
    assert found.direction[0].dtype == dtype
    assert same.weight == pytest.approx(found.weight, rel=1e-6)
    out = found.added_to(X)
    assert out.dtype == dtype
    assert value(FOUR, X) - value(FOUR, out) == pytest.approx(found.decrease, rel=1e-3)
