"""``tensor-rpca topics``: documents in, their topics and a page about them out."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensor_rpca.commands.common import Force, Json, Out, Quiet, Seed, prepare_folder

if TYPE_CHECKING:
    from tensor_rpca.topics.corpus import Corpus
    from tensor_rpca.topics.lda import TensorLDA

TOP = 12
BEST = 5
# One document in so many is held out to score the topics, if that leaves this many.
HELD_OUT = 10
FEWEST_HELD_OUT = 5


def topics_command(
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS", help="A folder of .txt files, a .jsonl, .csv or .npz file."
        ),
    ],
    n_topics: Annotated[int, typer.Option("-k", "--topics", help="Number of topics.")] = 20,
    out: Out = None,
    text_field: Annotated[str, typer.Option("--field", help="Of .jsonl and .csv.")] = "text",
    words: Annotated[int, typer.Option(help="Size of the vocabulary, at most.")] = 20_000,
    stop_words: Annotated[bool, typer.Option(help="Leave out English stop words.")] = True,
    refine: Annotated[
        int | None, typer.Option(help="Passes of refinement; 0 for the moments alone.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Find the topics of documents; leave topics.json, doc_topics.npz and report.html."""
    import numpy as np

    from tensor_rpca.files import refuse_absent, written_whole
    from tensor_rpca.topics.corpus import read_corpus
    from tensor_rpca.topics.lda import PASSES, TensorLDA
    from tensor_rpca.topics.report import write_report

    began = time.perf_counter()
    refuse_absent(corpus)
    folder = out or Path(f"{corpus.name.split('.')[0]}-topics")
    for name, value, least in (("--topics", n_topics, 1), ("--words", words, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    files = prepare_folder(folder, ["topics.json", "doc_topics.npz", "report.html"], force)
    read = read_corpus(corpus, text_field=text_field, most_words=words, stop_words=stop_words)
    model = TensorLDA(
        n_topics,
        refine=PASSES if refine is None else refine,
        random_state=seed,
        progress=not quiet,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        held_out = _fit(model, read, seed)
        mixtures = model.transform(read.counts)
    read.problems += [str(w.message) for w in caught]
    summary = _summarise(corpus, read, model, mixtures, held_out)
    summary["seconds"] = time.perf_counter() - began
    with written_whole(files[0]) as temporary:
        temporary.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    with written_whole(files[1]) as temporary, open(temporary, "wb") as stream:
        np.savez_compressed(stream, mixtures=mixtures, names=np.array(read.names))
    write_report(files[2], summary, _best(read, mixtures, model.set_aside_))
    if as_json:
        print(json.dumps(summary, indent=1))
    elif not quiet:
        _print(summary, folder)


def _fit(model: TensorLDA, read: Corpus, seed: int) -> Any:
    """Fit to all documents but one in ten; return which were held out."""
    import numpy as np

    n = read.counts.shape[0]
    held_out = np.sort(np.random.default_rng(seed).permutation(n)[: n // HELD_OUT])
    if len(held_out) < FEWEST_HELD_OUT:
        held_out = held_out[:0]
    kept = np.setdiff1d(np.arange(n), held_out)
    model.fit(read.counts[kept])
    model.set_aside_ = kept[model.set_aside_]
    return held_out


def _summarise(
    source: Path, read: Corpus, model: TensorLDA, mixtures: Any, held_out: Any
) -> dict[str, Any]:
    """Everything that topics.json holds."""
    import numpy as np

    from tensor_rpca.topics.metrics import (
        completion_perplexity,
        top_words,
        topic_coherence,
        topic_diversity,
    )
    from tensor_rpca.topics.report import map_of_topics

    topics = model.components_
    lengths = np.asarray(read.counts.sum(axis=1), dtype=np.float64).ravel()
    sizes = lengths @ mixtures / max(1.0, float(lengths.sum()))
    scores: dict[str, Any] = {"documents": len(held_out)}
    coherence: list[float] | None = None
    unseen = read.counts[held_out]
    if len(held_out) and unseen.sum() > 1:
        if read.texts is None:
            coherence = topic_coherence(topics, unseen).tolist()
        else:
            documents = _split(read.texts[i] for i in held_out.tolist())
            coherence = topic_coherence(topics, documents, read.vocabulary).tolist()
        scores |= {
            "completion_perplexity": completion_perplexity(model.transform, topics, unseen),
            "coherence": float(np.mean(coherence)),
        }
    else:
        scores["documents"] = 0
    condition = model.kruskal_
    return {
        "corpus": source.name,
        "documents": len(read.names),
        "vocabulary": len(read.vocabulary),
        "topics": [
            {
                "size": float(sizes[k]),
                "prior": float(model.doc_topic_prior_[k]),
                "coherence": None if coherence is None else coherence[k],
                "words": [
                    {"word": str(read.vocabulary[w]), "probability": float(topics[k, w])}
                    for w in top.tolist()
                ],
            }
            for k, top in enumerate(top_words(topics, TOP))
        ],
        "map": map_of_topics(topics).tolist(),
        "held_out": scores,
        "diversity": topic_diversity(topics),
        "unique": condition.holds,
        "k_rank": condition.k_rank,
        "sparse_errors": model.n_sparse_errors_,
        "reduced": model.n_reduced_,
        "set_aside": [_describe(read, i, int(lengths[i])) for i in model.set_aside_.tolist()],
        "too_short": int(np.count_nonzero(lengths < 3)),
        "problems": read.problems,
    }


def _split(texts: Any) -> list[list[str]]:
    from sklearn.feature_extraction.text import CountVectorizer

    analyze = CountVectorizer().build_analyzer()
    return [analyze(text) for text in texts]


def _describe(read: Corpus, i: int, length: int) -> dict[str, Any]:
    import numpy as np

    row = read.counts[[i]]
    most = np.argsort(-row.data, kind="stable")[:5]
    words = [str(read.vocabulary[j]) for j in row.indices[most].tolist()]
    return {"name": read.names[i], "length": length, "words": words}


def _best(read: Corpus, mixtures: Any, aside: Any) -> list[list[dict[str, Any]]]:
    """For each topic the documents with most words of it, beyond a handful of words."""
    import numpy as np

    from tensor_rpca.topics.report import SNIPPET

    lengths = np.asarray(read.counts.sum(axis=1)).ravel()
    trust = lengths / (lengths + 20.0)  # a short document is all of one topic by chance
    trust[aside] = -1.0
    found = []
    for k in range(mixtures.shape[1]):
        order = np.argsort(-mixtures[:, k] * trust, kind="stable")[:BEST].tolist()
        found.append(
            [
                {
                    "name": read.names[i],
                    "share": float(mixtures[i, k]),
                    "text": _snippet(read, i, SNIPPET),
                }
                for i in order
            ]
        )
    return found


def _snippet(read: Corpus, i: int, length: int) -> str:
    if read.texts is None:
        return ", ".join(_describe(read, i, 0)["words"])
    text = " ".join(read.texts[i].split())
    return text if len(text) <= length else text[: length - 1] + "…"


def _print(summary: dict[str, Any], folder: Path) -> None:
    """Print the topics for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "size", "words", box=None, padding=(0, 2, 0, 0))
    for k, topic in enumerate(summary["topics"], 1):
        words = " ".join(w["word"] for w in topic["words"][:10])
        table.add_row(str(k), f"{100 * topic['size']:.1f} %", Text(words))
    console = Console()
    console.print(table)
    scores = summary["held_out"]
    if scores["documents"]:
        console.print(
            f"held out: perplexity {scores['completion_perplexity']:,.0f}, "
            f"coherence {scores['coherence']:.3f} on {scores['documents']:,} documents"
        )
    console.print(
        f"set aside: {len(summary['set_aside']):,} documents that repeat themselves; "
        f"{summary['too_short']:,} have fewer than three words; "
        f"{len(summary['problems']):,} other remarks"
    )
    console.print(Text(f"written: {folder}/topics.json, doc_topics.npz, report.html"))
