import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_rpca import Decomposition, KruskalTensor, decompose
from tensor_rpca.certificates import SAME, Certificate, certify
from tests.problems import CUBE, FOUR, MATRIX, PROBLEMS, SLAB, random_factors, tensor_of


def solve(problem, rank=None, **changes):
    # The paper's solver, which stays where the default would escape.
    parameters = {
        "lambda_x": problem.lambda_x,
        "lambda_s": problem.lambda_s,
        "random_state": 0,
        "solver": "lbfgs",
    }
    rank = None if "init" in changes else rank or problem.rank
    Z = changes.pop("Z", problem.Z)
    return decompose(Z, rank, **(parameters | changes))


def primal_value(Z, X, weights, lambda_x, lambda_s):
    residual = np.abs(np.nan_to_num(Z - X))
    huber = np.where(
        residual <= lambda_s, residual**2 / 2, lambda_s * residual - lambda_s**2 / 2
    ).sum()
    return lambda_x * np.sum(weights) + huber


def matrix_optimum(Z, lambda_x, lambda_s, iterations=3000):
    """The convex problem's minimum for K = 2, by FISTA with restarts."""
    X = Y = np.zeros(Z.shape)
    momentum, best = 1.0, np.inf
    for _ in range(iterations):
        u, s, vt = np.linalg.svd(
            Y + np.nan_to_num(np.clip(Z - Y, -lambda_s, lambda_s)), full_matrices=False
        )
        s = np.maximum(s - lambda_x, 0)
        new = (u * s) @ vt
        if np.sum((Y - new) * (new - X)) > 0:
            momentum = 1.0
        after = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        Y = new + (momentum - 1) / after * (new - X)
        done = np.linalg.norm(new - X) <= 1e-12 * np.linalg.norm(new)
        X, momentum = new, after
        best = min(best, primal_value(Z, X, s, lambda_x, lambda_s))
        if done:
            break
    return best


def dense_certificate(Z, X, weights, lambda_x, lambda_s):
    """gap with the best of all single-mode unfoldings, straight from the formulas."""
    D = np.nan_to_num(np.clip(Z - X, -lambda_s, lambda_s))
    upper = min(
        np.linalg.norm(np.moveaxis(D, k, 0).reshape(D.shape[k], -1), 2) for k in range(D.ndim)
    )
    primal = primal_value(Z, X, weights, lambda_x, lambda_s)
    most = min(1.0, lambda_x / upper)
    zd, dd = np.sum(np.nan_to_num(Z) * D), np.sum(D * D)
    dual = max(t * zd - t**2 / 2 * dd for t in np.linspace(0, most, 10_001))
    return (primal - dual) / primal, upper


# Matrices: the gap is a bound, and at the solution it is zero


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("max_iter", [1, 5, 20, 60, 1000])
def test_the_gap_of_a_matrix_bounds_what_is_left_to_gain(max_iter, missing):
    Z = MATRIX.Z.copy()
    if missing:
        Z[np.random.default_rng(5).random(Z.shape) < 0.2] = np.nan
    optimum = matrix_optimum(Z, MATRIX.lambda_x, MATRIX.lambda_s)
    found = solve(MATRIX, rank=20, Z=Z, max_iter=max_iter, tol=1e-8)
    excess = (found.objective - optimum) / found.objective
    assert -1e-9 <= excess <= found.certificate.gap
    assert excess >= found.certificate.excess - 1e-9
    if max_iter == 1000:
        assert found.certificate.gap < 1e-6
        assert found.certificate.verdict == "global"
        assert found.certificate.spectral_upper == pytest.approx(1, rel=1e-6)
    if max_iter == 1:
        assert found.certificate.verdict != "global"


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_matrix_of_too_few_components_is_not_global(rank):
    optimum = matrix_optimum(MATRIX.Z, MATRIX.lambda_x, MATRIX.lambda_s)
    found = solve(MATRIX, rank=rank)
    certificate = found.certificate
    if found.objective > optimum * (1 + 1e-3):
        assert certificate.verdict == "not global"
        assert certificate.spectral_lower > 1.1
    assert found.objective - optimum <= certificate.gap * found.objective
    assert rank == 3 or found.objective > optimum * (1 + 1e-3)  # or nothing was tested


# Tensors with a known solution


