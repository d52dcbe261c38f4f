"""Section 6.2: the clip from every place it may come from, and what is counted."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
import scipy.io

from tensor_rpca import cli
from tensor_rpca.experiments import escalator
from tensor_rpca.files import FileError


@pytest.fixture
def clip():
    return np.random.default_rng(0).integers(0, 256, escalator.SHAPE, dtype=np.uint8)


@pytest.fixture(scope="module")
def scene():
    """A rank-1 background with a square that moves."""
    rng = np.random.default_rng(0)
    row, column = rng.uniform(0.5, 1, 24), rng.uniform(0.5, 1, 20)
    film = np.einsum("y,x,t->yxt", 150 * row, column, np.ones(16))
    for t in range(16):
        film[5:11, t : t + 5, t] = 250
    return film.astype(np.uint8)


def test_the_clip_is_read_from_each_format(clip, tmp_path):
    np.savez(tmp_path / "a.npz", video=clip, other=np.zeros(3))
    np.save(tmp_path / "a.npy", clip)
    # MATLAB's columns are frames whose own columns follow each other.
    columns = clip.transpose(1, 0, 2).reshape(-1, clip.shape[2])
    scipy.io.savemat(tmp_path / "a.mat", {"X": columns, "m": 130, "n": 160})
    for suffix in ("npz", "npy", "mat"):
        found = escalator.load_escalator(tmp_path / f"a.{suffix}")
        np.testing.assert_array_equal(found, clip)


def test_the_clip_is_fetched(clip, tmp_path, monkeypatch):
    columns = clip.transpose(1, 0, 2).reshape(-1, clip.shape[2])
    scipy.io.savemat(tmp_path / "a.mat", {"X": columns})
    asked = []

    def answer(address, timeout):
        asked.append(address)
        return open(tmp_path / "a.mat", "rb")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    np.testing.assert_array_equal(escalator.load_escalator(), clip)
    assert asked == [escalator.ADDRESS]

    def no_network(address, timeout):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    with pytest.raises(FileError, match=r"no network.*--data"):
        escalator.load_escalator()


def test_other_files_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 5, 6), np.uint8))
    with pytest.raises(FileError, match="the clip is uint8 of shape"):
        escalator.load_escalator(tmp_path / "a.npy")
    (tmp_path / "a.mat").write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"not the clip's \.mat file"):
        escalator.load_escalator(tmp_path / "a.mat")
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.zeros((3, 4))})
    with pytest.raises(FileError, match="X has shape"):
        escalator.load_escalator(tmp_path / "a.mat")
    with pytest.raises(FileError, match="does not exist"):
        escalator.load_escalator(tmp_path / "none.npz")


def test_what_is_counted(scene):
    tensor = escalator.run_tensor(scene, 300, 0)
    assert tensor["degrees_of_freedom"] == tensor["rank"] * (24 + 20 + 16)
    assert tensor["sparsity"] < 0.2
    residual = tensor["low_rank"] + tensor["sparse"] - scene[:, :, escalator.FRAME]
    assert np.abs(residual).max() <= escalator.LAMBDA_S + 1e-6
    allowed = escalator.run_matrix(scene, None, 5)["epsilon"]
    size = np.linalg.norm(scene / 255.0)
    assert np.sqrt(2 * allowed) == pytest.approx(escalator.RESIDUAL * size)
    matrix = escalator.run_matrix(scene, 1.0, 300)
    assert matrix["degrees_of_freedom"] == matrix["rank"] * (24 * 20 + 16)
    assert matrix["converged"]
    total = matrix["low_rank"] + matrix["sparse"]
    assert np.linalg.norm(total - scene[:, :, escalator.FRAME]) < 2 * 255 * np.sqrt(2.0)


def test_the_command_leaves_figure_table_and_numbers(scene, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(escalator, "load_escalator", lambda path: scene)
    arguments = ["reproduce", "escalator", "--quick", "--json", "-q", "-o", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["tensor-rpca", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    printed = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in printed["methods"]] == ["matrix RPCA", "tensor RPCA"]
    assert printed["methods"] == json.loads((tmp_path / "escalator.json").read_text())
    assert (tmp_path / "escalator.png").read_bytes().startswith(b"\x89PNG")
    assert "| tensor RPCA |" in (tmp_path / "escalator.md").read_text()
