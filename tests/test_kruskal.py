import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_rpca import KruskalTensor
from tests.problems import random_factors


def tensor(shape=(4, 5, 6), rank=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(rank) * 3
    return weights, random_factors(shape, rank, seed + 1, dtype)


def dense(weights, factors):
    letters = "abcdef"[: len(factors)]
    spec = "z," + ",".join(f"{c}z" for c in letters) + "->" + letters
    return np.einsum(spec, weights, *factors)


shapes = st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple)
dtypes = st.sampled_from([np.float64, np.float32])


@given(shapes, st.integers(1, 5), st.integers(0, 1000), dtypes)
def test_normal_form(shape, rank, seed, dtype):
    weights, factors = tensor(shape, rank, seed, dtype)
    T = KruskalTensor(weights, factors)
    eps = np.finfo(dtype).eps
    assert T.weights.shape == (rank,)
    assert (T.weights >= 0).all()
    assert (np.diff(T.weights) <= 0).all()
    assert [a.shape for a in T.factors] == [(d, rank) for d in shape]
    for a in T.factors:
        np.testing.assert_allclose(np.linalg.norm(a, axis=0), np.ones(rank), rtol=10 * eps)
        assert a.flags.c_contiguous
    assert {T.dtype, T.weights.dtype, *(a.dtype for a in T.factors)} == {np.dtype(dtype)}
    # Sizes, signs and order have moved; the tensor has not.
    expected = dense(weights, factors)
    scale = 1 + np.abs(weights) @ np.prod([np.linalg.norm(a, axis=0) for a in factors], axis=0)
    np.testing.assert_allclose(T.to_dense(), expected, rtol=0, atol=20 * eps * scale)
    assert T.norm() == pytest.approx(np.linalg.norm(expected), rel=1e-5, abs=float(eps * scale))
    assert (T.shape, T.ndim, T.rank) == (shape, len(shape), rank)
    assert T.degrees_of_freedom == rank * sum(shape)


def test_heaviest_component_first():
    e = np.eye(3)
    T = KruskalTensor([1.0, -5.0, 3.0], [e, e])
    np.testing.assert_array_equal(T.weights, [5, 3, 1])
    # The sign goes to the first factor, and to no other.
    np.testing.assert_array_equal(T.factors[0], np.c_[-e[1], e[2], e[0]])
    np.testing.assert_array_equal(T.factors[1], np.c_[e[1], e[2], e[0]])


def test_components_of_equal_weight_keep_their_order():
    e = np.eye(4)
    np.testing.assert_array_equal(KruskalTensor([2, 2, 2, 2], [e, e]).factors[0], e)


