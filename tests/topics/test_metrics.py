"""Metrics against gensim, closed forms and brute force."""

import numpy as np
import pytest
from gensim.corpora import Dictionary
from gensim.models.coherencemodel import CoherenceModel
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln
from sklearn.decomposition import LatentDirichletAllocation

from tensor_rpca.topics import completion_perplexity, topic_coherence, topic_diversity
from tensor_rpca.topics.kernels import _digamma, infer_mixtures
from tensor_rpca.topics.metrics import bound_perplexity, likelihood_bound, split_words
from tensor_rpca.topics.synthetic import lda_corpus, random_topics

WORDS = ["sun", "moon", "star", "gin", "rum", "tea"]


@pytest.mark.parametrize("window", [3, 8, 50])
def test_coherence_is_gensims(window):
    generator = np.random.default_rng(0)
    # No word twice in a text: gensim forgets a word when the first of two leaves the window.
    pool = [*WORDS, *(f"filler{i}" for i in range(9))]
    texts = [generator.permutation(pool)[:n].tolist() for n in (4, 9, 12, 15) * 20]
    topics = np.array([[0.3, 0.3, 0.2, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.2, 0.3, 0.3]])
    dictionary = Dictionary(texts)
    top = [[WORDS[w] for w in np.argsort(-t, kind="stable")[:4]] for t in topics]
    reference = CoherenceModel(
        topics=top,
        texts=texts,
        dictionary=dictionary,
        coherence="c_npmi",
        window_size=window,
        topn=4,
        processes=1,
    ).get_coherence_per_topic()
    ours = topic_coherence(topics, texts, WORDS, n=4, window=window)
    assert ours == pytest.approx(reference, abs=1e-6)


def test_words_that_never_meet_or_never_occur_count_minus_one():
    texts = [["sun", "moon"], ["gin", "rum"]]
    topics = np.array([[4, 0, 0, 3, 0, 0], [0, 0, 4, 0, 0, 3], [4, 3, 0, 0, 0, 0]])
    found = topic_coherence(topics, texts, WORDS, n=2)
    assert found.tolist() == [-1, -1, 1]
    counts = csr_array([[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0]])
    assert topic_coherence(topics, counts, n=2).tolist() == [-1, -1, 1]


def test_coherence_refuses_what_it_cannot_score():
    topics = np.full((2, 6), 1 / 6)
    with pytest.raises(TypeError, match="lists of words"):
        topic_coherence(topics, ["sun moon"], WORDS)
    with pytest.raises(ValueError, match="vocabulary"):
        topic_coherence(topics, [["sun"]], WORDS[:3])
    with pytest.raises(ValueError, match="pairs"):
        topic_coherence(topics, [["sun"]], WORDS, n=1)
    with pytest.raises(ValueError, match="window"):
        topic_coherence(topics, [["sun"]], WORDS, window=1)
    with pytest.raises(ValueError, match="shape"):
        topic_coherence(topics[0], [["sun"]], WORDS)


def test_diversity():
    assert topic_diversity(np.eye(3), 1) == 1.0
    assert topic_diversity(np.ones((4, 5)), 2) == 0.25


def test_digamma():
    for x in (1e-3, 0.1, 1.0, 5.9, 6.1, 1e4):
        assert _digamma(x) == pytest.approx(digamma(x), abs=1e-9, rel=1e-9)


def test_the_bound_is_scikit_learns_without_its_prior_of_topics():
    topics = random_topics(3, 12, sparsity=0.5, random_state=0)
    X = lda_corpus(60, topics, length=30, random_state=1)
    model = LatentDirichletAllocation(
        3, doc_topic_prior=0.4, max_doc_update_iter=5000, mean_change_tol=1e-10, random_state=0
    ).fit(X)
    # With enormous counts its distribution over topics is a point, and that part vanishes.
    model.components_ = 1e9 * topics
    model.exp_dirichlet_component_ = topics.copy()
    gamma = infer_mixtures(X, topics, np.full(3, 0.4), variational=True, tol=1e-10, max_iter=5000)
    theirs = model._unnormalized_transform(X.astype(np.float64))
    assert gamma == pytest.approx(theirs, rel=0.05, abs=0.05)
    bound = likelihood_bound(X, topics, np.full(3, 0.4))
    own = digamma(gamma) - digamma(gamma.sum(axis=1, keepdims=True))
    words = (X.toarray() * np.log(np.exp(own) @ topics)).sum()
    rest = ((0.4 - gamma) * own + gammaln(gamma) - gammaln(0.4)).sum()
    rest += (gammaln(1.2) - gammaln(gamma.sum(axis=1))).sum()
    assert bound == pytest.approx(words + rest, rel=1e-5)


def test_the_bound_is_below_the_likelihood():
    topics = random_topics(2, 6, sparsity=0.5, random_state=0)
    X = lda_corpus(5, topics, length=8, random_state=1)
    prior = np.array([0.5, 0.8])
    theta = np.random.default_rng(0).dirichlet(prior, size=400_000)
    exact = sum(np.log(np.exp(np.log(theta @ topics + 1e-300) @ row).mean()) for row in X.toarray())
    bound = likelihood_bound(X, topics, prior)
    assert exact - 5 < bound < exact + 0.02


def test_one_topic_is_a_unigram_model():
    topic = random_topics(1, 7, random_state=0)
    X = lda_corpus(20, topic, random_state=1)
    log_likelihood = (X.toarray() * np.log(topic)).sum()
    expected = np.exp(-log_likelihood / X.sum())
    assert bound_perplexity(X, topic, np.ones(1)) == pytest.approx(expected)


def test_halves_add_up_and_leave_their_input_alone():
    X = lda_corpus(30, random_topics(2, 9, random_state=0), random_state=1)
    before = X.toarray()
    first, second = split_words(X, 0)
    assert np.array_equal((first + second).toarray(), before)
    assert np.array_equal(X.toarray(), before)
    assert 0.4 < first.sum() / X.sum() < 0.6


def test_completion_of_known_mixtures():
    topics = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    X = csr_array(np.array([[40, 40, 0], [0, 40, 40]]))
    mixtures = np.eye(2)
    assert completion_perplexity(lambda seen: mixtures, topics, X) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="no document has words"):
        completion_perplexity(lambda seen: mixtures, topics, csr_array((2, 3), dtype=int))
