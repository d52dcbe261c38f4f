"""TensorLDA: what it finds, what it withstands, and scikit-learn's manners."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, vstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from tensor_rpca.topics import MomentCPD, TensorLDA, completion_perplexity
from tensor_rpca.topics.aside import bounded_influence, bounded_length
from tensor_rpca.topics.refine import fit_dirichlet, refine_topics
from tensor_rpca.topics.synthetic import lda_corpus, random_topics, spam, topic_error

TOPICS = random_topics(4, 120, random_state=0)
X = lda_corpus(3000, TOPICS, random_state=1)


@parametrize_with_checks([TensorLDA(), TensorLDA(2, refine=0)])
def test_scikit_learns_checks(estimator, check):
    with warnings.catch_warnings():
        # The checks' data are a few rows of fractions.
        warnings.filterwarnings("ignore", message=".*(no whole numbers|overlap|words or more)")
        check(estimator)


def test_known_topics_are_found():
    model = TensorLDA(4, concentration=0.5, random_state=0).fit(X)
    assert topic_error(model.components_, TOPICS) < 0.08
    assert topic_error(model.moment_components_, TOPICS) < 0.08
    assert model.components_.sum(axis=1) == pytest.approx(np.ones(4))
    assert model.moment_shares_.sum() == pytest.approx(1.0, abs=0.1)
    assert model.kruskal_.holds
    assert model.set_aside_.size == 0


def test_the_error_of_moments_falls_as_the_root_of_the_documents():
    errors = []
    for n in (1000, 16_000):
        found = TensorLDA(4, concentration=0.5, refine=0, random_state=0).fit(
            lda_corpus(n, TOPICS, random_state=2)
        )
        errors.append(topic_error(found.moment_components_, TOPICS))
    assert 3 < errors[0] / errors[1] < 5.5


@pytest.mark.parametrize("kind", ["repeated", "campaign"])
def test_junk_does_not_bend_topics(kind):
    junk = spam(150, 120, kind=kind, random_state=3)
    Z = vstack([X, junk], format="csr")
    clean = TensorLDA(4, concentration=0.5, refine=0, random_state=0).fit(X)
    ours = TensorLDA(4, concentration=0.5, refine=0, random_state=0).fit(Z)
    assert topic_error(ours.moment_components_, TOPICS) < 1.5 * topic_error(
        clean.moment_components_, TOPICS
    )
    assert not np.any(ours.set_aside_ < 3000)


def test_a_campaign_takes_a_topic_of_the_rival_and_none_of_ours():
    topics = random_topics(5, 500, random_state=0)
    junk = spam(100, 500, kind="campaign", random_state=3)
    Z = vstack([lda_corpus(2000, topics, random_state=1), junk], format="csr")
    ours = TensorLDA(5, concentration=0.5, refine=0, random_state=0).fit(Z)
    theirs = MomentCPD(5, concentration=0.5, random_state=0).fit(Z)
    error = topic_error(ours.moment_components_, topics)
    assert topic_error(theirs.moment_components_, topics) > 2 * error


def test_set_aside_are_the_documents_that_repeat_themselves():
    topics = random_topics(4, 500, random_state=0)
    words = np.zeros((4, 500), dtype=np.int64)
    words[:, 7] = 5000
    words[:, 9] = 100
    Z = vstack([lda_corpus(2000, topics, random_state=1), csr_array(words)], format="csr")
    model = TensorLDA(4, random_state=0).fit(Z)
    assert model.set_aside_.tolist() == [2000, 2001, 2002, 2003]
    assert topic_error(model.components_, topics) < 0.1
    followed = TensorLDA(4, robust=False, random_state=0).fit(Z)
    assert followed.set_aside_.size == 0
    assert followed.components_[:, 7].max() > 0.5


def test_influence_of_ordinary_documents_is_whole():
    assert np.mean(bounded_influence(X) == 1) > 0.99
    assert np.all(bounded_length(X) == 1)


def test_rival_finds_topics_without_junk():
    for method in ("power", "als"):
        model = MomentCPD(4, concentration=0.5, method=method, random_state=0).fit(X)
        assert topic_error(model.moment_components_, TOPICS) < 0.08
    with pytest.raises(ValueError, match="method"):
        MomentCPD(4, method="svd").fit(X)


def test_pieces_give_what_one_pass_gives():
    whole = TensorLDA(4, random_state=0).fit(X)
    pieces = TensorLDA(4, random_state=0)
    for part in (X[:500], X[500:501], X[501:]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pieces.partial_fit(part)
    assert np.array_equal(pieces.components_, whole.components_)
    assert np.array_equal(pieces.doc_topic_prior_, whole.doc_topic_prior_)


def test_pieces_survive_pickling_and_are_forgotten_by_fit():
    model = TensorLDA(4, random_state=0).partial_fit(X[:1500])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[1500:])
    assert np.array_equal(again.components_, TensorLDA(4, random_state=0).fit(X).components_)
    assert np.array_equal(
        model.fit(X[:800]).partial_fit(X[:900]).components_,
        TensorLDA(4, random_state=0).fit(X[:900]).components_,
    )


def test_same_seed_same_bits_and_any_container():
    reference = TensorLDA(4, random_state=3).fit(X)
    for other in (csr_matrix(X), X.toarray(), X.astype(np.float32), X.tocsc()):
        found = TensorLDA(4, random_state=3).fit(other)
        assert np.array_equal(found.components_, reference.components_)
    assert not np.array_equal(
        TensorLDA(4, random_state=4).fit(X).components_, reference.components_
    )


def test_input_is_left_alone():
    before = X.copy()
    TensorLDA(4, random_state=0).fit(X)
    assert (before != X).nnz == 0


def test_in_a_pipeline_after_count_vectorizer():
    texts = ["sun moon star sun", "moon star sun moon", "gin rum tea rum", "tea gin rum tea"] * 5
    pipeline = make_pipeline(CountVectorizer(), TensorLDA(2, random_state=0))
    mixtures = pipeline.fit_transform(texts)
    assert mixtures.shape == (20, 2)
    assert mixtures.sum(axis=1) == pytest.approx(np.ones(20))
    assert len({*mixtures.argmax(axis=1)[:2]}) == 1
    assert pipeline.get_feature_names_out().tolist() == ["tensorlda0", "tensorlda1"]


def test_refinement_raises_the_likelihood_and_predicts_better():
    test = lda_corpus(500, TOPICS, random_state=9)
    few = lda_corpus(300, TOPICS, random_state=1)
    raw, refined = (TensorLDA(4, refine=n, random_state=0).fit(few) for n in (0, 100))
    assert refined.score(few) > raw.score(few)
    assert refined.perplexity(test) < raw.perplexity(test)
    assert completion_perplexity(refined.transform, refined.components_, test) < (
        completion_perplexity(raw.transform, raw.components_, test)
    )


def test_one_pass_of_refinement_is_expectation_maximisation():
    generator = np.random.default_rng(0)
    counts = generator.poisson(1.0, size=(6, 8))
    topics = random_topics(3, 8, sparsity=1.0, random_state=1)
    prior, weights = np.array([0.2, 0.5, 1.0]), np.array([1.0, 1, 0, 1, 0.5, 1])
    expected = np.full((8, 3), 0.3)
    for row, weight in zip(counts, weights, strict=True):
        p = prior[:, None] * topics
        expected += weight * (row * p / p.sum(axis=0)).T
    expected /= expected.sum(axis=0)
    found, _ = refine_topics(
        csr_array(counts), topics, prior, passes=1, smoothing=0.3, weights=weights
    )
    # The largest prior comes first.
    assert found == pytest.approx(expected.T[::-1], rel=1e-5)


def test_the_prior_of_whole_counts_is_minkas():
    generator = np.random.default_rng(0)
    true = np.array([0.3, 0.6, 1.2])
    counts = np.stack([generator.multinomial(200, p) for p in generator.dirichlet(true, 4000)])
    found = np.ones(3)
    for _ in range(200):
        found = fit_dirichlet(counts.astype(float), found)
    assert found == pytest.approx(true, rel=0.15)


def test_an_empty_document_has_the_priors_mean():
    model = TensorLDA(4, random_state=0).fit(X)
    empty = model.transform(csr_array((1, 120), dtype=np.int32))
    assert empty[0] == pytest.approx(model.doc_topic_prior_ / model.doc_topic_prior_.sum())


def test_short_documents_are_counted():
    short = csr_array(np.eye(120, dtype=np.int32)[:7])
    model = TensorLDA(4, random_state=0).fit(vstack([X, short, short[:1] * 0], format="csr"))
    assert model.n_too_short_ == 8


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 2.5}, TypeError, "n_components must be a whole number"),
        ({"concentration": 0}, ValueError, "concentration must be positive"),
        ({"concentration": float("nan")}, ValueError, "concentration must be positive"),
        ({"smoothing": -1}, ValueError, "smoothing must be positive"),
        ({"smoothing": "much"}, TypeError, "smoothing must be a real number"),
        ({"refine": -1}, ValueError, "refine must be at least 0"),
        ({"oversampling": 0}, ValueError, "oversampling must be at least 1"),
        ({"random_state": "dice"}, TypeError, "random_state"),
    ],
)
def test_bad_parameters(parameters, kind, message):
    with pytest.raises(kind, match=message):
        TensorLDA(**({"n_components": 2} | parameters)).fit(X)


def test_bad_counts():
    with pytest.raises(ValueError, match="Negative values"):
        TensorLDA(2).fit(csr_array(np.array([[1, -1, 3]] * 5)))
    with pytest.raises(ValueError, match="NaN"):
        TensorLDA(2).fit(np.array([[1, np.nan, 3]] * 5))
    with pytest.raises(ValueError, match=r"0 feature|minimum of 1"):
        TensorLDA(2).fit(csr_array((5, 0), dtype=np.int32))
    with pytest.raises(ValueError, match="no word"):
        TensorLDA(2).fit(csr_array((5, 4), dtype=np.int32))
    with pytest.raises(ValueError, match="features"):
        TensorLDA(4, random_state=0).fit(X).transform(X[:, :50])


def test_warnings_are_counted():
    with pytest.warns(UserWarning, match="no whole numbers"):
        TensorLDA(2, random_state=0).fit(X.astype(float) * 1.5)
    with pytest.warns(UserWarning, match="3 of 3 documents"):
        TensorLDA(4, random_state=0).fit(X[:3])
    with pytest.warns(UserWarning, match="vocabulary of 3 words"):
        TensorLDA(5, random_state=0).fit(X[:, np.argsort(-X.sum(axis=0))[:3]])