def orthogonal_problem(shape, weights, seed=0):
    columns = [
        np.linalg.qr(np.random.default_rng(seed + k).standard_normal((d, len(weights))))[0]
        for k, d in enumerate(shape)
    ]
    return KruskalTensor(weights, columns)


@pytest.mark.parametrize("shape", [(12, 9), (8, 9, 10), (6, 5, 7, 6)])
def test_orthogonal_components_are_shrunk_and_that_is_certified(shape):
    # Z's components are orthogonal in every mode, so X has the same, each lighter by lambda_x,
    # as long as no residual exceeds lambda_s. All norms are known in closed form.
    lambda_x, lambda_s = 1.0, 1.5
    T = orthogonal_problem(shape, [9.0, 5.0, 2.0, 0.5])
    X = KruskalTensor(T.weights[:3] - lambda_x, [a[:, :3] for a in T.factors])
    Z = T.to_dense()
    assert np.abs(Z - X.to_dense()).max() < lambda_s
    certificate = certify(Z, X, lambda_x, lambda_s)
    assert certificate.verdict == "global"
    assert certificate.gap < 1e-9
    assert certificate.gap_estimate < 1e-12
    assert certificate.spectral_lower == pytest.approx(1, rel=1e-9)
    assert certificate.spectral_upper == pytest.approx(1, rel=1e-9)
    assert certificate.stationarity < 1e-12


@pytest.mark.parametrize("shape", [(12, 9), (8, 9, 10), (6, 5, 7, 6)])
def test_an_orthogonal_component_left_out_pulls_with_its_weight(shape):
    T = orthogonal_problem(shape, [9.0, 5.0, 2.0])
    X = KruskalTensor(T.weights[:1] - 1, [a[:, :1] for a in T.factors])
    certificate = certify(T.to_dense(), X, 1.0, 6.0)
    assert certificate.verdict == "not global"
    assert certificate.spectral_lower == pytest.approx(5, rel=1e-3)
    assert certificate.spectral_upper == pytest.approx(5, rel=1e-9)
    # (5 - 1)^2 / 2 + (2 - 1)^2 / 2 is left to gain, of which the first is proven.
    value = primal_value(T.to_dense(), X.to_dense(), X.weights, 1.0, 6.0)
    assert certificate.excess == pytest.approx(8 / value, rel=1e-3)


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.9, 1.1, 2.0])
def test_the_solution_times_a_factor(factor):
    T = orthogonal_problem((8, 9, 10), [9.0, 5.0, 2.0])
    optimal, Z = KruskalTensor(T.weights - 1, T.factors), T.to_dense()
    X = KruskalTensor(optimal.weights * factor, T.factors)
    certificate = certify(Z, X, 1.0, 6.0)
    best, value = (primal_value(Z, x.to_dense(), x.weights, 1.0, 6.0) for x in (optimal, X))
    assert (value - best) / value <= certificate.gap <= 1
    assert (value - best) / value >= certificate.excess - 1e-12
    assert certificate.verdict != "global"
    if 0 < factor < 1:
        assert certificate.verdict in ("not global", "unknown")


# Any point at all


@st.composite
def points(draw):
    order = draw(st.integers(2, 4))
    shape = tuple(draw(st.integers(1, 6 if order < 4 else 4)) for _ in range(order))
    seed = draw(st.integers(0, 1000))
    Z = tensor_of("f8", shape, seed, missing=draw(st.sampled_from([0.0, 0.1])))
    rank = draw(st.integers(0, 4))
    size = draw(st.sampled_from([0.01, 0.5, 1.0, 3.0]))
    X = KruskalTensor(None, [size * a for a in random_factors(shape, rank, seed + 1)])
    lambda_s = draw(st.sampled_from([0.05, 1.0, 100.0]))
    lambda_x = lambda_s * draw(st.sampled_from([0.1, 2.0, 30.0]))
    return Z, X, lambda_x, lambda_s


