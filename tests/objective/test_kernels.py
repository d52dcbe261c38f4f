import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tensor_rpca.objective import kernels

FLOATS = (np.float64, np.float32)
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


@st.composite
def residual_problems(draw):
    """X, Z, per_unit, threshold; Z with missing entries, rows long enough for SIMD and a rest."""
    dtype = draw(st.sampled_from(FLOATS))
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 40)))
    width = 8 * np.dtype(dtype).itemsize
    X = draw(hnp.arrays(dtype, shape, elements=st.floats(-8, 8, width=width)))
    values = st.one_of(st.floats(-8, 8, width=width), st.just(np.nan))
    Z = draw(hnp.arrays(dtype, shape, elements=values))
    per_unit = draw(st.sampled_from([0.125, 1.0, 3.0]))
    threshold = draw(st.sampled_from([0.01, 0.5, 2.0]))
    return X, Z, dtype(per_unit), dtype(threshold)


def huber(residual, threshold):
    size = np.abs(residual)
    inner = size <= threshold
    return np.where(inner, residual**2 / 2, threshold * (size - threshold / 2)).sum()


@given(residual_problems())
def test_clip_residual_and_its_loss(problem):
    X, Z, per_unit, threshold = problem
    residual = np.nan_to_num(X - per_unit * Z).astype(np.float64)
    tolerance = TOLERANCE[X.dtype.type]
    out = X.copy()
    loss = kernels.clip_residual(out, Z, per_unit, threshold)
    expected = np.clip(residual, -threshold, threshold)
    np.testing.assert_allclose(out, expected, rtol=0, atol=30 * tolerance)
    assert loss == pytest.approx(huber(residual, float(threshold)), rel=tolerance, abs=tolerance)
    assert (out[np.isnan(Z)] == 0).all()


@given(residual_problems())
def test_shrink_residual_and_its_loss(problem):
    X, Z, per_unit, threshold = problem
    residual = np.nan_to_num(per_unit * Z - X).astype(np.float64)
    tolerance = TOLERANCE[X.dtype.type]
    out = X.copy()
    loss = kernels.shrink_residual(out, Z, per_unit, threshold)
    expected = np.sign(residual) * np.maximum(np.abs(residual) - threshold, 0)
    np.testing.assert_allclose(out, expected, rtol=0, atol=30 * tolerance)
    assert loss == pytest.approx(huber(residual, float(threshold)), rel=tolerance, abs=tolerance)
    assert (out[np.isnan(Z)] == 0).all()


def test_entries_within_the_threshold_leave_exact_zeros():
    # S is built from what is not zero: a rounding error here would be an entry of S.
    X = np.array([[0.1, 0.2, 0.3]])
    kernels.shrink_residual(X, np.array([[0.3, 0.1, 0.2]]), 1.0, 0.25)
    assert not X.any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", [kernels.clip_residual, kernels.shrink_residual])
def test_read_only_data_are_welcome(kernel, dtype):
    Z = np.ones((2, 3), dtype)
    Z.flags.writeable = False
    X = np.zeros((2, 3), dtype)
    assert kernel(X, Z, dtype(1), dtype(0.5)) == pytest.approx(6 * (0.5 - 0.125))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 4, 2), (5, 1, 17), (2, 7, 0)])
def test_khatri_rao_is_that_of_scipy(sizes, dtype):
    rows, columns, rank = sizes
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, rank)).astype(dtype)
    B = rng.standard_normal((columns, rank)).astype(dtype)
    out = np.full((rows * columns, rank), np.nan, dtype)
    kernels.khatri_rao(A, B, out)
    np.testing.assert_array_equal(out, scipy.linalg.khatri_rao(A, B))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 4, 2), (5, 1, 17)])
def test_split_khatri_rao_adds_the_adjoint(sizes, dtype):
    rows, columns, rank = sizes
    rng = np.random.default_rng(1)
    A, B = (rng.standard_normal((d, rank)).astype(dtype) for d in (rows, columns))
    T = rng.standard_normal((rows * columns, rank)).astype(dtype)
    # Starts from ones, for gradients of several tiles are added up.
    gradient_A, gradient_B = np.ones_like(A), np.ones_like(B)
    kernels.split_khatri_rao(T, A, B, gradient_A, gradient_B)
    cube = T.astype(np.float64).reshape(rows, columns, rank)
    tolerance = 100 * np.finfo(dtype).eps
    expected_A = 1 + np.einsum("ijr,jr->ir", cube, B)
    expected_B = 1 + np.einsum("ijr,ir->jr", cube, A)
    np.testing.assert_allclose(gradient_A, expected_A, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient_B, expected_B, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_add_penalty(order, dtype):
    rng = np.random.default_rng(order)
    A = rng.standard_normal((6, 4)).astype(dtype)
    A[:, 2] = 0  # a component that vanished: 0 ** 0 and 0 / 0 lurk here
    fit = rng.standard_normal((6, 4)).astype(dtype)
    gradient = fit.copy()
    value, of_fit, of_penalty, of_both = kernels.add_penalty(A, 0.7, order, gradient, np.empty(4))
    wide = A.astype(np.float64)
    norms = np.linalg.norm(wide, axis=0)
    penalty = 0.7 * norms ** (order - 2) * wide
    tolerance = 1e-13 if dtype is np.float64 else 1e-5
    assert value == pytest.approx(0.7 / order * (norms**order).sum(), rel=tolerance)
    np.testing.assert_allclose(gradient, fit + penalty, rtol=tolerance, atol=tolerance)
    assert of_fit == pytest.approx((fit.astype(np.float64) ** 2).sum(), rel=tolerance)
    assert of_penalty == pytest.approx((penalty**2).sum(), rel=tolerance)
    assert of_both == pytest.approx(((fit + penalty) ** 2).sum(), rel=tolerance)


@pytest.mark.parametrize("order", [2, 3, 5])
def test_the_penalty_gradient_is_that_of_its_value(order):
    rng = np.random.default_rng(order)
    A, direction = rng.standard_normal((2, 6, 4))
    step = 1e-6

    def value(t):
        return kernels.add_penalty(A + t * direction, 0.7, order, np.zeros((6, 4)), np.empty(4))[0]

    gradient = np.zeros((6, 4))
    kernels.add_penalty(A, 0.7, order, gradient, np.empty(4))
    slope = (value(step) - value(-step)) / (2 * step)
    assert slope == pytest.approx(np.vdot(gradient, direction), rel=1e-7)


@given(
    hnp.arrays(
        st.sampled_from(FLOATS),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=30),
        elements=st.one_of(
            st.floats(-(2.0**20), 2.0**20, width=32), st.sampled_from([np.nan, np.inf, -np.inf])
        ),
    )
)
def test_survey_block(Z):
    Z.flags.writeable = False
    observed, infinite, total, top = kernels.survey_block(Z)
    finite = np.abs(Z[np.isfinite(Z)].astype(np.float64))
    assert observed == np.count_nonzero(~np.isnan(Z))
    assert infinite == np.count_nonzero(np.isinf(Z))
    assert total == pytest.approx(finite.sum(), rel=1e-12)
    assert top == finite.max(initial=0.0)


def test_kernels_are_compiled_when_imported():
    # A call that compiled would pause for seconds, and its memory would contain a compiler.
    compiled = [f for f in vars(kernels).values() if hasattr(f, "nopython_signatures")]
    assert len(compiled) >= 6
    assert all(len(f.nopython_signatures) == len(FLOATS) for f in compiled)
    with pytest.raises(TypeError):
        kernels.survey_block(np.ones((2, 2), np.int64))
