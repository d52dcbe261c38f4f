"""What every topic model here can do once it has topics: mixtures, bounds, names."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from tensor_rpca.topics.kernels import BLOCK_NONZEROS, infer_mixtures
from tensor_rpca.topics.metrics import bound_perplexity, likelihood_bound

Array = NDArray[Any]


class TopicModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators with ``components_`` (K, d) and ``doc_topic_prior_`` (K,)."""

    components_: Array
    doc_topic_prior_: Array

    def transform(self, X: ArrayLike) -> Array:
        """Mixtures of documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Counts.

        Returns
        -------
        ndarray of shape (n, K)
            Rows sum to one; a document without a known word has the prior's mean.
        """
        check_is_fitted(self)
        counts = self._check(X, reset=False)
        parameters = infer_mixtures(counts, self.components_, self.doc_topic_prior_)
        mixtures: Array = parameters / parameters.sum(axis=1, keepdims=True)
        return mixtures.astype(self._float(X), copy=False)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Lower bound of the log-likelihood of documents, as scikit-learn's LDA has it."""
        check_is_fitted(self)
        counts = self._check(X, reset=False)
        return likelihood_bound(counts, self.components_, self.doc_topic_prior_)

    def perplexity(self, X: ArrayLike) -> float:
        """``exp(-score / words)``; lower is better."""
        check_is_fitted(self)
        counts = self._check(X, reset=False)
        return bound_perplexity(counts, self.components_, self.doc_topic_prior_)

    def _check(self, X: ArrayLike, *, reset: bool) -> csr_array:
        """Counts as a csr_array, without a copy if they are one."""
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_features=1
        )
        check_non_negative(checked, whom=f"{type(self).__name__} (counts of words)")
        counts = csr_array(checked)
        if not counts.has_canonical_format:
            counts = counts.copy()
            counts.sum_duplicates()
        return counts

    @staticmethod
    def _float(X: Any) -> type:
        return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def warn_of_fractions(counts: csr_array) -> None:
    """Frequencies and tf-idf are no counts: say so, once, and go on."""
    if counts.dtype.kind != "f":
        return
    fractional = 0
    for begin in range(0, counts.nnz, BLOCK_NONZEROS):
        part = counts.data[begin : begin + BLOCK_NONZEROS]
        fractional += int(np.count_nonzero(part != np.floor(part)))
    if fractional:
        warnings.warn(
            f"{fractional:,} of {counts.nnz:,} entries of X are no whole numbers; the moments "
            "are made for counts of words: use CountVectorizer rather than TfidfVectorizer",
            UserWarning,
            stacklevel=3,
        )


def check_parameters(model: Any, n_words: int) -> None:
    """Refuse parameters that make no sense, whichever of them a model has."""
    _check_whole("n_components", model.n_components, 1)
    if model.n_components > n_words:
        warnings.warn(
            f"n_components={model.n_components} topics of a vocabulary of {n_words} words overlap "
            f"whatever they are; ask for fewer than {n_words}",
            UserWarning,
            stacklevel=4,
        )
    _check_positive("concentration", model.concentration)
    if hasattr(model, "refine"):
        _check_whole("refine", model.refine, 0)
        _check_positive("smoothing", model.smoothing)
        if model.oversampling is not None:
            _check_whole("oversampling", model.oversampling, 1)


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {value:g}")