@given(points())
def test_certificates_of_any_point(point):
    Z, X, lambda_x, lambda_s = point
    if any(
        np.isnan(Z).all(axis=tuple(j for j in range(Z.ndim) if j != k)).any() for k in range(Z.ndim)
    ):
        return  # refused
    certificate = certify(Z, X, lambda_x, lambda_s, all_unfoldings=True)
    assert 0 <= certificate.gap_estimate <= certificate.gap <= 1
    assert 0 <= certificate.excess <= certificate.gap
    assert 0 <= certificate.spectral_lower <= certificate.spectral_upper
    expected, upper = dense_certificate(Z, X.to_dense(), X.weights, lambda_x, lambda_s)
    # All unfoldings are at least as good as those of single modes, and for K <= 3 these are all.
    assert certificate.gap <= expected + 1e-7
    assert certificate.spectral_upper <= upper / lambda_x * (1 + 1e-7) + 1e-9
    if Z.ndim <= 3:
        assert certificate.gap == pytest.approx(max(expected, 0), abs=1e-6)
        assert certificate.spectral_upper == pytest.approx(upper / lambda_x, rel=1e-6, abs=1e-9)
    if certificate.verdict == "global":
        assert certificate.gap <= SAME
    if certificate.verdict == "not global":
        assert certificate.spectral_lower > 1


@given(points(), st.integers(0, 100))
def test_no_point_is_better_than_the_gap_allows(point, seed):
    Z, X, lambda_x, lambda_s = point
    if np.isnan(Z).any():
        Z = np.nan_to_num(Z)
    certificate = certify(Z, X, lambda_x, lambda_s)
    value = primal_value(Z, X.to_dense(), X.weights, lambda_x, lambda_s)
    other = decompose(Z, 6, lambda_x=lambda_x, lambda_s=lambda_s, random_state=seed, max_iter=60)
    assert value - other.objective <= certificate.gap * value + 1e-9 * value


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_better_points_stay_within_the_gap(problem):
    best = min(solve(problem, rank=2 * problem.rank, random_state=s).objective for s in range(3))
    for rank, max_iter in ((1, 1000), (2, 1000), (problem.rank, 10), (problem.rank, 1000)):
        found = solve(problem, rank, max_iter=max_iter)
        assert found.objective - best <= found.certificate.gap * found.objective * (1 + 1e-9)
        if found.objective > best * (1 + SAME):
            assert found.certificate.verdict in ("not global", "unknown")


# Verdicts


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_converged_solutions_with_components_to_spare(problem):
    certificate = solve(problem, max_iter=5000).certificate
    assert certificate.verdict == ("global" if problem is MATRIX else "likely global")
    assert certificate.gap_estimate < 1e-4
    assert certificate.spectral_lower == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_a_saddle_is_not_global(problem):
    zero = [np.zeros((d, 3)) for d in problem.Z.shape]
    found = solve(problem, init=zero)
    if problem is not MATRIX:
        assert found.low_rank.norm() == 0  # the solver cannot leave: the gradient is zero
        assert found.certificate.stationarity == 0
        assert found.certificate.vanished == 3
        assert found.certificate.verdict == "not global"


def test_a_vanished_component_alone_proves_nothing():
    # Stationary, with components to spare that vanished; Proposition 7 wants a local minimiser.
    found = solve(FOUR, rank=2)
    certificate = found.certificate
    assert certificate.stationarity < 1e-5
    assert certificate.vanished > 0
    assert certificate.verdict == "not global"
    assert solve(FOUR).objective < 0.9 * found.objective


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_a_point_reached_early_is_not_called_global(problem):
    certificate = solve(problem, max_iter=4).certificate
    assert certificate.verdict in ("unknown", "not global")
    assert certificate.gap > SAME


def test_zero_is_global_when_no_direction_can_pull():
    certificate = solve(CUBE, lambda_x=1e4).certificate
    assert certificate.verdict == "global"
    assert certificate.spectral_upper < 1
    certificate = decompose(np.zeros((3, 4, 5))).certificate
    assert (certificate.verdict, certificate.gap) == ("global", 0)


def test_a_search_with_more_effort_knows_no_less():
    found = solve(SLAB, rank=3)
    default = found.certificate
    thorough = certify(
        SLAB.Z,
        found.low_rank,
        SLAB.lambda_x,
        SLAB.lambda_s,
        starts=60,
        max_iter=80,
        all_unfoldings=True,
    )
    assert thorough.spectral_lower >= default.spectral_lower * (1 - 1e-9)
    assert thorough.spectral_upper <= default.spectral_upper * (1 + 1e-9)
    assert thorough.gap <= default.gap * (1 + 1e-9)


# Data of all kinds


