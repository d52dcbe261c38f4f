"""Documents from folders, .jsonl, .csv and document-term matrices; the unreadable is counted."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from tensor_rpca.files import FileError, refuse_absent, unreadable

Array = NDArray[Any]

MOST_WORDS = 20_000
# Words in more than this share of the documents say nothing of topics.
MOST_DOCUMENTS = 0.95
# A word must occur in so many documents, or one in a hundred if that is fewer.
FEWEST_DOCUMENTS = 5
# In Python, a CSV field may hold 131,072 characters unless told otherwise.
LONGEST_FIELD = 2**30


@dataclass
class Corpus:
    """Counts of words, and where they came from.

    Attributes
    ----------
    counts : csr_array of shape (n, d)
    vocabulary : ndarray of str of shape (d,)
    names : list of str
        Of the documents.
    texts : list of str or None
        None if the corpus came as counts.
    problems : list of str
        What could not be read, or not as it was meant; one line each.
    """

    counts: csr_array
    vocabulary: Array
    names: list[str]
    texts: list[str] | None
    problems: list[str] = field(default_factory=list)


@dataclass
class Texts:
    """Texts before they are counted."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, text: Any) -> None:
        """Take a document, or note that it is none."""
        if isinstance(text, str):
            self.names.append(name)
            self.texts.append(text)
        else:
            self.problems.append(f"{name}: the text is {type(text).__name__}, not a string")


def read_corpus(
    path: str | Path,
    *,
    text_field: str = "text",
    most_words: int = MOST_WORDS,
    stop_words: bool = True,
) -> Corpus:
    """Read documents and count their words.

    Parameters
    ----------
    path : path
        A folder of .txt files (looked through to the bottom), a .jsonl file (or .jsonl.gz), a .csv
        file with a header, or a document-term matrix in an .npz file of ``scipy.sparse.save_npz``,
        to which an array ``vocabulary`` may have been added.
    text_field : str
        Where .jsonl and .csv files keep the text.
    most_words : int
        Size of the vocabulary: the most frequent words.
    stop_words : bool
        Leave out the University of Glasgow's English stop words.
    """
    source = Path(path)
    refuse_absent(source)
    name = source.name.lower()
    if source.is_dir():
        found = _read_folder(source)
    elif name.endswith((".jsonl", ".jsonl.gz")):
        found = _read_lines(source, text_field)
    elif name.endswith(".csv"):
        found = _read_csv(source, text_field)
    elif name.endswith(".npz"):
        return _read_matrix(source)
    else:
        raise FileError(
            f"{source}: {source.suffix or 'no suffix'!r} is no corpus; name a folder of .txt "
            "files, a .jsonl, .csv or .npz file"
        )
    if not found.texts:
        why = f" ({found.problems[0]})" if found.problems else ""
        raise FileError(f"{source} holds no document that can be read{why}")
    counts, vocabulary = count_words(found.texts, most_words=most_words, stop_words=stop_words)
    return Corpus(counts, vocabulary, found.names, found.texts, found.problems)


def count_words(
    texts: list[str], *, most_words: int = MOST_WORDS, stop_words: bool = True
) -> tuple[csr_array, Array]:
    """Counts (n, d) of the most frequent words, and the words."""
    least = min(FEWEST_DOCUMENTS, max(1, len(texts) // 100))
    vectorizer = CountVectorizer(
        max_features=most_words,
        max_df=MOST_DOCUMENTS if len(texts) > 1 else 1.0,
        min_df=least,
        stop_words="english" if stop_words else None,
        dtype=np.int32,
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise ValueError(
            f"no word is left to make topics of ({error}); the texts are empty, or made of stop "
            f"words and of words in fewer than {least} documents alone"
        ) from None
    return csr_array(counts), vectorizer.get_feature_names_out()


def _read_folder(folder: Path) -> Texts:
    found = Texts()
    for file in sorted(folder.rglob("*.txt")):
        name = str(file.relative_to(folder))
        try:
            found.add(name, _decode(file.read_bytes(), name, found.problems))
        except OSError as error:
            found.problems.append(f"{name}: {error.strerror}")
    return found


def _decode(raw: bytes, name: str, problems: list[str]) -> str:
    """UTF-8, or else Windows-1252, in which every byte means something."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        problems.append(f"{name}: not UTF-8, read as Windows-1252")
        return raw.decode("cp1252", errors="replace")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
            yield from stream
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise unreadable(path, error) from None


def _read_lines(path: Path, text_field: str) -> Texts:
    found = Texts()
    for number, line in enumerate(_lines(path), 1):
        name = f"line {number}"
        if not line.strip():
            continue
        try:
            record = json.loads(_decode(line, name, found.problems))
        except (ValueError, RecursionError) as error:
            found.problems.append(f"{name}: no JSON ({error})")
            continue
        if not isinstance(record, dict) or text_field not in record:
            found.problems.append(f"{name}: no field {text_field!r}; --field names another")
            continue
        found.add(str(record.get("id", name)), record[text_field])
    return found


def _read_csv(path: Path, text_field: str) -> Texts:
    found = Texts()
    text = _decode(path.read_bytes(), path.name, found.problems)
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        reader = csv.DictReader(text.splitlines(keepends=True))
        if text_field not in (reader.fieldnames or []):
            columns = ", ".join(map(str, reader.fieldnames or [])) or "none"
            raise FileError(
                f"{path} has no column {text_field!r}; it has {columns}: name one with --field"
            )
        for number, row in enumerate(reader, 1):
            found.add(str(row.get("id") or f"row {number}"), row[text_field])
    except csv.Error as error:
        raise unreadable(path, error) from None
    finally:
        csv.field_size_limit(before)
    return found


def _read_matrix(path: Path) -> Corpus:
    try:
        # Opened here, because np.load leaves files open that turn out to be damaged.
        with open(path, "rb") as stream:
            matrix = scipy.sparse.load_npz(stream)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                words = archive["vocabulary"] if "vocabulary" in archive.files else None
    except Exception as error:  # damaged bytes raise whatever they happen to hit
        raise unreadable(path, error) from None
    counts = csr_array(matrix)
    if words is None:
        words = np.array([f"word {j}" for j in range(counts.shape[1])])
    if words.shape != (counts.shape[1],):
        raise FileError(
            f"{path}: vocabulary has shape {words.shape} and the matrix {counts.shape[1]} columns; "
            "it must name each column"
        )
    names = [f"row {i}" for i in range(counts.shape[0])]
    return Corpus(counts, words.astype(str), names, None)
