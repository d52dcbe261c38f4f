"""Corpora with known topics, for tests and benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, vstack

from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]

# Documents drawn at a time.
BLOCK = 10_000


def lda_corpus(
    n_documents: int,
    topics: Array,
    *,
    concentration: float = 0.5,
    length: int = 100,
    random_state: RandomState = None,
) -> csr_array:
    """Draw documents from latent Dirichlet allocation with given topics.

    Parameters
    ----------
    n_documents : int
    topics : ndarray of shape (K, d)
        Distributions over words.
    concentration : float
        beta_0; the topics have equal shares of it.
    length : int
        Words of a document.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    csr_array of shape (n_documents, d)
        Counts, int32.
    """
    generator = check_generator(random_state)
    K, d = topics.shape
    cumulative = np.cumsum(topics, axis=1)
    cumulative /= cumulative[:, -1:]
    parts = []
    for begin in range(0, n_documents, BLOCK):
        n = min(BLOCK, n_documents - begin)
        mixtures = generator.dirichlet(np.full(K, concentration / K), size=n)
        drawn = generator.multinomial(length, mixtures)
        rows, words = [], []
        for k in range(K):
            rows.append(np.repeat(np.arange(n), drawn[:, k]))
            words.append(np.searchsorted(cumulative[k], generator.random(len(rows[-1]))))
        row, word = np.concatenate(rows), np.minimum(np.concatenate(words), d - 1)
        ones = np.ones(len(row), np.int32)
        parts.append(csr_array((ones, (row, word)), shape=(n, d)))
    return vstack(parts, format="csr")


def random_topics(
    K: int, d: int, *, sparsity: float = 0.1, random_state: RandomState = None
) -> Array:
    """Topics drawn from a symmetric Dirichlet distribution with this parameter."""
    generator = check_generator(random_state)
    drawn = generator.gamma(sparsity, size=(K, d)) + 1e-12
    topics: Array = drawn / drawn.sum(axis=1, keepdims=True)
    return topics


def spam(
    n_documents: int,
    d: int,
    *,
    kind: str = "repeated",
    length: int = 100,
    random_state: RandomState = None,
) -> csr_array:
    """Draw junk documents.

    Parameters
    ----------
    n_documents, d : int
    kind : {"repeated", "campaign", "noise"}
        "repeated": each document repeats three words of its own choice; "campaign": all draw from
        the same ten words; "noise": any word is as likely as any other.
    length : int
        Words of a document.
    random_state : int, Generator or RandomState, optional
    """
    generator = check_generator(random_state)
    if kind == "repeated":
        choices = np.stack([generator.permutation(d)[:3] for _ in range(n_documents)])
    elif kind == "campaign":
        choices = np.tile(generator.permutation(d)[:10], (n_documents, 1))
    elif kind == "noise":
        choices = np.tile(np.arange(d), (n_documents, 1))
    else:
        raise ValueError(f"kind={kind!r} is unknown; choose repeated, campaign or noise")
    which = generator.random((n_documents, length)) * choices.shape[1]
    words = np.take_along_axis(choices, which.astype(np.int64), axis=1)
    rows = np.repeat(np.arange(n_documents), length)
    ones = np.ones(words.size, np.int32)
    return csr_array((ones, (rows, words.ravel())), shape=(n_documents, d))


def topic_error(found: Array, true: Array) -> float:
    """Mean L1 distance of true topics to the found ones that match them best, one to one."""
    distance = np.abs(found[:, None, :] - true[None, :, :]).sum(axis=2)
    rows, columns = linear_sum_assignment(distance)
    return float(distance[rows, columns].mean())
