"""Figure 1 rerun: the protocol, the record, and the command."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET

import matplotlib.image
import numpy as np
import pytest

from tensor_rpca import cli
from tensor_rpca.commands import figure1 as command
from tensor_rpca.experiments import figure1
from tensor_rpca.experiments.cell_store import CellStore
from tensor_rpca.experiments.figure1_drawing import draw_figure1, theorem_rank
from tensor_rpca.files import FileError

TINY = figure1.Grid(ranks=(2, 22), percents=(5, 10), trials=2, auto_trials=1)
METHODS = ("horpca-s", "horpca-c")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command in this process on a tiny grid."""
    monkeypatch.setattr(figure1, "QUICK", TINY)

    def call(*arguments):
        line = ["tensor-rpca", "reproduce", "figure1", "-o", tmp_path / "out", *arguments]
        monkeypatch.setattr(sys, "argv", list(map(str, line)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, *capsys.readouterr()

    return call


def in_this_process(monkeypatch):
    """Run cells one after the other, and count them."""
    ran = []

    def run_cells(cells, seed, jobs):
        for method, rank, percent, trials in cells:
            ran.append((method, rank, percent))
            yield figure1.run_cell(method, rank, percent, seed, trials)

    monkeypatch.setattr(figure1, "run_cells", run_cells)
    return ran


@pytest.mark.parametrize(("rank", "percent"), [(5, 10), (20, 5), (30, 40)])
def test_problem_is_that_of_section_6_1(rank, percent):
    problem = figure1.draw_problem(rank, percent, seed=0, trial=3)
    assert problem.Z.shape == (20, 20, 20)
    np.testing.assert_array_equal(problem.Z, problem.X + problem.S)
    assert np.count_nonzero(problem.S) == percent * 80
    values = problem.S[problem.S != 0]
    assert values.mean() == pytest.approx(0, abs=0.2)
    assert values.std() == pytest.approx(1, abs=0.15)
    assert problem.X.std() == pytest.approx(rank**0.5, rel=0.35)
    assert figure1.tucker_rank(problem.X) == [min(rank, 20)] * 3
    again = figure1.draw_problem(rank, percent, seed=0, trial=3)
    other = figure1.draw_problem(rank, percent, seed=0, trial=4)
    np.testing.assert_array_equal(problem.Z, again.Z)
    assert not np.array_equal(problem.Z, other.Z)


def test_full_grid_has_sixteen_trials_beyond_the_ill_posed_region():
    assert figure1.FULL.trials == 16
    assert max(figure1.FULL.ranks) >= 60
    assert max(figure1.FULL.percents) >= 60


@pytest.mark.parametrize("method", figure1.METHODS)
def test_each_method_finds_x_of_its_kind(method):
    """All but two recover an easy problem; those two still return something like a tensor."""
    problem = figure1.draw_problem(2, 5, seed=0, trial=0)
    X = figure1.METHODS[method].recover(problem)
    error = np.linalg.norm(X - problem.X) / np.linalg.norm(problem.X)
    if method in ("horpca-s-paper", "tubal"):
        assert 1e-3 < error < 1.5
    else:
        assert error < figure1.RECOVERED


def test_command_writes_figure_record_and_table(run, monkeypatch, tmp_path):
    code, out, err = run("--methods", ",".join(METHODS), "--jobs", "1", "-q")
    assert (code, out, err) == (0, "", "")
    folder = tmp_path / "out"
    image = matplotlib.image.imread(folder / "figure1.png")
    assert image.std() > 0.1
    ET.parse(folder / "figure1.svg")
    record = json.loads((folder / "figure1.json").read_text())
    assert {(c["method"], c["rank"], c["percent"]) for c in record["cells"]} == {
        (m, r, p) for m in METHODS for r in TINY.ranks for p in TINY.percents
    }
    assert all(len(c["errors"]) == len(c["seconds"]) == 2 for c in record["cells"])
    assert record["tucker_ranks"][0] == {"rank": 2, "percent": 5, "trials": [[2, 2, 2]] * 2}
    assert record["tucker_ranks"][-1]["trials"] == [[20, 20, 20]] * 2
    recovered = sum(e < 1e-3 for c in record["cells"] for e in c["errors"]) / 2
    assert sum(row["recovered"] for row in record["methods"]) == pytest.approx(recovered)
    table = (folder / "figure1.md").read_text().splitlines()
    assert len(table) == 2 + len(METHODS)
    # The same seed, the same errors, in one process or in several.
    cell = figure1.run_cell("horpca-s", 2, 5, 0, 2)
    stored = next(c for c in record["cells"] if (c["rank"], c["percent"]) == (2, 5))
    assert cell["errors"] == stored["errors"]


def test_finished_cells_are_kept_when_the_run_is_interrupted(run, monkeypatch, tmp_path):
    ran = in_this_process(monkeypatch)
    whole = figure1.run_cells

    def cut_short(cells, seed, jobs):
        for n, cell in enumerate(whole(cells, seed, jobs)):
            if n == 3:
                raise KeyboardInterrupt
            yield cell

    monkeypatch.setattr(figure1, "run_cells", cut_short)
    code, _, err = run("--methods", "horpca-c", "-q")
    assert code == 130
    assert "3 finished cells are kept" in err
    assert not (tmp_path / "out" / "figure1.json").exists()
    monkeypatch.setattr(figure1, "run_cells", whole)
    before = len(ran)
    code, out, _ = run("--methods", "horpca-c", "--json")
    assert code == 0
    assert len(ran) - before == 1
    assert json.loads(out)["methods"][0]["cells"] == 4


def test_refuses_to_overwrite_and_bad_options(run, monkeypatch):
    in_this_process(monkeypatch)
    assert run("--methods", "horpca-c", "-q")[0] == 0
    code, _, err = run("--methods", "horpca-c", "-q")
    assert code == 2
    assert "--force" in err
    code, out, _ = run("--methods", "horpca-c", "--force")
    assert code == 0
    assert "HoRPCA-C" in out
    code, _, err = run("--methods", "svd")
    assert code == 2
    assert "choose from paper" in err
    code, _, err = run("--quick", "--full")
    assert code == 2
    assert "exclude each other" in err


def test_store_survives_a_torn_line_and_names_a_damaged_one(tmp_path):
    path = tmp_path / "cells.jsonl"
    store = CellStore(path, ("a", "b"))
    store.add({"a": 1, "b": 2, "value": 3})
    store.add({"a": 1, "b": 3, "value": 4})
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    store = CellStore(path, ("a", "b"))
    assert len(store) == 1
    assert store.get(1, 2)["value"] == 3
    assert store.get(1, 3) is None
    store.add({"a": 1, "b": 3, "value": 4})
    assert path.read_bytes() == whole
    path.write_bytes(b"what\n" + whole)
    with pytest.raises(FileError, match=r"line 1 of .* is damaged"):
        CellStore(path, ("a", "b"))
    path.write_bytes(b'{"a": 1}\n')
    with pytest.raises(FileError, match="delete that line"):
        CellStore(path, ("a", "b"))


def test_key_of_the_store_tells_grids_apart():
    cell = figure1.run_cell("horpca-c", 22, 5, 0, 1)
    assert set(command.KEY) <= set(cell)


def test_white_is_recovered(tmp_path):
    cells = [
        {"method": "paper", "rank": rank, "percent": percent, "errors": errors, "seconds": [0.1]}
        for rank, percent, errors in [(10, 10, [1e-5]), (10, 20, [1]), (20, 10, [1]), (20, 20, [1])]
    ]
    draw_figure1(cells, [tmp_path / "one.png"])
    image = matplotlib.image.imread(tmp_path / "one.png")[..., :3]
    dark = (image.max(axis=2) < 0.02).mean()
    assert 0.2 < dark < 0.6  # three of four cells, lines and margins left aside


def test_theorem_scaling_falls_with_outliers():
    ranks = theorem_rank(np.array([0, 30, 60]))
    assert (np.diff(ranks) < 0).all()
    assert ranks[0] == pytest.approx((8000 / (60 * np.log(8000))) ** 0.5)
