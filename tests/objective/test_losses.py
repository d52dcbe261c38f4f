import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_rpca.objective import kernels
from tensor_rpca.objective.losses import EDGES, bounded, root, tabulate

CLOSED_FORMS = {
    "root": (root, lambda a: 2 * np.expm1(np.log1p(a * a) / 4), lambda a: a / (1 + a * a) ** 0.75),
    "bounded": (bounded, lambda a: a * a / 2 / (1 + a * a), lambda a: a / (1 + a * a) ** 2),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_pulls_are_those_of_the_closed_form(name):
    make, _, psi = CLOSED_FORMS[name]
    a = np.geomspace(1e-8, 1e8, 500)
    # Linear between edges 12 % apart: within 3 % even where the pull falls like a^-3.
    np.testing.assert_allclose(make().pull(a, 1.0), psi(a), rtol=3e-2)
    np.testing.assert_allclose(make().pull(3 * a, 3.0), 3 * psi(a), rtol=3e-2)
    assert make().pull(np.zeros(1), 1.0) == 0


def test_beyond_the_last_edge_the_pull_stays():
    far = EDGES[-1] * np.array([0.99, 1.0, 4.0, 1e6])
    assert (root().slope(far, 1.0) == 0).all()
    assert (root().pull(far, 1.0) > 0).all()


def residuals(dtype, sizes, scale):
    """The kernel's pulls and losses, one entry at a time, at residuals of these sizes."""
    loss = root()
    e = np.asarray(sizes, dtype)
    pulls, losses = [], []
    for size in e:
        X = np.full((1, 1), size, dtype)
        losses.append(
            kernels.tabulated_residual(X, np.zeros_like(X), dtype(1), dtype(scale), loss.table)
        )
        pulls.append(X[0, 0])
    return np.array(pulls, np.float64), np.array(losses)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_the_kernel_gives_loss_and_pull(dtype, scale):
    _, rho, psi = CLOSED_FORMS["root"]
    e = scale * np.array([0, 1e-12, 1e-3, 0.3, 1, 1.4, 7, 1e3, 1e6])
    e = np.concatenate([e, -e])
    pulls, losses = residuals(dtype, e, scale)
    np.testing.assert_allclose(pulls, scale * np.sign(e) * psi(abs(e) / scale), rtol=5e-3)
    np.testing.assert_allclose(losses, scale**2 * rho(abs(e) / scale), rtol=5e-3)


@given(st.floats(-12, 12), st.sampled_from([0.01, 1.0]))
def test_the_kernels_pull_is_the_derivative_of_its_loss(exponent, scale):
    size = scale * 10.0**exponent
    if not 1e-4 < size / scale < 1e6:
        return
    step = 1e-5 * size
    _, losses = residuals(np.float64, [size - step, size + step], scale)
    pull, _ = residuals(np.float64, [size], scale)
    assert (losses[1] - losses[0]) / (2 * step) == pytest.approx(pull[0], rel=1e-4)


def test_missing_entries_cost_and_pull_nothing():
    X = np.array([[2.0, 5.0]])
    Z = np.array([[np.nan, 5.0]])
    assert kernels.tabulated_residual(X, Z, 1.0, 1.0, root().table) == 0
    assert (X == 0).all()


def test_a_quadratic_is_tabulated_to_the_last_digits():
    loss = tabulate(lambda a: 2 * a)
    e = np.geomspace(1e-6, 1e6, 100)
    X = e[None].copy()
    value = kernels.tabulated_residual(X, np.zeros_like(X), 1.0, 1.0, loss.table)
    np.testing.assert_allclose(X[0], 2 * e, rtol=1e-12)
    assert value == pytest.approx((e * e).sum(), rel=1e-12)
