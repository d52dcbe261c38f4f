"""L-BFGS on functions whose minimum is known, and every reason it can stop for."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.solvers.lbfgs import lbfgs


@pytest.fixture(autouse=True)
def _one_thread():
    """As decompose() calls it; L-BFGS's short vectors make BLAS threads wait on each other."""
    with single_threaded_blas():
        yield


class Counted:
    """A function in the form that solvers expect."""

    def __init__(self, value: Callable, gradient: Callable, scale: float = 1.0):
        self._value = value
        self._gradient = gradient
        self._scale = scale
        self.n_evaluations = 0
        self.relative_gradient = math.inf

    def __call__(self, x):
        slope = self._gradient(x)
        self.relative_gradient = float(np.linalg.norm(slope)) / self._scale
        self.n_evaluations += 1
        return float(self._value(x)), slope


CURVATURES = np.geomspace(1, 1e4, 30)
CENTRE = np.linspace(-1, 1, 30)


def quadratic() -> Counted:
    return Counted(
        lambda x: 0.5 * (CURVATURES * (x - CENTRE) ** 2).sum(),
        lambda x: CURVATURES * (x - CENTRE),
        scale=1e4,
    )


def rosenbrock() -> Counted:
    return Counted(rosen, rosen_der)


FAR = np.full(30, 3.0)


def test_finds_the_minimum_of_a_quadratic():
    objective = quadratic()
    found = lbfgs(objective, FAR, max_iter=1000, tol=1e-10)
    assert found.converged
    np.testing.assert_allclose(found.x, CENTRE, atol=1e-5)
    assert objective(found.x)[1] @ objective(found.x)[1] <= (1e-10 * 1e4) ** 2


def test_finds_the_minimum_of_rosenbrocks_function():
    found = lbfgs(rosenbrock(), np.array([-1.2, 1.0, -1.2, 1.0]), max_iter=1000, tol=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.x, 1.0, atol=1e-8)


def test_says_that_it_is_stationary_at_the_first_such_point():
    gradients = []
    objective = quadratic()
    found = lbfgs(
        objective,
        FAR,
        max_iter=1000,
        tol=1e-3,
        on_iteration=lambda *_: gradients.append(objective.relative_gradient),
    )
    assert found.message.startswith("stationary: relative gradient")
    assert "0.001" in found.message
    assert found.n_iter == len(gradients)
    assert gradients[-1] <= 1e-3 < min(gradients[:-1])


def test_a_smaller_tolerance_takes_longer():
    counts = [lbfgs(quadratic(), FAR, max_iter=1000, tol=tol).n_iter for tol in (1e-2, 1e-4, 1e-6)]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("max_iter", [1, 7])
def test_stops_after_max_iter(max_iter):
    found = lbfgs(quadratic(), FAR, max_iter=max_iter, tol=0.0)
    assert found.n_iter == max_iter
    assert not found.converged
    assert found.message == f"stopped after max_iter={max_iter} iterations"
    assert quadratic()(found.x)[0] < quadratic()(FAR)[0]


def test_reaching_the_tolerance_at_the_last_iteration_counts():
    needed = lbfgs(quadratic(), FAR, max_iter=1000, tol=1e-3).n_iter
    assert lbfgs(quadratic(), FAR, max_iter=needed, tol=1e-3).converged
    assert not lbfgs(quadratic(), FAR, max_iter=needed - 1, tol=1e-3).converged


def test_the_callback_stops_at_once_and_gets_the_point_returned():
    seen = []

    def stop_at_five(iteration, x, value):
        seen.append((iteration, x.copy(), value))
        return iteration == 5

    found = lbfgs(quadratic(), FAR, max_iter=1000, tol=0.0, on_iteration=stop_at_five)
    assert not found.converged
    assert found.n_iter == 5
    assert found.message == "stopped by the callback"
    assert [iteration for iteration, _, _ in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(found.x, seen[-1][1])
    for _, x, value in seen:
        assert value == quadratic()(x)[0]


def test_the_callback_sees_the_value_fall():
    values = [quadratic()(FAR)[0]]
    lbfgs(
        quadratic(),
        FAR,
        max_iter=30,
        tol=0.0,
        on_iteration=lambda iteration, x, value: values.append(value),
    )
    assert len(values) == 31
    assert values == sorted(values, reverse=True)


def test_the_callback_may_say_nothing():
    found = lbfgs(quadratic(), FAR, max_iter=4, tol=0.0, on_iteration=lambda *_: None)
    assert found.n_iter == 4


def test_a_stationary_point_is_no_victory_of_the_callback():
    found = lbfgs(quadratic(), FAR, max_iter=1000, tol=1e9, on_iteration=lambda *_: True)
    assert found.converged
    assert found.message.startswith("stationary")


def test_stagnation_ends_it_when_no_tolerance_does():
    # Rosenbrock's values end at rounding errors of 1: a hundred more iterations change nothing.
    objective = Counted(lambda x: 1 + rosen(x), rosen_der)
    found = lbfgs(objective, np.array([-1.2, 1.0]), max_iter=100_000, tol=0.0)
    assert found.n_iter < 1000
    assert found.message == "rounding errors allow no further decrease"
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)
    assert objective.n_evaluations < 2000


def test_starting_at_the_minimum_ends_it():
    found = lbfgs(quadratic(), CENTRE.copy(), max_iter=1000, tol=1e-8)
    assert found.n_iter == 0
    assert found.converged
    np.testing.assert_array_equal(found.x, CENTRE)


def test_the_start_is_left_alone():
    start = FAR.copy()
    lbfgs(quadratic(), start, max_iter=10, tol=0.0)
    np.testing.assert_array_equal(start, FAR)


def test_a_longer_memory_needs_fewer_iterations():
    short, long = (
        lbfgs(quadratic(), FAR, max_iter=10_000, tol=1e-10, memory=memory).n_iter
        for memory in (1, 30)
    )
    assert long < short


def test_repeats_itself():
    a, b = (lbfgs(quadratic(), FAR, max_iter=40, tol=0.0).x for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_an_infinite_start_is_not_called_converged():
    objective = Counted(lambda x: math.inf, lambda x: np.full_like(x, math.nan))
    found = lbfgs(objective, FAR, max_iter=10, tol=1e-6)
    assert not found.converged
    assert "overflows" in found.message


def test_an_exception_of_the_objective_or_the_callback_reaches_the_caller():
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lbfgs(Counted(fail, rosen_der), FAR, max_iter=10, tol=0.0)
    with pytest.raises(ZeroDivisionError):
        lbfgs(quadratic(), FAR, max_iter=10, tol=0.0, on_iteration=fail)
