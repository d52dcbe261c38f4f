import numpy as np
import pytest

from tensor_rpca.objective.kernels import BINS_BELOW_ONE, BINS_PER_DECADE, N_BINS
from tensor_rpca.objective.losses import root
from tensor_rpca.objective.noise import (
    SIZES,
    Residuals,
    best_loss,
    fit_mixture,
    unbend,
)
from tensor_rpca.objective.tally import Tally


def tally(e):
    bins = np.zeros((N_BINS, 2))
    e = np.abs(e)
    place = np.floor(np.log10(e + 1e-300) * BINS_PER_DECADE + BINS_BELOW_ONE)
    b = np.clip(place, 0, N_BINS - 1).astype(int)
    np.add.at(bins, (b, 0), 1)
    np.add.at(bins, (b, 1), e * e)
    return Tally(bins)


def weights(**parts):
    """Weights of a mixture by the nearest sizes, such as s0=0.7, s1=0.3 for 70 % zeros."""
    w = np.zeros(len(SIZES))
    for name, share in parts.items():
        w[np.argmin(abs(SIZES - float(name[1:].replace("_", "."))))] += share
    return w


def test_for_normal_noise_the_best_loss_is_the_square():
    size = SIZES[np.argmin(abs(SIZES - 1))]
    tau = 0.3
    loss = best_loss(weights(s1=1.0), tau)
    r = np.geomspace(1e-3, 5, 50)
    np.testing.assert_allclose(loss.pull(r, tau), r * (tau / size) ** 2, rtol=1e-2)


def test_for_zeros_and_outliers_the_best_loss_lets_outliers_go():
    tau = 0.05
    loss = best_loss(weights(s0=0.7, s1=0.3), tau)
    near, far = loss.pull(np.array([0.002, 2.0]), tau)
    assert near > 0.5 * tau
    assert near > 10 * far
    assert far == pytest.approx(2.0 * tau**2, rel=0.3)


def huber_like_regression(rng, n, p, e):
    """Fit noise e by p random columns with the root loss; residuals and the true error."""
    from scipy.optimize import minimize

    A = rng.standard_normal((n, p)) / np.sqrt(n)
    loss = root()

    def objective(x):
        r = A @ x - e
        pull = np.sign(r) * loss.pull(abs(r), 1.0)
        return 2 * ((1 + r * r) ** 0.25 - 1).sum(), A.T @ pull

    x = minimize(objective, np.zeros(p), jac=True, method="L-BFGS-B").x
    return A @ x - e, np.sqrt(np.mean((A @ x) ** 2))


@pytest.mark.parametrize("outliers", [0.1, 0.4])
def test_the_error_of_a_fit_is_seen_in_its_residuals(outliers):
    rng = np.random.default_rng(0)
    n, p = 4000, 800
    e = 0.2 * rng.standard_normal(n) + 3 * rng.standard_normal(n) * (rng.random(n) < outliers)
    r, error = huber_like_regression(rng, n, p, e)
    found = unbend(tally(r), root(), 1.0, p / n)
    assert found.tau == pytest.approx(error, rel=0.25)
    # With the bending undone the residuals are the noise and the error together.
    rms = np.sqrt(found.shares @ found.sizes**2)
    assert rms == pytest.approx(np.sqrt(np.mean(e**2) + found.tau**2), rel=0.1)


def test_the_mixture_is_found():
    rng = np.random.default_rng(1)
    n, tau = 20_000, 0.1
    e = np.where(rng.random(n) < 0.3, 2 * rng.standard_normal(n), 0.0)
    sizes, shares = tally(e + tau * rng.standard_normal(n)).histogram()
    w = fit_mixture(Residuals(sizes, shares, tau, 1.0), tau)
    assert w.sum() == pytest.approx(1)
    assert w[0.5 * tau > SIZES].sum() == pytest.approx(0.7, abs=0.05)
    assert w[SIZES > 0.5].sum() == pytest.approx(0.3, abs=0.05)


def test_a_loss_for_no_noise_at_all_is_still_a_loss():
    loss = best_loss(weights(s0=1.0), 0.1)
    assert np.isfinite(loss.table).all()
    assert (loss.pulls >= 0).all()
