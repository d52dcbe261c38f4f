import numpy as np
import pytest

from tensor_rpca import decompose
from tests.problems import CUBE, FOUR, MATRIX, PROBLEMS


def solve(problem, **changes):
    parameters = {"lambda_x": problem.lambda_x, "lambda_s": problem.lambda_s, "random_state": 0}
    return decompose(problem.Z, **(parameters | changes))


def nothing(problem, rank=1):
    return [np.zeros((d, rank)) for d in problem.Z.shape]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_from_nothing_to_a_global_minimum(problem):
    stuck = solve(problem, init=nothing(problem), solver="lbfgs")
    assert stuck.certificate.verdict == "not global"
    found = solve(problem, init=nothing(problem))
    assert found.certificate.verdict == ("global" if problem is MATRIX else "likely global")
    assert "escape" in found.message
    reference = min(
        solve(problem, rank=problem.rank, random_state=s, solver="lbfgs").objective
        for s in range(3)
    )
    assert found.objective <= reference * (1 + 1e-4)


@pytest.mark.parametrize("problem", [CUBE, FOUR], ids=lambda p: p.name)
def test_a_bad_local_minimum_is_left(problem):
    bad = solve(problem, rank=1, solver="lbfgs")
    assert bad.converged
    assert bad.certificate.verdict == "not global"
    good = solve(problem, init=bad.low_rank)
    assert good.certificate.verdict == "likely global"
    assert good.objective < bad.objective
    assert good.low_rank.rank > 1


@pytest.mark.parametrize("rank", [1, 2])
def test_the_bound_is_kept(rank):
    found = solve(CUBE, rank=rank)
    assert found.low_rank.rank == rank
    assert found.certificate.verdict == "not global"


def test_the_papers_solver_stays_where_it_is():
    assert solve(CUBE, init=nothing(CUBE, 3), solver="lbfgs").low_rank.rank == 0


@pytest.mark.parametrize("max_iter", [3, 50])
def test_max_iter_counts_all_rounds(max_iter):
    found = solve(CUBE, init=nothing(CUBE), max_iter=max_iter)
    assert found.n_iter <= max_iter
    assert found.n_iter == len(found.history["objective"])
    assert not found.converged
    assert found.message == f"stopped after max_iter={max_iter} iterations"


def test_the_objective_never_rises_across_escapes():
    objective = solve(CUBE, init=nothing(CUBE)).history["objective"]
    assert np.all(np.diff(objective) <= 1e-9 * objective[:-1])


def test_a_callback_ends_all_rounds():
    stopped = solve(CUBE, init=nothing(CUBE), callback=lambda state: state.iteration == 5)
    assert stopped.n_iter == 5
    assert stopped.message == "stopped by the callback"
