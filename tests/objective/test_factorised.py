import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_rpca import KruskalTensor
from tensor_rpca.objective.factorised import FactorisedObjective
from tensor_rpca.objective.sweep import Sweep
from tests.problems import (
    DTYPES,
    PROBLEMS,
    dense_objective,
    random_factors,
    tensor_of,
    tiny_tiles,
    working_dtype,
)

SHAPES = {2: (9, 13), 3: (5, 6, 7), 4: (4, 5, 3, 6), 5: (3, 2, 4, 3, 5)}
LAMBDA_X, LAMBDA_S = 0.9, 0.6


def objective_of(Z, rank, mask=None, *, lambda_x=LAMBDA_X, lambda_s=LAMBDA_S, n_threads=2):
    dtype = working_dtype(Z)
    passes = Sweep(Z, mask, dtype, n_threads)
    return FactorisedObjective(passes, Z.shape, rank, lambda_x, lambda_s, dtype)


def mask_of(shape, missing):
    return np.random.default_rng(0).random(shape) < 0.7 if missing == "mask" else None


def tensor_with(shape, missing, dtype="f8"):
    return tensor_of(dtype, shape, missing=0.3 if missing == "NaN" else 0.0)


@pytest.mark.parametrize("missing", ["nothing", "NaN", "mask"])
@pytest.mark.parametrize("order", SHAPES)
def test_value_and_gradient_are_the_formula(order, missing):
    Z = tensor_with(SHAPES[order], missing)
    mask = mask_of(Z.shape, missing)
    factors = random_factors(Z.shape, 4)
    expected, expected_gradients = dense_objective(factors, Z, mask, LAMBDA_X, LAMBDA_S)
    with tiny_tiles():
        objective = objective_of(Z, 4, mask)
        value, gradient = objective(objective.pack(factors))
    assert value == pytest.approx(expected, rel=1e-12)
    for ours, reference in zip(objective.unpack(gradient), expected_gradients, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_dtype(dtype):
    Z = tensor_of(dtype, (5, 6, 7))
    factors = random_factors(Z.shape, 3)
    expected, expected_gradients = dense_objective(factors, Z, None, LAMBDA_X, LAMBDA_S)
    objective = objective_of(Z, 3)
    value, gradient = objective(objective.pack(factors))
    single = working_dtype(Z) == np.float32
    assert value == pytest.approx(expected, rel=1e-5 if single else 1e-12)
    # SciPy's L-BFGS works in float64, whatever the data.
    assert gradient.dtype == np.float64
    np.testing.assert_allclose(
        gradient, objective.pack(expected_gradients), rtol=0, atol=1e-3 if single else 1e-11
    )


@st.composite
def small_problems(draw):
    order = draw(st.integers(2, 5))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(order))
    seed = draw(st.integers(0, 10**6))
    Z = tensor_of("f8", shape, seed, missing=draw(st.sampled_from([0.0, 0.4])))
    rank = draw(st.integers(1, 6))
    return Z, random_factors(shape, rank, seed), draw(st.floats(1e-3, 10)), draw(st.floats(0.01, 5))


@given(small_problems())
def test_any_small_problem(problem):
    Z, factors, lambda_x, lambda_s = problem
    expected, expected_gradients = dense_objective(factors, Z, None, lambda_x, lambda_s)
    with tiny_tiles(10, 10):
        objective = objective_of(Z, factors[0].shape[1], lambda_x=lambda_x, lambda_s=lambda_s)
        value, gradient = objective(objective.pack(factors))
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)
    scale = 1 + max(np.abs(g).max() for g in expected_gradients)
    np.testing.assert_allclose(
        gradient, objective.pack(expected_gradients), rtol=0, atol=1e-11 * scale
    )


@pytest.mark.parametrize("missing", ["nothing", "NaN", "mask"])
@pytest.mark.parametrize("order", SHAPES)
def test_the_gradient_is_that_of_the_value(order, missing):
    Z = tensor_with(SHAPES[order], missing)
    objective = objective_of(Z, 3, mask_of(Z.shape, missing))
    x = objective.pack(random_factors(Z.shape, 3, seed=1))
    _, gradient = objective(x)
    step = 1e-6
    for seed in range(3):
        direction = np.random.default_rng(seed).standard_normal(x.size)
        ahead, behind = (objective(x + t * direction)[0] for t in (step, -step))
        slope = (ahead - behind) / (2 * step)
        assert slope == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("order", SHAPES)
