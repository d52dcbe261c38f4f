"""``tensor-rpca topics`` and ``tensor-rpca reproduce newsgroups``, and the pages they leave."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tensor_rpca import cli
from tensor_rpca.experiments import newsgroups
from tests.browser import opened

SKY = [f"sky{letter}" for letter in "abcdefghijkl"]
BAR = [f"bar{letter}" for letter in "abcdefghijkl"]
DATA = Path(
    os.environ.get("TENSOR_RPCA_DATA", Path(__file__).parents[2] / ".." / "shared" / "data")
)


def texts(n, seed=0):
    generator = np.random.default_rng(seed)
    pools = [SKY, BAR]
    return [" ".join(generator.choice(pools[i % 2], size=30)) for i in range(n)]


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["tensor-rpca", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.jsonl"
    junk = "<b>spam</b> " * 3000
    lines = [{"id": f"n{i}", "text": t} for i, t in enumerate([*texts(80), junk])]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\nbroken")
    return file


def test_topics_of_a_file(corpus, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    code, said, _ = run(monkeypatch, capsys, "topics", corpus, "-k", 2, "-o", out)
    assert code == 0
    assert "held out: perplexity" in said
    summary = json.loads((out / "topics.json").read_text())
    found = [{w["word"] for w in t["words"]} for t in summary["topics"]]
    assert sorted(found, key=sorted) == sorted([set(SKY), set(BAR)], key=sorted)
    assert summary["held_out"]["documents"] == 8
    assert -1 < summary["held_out"]["coherence"] < 1
    assert len(summary["problems"]) == 1
    assert [d["name"] for d in summary["set_aside"]] == ["n80"]
    with np.load(out / "doc_topics.npz") as saved:
        assert saved["mixtures"].shape == (81, 2)
        assert saved["names"][3] == "n3"
        assert saved["mixtures"].sum(axis=1) == pytest.approx(np.ones(81))

    with opened(out / "report.html") as page:
        assert page.console() == []
        assert page.requests() == []
        cards = page.driver.find_elements("css selector", ".topic")
        assert len(cards) == 2
        page.run("arguments[0].click()", cards[1])
        assert cards[1].get_attribute("aria-pressed") == "true"
        quotes = page.driver.find_elements("css selector", "#best blockquote")
        words = set(quotes[0].text.split("\n")[1].rstrip("…").split()[:-1])
        assert words <= {w["word"] for w in summary["topics"][1]["words"]}
        assert page.run("return document.querySelectorAll('circle').length") == 2
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth")


def test_same_seed_same_files(corpus, tmp_path, monkeypatch, capsys):
    results = []
    for name in ("a", "b"):
        code, said, err = run(
            monkeypatch, capsys, "topics", corpus, "-k", 2, "-o", tmp_path / name, "--json", "-q"
        )
        assert (code, err) == (0, "")
        results.append(json.loads(said))
        del results[-1]["seconds"]
    assert results[0] == results[1]


def test_refusals_leave_nothing(corpus, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    code, _, err = run(monkeypatch, capsys, "topics", tmp_path / "absent", "-o", out)
    assert (code, "does not exist" in err) == (2, True)
    code, _, err = run(monkeypatch, capsys, "topics", corpus, "-k", 0, "-o", out)
    assert (code, "--topics must be at least 1" in err) == (2, True)
    assert not out.exists()
    out.mkdir()
    (out / "report.html").write_text("mine")
    code, _, err = run(monkeypatch, capsys, "topics", corpus, "-k", 2, "-o", out)
    assert (code, "--force" in err) == (2, True)
    assert (out / "report.html").read_text() == "mine"


def test_counts_alone_make_a_page(tmp_path, monkeypatch, capsys):
    import scipy.sparse

    from tensor_rpca.topics.synthetic import lda_corpus, random_topics

    X = lda_corpus(60, random_topics(1, 30, random_state=0), random_state=0)
    scipy.sparse.save_npz(tmp_path / "counts.npz", X)
    code, _, _ = run(
        monkeypatch, capsys, "topics", tmp_path / "counts.npz", "-k", 1, "-o", tmp_path, "-q"
    )
    assert code == 0
    assert "word 1" in (tmp_path / "report.html").read_text()


def test_newsgroups_on_a_small_imitation(tmp_path, monkeypatch, capsys):
    data = tmp_path / "newsgroups"
    data.mkdir()
    generator = np.random.default_rng(0)
    pools = [[f"{a}{b}" for b in "abcdefghij"] for a in ("xa", "xb", "xc", "xd", "xe", "xf")]
    for part, n in (("train", 300), ("test", 60)):
        with gzip.open(data / f"{part}.jsonl.gz", "wt") as stream:
            for i in range(n):
                words = " ".join(generator.choice(pools[i % 6], size=40))
                text = f"From: me\nSubject: topsecret\n\n> quoted\n{words}\n"
                stream.write(json.dumps({"text": text}) + "\n")
    code, said, _ = run(
        monkeypatch,
        capsys,
        *("reproduce", "newsgroups", "--data", tmp_path, "-o", tmp_path / "out", "--json", "-q"),
    )
    assert code == 0
    rows = {row["method"]: row for row in json.loads(said)}
    assert list(rows) == ["variational Bayes", "tensor CPD", "tensor RPCA", "TensorLDA, refined"]
    assert all(np.isfinite(row["completion"]) for row in rows.values())
    assert "topsecret" not in said
    assert "1417, 0.033, 44.71" in (tmp_path / "out" / "newsgroups.md").read_text()


def test_newsgroups_refuses_a_damaged_file(tmp_path):
    (tmp_path / "train.jsonl.gz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="damaged or not 20 Newsgroups"):
        newsgroups.load_newsgroups(tmp_path)


@pytest.mark.slow
def test_newsgroups_spend_no_topic_on_encoded_files():
    folder = DATA / "newsgroups"
    if not folder.is_dir():
        pytest.skip(f"20 Newsgroups are not in {folder}; TENSOR_RPCA_DATA names another folder")
    data = newsgroups.load_newsgroups(folder)
    assert (data.train.shape, data.test.shape) == ((11314, 1000), (7532, 1000))
    model = newsgroups.methods(0)["TensorLDA, refined"]
    row = newsgroups.evaluate("TensorLDA, refined", model, data)
    assert set(range(1635, 1644)) <= set(model.set_aside_.tolist())
    assert not {"ax", "max", "g9v", "b8f"} & {w for topic in row.topics for w in topic}
    assert row.completion < 580
    assert row.coherence > 0
