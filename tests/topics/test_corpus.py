"""Reading documents: what is read, what is counted, what is refused."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse

from tensor_rpca.files import FileError
from tensor_rpca.topics.corpus import count_words, read_corpus

TEXTS = ["the sun and the moon", "moon, star", "gin or rum", "rum and tea", "tea with gin"]


def test_a_folder_is_read_to_the_bottom(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "b.txt").write_text(TEXTS[0])
    (tmp_path / "deep" / "er" / "a.txt").write_text(TEXTS[1])
    (tmp_path / "c.md").write_text("not this")
    corpus = read_corpus(tmp_path)
    assert corpus.names == ["b.txt", "deep/er/a.txt"]
    assert corpus.vocabulary.tolist() == ["star", "sun"]  # moon is in all documents
    assert corpus.counts.toarray().tolist() == [[0, 1], [1, 0]]
    assert corpus.problems == []


def test_encodings(tmp_path):
    (tmp_path / "a.txt").write_bytes("Käse Brot".encode("cp1252"))
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbf" + "Käse Wein".encode())
    (tmp_path / "c.txt").write_text("Tee")
    corpus = read_corpus(tmp_path)
    assert corpus.vocabulary.tolist() == ["brot", "käse", "tee", "wein"]
    assert corpus.problems == ["a.txt: not UTF-8, read as Windows-1252"]


def test_lines(tmp_path):
    lines = [json.dumps({"id": i, "body": text}) for i, text in enumerate(TEXTS)]
    lines += ["", "{broken", json.dumps({"text": "elsewhere"}), json.dumps({"body": 7}), "[1]"]
    file = tmp_path / "corpus.jsonl.gz"
    with gzip.open(file, "wt") as stream:
        stream.write("\n".join(lines))
    corpus = read_corpus(file, text_field="body")
    assert corpus.texts == TEXTS
    assert corpus.names == ["0", "1", "2", "3", "4"]
    assert [p.split(":")[0] for p in corpus.problems] == ["line 7", "line 8", "9", "line 10"] or [
        p.split(":")[0] for p in corpus.problems
    ] == ["line 7", "line 8", "line 9", "line 10"]


def test_columns(tmp_path):
    file = tmp_path / "corpus.csv"
    file.write_text('id,text\nx,"sun\nand moon"\n,gin\nz,\n')
    corpus = read_corpus(file)
    assert corpus.names == ["x", "row 2", "z"]
    assert corpus.texts == ["sun\nand moon", "gin", ""]
    with pytest.raises(FileError, match="no column 'body'; it has id, text"):
        read_corpus(file, text_field="body")
    long = tmp_path / "long.csv"
    long.write_text(f"text\n{'word ' * 100_000}\nother\n")
    assert len(read_corpus(long).texts[0]) == 500_000


def test_matrices(tmp_path):
    counts = scipy.sparse.csr_array(np.array([[1, 2], [0, 3]]))
    scipy.sparse.save_npz(tmp_path / "plain.npz", counts)
    corpus = read_corpus(tmp_path / "plain.npz")
    assert corpus.vocabulary.tolist() == ["word 0", "word 1"]
    assert np.array_equal(corpus.counts.toarray(), counts.toarray())
    with np.load(tmp_path / "plain.npz") as archive:
        parts = dict(archive)
    np.savez(tmp_path / "named.npz", **parts, vocabulary=np.array(["sun", "moon"]))
    assert read_corpus(tmp_path / "named.npz").vocabulary.tolist() == ["sun", "moon"]
    np.savez(tmp_path / "short.npz", **parts, vocabulary=np.array(["sun"]))
    with pytest.raises(FileError, match="must name each column"):
        read_corpus(tmp_path / "short.npz")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, "does not exist"),
        ("notes.docx", b"PK", "is no corpus"),
        ("damaged.npz", b"PK\x03\x04 and nothing", "truncated"),
        ("damaged.jsonl.gz", b"\x1f\x8b and nothing", "truncated"),
        ("empty.jsonl", b"", "no document"),
        ("wrong.jsonl", b'{"body": "sun"}\n', "--field names another"),
    ],
)
def test_refusals(tmp_path, name, content, message):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_corpus(file)


def test_a_pickled_vocabulary_is_refused(tmp_path):
    parts = {"vocabulary": np.array(["sun", "moon"], dtype=object)}
    counts = scipy.sparse.csr_array(np.eye(2))
    scipy.sparse.save_npz(tmp_path / "a.npz", counts)
    with np.load(tmp_path / "a.npz") as archive:
        np.savez(tmp_path / "b.npz", **dict(archive), **parts)
    with pytest.raises(FileError, match="pickle"):
        read_corpus(tmp_path / "b.npz")


def test_an_empty_folder_and_empty_texts(tmp_path):
    with pytest.raises(FileError, match="no document"):
        read_corpus(tmp_path)
    (tmp_path / "a.txt").write_text("the and of")
    with pytest.raises(ValueError, match="no word is left"):
        read_corpus(tmp_path)


def test_vocabulary_is_bounded():
    counts, vocabulary = count_words(TEXTS, most_words=2)
    assert vocabulary.tolist() == ["gin", "moon"]
    assert counts.shape == (5, 2)
    assert "the" in count_words(TEXTS, stop_words=False)[1]
