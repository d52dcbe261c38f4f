"""tensor-rpca video: what it leaves, and how it says no."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from tensor_rpca import Decomposition, cli
from tensor_rpca.video import read, subtract_background, write

FILES = ["background.mp4", "decomposition.npz", "foreground.mp4", "mask.mp4", "report.html"]


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["tensor-rpca", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def film(lobby, tmp_path_factory):
    return write(tmp_path_factory.mktemp("film") / "a film.mp4", lobby[0][:30], 12.5)


def test_a_film_is_taken_apart(film, run, tmp_path):
    code, out, err = run("video", film, "-o", tmp_path / "x" / "y", "--json")
    assert code == 0, err
    summary = json.loads(out)
    folder = tmp_path / "x" / "y"
    assert sorted(os.listdir(folder)) == FILES
    assert (summary["frames"], summary["width"], summary["height"]) == (30, 80, 66)
    assert summary["lost_frames"] == 0
    assert summary["rate"] == pytest.approx(12.5)
    found = subtract_background(read(film))
    mask = read(folder / "mask.mp4") > 127
    assert (mask != found.mask).mean() < 0.01
    assert np.abs(read(folder / "background.mp4").astype(int) - found.background).mean() < 3
    assert np.abs(read(folder / "foreground.mp4").astype(int) - found.foreground).mean() < 3
    saved = Decomposition.load(folder / "decomposition.npz")
    assert saved.low_rank.shape == (30, 80 * 66)
    assert summary["moving_fraction"] == pytest.approx(found.mask.mean())


def test_options(film, run, tmp_path):
    options = ("--frames", "5:25:2", "--scale", "0.5", "--color", "--rank", "2")
    where = ("--roi", "5,5,20,20", "--threshold", "1")
    code, out, err = run("video", film, "-o", tmp_path, *options, *where, "--json", "-q")
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert (summary["frames"], summary["width"], summary["height"]) == (10, 40, 33)
    assert summary["rank"] <= 2
    assert summary["rate"] == pytest.approx(6.25)
    outside = read(tmp_path / "mask.mp4") > 127
    outside[:, 5:25, 5:25] = False
    assert not outside.any()
    found = Decomposition.load(tmp_path / "decomposition.npz")
    assert found.low_rank.shape == (10, 40 * 33 * 3)


def test_it_shows_progress_and_a_table(film, run, tmp_path):
    code, out, err = run("video", film, "-o", tmp_path)
    assert code == 0
    for word in ("reading", "iteration", "writing"):
        assert word in err
    assert "frames per second" in out
    assert str(tmp_path / "report.html") in "".join(out.split())


def test_existing_output_is_kept_unless_forced(film, run, tmp_path):
    (tmp_path / "mask.mp4").write_bytes(b"yesterday's")
    code, _, err = run("video", film, "-o", tmp_path, "-q")
    assert code == 2
    assert "mask.mp4 exists; --force overwrites it" in err
    assert os.listdir(tmp_path) == ["mask.mp4"]
    assert run("video", film, "-o", tmp_path, "-q", "--force") == (0, "", "")
    assert sorted(os.listdir(tmp_path)) == FILES


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--frames", "1"), "gave 1 frame"),
        (("--frames", "x"), "names no frames"),
        (("--scale", "9"), "scale=9.0 is not between"),
        (("--rank", "0"), "rank"),
        (("--roi", "70,0,30,10"), "does not lie within"),
        (("--roi", "everywhere"), "neither X,Y,WIDTH,HEIGHT"),
        (("--seed", "-1"), "non-negative"),
    ],
)
def test_wrong_options_end_with_2_and_leave_nothing(film, run, tmp_path, options, match):
    code, out, err = run("video", film, "-o", tmp_path / "out", "-q", *options)
    assert (code, out) == (2, "")
    assert match in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []


def test_bad_films_end_with_2_and_leave_nothing(film, run, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(film.read_bytes()[:400])
    for source, match in (
        (broken, "no film that FFmpeg can read"),
        (tmp_path / "none.mp4", "does not exist"),
    ):
        code, out, err = run("video", source, "-o", tmp_path / "out", "-q")
        assert (code, out) == (2, "")
        assert match in err
        assert err.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == ["broken.mp4"]


def test_an_output_folder_that_cannot_be_made_ends_with_2(film, run, tmp_path):
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "file", tmp_path / "file" / "below"):
        code, _, err = run("video", film, "-o", target, "-q")
        assert code == 2
        assert "file" in err
    assert os.listdir(tmp_path) == ["file"]


def test_damage_is_reported(lobby, run, tmp_path):
    whole = write(tmp_path / "a.mkv", np.concatenate([lobby[0]] * 2)).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) // 2])
    options = ("-o", tmp_path / "out", "--json", "-q", "--frames", "::4")
    code, out, err = run("video", tmp_path / "cut.mkv", *options)
    assert code == 0
    assert "frames are lost" in err
    assert json.loads(out)["lost_frames"] > 50
