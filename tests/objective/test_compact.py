import numpy as np
import pytest

from tensor_rpca.objective.compact import CompactTensor, evaluate
from tensor_rpca.objective.losses import root
from tests.problems import dense_objective, random_factors

SHAPES = [(7, 8), (4, 5, 6), (3, 4, 5, 6), (3, 2, 3, 2, 3), (1, 6, 1), (9, 1)]
HUBER = np.empty((0, 3))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("lambda_x", [0.0, 0.7])
@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradient_are_those_of_the_dense_formula(shape, lambda_x, missing):
    Z = np.random.default_rng(0).standard_normal(shape)
    if missing:
        Z.ravel()[::5] = np.nan
    factors = random_factors(shape, 3, 1)
    tensor = CompactTensor(Z)
    x = tensor.pack(factors)
    g = np.full_like(x, np.nan)
    value, slope = evaluate(x, g, tensor.problem(3), (0.4, HUBER, lambda_x))
    expected, gradients = dense_objective(factors, Z, None, lambda_x, 0.4)
    assert value == pytest.approx(expected, rel=1e-12)
    for ours, theirs in zip(tensor.unpack(g), gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    _, fits = dense_objective(factors, Z, None, 0.0, 0.4)
    fit = np.concatenate([a.ravel() for a in fits])
    both = np.concatenate([a.ravel() for a in gradients])
    pull = np.linalg.norm(fit) + np.linalg.norm(both - fit)
    assert slope == pytest.approx(np.linalg.norm(both) / pull, rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_gradient_of_a_tabulated_loss_is_its_derivative(shape):
    rng = np.random.default_rng(2)
    tensor = CompactTensor(rng.standard_normal(shape))
    x = tensor.pack(random_factors(shape, 2, 3))
    problem, function = tensor.problem(2), (0.3, root().table, 0.1)
    g, spare = np.empty_like(x), np.empty_like(x)
    evaluate(x, g, problem, function)
    direction = rng.standard_normal(len(x))
    ahead, _ = evaluate(x + 1e-6 * direction, spare, problem, function)
    behind, _ = evaluate(x - 1e-6 * direction, spare, problem, function)
    assert (ahead - behind) / 2e-6 == pytest.approx(g @ direction, rel=1e-5)


def test_layout_does_not_matter():
    Z = np.random.default_rng(4).standard_normal((4, 5, 6))
    x = CompactTensor(Z).pack(random_factors(Z.shape, 2, 5))
    results = []
    for array in (Z, np.asfortranarray(Z), Z.astype(np.float64)[::1], Z.transpose(2, 1, 0).T):
        g = np.empty_like(x)
        results.append((*evaluate(x, g, CompactTensor(array).problem(2), (1.0, HUBER, 0.1)), *g))
    assert results[0] == results[1] == results[2] == results[3]