def test_normal_form_is_left_as_it_is():
    T = KruskalTensor(*tensor())
    again = KruskalTensor(T.weights, T.factors)
    np.testing.assert_allclose(again.weights, T.weights, rtol=1e-15)
    for a, b in zip(again.factors, T.factors, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_normal_form_keeps_its_bits(dtype):
    T = KruskalTensor(*tensor((40, 30, 50), 20, dtype=dtype))
    again = KruskalTensor(T.weights, T.factors)
    np.testing.assert_array_equal(again.weights, T.weights)
    for a, b in zip(again.factors, T.factors, strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_weights_are_ones():
    _, factors = tensor()
    ones = KruskalTensor(np.ones(3), factors)
    np.testing.assert_array_equal(KruskalTensor(None, factors).to_dense(), ones.to_dense())


def test_a_vanished_component_has_weight_zero_and_no_nan():
    weights, factors = tensor()
    factors[1][:, 0] = 0
    T = KruskalTensor(weights, factors)
    assert T.weights[-1] == 0
    assert np.isfinite(T.to_dense()).all()
    np.testing.assert_allclose(T.to_dense(), dense(weights, factors), rtol=0, atol=1e-13)


def test_arguments_are_neither_changed_nor_kept():
    weights, factors = tensor()
    kept_weights, kept_factors = weights.copy(), [a.copy() for a in factors]
    T = KruskalTensor(weights, factors)
    before = T.to_dense()
    np.testing.assert_array_equal(weights, kept_weights)
    for a, kept in zip(factors, kept_factors, strict=True):
        np.testing.assert_array_equal(a, kept)
        a[...] = 0
    np.testing.assert_array_equal(T.to_dense(), before)


@pytest.mark.parametrize(
    ("given_dtype", "dtype"),
    [("i8", "f8"), ("i2", "f4"), ("?", "f4"), ("f2", "f4"), ("f4", "f4"), ("f8", "f8")],
)
def test_dtype(given_dtype, dtype):
    T = KruskalTensor(None, [np.ones((2, 1), given_dtype), np.ones((3, 1), given_dtype)])
    assert T.dtype == dtype
    assert T.to_dense().dtype == dtype
    assert T[0, 1].dtype == dtype


def test_lists_are_factors_too():
    T = KruskalTensor([2], [[[1.0], [2.0]], [[3.0], [4.0]]])
    np.testing.assert_allclose(T.to_dense(), [[6, 8], [12, 16]], rtol=1e-15)


@st.composite
def tensors_and_indices(draw):
    """A tensor and an index that NumPy's basic indexing, with at most one list, understands."""
    shape = draw(shapes)
    T = KruskalTensor(*tensor(shape, draw(st.integers(1, 4)), draw(st.integers(0, 100))))
    listed = draw(st.integers(-len(shape), len(shape) - 1))  # below zero: no list
    parts = []
    for k, d in enumerate(shape):
        if k == listed:
            some = st.lists(st.integers(-d, d - 1), min_size=1, max_size=6)
            booleans = st.lists(st.booleans(), min_size=d, max_size=d)
            part = draw(st.one_of(some, some.map(np.array), booleans, booleans.map(np.array)))
        else:
            # NumPy takes an integer next to a list for a second list, see the test below.
            whole = st.integers(-d, d - 1)
            pieces = st.slices(d)
            integers = st.one_of(whole, whole.map(np.int64))
            part = draw(pieces if listed >= 0 else st.one_of(pieces, integers))
        parts.append(part)
    # An ellipsis stands for any run of whole axes; axes at the end may be left out.
    form = draw(st.sampled_from(["complete", "ellipsis", "short"]))
    if form == "ellipsis":
        first = draw(st.integers(0, len(parts)))
        last = draw(st.integers(first, len(parts)))
        parts[first:last] = [Ellipsis]
    elif form == "short":
        parts = parts[: draw(st.integers(1, len(parts)))]
    return T, parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@settings(max_examples=150)
@given(tensors_and_indices())
def test_indexing_is_that_of_numpy(case):
    T, index = case
    expected = T.to_dense()[index]
    found = T[index]
    assert np.shape(found) == expected.shape
    assert isinstance(found, np.generic if expected.ndim == 0 else np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "index",
    [
        (),
        ...,
        0,
        -1,
        slice(None),
        slice(4, 1, -2),
        slice(3, 3),
        (1, 2, 3),
        (1, slice(None), slice(2, 5)),
        (..., 0),
        (0, ..., slice(1, 3)),
        (slice(None), slice(None), slice(None), ...),
        [0, 3, 3],
        (slice(None), [True, False, True, False, False]),
        (slice(None), np.array([], int)),
        (np.int8(1), np.uint16(2)),
        range(2),
        (0, [1, 2]),
        (slice(None), 1, [0, 2, 4]),
        ([0, 1], 2, slice(None)),
    ],
    ids=repr,
)
def test_forms_of_an_index(index):
    T = KruskalTensor(*tensor())
    expected = T.to_dense()[index]
    assert np.shape(T[index]) == expected.shape
    np.testing.assert_allclose(T[index], expected, rtol=0, atol=1e-13)


def test_a_list_and_an_integer_apart_agree_with_numpy_or_are_refused():
    # NumPy moves the list's axis to the front here; what must not be is another shape.
    T = KruskalTensor(*tensor())
    try:
        found = T[0, :, [1, 2]]
    except IndexError:
        return
    assert found.shape == T.to_dense()[0, :, [1, 2]].shape == (2, 5)


@pytest.mark.parametrize("index", [[], np.array(1), (slice(None), [])], ids=repr)
def test_empty_lists_and_scalar_arrays(index):
    T = KruskalTensor(*tensor())
    assert T[index].shape == T.to_dense()[index].shape


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (4, "axis 0"),
        ((0, -6), "axis 1"),
        ((0, 0, [6]), "axis 2"),
        ((0, 0, 0, 0), "3 axes"),
        ((..., ...), "single ellipsis"),
        (None, "to_dense"),
        ((0, np.newaxis), "to_dense"),
        (1.5, "integers, slices"),
        ("a", "integers, slices"),
        (([0, 1], [0, 1]), "to_dense"),
        ([[0, 1], [1, 0]], "to_dense"),
        ([True, False], "axis 0"),
        (np.zeros((4, 5, 6), bool), "to_dense"),
    ],
    ids=repr,
)
def test_wrong_indices_are_refused(index, words):
    with pytest.raises(IndexError, match=words):
        KruskalTensor(*tensor())[index]


def test_a_slice_costs_no_more_than_itself():
    # 10^15 entries, of which six are wanted.
    factors = random_factors((100_000, 100_000, 100_000), 2)
    T = KruskalTensor(None, factors)
    part = T[7, [1, 5, 9], 99_998:]
    expected = np.einsum("z,bz,cz->bc", factors[0][7], factors[1][[1, 5, 9]], factors[2][-2:])
    np.testing.assert_allclose(part, expected, rtol=1e-9)
    assert math.isfinite(T.norm())


