"""Moments against sums over all ordered choices of words, and against the model they are of."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from tensor_rpca.topics.moments import WordMoments
from tensor_rpca.topics.reduce import leading_eigenvectors, whitening
from tensor_rpca.topics.synthetic import lda_corpus, random_topics


def slow_moments(X, b, weights):
    """M1, M2 and M3 as the theorem has them, word by word."""
    d = X.shape[1]
    first, second, third, total = np.zeros(d), np.zeros((d, d)), np.zeros((d, d, d)), 0.0
    for counts, weight in zip(X, weights, strict=True):
        words = np.repeat(np.arange(d), counts)
        if len(words) < 3:
            continue
        total += weight
        first += weight * counts / len(words)
        pairs = list(itertools.permutations(words, 2))
        for i, j in pairs:
            second[i, j] += weight / len(pairs)
        triples = list(itertools.permutations(words, 3))
        for i, j, k in triples:
            third[i, j, k] += weight / len(triples)
    first, second, third = first / total, second / total, third / total
    outer = np.multiply.outer
    beside = outer(second, first)
    beside = beside + beside.transpose(0, 2, 1) + beside.transpose(2, 1, 0)
    cube = outer(outer(first, first), first)
    M2 = second - b / (b + 1) * outer(first, first)
    M3 = third - b / (b + 2) * beside + 2 * b**2 / ((b + 2) * (b + 1)) * cube
    return first, M2, M3


@pytest.mark.parametrize("weighted", [False, True])
def test_products_are_those_of_the_slow_moments(weighted):
    generator = np.random.default_rng(0)
    X = generator.poisson(0.7, size=(9, 5))
    weights = generator.random(9) if weighted else np.ones(9)
    first, M2, M3 = slow_moments(X, 0.7, weights)
    moments = WordMoments(csr_array(X), 0.7, weights)
    Q, V = generator.standard_normal((3, 5)), generator.standard_normal((5, 4))
    assert moments.first == pytest.approx(first, abs=1e-15)
    assert moments.second_times(V) == pytest.approx(M2 @ V, abs=1e-14)
    expected = np.einsum("ai,bj,ck,ijk->abc", Q, Q, Q, M3)
    assert moments.third(Q) == pytest.approx(expected, abs=1e-14)


def test_blocks_of_documents_change_nothing(monkeypatch):
    X = csr_array(np.random.default_rng(0).poisson(0.7, size=(300, 40)))
    Q = np.random.default_rng(1).standard_normal((6, 40))
    whole = WordMoments(X, 0.1).third(Q)
    monkeypatch.setattr("tensor_rpca.topics.moments.BLOCK_FLOATS", 1)
    assert WordMoments(X, 0.1).third(Q) == pytest.approx(whole, abs=1e-15)


def test_documents_under_three_words_do_not_count():
    X = np.array([[2, 0, 0], [1, 2, 1], [0, 0, 0], [1, 1, 0]])
    both, one = WordMoments(csr_array(X), 0.1), WordMoments(csr_array(X[1:2]), 0.1)
    assert (both.n_documents, both.n_too_short) == (1, 3)
    assert np.array_equal(both.third(np.eye(3)), one.third(np.eye(3)))


def test_moments_of_the_model_are_sums_over_topics():
    topics = random_topics(3, 8, sparsity=0.5, random_state=0)
    b = 0.6
    X = lda_corpus(60_000, topics, concentration=b, length=20, random_state=1)
    moments = WordMoments(X, b)
    M2 = topics.T @ topics / (3 * (b + 1))
    M3 = 2 / (3 * (b + 2) * (b + 1)) * np.einsum("ri,rj,rk->ijk", topics, topics, topics)
    assert np.abs(moments.second_times(np.eye(8)) - M2).max() < 0.03 * M2.max()
    assert np.abs(moments.third(np.eye(8)) - M3).max() < 0.03 * M3.max()


def test_eigenvectors_are_those_of_the_dense_moment():
    topics = random_topics(4, 30, random_state=0)
    moments = WordMoments(lda_corpus(3000, topics, random_state=1), 0.5)
    M2 = moments.second_times(np.eye(30))
    expected = np.linalg.eigvalsh(M2)[::-1][:4]
    values, vectors = leading_eigenvectors(moments, 4, 0)
    assert values == pytest.approx(expected, rel=1e-3)
    assert vectors.T @ vectors == pytest.approx(np.eye(4), abs=1e-12)


def test_whitening_whitens():
    topics = random_topics(4, 30, random_state=0)
    moments = WordMoments(lda_corpus(3000, topics, random_state=1), 0.5)
    W, back = whitening(moments, 4, 0)
    assert W @ moments.second_times(W.T.copy()) == pytest.approx(np.eye(4), abs=1e-6)
    assert W @ back == pytest.approx(np.eye(4), abs=1e-10)


def test_whitening_refuses_more_topics_than_the_span_has_dimensions():
    X = csr_array(np.tile([[3, 2, 1, 0, 0]], (50, 1)))
    with pytest.raises(ValueError, match="linearly independent"):
        whitening(WordMoments(X, 0.5), 4, 0)
