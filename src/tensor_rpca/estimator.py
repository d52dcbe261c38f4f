"""TensorRPCA: decompose() with scikit-learn's manners."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tensor_rpca import validation
from tensor_rpca.decomposition import decompose
from tensor_rpca.kruskal import KruskalTensor, khatri_rao
from tensor_rpca.objective.threads import single_threaded_blas
from tensor_rpca.recorder import Callback
from tensor_rpca.solvers.huber_regression import huber_regression

Array = NDArray[Any]


class TensorRPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Low rank plus outliers, as an estimator; axis 0 is samples.

    Parameters
    ----------
    rank, lambda_x, lambda_s, solver, max_iter, tol, init, random_state, progress, callback
        As in :func:`tensor_rpca.decompose`.

    Attributes
    ----------
    low_rank_ : KruskalTensor
    sparse_ : scipy.sparse.coo_array
    weights_ : ndarray of shape (R,)
    factors_ : tuple of ndarrays of shapes (d_k, R)
    rank_ : int
        Components found, R.
    lambda_x_, lambda_s_ : float
    n_iter_ : int
    objective_ : float
    certificate_ : Certificate
    decomposition_ : Decomposition
        All of the above and the history.
    n_features_in_ : int
        Length of axis 1.

    Examples
    --------
    >>> from tensor_rpca import TensorRPCA
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Z, X, S = low_rank_plus_sparse((30, 20, 10), rank=2, outliers=0.05, random_state=0)
    >>> model = TensorRPCA(rank=2, random_state=0).fit(Z[:25])
    >>> scores = model.transform(Z[25:])
    >>> scores.shape
    (5, 2)
    >>> float(abs(model.inverse_transform(scores) - X[25:]).max()) < 0.1
    True
    """

    def __init__(
        self,
        rank: int | None = None,
        *,
        lambda_x: float | None = None,
        lambda_s: float | None = None,
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        init: Any = None,
        random_state: validation.RandomState = None,
        progress: bool = False,
        callback: Callback | None = None,
    ):
        self.rank = rank
        self.lambda_x = lambda_x
        self.lambda_s = lambda_s
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.random_state = random_state
        self.progress = progress
        self.callback = callback

    def fit(self, Z: ArrayLike, y: Any = None, *, mask: ArrayLike | None = None) -> TensorRPCA:
        """Decompose Z.

        Parameters
        ----------
        Z : array-like of shape (n_samples, d_2, ..., d_K)
        y : ignored
        mask : array-like of bool of the shape of Z, optional
            False marks a missing entry, as NaN does.
        """
        array, known = _check(Z, mask)
        validate_data(self, Z, skip_check_array=True)
        found = decompose(
            array,
            self.rank,
            lambda_x=self.lambda_x,
            lambda_s=self.lambda_s,
            mask=known,
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            init=self.init,
            random_state=self.random_state,
            progress=self.progress,
            callback=self.callback,
        )
        self.decomposition_ = found
        self.low_rank_ = found.low_rank
        self.sparse_ = found.sparse
        self.weights_ = found.low_rank.weights
        self.factors_ = found.low_rank.factors
        self.rank_ = found.low_rank.rank
        self.lambda_x_ = found.lambda_x
        self.lambda_s_ = found.lambda_s
        self.n_iter_ = found.n_iter
        self.objective_ = found.objective
        self.certificate_ = found.certificate
        return self

    def transform(self, Z: ArrayLike, *, mask: ArrayLike | None = None) -> Array:
        """Find the scores of new samples on the fitted components.

        Each sample's scores minimise the Huber loss of its residual, so its outliers do not
        bend them; NaN and ``mask`` mark missing entries.

        Parameters
        ----------
        Z : array-like of shape (n_new, d_2, ..., d_K)
        mask : array-like of bool of the shape of Z, optional

        Returns
        -------
        ndarray of shape (n_new, R)
            Weights included: for the fitted samples about ``factors_[0] * weights_``.
        """
        check_is_fitted(self)
        array, known = _check(Z, mask)
        expected = self.low_rank_.shape[1:]
        if len(expected) == 1:
            validate_data(self, Z, skip_check_array=True, reset=False)
        if array.shape[1:] != expected:
            raise ValueError(
                f"samples have shape {array.shape[1:]}, but TensorRPCA was fitted to samples of "
                f"shape {expected}; new samples need the same modes"
            )
        if self.rank_ == 0:
            return np.zeros((len(array), 0), self.low_rank_.dtype)
        P = khatri_rao(self.factors_[1:])
        scores = np.empty((len(array), self.rank_), self.low_rank_.dtype)
        # Samples are independent: a block at a time, so that no copy of Z is ever whole.
        step = max(1, 2**20 // math.prod(expected))
        with single_threaded_blas():
            for first in range(0, len(array), step):
                rows = slice(first, first + step)
                block = array[rows].astype(np.float64).reshape(-1, len(P))
                if known is not None:
                    block[~known[rows].reshape(block.shape)] = np.nan
                if np.isinf(block).any():
                    raise ValueError(
                        "Z contains infinite entries (inf); replace them by NaN to treat them as "
                        "missing: np.where(np.isinf(Z), np.nan, Z)"
                    )
                scores[rows] = huber_regression(block, P, self.lambda_s_)
        return scores

    def inverse_transform(self, scores: ArrayLike) -> Array:
        """Return the low-rank samples, of shape (n, d_2, ..., d_K), that have these scores."""
        check_is_fitted(self)
        return KruskalTensor(None, [np.asarray(scores), *self.factors_[1:]]).to_dense()

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _check(Z: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Array | None]:
    """Check as decompose() does, but take arrays of Python numbers, as estimators do."""
    if getattr(Z, "dtype", None) == np.object_:
        Z = np.asarray(Z, dtype=np.float64)
    return validation.check_tensor(Z, mask)