@pytest.mark.parametrize("problem", [MATRIX, CUBE, FOUR], ids=lambda p: p.name)
def test_missing_entries(problem):
    mask = np.random.default_rng(3).random(problem.Z.shape) < 0.8
    gone = np.where(mask, problem.Z, np.nan)
    found = solve(problem, Z=gone, max_iter=3000)
    by_nan = certify(gone, found.low_rank, problem.lambda_x, problem.lambda_s)
    junk = np.where(mask, problem.Z, 1e6)
    by_mask = certify(junk, found.low_rank, problem.lambda_x, problem.lambda_s, mask)
    assert by_nan == by_mask
    assert by_nan.verdict in ("global", "likely global")
    expected, _ = dense_certificate(
        gone, found.low_rank.to_dense(), found.low_rank.weights, problem.lambda_x, problem.lambda_s
    )
    assert by_nan.gap <= expected + 1e-7


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_float32(problem):
    Z = problem.Z.astype(np.float32)
    found = solve(problem, Z=Z, rank=2)
    assert found.low_rank.dtype == np.float32
    exact = certify(Z.astype(np.float64), found.low_rank, problem.lambda_x, problem.lambda_s)
    assert found.certificate.verdict == exact.verdict == "not global"
    assert found.certificate.gap == pytest.approx(exact.gap, rel=1e-5)
    # How close float32 comes to a minimum is luck; that it is one should not be denied.
    close = solve(problem, Z=Z, tol=1e-4).certificate
    assert close.verdict != "not global"
    assert close.gap_estimate < 5e-3


@pytest.mark.parametrize("layout", ["Fortran", "moved"])
def test_layout_does_not_matter(layout):
    found = solve(SLAB, rank=3)
    Z = np.asfortranarray(SLAB.Z)
    if layout == "moved":
        Z = np.ascontiguousarray(SLAB.Z.transpose(1, 2, 0)).transpose(2, 0, 1)
    ours = certify(Z, found.low_rank, SLAB.lambda_x, SLAB.lambda_s)
    assert ours.verdict == found.certificate.verdict
    assert ours.gap == pytest.approx(found.certificate.gap, rel=1e-9)


@pytest.mark.parametrize("c", [1e-140, 1e-6, 3.0, 1e6, 1e140])
@pytest.mark.parametrize("rank", [2, 6])
def test_scale_does_not_matter(c, rank):
    reference, scaled = (
        decompose(
            s * CUBE.Z, rank, lambda_x=s * CUBE.lambda_x, lambda_s=s * CUBE.lambda_s, random_state=0
        )
        for s in (1.0, c)
    )
    for ours in (
        scaled.certificate,
        certify(c * CUBE.Z, scaled.low_rank, c * CUBE.lambda_x, c * CUBE.lambda_s),
    ):
        assert ours.verdict == reference.certificate.verdict
        assert ours.gap == pytest.approx(reference.certificate.gap, rel=1e-5)
        assert ours.gap_estimate == pytest.approx(
            reference.certificate.gap_estimate, rel=1e-3, abs=1e-5
        )
        assert ours.spectral_lower == pytest.approx(reference.certificate.spectral_lower, rel=1e-3)


def test_certificates_repeat_bit_for_bit():
    assert solve(CUBE).certificate == solve(CUBE).certificate
    found = solve(CUBE, rank=3)
    again = certify(CUBE.Z, found.low_rank, CUBE.lambda_x, CUBE.lambda_s)
    assert again.gap == pytest.approx(found.certificate.gap, rel=1e-12)


# Files and words


def test_files_keep_the_certificate(tmp_path):
    found = solve(CUBE)
    assert Decomposition.load(found.save(tmp_path / "x.npz")).certificate == found.certificate
    numbers = dataclasses.asdict(found.certificate)
    assert not any(math.isnan(v) for v in numbers.values() if isinstance(v, float))
    assert json.loads(json.dumps(numbers)) == numbers


def test_certificates_of_old_files_are_read():
    old = Certificate(verdict="unknown", gap=math.nan, stationarity=0.1, vanished=2)
    assert math.isnan(old.spectral_upper)
    assert "unknown" in repr(old)


def test_refusals():
    X = KruskalTensor(None, random_factors((3, 4, 5), 2))
    Z = tensor_of("f8", (3, 4, 5))
    with pytest.raises(ValueError, match="shape"):
        certify(Z.transpose(2, 1, 0), X, 1.0, 1.0)
    with pytest.raises(ValueError, match="lambda_x"):
        certify(Z, X, 0.0, 1.0)
    with pytest.raises(ValueError, match="infinite"):
        certify(np.where(Z > 1, np.inf, Z), X, 1.0, 1.0)
