"""TensorRPCA: scikit-learn's manners, and scores that outliers do not bend."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensor_rpca import KruskalTensor, TensorRPCA, decompose
from tensor_rpca.datasets import low_rank_plus_sparse


@parametrize_with_checks([TensorRPCA(rank=2, max_iter=50, random_state=0), TensorRPCA()])
def test_sklearn_contract(estimator, check):
    check(estimator)


SHAPES = {2: (60, 40), 3: (40, 12, 10), 4: (40, 6, 7, 5)}


def samples(order=3, n_new=15, outliers=0.08, missing=0.0, seed=0):
    """Fitted and new samples of one low-rank tensor, and the new ones without outliers."""
    shape = SHAPES[order]
    Z, X, S = low_rank_plus_sparse(shape, 2, outliers, noise=1e-3, random_state=seed)
    Z += 5 * (S != 0)  # gross ones, all to one side, as faults are
    rng = np.random.default_rng(seed)
    Z[rng.random(shape) < missing] = np.nan
    return Z[:-n_new], Z[-n_new:], X[-n_new:]


def fitted(order=3, **keywords):
    old, new, clean = samples(order, **keywords)
    model = TensorRPCA(rank=2, lambda_x=0.02, lambda_s=0.01, random_state=0).fit(old)
    return model, old, new, clean


@pytest.fixture(scope="module")
def cube():
    return fitted()


# --- fit -----------------------------------------------------------------------------------------


def test_fit_is_decompose(cube):
    _, old, _, _ = cube
    settings = {
        "rank": 3,
        "lambda_x": 0.05,
        "lambda_s": 0.02,
        "solver": "lbfgs",
        "max_iter": 60,
        "tol": 1e-9,
        "random_state": 7,
    }
    model = TensorRPCA(**settings)
    assert model.fit(old, y="ignored") is model
    expected = decompose(old, **settings)
    np.testing.assert_array_equal(model.weights_, expected.low_rank.weights)
    for a, b in zip(model.factors_, expected.low_rank.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (model.sparse_ != expected.sparse).nnz == 0
    assert model.objective_ == expected.objective
    assert model.n_iter_ == expected.n_iter == 60


def test_fitted_attributes_describe_one_decomposition(cube):
    model, old, _, _ = cube
    found = model.decomposition_
    assert model.low_rank_ is found.low_rank
    assert model.sparse_ is found.sparse
    assert model.weights_ is found.low_rank.weights
    assert model.factors_ is found.low_rank.factors
    assert model.certificate_ is found.certificate
    assert model.rank_ == found.low_rank.rank == 2
    assert model.n_iter_ == found.n_iter > 0
    assert model.objective_ == found.objective
    assert (model.lambda_x_, model.lambda_s_) == (found.lambda_x, found.lambda_s) == (0.02, 0.01)
    assert model.n_features_in_ == old.shape[1]
    assert model.low_rank_.shape == model.sparse_.shape == old.shape


def test_defaults_are_chosen_at_fit_and_not_written_into_the_parameters():
    old, _, _ = samples()
    model = TensorRPCA(random_state=0, max_iter=5).fit(old)
    assert model.lambda_x is None
    assert model.lambda_s is None
    assert model.lambda_x_ > 0
    assert model.lambda_s_ > 0


def test_init_and_callback_reach_decompose():
    old, _, _ = samples()
    seen = []

    def stop(state):
        seen.append(state.iteration)
        return state.iteration == 3

    begin = KruskalTensor(None, [np.ones((d, 2)) for d in old.shape])
    model = TensorRPCA(init=begin, callback=stop).fit(old)
    assert seen == [1, 2, 3]
    assert model.rank_ <= 2
    expected = decompose(old, init=begin, max_iter=3)
    np.testing.assert_array_equal(model.weights_, expected.low_rank.weights)


def test_mask_and_nan_are_the_same_at_fit():
    old, _, _ = samples()
    known = np.random.default_rng(1).random(old.shape) < 0.8
    settings = {"rank": 2, "random_state": 0, "max_iter": 50}
    by_mask = TensorRPCA(**settings).fit(np.where(known, old, 1e3), mask=known)
    by_nan = TensorRPCA(**settings).fit(np.where(known, old, np.nan))
    np.testing.assert_array_equal(by_mask.weights_, by_nan.weights_)


def test_fitting_again_forgets():
    old, _, _ = samples()
    model = TensorRPCA(rank=2, random_state=0, max_iter=20).fit(old)
    model.fit(old[:, :5])
    assert model.n_features_in_ == 5
    assert model.transform(old[:, :5]).shape == (len(old), 2)


def test_parameters_and_clone():
    begin = KruskalTensor(None, [np.ones((4, 1)), np.ones((5, 1))])
    model = TensorRPCA(3, lambda_x=0.1, lambda_s=0.2, solver="lbfgs", init=begin, random_state=4)
    parameters = model.get_params()
    assert parameters == {
        "rank": 3,
        "lambda_x": 0.1,
        "lambda_s": 0.2,
        "solver": "lbfgs",
        "max_iter": None,
        "tol": None,
        "init": begin,
        "random_state": 4,
        "progress": False,
        "callback": None,
    }
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() | {"init": begin} == parameters
    np.testing.assert_array_equal(copy.init.to_dense(), begin.to_dense())
    assert copy.set_params(rank=5).rank == 5
    assert model.rank == 3
    assert "rank=3" in repr(model)


def test_a_clone_is_not_fitted(cube):
    model, _, new, _ = cube
    with pytest.raises(NotFittedError):
        clone(model).transform(new)


def test_a_pickled_model_transforms_alike(cube):
    model, _, new, _ = cube
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(new), model.transform(new))


# --- transform -----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing entries"])
@pytest.mark.parametrize("order", SHAPES)
def test_new_samples_are_cleaned(order, missing):
    model, _, new, clean = fitted(order, missing=missing)
    scores = model.transform(new)
    assert scores.shape == (len(new), 2)
    found = model.inverse_transform(scores)
    assert found.shape == clean.shape
    error = np.linalg.norm(found - clean)
    assert error < 0.03 * np.linalg.norm(clean)
    # Least squares on the same components believes the outliers.
    P = np.stack([model.inverse_transform(e[None]).ravel() for e in np.eye(2)], axis=1)
    believing = np.nan_to_num(new).reshape(len(new), -1) @ np.linalg.pinv(P).T @ P.T
    assert np.linalg.norm(believing - clean.reshape(len(new), -1)) > 10 * error


@pytest.mark.parametrize("order", SHAPES)
def test_scores_of_the_fitted_samples_are_the_first_factor_with_its_weights(order):
    model, old, _, _ = fitted(order)
    expected = model.factors_[0] * model.weights_
    # Up to the penalty's shrinkage, which scores do not pay.
    np.testing.assert_allclose(model.transform(old), expected, atol=0.03 * np.abs(expected).max())


def test_fit_transform_is_fit_and_transform():
    old, _, _ = samples()
    settings = {"rank": 2, "random_state": 0, "max_iter": 30}
    model = TensorRPCA(**settings).fit(old)
    scores = TensorRPCA(**settings).fit_transform(old)
    np.testing.assert_array_equal(scores, model.transform(old))


def test_samples_are_independent(cube):
    model, _, new, _ = cube
    scores = model.transform(new)
    some = [7, 2, 11]
    np.testing.assert_allclose(model.transform(new[some]), scores[some], rtol=1e-9)
    np.testing.assert_allclose(model.transform(new[4:5]), scores[4:5], rtol=1e-9)
    spoilt = new.copy()
    spoilt[3] += 100
    others = np.arange(len(new)) != 3
    np.testing.assert_allclose(model.transform(spoilt)[others], scores[others], rtol=1e-9)


def test_many_samples_are_done_in_blocks(cube):
    model, _, new, _ = cube
    count = 2**20 // new[0].size + 100  # more than one block holds
    many = np.broadcast_to(new[:1], (count, *new.shape[1:]))
    scores = model.transform(many)
    np.testing.assert_allclose(
        scores, np.repeat(model.transform(new[:1]), count, axis=0), rtol=1e-9
    )


def test_mask_and_nan_are_the_same(cube):
    model, _, new, _ = cube
    known = np.random.default_rng(2).random(new.shape) < 0.7
    by_nan = model.transform(np.where(known, new, np.nan))
    np.testing.assert_array_equal(model.transform(np.where(known, new, 77), mask=known), by_nan)
    both = np.where(np.arange(new.shape[2]) < 2, np.nan, new)
    np.testing.assert_array_equal(
        model.transform(both, mask=known),
        model.transform(np.where(known, both, np.nan)),
    )
    np.testing.assert_array_equal(
        model.transform(np.ma.masked_array(new, mask=~known)),
        by_nan,
    )
    assert np.abs(by_nan - model.transform(new)).max() > 0


def test_infinite_entries_may_hide_behind_the_mask(cube):
    model, _, new, _ = cube
    spoilt = new.copy()
    spoilt[2, 3, 4] = np.inf
    known = np.isfinite(spoilt)
    expected = model.transform(np.where(known, new, np.nan))
    np.testing.assert_array_equal(model.transform(spoilt, mask=known), expected)


def test_a_sample_without_observations_has_no_scores(cube):
    model, _, new, _ = cube
    new = new.copy()
    new[1] = np.nan
    np.testing.assert_array_equal(model.transform(new)[1], 0)


def test_leaves_the_samples_alone(cube):
    model, _, new, _ = cube
    before = new.copy()
    known = np.ones(new.shape, bool)
    model.transform(new, mask=known)
    np.testing.assert_array_equal(new, before)
    frozen = new.copy()
    frozen.flags.writeable = False
    model.transform(frozen)


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda Z: Z[::-1][::-1], np.ndarray.tolist])
def test_any_layout(layout, cube):
    model, _, new, _ = cube
    np.testing.assert_allclose(model.transform(layout(new)), model.transform(new), rtol=1e-9)


def test_float32_stays_float32():
    old, new, clean = samples()
    model = TensorRPCA(rank=2, lambda_x=0.02, lambda_s=0.01, random_state=0)
    model.fit(old.astype(np.float32))
    scores = model.transform(new.astype(np.float32))
    assert scores.dtype == np.float32
    found = model.inverse_transform(scores)
    assert found.dtype == np.float32
    assert np.linalg.norm(found - clean) < 0.03 * np.linalg.norm(clean)


def test_integer_samples():
    old, new, _ = samples()
    model = TensorRPCA(rank=2, random_state=0, max_iter=50).fit((100 * old).astype(int))
    whole = (100 * new).astype(int)
    np.testing.assert_array_equal(model.transform(whole), model.transform(whole.astype(float)))


def test_without_components_there_are_no_scores():
    model = TensorRPCA().fit(np.zeros((6, 5, 4)))
    assert model.rank_ == 0
    scores = model.transform(np.ones((3, 5, 4)))
    assert scores.shape == (3, 0)
    np.testing.assert_array_equal(model.inverse_transform(scores), np.zeros((3, 5, 4)))


@pytest.mark.parametrize("shape", [(30, 5), (30, 2, 2)], ids=str)
def test_a_bound_above_the_entries_of_a_sample(shape):
    Z, _, _ = low_rank_plus_sparse(shape, 2, 0.1, random_state=0)
    begin = [np.random.default_rng(0).standard_normal((d, 8)) for d in shape]
    model = TensorRPCA(init=begin, max_iter=2, lambda_x=1e-6, lambda_s=10.0).fit(Z)
    found = model.inverse_transform(model.transform(Z))
    # So many components meet every sample, outliers included.
    np.testing.assert_allclose(found, Z, atol=1e-3)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda Z: Z[:, :5], r"5 features.*expecting 12|shape \(5, 10\).*fitted to samples of"),
        (lambda Z: Z[:, :, :5], r"shape \(12, 5\).*fitted to samples of shape \(12, 10\)"),
        (lambda Z: Z[..., None], r"shape \(12, 10, 1\).*fitted to samples of shape \(12, 10\)"),
        (lambda Z: Z[:, :, 0], r"shape \(12,\).*fitted to samples of shape \(12, 10\)"),
        (lambda Z: Z[0, 0], "2D array or a tensor"),
        (lambda Z: Z[:0], r"0 sample\(s\)"),
        (lambda Z: np.where(Z > 1, np.inf, Z), "infinite entries.*np.where"),
        (lambda Z: np.where(Z > 1, -np.inf, Z), "infinite entries.*np.where"),
        (lambda Z: Z * 1j, "Complex data"),
        (lambda Z: Z.astype(str), "no real number type"),
    ],
)
def test_refuses_samples_unlike_the_fitted_ones(spoil, match, cube):
    model, _, new, _ = cube
    with pytest.raises(ValueError, match=match):
        model.transform(spoil(new))


def test_a_single_sample_without_its_axis_is_told_the_shapes(cube):
    model, _, new, _ = cube
    with pytest.raises(ValueError, match=r"fitted to samples of shape \(12, 10\)"):
        model.transform(new[0])


def test_refuses_masks_unlike_the_samples(cube):
    model, _, new, _ = cube
    with pytest.raises(ValueError, match=r"mask has shape \(15, 12\)"):
        model.transform(new, mask=np.ones((15, 12), bool))
    with pytest.raises(TypeError, match="must be bool"):
        model.transform(new, mask=np.ones(new.shape))


def test_inverse_transform_refuses_scores_of_another_rank(cube):
    model, _, _, _ = cube
    with pytest.raises(ValueError, match="equally many columns"):
        model.inverse_transform(np.zeros((3, 5)))


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_must_be_fitted_first(method):
    with pytest.raises(NotFittedError):
        getattr(TensorRPCA(), method)(np.ones((3, 4)))


# --- company -------------------------------------------------------------------------------------


def test_works_in_a_pipeline():
    old, new, _ = samples()
    pipeline = make_pipeline(
        FunctionTransformer(np.negative, validate=False),
        TensorRPCA(rank=2, random_state=0, max_iter=50),
    )
    scores = pipeline.fit(old).transform(new)
    alone = TensorRPCA(rank=2, random_state=0, max_iter=50).fit(-old)
    np.testing.assert_array_equal(scores, alone.transform(-new))
    assert list(pipeline[-1].get_feature_names_out()) == ["tensorrpca0", "tensorrpca1"]
    pipeline.set_params(tensorrpca__rank=1)
    assert pipeline.fit_transform(old).shape == (len(old), 1)


def test_pandas_output():
    pandas = pytest.importorskip("pandas")
    old, new, _ = samples(2)
    model = TensorRPCA(rank=2, random_state=0, max_iter=50).set_output(transform="pandas")
    frame = model.fit(old).transform(pandas.DataFrame(new, index=range(5, 5 + len(new))))
    assert list(frame.columns) == ["tensorrpca0", "tensorrpca1"]
    assert list(frame.index) == list(range(5, 5 + len(new)))
