"""TensorLDA beside variational Bayes and the orthogonal tensor method."""

import ctypes
import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import vstack
from sklearn.decomposition import LatentDirichletAllocation

from benchmarks.memory import peak, reset_peak
from benchmarks.timing import table
from tensor_rpca.experiments.newsgroups import evaluate, load_newsgroups, variational_bayes
from tensor_rpca.topics import MomentCPD, TensorLDA
from tensor_rpca.topics.synthetic import lda_corpus, random_topics, spam, topic_error

DATA = Path(
    os.environ.get("TENSOR_RPCA_DATA", Path(__file__).parents[1] / ".." / "shared" / "data")
)


def run(quick: bool) -> str:
    return (
        "## Topics\n\n"
        f"{_newsgroups(quick)}\n"
        "Documents with known topics (500 words, 100 words a document, three draws): mean L1 error "
        "of the topics (2 is the most). Both columns of moments know the concentration, 0.5. Junk "
        "is one document in twenty: `repeated` ones repeat three words each, `campaign` ones draw "
        "from the same ten words, `noise` ones from all words alike.\n\n"
        f"{_synthetic(quick)}\n"
        "Memory and time at K = 50, on 100,000 words and documents of 100 words, with ten passes "
        "of refinement. Memory is what `fit` adds to the process at its peak, beside the bound: "
        "half the sparse matrix and d x K' numbers.\n\n"
        f"{_scale(quick)}"
    )


def _newsgroups(quick: bool) -> str:
    folder = DATA / "newsgroups"
    if not folder.is_dir():
        return "20 Newsgroups are not here; TENSOR_RPCA_DATA names their folder.\n"
    TensorLDA(2).fit(lda_corpus(100, random_topics(2, 20, random_state=0), random_state=0))
    rows = []
    for words in (1000,) if quick else (1000, 20_000):
        data = load_newsgroups(folder, n_words=words)
        for k in (5,) if quick else (5, 10, 20, 50):
            found = [evaluate(name, model, data) for name, model in _methods(k).items()]
            theirs = found[0]
            rows += [
                [
                    f"{words:,}",
                    str(k),
                    row.method,
                    f"{row.completion:.0f}",
                    f"{row.completion / theirs.completion:.3f}",
                    f"{row.coherence:.3f}",
                    f"{row.cpu:.2f}",
                    f"{row.cpu / theirs.cpu:.4f}",
                ]
                for row in found
            ]
    header = ["words", "K", "method", "perplexity", "of VB's", "coherence"]
    header += ["CPU seconds", "of VB's"]
    return (
        "20 Newsgroups, fitted to the training and scored on the test documents: perplexity by "
        "document completion, NPMI coherence, CPU time of the fit. VB is scikit-learn's, online, "
        "with the paper's parameters; VB, default is what it does unasked, in batch.\n\n"
        + table(header, rows)
    )


def _methods(k: int) -> dict[str, Any]:
    return {
        "VB": variational_bayes(k, 0),
        "VB, default": LatentDirichletAllocation(k, random_state=0),
        "moments alone": TensorLDA(k, refine=0, random_state=0),
        "TensorLDA": TensorLDA(k, random_state=0),
    }


def _synthetic(quick: bool) -> str:
    rows = []
    for k in (5,):
        for kind in ("none", "repeated", "campaign", "noise"):
            for n in (2000,) if quick else (2000, 8000):
                errors = np.mean([_errors(k, kind, n, seed) for seed in range(3)], axis=0)
                rows.append([str(k), kind, f"{n:,}", *(f"{e:.3f}" for e in errors)])
    return table(["K", "junk", "documents", "MomentCPD", "moments alone", "TensorLDA"], rows)


def _errors(k: int, kind: str, n: int, seed: int) -> list[float]:
    topics = random_topics(k, 500, random_state=seed)
    X = lda_corpus(n, topics, random_state=seed + 10)
    if kind != "none":
        junk = spam(n // 20, 500, kind=kind, random_state=seed + 20)
        X = vstack([X, junk], format="csr")
    rival = MomentCPD(k, concentration=0.5, random_state=0).fit(X)
    ours = TensorLDA(k, concentration=0.5, random_state=0).fit(X)
    found = (rival.moment_components_, ours.moment_components_, ours.components_)
    return [topic_error(f, topics) for f in found]


def _scale(quick: bool) -> str:
    rows = []
    for n in (10_000,) if quick else (75_000, 150_000, 300_000):
        # A process of its own: what an earlier one freed would hide what this one needs.
        code = f"from benchmarks.topics import measure; measure({n})"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        nonzeros, matrix, bound, added, seconds = map(float, done.stdout.split())
        rows.append(
            [
                f"{n:,}",
                f"{nonzeros / 1e6:.1f}",
                f"{matrix / 2**20:.0f}",
                f"{bound / 2**20:.0f}",
                f"{added / 2**20:.0f}",
                f"{seconds:.1f}",
                f"{1e6 * seconds / nonzeros:.2f}",
            ]
        )
    header = [
        "documents",
        "million non-zeros",
        "matrix MiB",
        "bound MiB",
        "added MiB",
        "CPU seconds",
    ]
    return table([*header, "microseconds a non-zero"], rows)


def measure(n: int, d: int = 100_000, k: int = 50) -> None:
    """Print non-zeros, bytes of the matrix, the bound, bytes added at the peak, and CPU seconds."""
    model = TensorLDA(k, refine=10, random_state=0)
    TensorLDA(2).fit(lda_corpus(100, random_topics(2, 20, random_state=0), random_state=0))
    X = lda_corpus(n, random_topics(k, d, sparsity=0.01, random_state=0), random_state=1)
    gc.collect()
    # What drawing the corpus freed would hide what the fit needs.
    ctypes.CDLL(None).malloc_trim(0)
    reset_peak()
    before = peak()
    began = time.process_time()
    model.fit(X)
    seconds = time.process_time() - began
    added = (peak() - before) * 2**20
    matrix = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    bound = matrix / 2 + 8 * d * model.n_reduced_
    print(X.nnz, matrix, bound, added, seconds)
