"""Section 6.3 of the paper: five topics of 20 Newsgroups, by three methods and ours.

The 1,000 most frequent words of the 11,314 training documents, without those in more than 95 % or
in fewer than five documents and without the University of Glasgow's stop words; headers, footers
and quotes removed. Variational Bayes with alpha = beta = 0.1, kappa = 0.7, tau_0 = 50 and twenty
iterations; the moments' methods with alpha_0 = 0.01, tensor RPCA with K' = 10.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import fetch_20newsgroups
from sklearn.datasets._twenty_newsgroups import (
    strip_newsgroup_footer,
    strip_newsgroup_header,
    strip_newsgroup_quoting,
)
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer

from tensor_rpca.files import FileError, refuse_absent
from tensor_rpca.topics.cpd import MomentCPD
from tensor_rpca.topics.lda import TensorLDA
from tensor_rpca.topics.metrics import (
    bound_perplexity,
    completion_perplexity,
    top_words,
    topic_coherence,
)

Array = NDArray[Any]

K, OVERSAMPLING, ALPHA_0 = 5, 10, 0.01
PAPER = {
    "variational Bayes": (1417, 0.033, 44.71),
    "tensor CPD": (1503, 0.006, 3.46),
    "tensor RPCA": (1309, 0.007, 5.13),
}


@dataclass(frozen=True, eq=False)
class Newsgroups:
    """Counts of training and test documents, the words, and the test documents' own order."""

    train: csr_array
    test: csr_array
    vocabulary: Array
    test_words: list[list[str]]


@dataclass(frozen=True, eq=False)
class Row:
    """A method's figures on the test documents.

    ``aside`` is what it set aside in training, ``cpu`` the processor's time of the fit.
    """

    method: str
    bound: float
    completion: float
    coherence: float
    seconds: float
    topics: list[list[str]]
    aside: int = 0
    cpu: float = 0.0


def load_newsgroups(folder: Path | None, *, n_words: int = 1000) -> Newsgroups:
    """Read the texts from a folder with train.jsonl.gz and test.jsonl.gz, or fetch them."""
    train, test = (list(_texts(folder, part)) for part in ("train", "test"))
    vectorizer = CountVectorizer(max_features=n_words, max_df=0.95, min_df=5, stop_words="english")
    counts = csr_array(vectorizer.fit_transform(train))
    analyze = CountVectorizer().build_analyzer()
    return Newsgroups(
        train=counts,
        test=csr_array(vectorizer.transform(test)),
        vocabulary=vectorizer.get_feature_names_out(),
        test_words=[analyze(text) for text in test],
    )


def _texts(folder: Path | None, part: str) -> Iterator[str]:
    if folder is None:
        yield from fetch_20newsgroups(subset=part, remove=("headers", "footers", "quotes")).data
        return
    file = folder / f"{part}.jsonl.gz"
    refuse_absent(file)
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            for line in stream:
                text = strip_newsgroup_header(json.loads(line)["text"])
                yield strip_newsgroup_quoting(strip_newsgroup_footer(text))
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise FileError(
            f"{file} is damaged or not 20 Newsgroups ({type(error).__name__}: {error}); each line "
            'must be {"text": ...}'
        ) from None


def variational_bayes(n_topics: int, seed: int) -> LatentDirichletAllocation:
    """Scikit-learn's, as the paper set it."""
    return LatentDirichletAllocation(
        n_topics,
        doc_topic_prior=0.1,
        topic_word_prior=0.1,
        learning_method="online",
        learning_decay=0.7,
        learning_offset=50,
        max_iter=20,
        random_state=seed,
    )


def methods(seed: int) -> dict[str, Any]:
    """The paper's three, and what this package does by default."""
    return {
        "variational Bayes": variational_bayes(K, seed),
        "tensor CPD": MomentCPD(K, concentration=ALPHA_0, random_state=seed),
        "tensor RPCA": TensorLDA(
            K,
            concentration=ALPHA_0,
            oversampling=OVERSAMPLING,
            refine=0,
            robust=False,
            random_state=seed,
        ),
        "TensorLDA, refined": TensorLDA(K, random_state=seed),
    }


def evaluate(method: str, model: Any, data: Newsgroups) -> Row:
    """Fit a model and score it on the test documents."""
    began, worked = time.perf_counter(), time.process_time()
    model.fit(data.train)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    prior = np.broadcast_to(np.asarray(model.doc_topic_prior_, dtype=np.float64), len(topics))
    return Row(
        method=method,
        bound=bound_perplexity(data.test, topics, prior),
        completion=completion_perplexity(model.transform, topics, data.test),
        coherence=float(topic_coherence(topics, data.test_words, data.vocabulary).mean()),
        seconds=seconds,
        topics=data.vocabulary[top_words(topics, 25)].tolist(),
        aside=len(getattr(model, "set_aside_", ())),
        cpu=cpu,
    )


def run(
    folder: Path | None, seed: int, tell: Callable[[str], None] = lambda method: None
) -> list[Row]:
    """Run the four methods; ``tell`` hears of each before it starts."""
    data = load_newsgroups(folder)
    rows = []
    for method, model in methods(seed).items():
        tell(method)
        rows.append(evaluate(method, model, data))
    return rows


def to_markdown(rows: list[Row]) -> str:
    """The table beside the paper's figures, what differs, and the topics."""
    lines = [
        "| method | perplexity (bound) | completion | coherence | seconds | paper: perplexity, "
        "coherence, seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        theirs = PAPER.get(row.method)
        paper = "-" if theirs is None else f"{theirs[0]}, {theirs[1]}, {theirs[2]}"
        lines.append(
            f"| {row.method} | {row.bound:.0f} | {row.completion:.0f} | {row.coherence:.3f} | "
            f"{row.seconds:.2f} | {paper} |"
        )
    lines += ["", DIFFERENCES]
    for row in rows:
        lines += ["", f"### {row.method}", ""]
        if row.aside:
            lines += [f"{row.aside} documents were set aside.", ""]
        lines += [f"{k}. {' '.join(words)}" for k, words in enumerate(row.topics, 1)]
    return "\n".join(lines) + "\n"


DIFFERENCES = """\
What differs from the paper:

- *Perplexity.* The paper divides the log-likelihood by the size of the vocabulary; exponentials of
  that are astronomic for a whole test set, and its figures cannot be those. `bound` divides by the
  number of words, with a variational lower bound of log p(w | topics, alpha) that is the same for
  all methods. `completion` fits each test document's mixture, by the method's own inference, on a
  random half of its words and scores the other half.
- *Coherence* is NPMI over windows of 20 words of the test documents, ten words a topic, a pair that
  never meets counting -1. The paper's reference corpus is not named.
- *lambda and mu* are given without the moment's scale; ours are 10 and 0.01 typical entries.
- *Seconds* are of the whole fit; the paper's are of the decomposition, except for variational
  Bayes.
- A tensor method's topics have zeros, which no likelihood forgives: a tenth of each is the
  corpus's own distribution."""