def test_conversion_to_an_array():
    T = KruskalTensor(*tensor())
    array = np.asarray(T)
    np.testing.assert_array_equal(array, T.to_dense())
    assert type(array) is np.ndarray
    assert np.asarray(T, dtype=np.float32).dtype == np.float32
    assert np.array(T, copy=True).shape == (4, 5, 6)
    with pytest.raises(ValueError, match="copy=False"):
        np.array(T, copy=False)


def test_it_is_a_pair():
    T = KruskalTensor(*tensor())
    weights, factors = T
    assert len(T) == 2
    assert weights is T.weights
    assert factors is T.factors
    assert isinstance(factors, tuple)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 6), (2, 3, 4, 5)])
def test_tensorly_takes_it(shape):
    tensorly = pytest.importorskip("tensorly")
    from tensorly import cp_tensor

    assert tensorly.get_backend() == "numpy"
    T = KruskalTensor(*tensor(shape))
    np.testing.assert_allclose(cp_tensor.cp_to_tensor(T), T.to_dense(), rtol=0, atol=1e-12)
    assert float(cp_tensor.cp_norm(T)) == pytest.approx(T.norm(), rel=1e-12)


def test_norm_is_that_of_the_entries_although_components_cancel():
    _, (A, B) = tensor((4, 5), 1)
    T = KruskalTensor([1.0, -1.0], [np.c_[A, A], np.c_[B, B]])
    assert T.norm() == pytest.approx(0, abs=1e-7)


def test_truncate_keeps_the_heaviest():
    T = KruskalTensor(*tensor(rank=4))
    kept = T.truncate(2)
    assert kept.rank == 2
    np.testing.assert_allclose(kept.weights, T.weights[:2], rtol=1e-14)
    expected = dense(T.weights[:2], [a[:, :2] for a in T.factors])
    np.testing.assert_allclose(kept.to_dense(), expected, rtol=0, atol=1e-13)
    assert T.truncate(0).rank == 0
    assert T.truncate(9).rank == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_balanced_factors_share_the_weights(dtype):
    T = KruskalTensor(*tensor(dtype=dtype))
    factors = T.balanced_factors()
    for a in factors:
        assert a.dtype == dtype
        np.testing.assert_allclose(
            np.linalg.norm(a, axis=0) ** 3, T.weights, rtol=100 * np.finfo(dtype).eps
        )
    np.testing.assert_allclose(dense(np.ones(3), factors), T.to_dense(), rtol=0, atol=1e-5)


def no_components(shape=(3, 4, 5)):
    return KruskalTensor(np.empty(0), [np.empty((d, 0)) for d in shape])


def test_no_components():
    T = no_components()
    assert (T.rank, T.shape, T.norm(), T.degrees_of_freedom) == (0, (3, 4, 5), 0.0, 0)
    assert T[0, 0, 0] == 0
    np.testing.assert_array_equal(T[1], np.zeros((4, 5)))
    np.testing.assert_array_equal(T[:, 2, 1], np.zeros(3))
    assert repr(T) == "KruskalTensor of shape 3 x 4 x 5, rank 0"
    assert KruskalTensor(*T).rank == 0
    assert [a.shape for a in T.balanced_factors()] == [(3, 0), (4, 0), (5, 0)]


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_no_components_are_zero(shape):
    np.testing.assert_array_equal(no_components(shape).to_dense(), np.zeros(shape))


def test_repr_tells_shape_rank_and_weights():
    e = np.eye(6)
    assert (
        repr(KruskalTensor([1, 2, 3, 4, 5, 6], [e, e]))
        == "KruskalTensor of shape 6 x 6, rank 6, weights 6, 5, 4, 3, ..."
    )
    assert repr(KruskalTensor([0.123456], [e[:, :1]] * 3)).endswith("rank 1, weights 0.1235")


@pytest.mark.parametrize(
    ("weights", "factors", "words"),
    [
        (None, [], "two or more matrices"),
        (None, [np.ones((3, 2))], "two or more matrices"),
        (None, [np.ones(3), np.ones(4)], "two or more matrices"),
        (None, [np.ones((3, 2)), np.ones((4, 3))], r"\(3, 2\), \(4, 3\)"),
        ([1.0], [np.ones((3, 2)), np.ones((4, 2))], r"\(2,\).*\(1,\)"),
        (np.ones((2, 1)), [np.ones((3, 2)), np.ones((4, 2))], r"\(2,\)"),
    ],
)
def test_what_does_not_fit_together_is_refused(weights, factors, words):
    with pytest.raises(ValueError, match=words):
        KruskalTensor(weights, factors)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_complex_factors_are_refused():
    with pytest.raises((TypeError, ValueError), match="complex"):
        KruskalTensor(None, [np.full((2, 1), 1j), np.ones((3, 1))])