def test_the_reference_itself_has_the_gradient_of_its_value(order):
    Z = tensor_with(SHAPES[order], "NaN")
    factors = random_factors(Z.shape, 2, seed=3)
    _, gradients = dense_objective(factors, Z, None, LAMBDA_X, LAMBDA_S)
    step = 1e-6
    for k, a in enumerate(factors):
        direction = np.random.default_rng(k).standard_normal(a.shape)

        def value(t, k=k, direction=direction):
            moved = [b + t * direction if j == k else b for j, b in enumerate(factors)]
            return dense_objective(moved, Z, None, LAMBDA_X, LAMBDA_S)[0]

        slope = (value(step) - value(-step)) / (2 * step)
        assert slope == pytest.approx(np.vdot(gradients[k], direction), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_balanced_factors_pay_the_sum_of_the_weights(problem):
    # Proposition 6: at equal norms the penalty is lambda_x times the atomic norm's sum.
    X = KruskalTensor(None, random_factors(problem.Z.shape, 3))
    objective = objective_of(problem.Z, 3, lambda_x=problem.lambda_x, lambda_s=problem.lambda_s)
    without = objective_of(problem.Z, 3, lambda_x=0.0, lambda_s=problem.lambda_s)
    x = objective.pack(X.balanced_factors())
    penalty = objective(x)[0] - without(x)[0]
    assert penalty == pytest.approx(problem.lambda_x * X.weights.sum(), rel=1e-9)


def test_unbalanced_factors_pay_more():
    Z = tensor_of("f8", (5, 6, 7))
    objective = objective_of(Z, 3)
    A, B, C = KruskalTensor(None, random_factors(Z.shape, 3)).balanced_factors()
    balanced = objective(objective.pack([A, B, C]))[0]
    assert objective(objective.pack([2 * A, B / 2, C]))[0] > balanced * 1.01


@pytest.mark.parametrize("order", SHAPES)
def test_zero_is_stationary_whatever_the_order(order):
    Z = tensor_of("f8", SHAPES[order])
    objective = objective_of(Z, 3)
    value, gradient = objective(np.zeros(3 * sum(Z.shape)))
    no_components = [np.zeros((d, 1)) for d in Z.shape]
    huber, _ = dense_objective(no_components, Z, None, 0.0, LAMBDA_S)
    assert value == pytest.approx(huber, rel=1e-12)
    assert not gradient.any()
    assert objective.relative_gradient == 0


@pytest.mark.parametrize("order", SHAPES)
def test_relative_gradient(order):
    Z = tensor_of("f8", SHAPES[order])
    factors = random_factors(Z.shape, 3)
    objective = objective_of(Z, 3)
    assert objective.relative_gradient == np.inf  # nothing has been evaluated
    objective(objective.pack(factors))
    _, fit = dense_objective(factors, Z, None, 0.0, LAMBDA_S)
    _, both = dense_objective(factors, Z, None, LAMBDA_X, LAMBDA_S)
    fit, both = objective.pack(fit), objective.pack(both)
    pull = np.linalg.norm(fit) + np.linalg.norm(both - fit)
    assert objective.relative_gradient == pytest.approx(np.linalg.norm(both) / pull, rel=1e-10)


def test_evaluations_are_counted():
    objective = objective_of(tensor_of("f8", (3, 4)), 1)
    for expected in (1, 2, 3):
        objective(np.ones(7))
        assert objective.n_evaluations == expected


def test_pack_and_unpack_are_inverse():
    objective = objective_of(tensor_of("f8", (5, 6, 7)), 3)
    factors = random_factors((5, 6, 7), 3)
    x = objective.pack(factors)
    assert x.shape == (3 * 18,)
    for a, b in zip(objective.unpack(x), factors, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.shares_memory(a, x)


def test_the_point_is_left_alone():
    objective = objective_of(tensor_of("f8", (5, 6, 7)), 3)
    x = objective.pack(random_factors((5, 6, 7), 3))
    kept = x.copy()
    _, gradient = objective(x)
    first = gradient.copy()
    objective(2 * x)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(gradient, first)  # solvers keep gradients across calls
