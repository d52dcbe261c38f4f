"""Figures are pictures of what they are given, or no file at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tensor_rpca import KruskalTensor, decompose
from tensor_rpca.files import FileError
from tensor_rpca.report.figures import separation_figure


@pytest.fixture(scope="module")
def film():
    """A bright square on a ramp, and what a few iterations make of it."""
    rng = np.random.default_rng(0)
    Z = np.einsum("t,y,x->tyx", np.linspace(1, 2, 8), np.ones(12), np.linspace(0, 1, 10))
    Z += 0.01 * rng.standard_normal(Z.shape)
    Z[:, 3:6, 2:5] += 1.0
    result = decompose(Z, 3, lambda_x=0.2, lambda_s=0.05, max_iter=15, random_state=0)
    return Z, result


def read(path: Path) -> np.ndarray:
    """Return a picture's colours without transparency."""
    return matplotlib.image.imread(path)[..., :3]


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_writes_a_picture_with_something_on_it(film, tmp_path):
    Z, result = film
    separation_figure(Z, result, tmp_path / "a.png", frames=[0, 5])
    assert names(tmp_path) == ["a.png"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    picture = read(tmp_path / "a.png")
    # The grey film above, red or blue outliers to its right, coloured curves below.
    grey = np.ptp(picture, axis=2) < 0.02
    assert 0.02 < (grey & (picture.mean(axis=2) < 0.9)).mean() < 0.9
    assert (~grey).mean() > 0.005
    for part in np.array_split(picture, 4, axis=0):
        assert part.std() > 0.02


def test_more_slices_make_a_taller_picture(film, tmp_path):
    Z, result = film
    for count in (1, 3):
        separation_figure(Z, result, tmp_path / f"{count}.png", frames=list(range(count)))
    low, high = (read(tmp_path / f"{count}.png").shape for count in (1, 3))
    assert high[0] > 1.5 * low[0]
    assert high[1] == low[1]


def test_shows_the_slices_it_is_given(film, tmp_path):
    Z, result = film

    def draw(array, frame):
        separation_figure(array, result, tmp_path / "a.png", frames=[frame])
        return read(tmp_path / "a.png")

    def swapped(i, j):
        array = Z.copy()
        array[[i, j]] = Z[[j, i]]
        array[i] = array[i][::-1]  # slices of the film are much alike
        return array

    original = draw(Z, 7)
    np.testing.assert_array_equal(draw(Z, 7), original)
    np.testing.assert_array_equal(draw(swapped(0, 1), 7), original)
    assert np.abs(draw(swapped(7, 1), 7) - original).max() > 0.3
    assert np.abs(draw(Z, 0) - original).max() > 0.3


def test_each_row_shows_the_slice_of_z_x_and_s(film, tmp_path, monkeypatch):
    Z, result = film
    shown = []
    imshow = Axes.imshow
    monkeypatch.setattr(
        Axes, "imshow", lambda self, A, **keywords: (shown.append(A), imshow(self, A, **keywords))
    )
    separation_figure(Z, result, tmp_path / "a.png", frames=[7, 2])
    parts = (Z, result.low_rank.to_dense(), result.sparse.toarray())
    expected = [part[frame] for frame in (7, 2) for part in parts]
    assert len(shown) == 6
    for drawn, wanted in zip(shown, expected, strict=True):
        np.testing.assert_allclose(drawn, wanted, atol=1e-12)


def test_missing_entries_leave_holes_and_no_warning(film, tmp_path):
    Z, result = film
    holed = Z.copy()
    holed[:, 8:, 6:] = np.nan
    separation_figure(holed, result, tmp_path / "holed.png", frames=[2])
    separation_figure(Z, result, tmp_path / "whole.png", frames=[2])
    holed_picture, whole = read(tmp_path / "holed.png"), read(tmp_path / "whole.png")
    assert (holed_picture == 1).mean() > (whole == 1).mean()


def test_a_solve_of_one_iteration_can_be_drawn(film, tmp_path):
    Z, _ = film
    result = decompose(Z, 2, lambda_x=0.2, lambda_s=0.05, max_iter=1, random_state=0)
    separation_figure(Z, result, tmp_path / "a.png", frames=[0])
    assert names(tmp_path) == ["a.png"]


def test_a_result_without_components_can_be_drawn(film, tmp_path):
    Z, result = film
    nothing = KruskalTensor(None, [np.zeros((d, 0)) for d in Z.shape])
    empty = dataclasses.replace(result, low_rank=nothing)
    separation_figure(Z, empty, tmp_path / "a.png", frames=[0])
    assert names(tmp_path) == ["a.png"]


def test_the_answer_to_zero_can_be_drawn(tmp_path):
    Z = np.zeros((4, 5, 6))
    separation_figure(Z, decompose(Z), tmp_path / "a.png", frames=[0])
    assert names(tmp_path) == ["a.png"]


def test_replaces_an_older_picture(film, tmp_path):
    Z, result = film
    (tmp_path / "a.png").write_bytes(b"yesterday's")
    separation_figure(Z, result, tmp_path / "a.png", frames=[0])
    assert read(tmp_path / "a.png").std() > 0
    assert names(tmp_path) == ["a.png"]


@pytest.mark.parametrize("before", [None, b"yesterday's"], ids=["new", "older picture"])
def test_a_failed_write_leaves_what_was_there(before, film, tmp_path, monkeypatch):
    Z, result = film
    if before is not None:
        (tmp_path / "a.png").write_bytes(before)

    def half(self, path, **keywords):
        Path(path).write_bytes(b"\x89PNG and no more")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(OSError, match="No space left"):
        separation_figure(Z, result, tmp_path / "a.png", frames=[0])
    assert names(tmp_path) == ([] if before is None else ["a.png"])
    if before is not None:
        assert (tmp_path / "a.png").read_bytes() == before


def test_a_slice_that_does_not_exist_leaves_nothing(film, tmp_path):
    Z, result = film
    with pytest.raises(IndexError):
        separation_figure(Z, result, tmp_path / "a.png", frames=[0, 99])
    assert names(tmp_path) == []


def test_a_format_that_does_not_exist_leaves_nothing(film, tmp_path):
    Z, result = film
    with pytest.raises(ValueError, match="is not supported"):
        separation_figure(Z, result, tmp_path / "a.xyz", frames=[0])
    assert names(tmp_path) == []


def test_a_folder_that_does_not_exist_is_named(film, tmp_path):
    Z, result = film
    with pytest.raises(FileError, match=r"the folder .*none does not exist; create it first"):
        separation_figure(Z, result, tmp_path / "none" / "a.png", frames=[0])
    assert names(tmp_path) == []


def test_leaves_matplotlib_as_the_user_set_it_up(film, tmp_path):
    """Drawing to files must not take over the screen of a notebook."""
    Z, result = film
    backend, settings = matplotlib.get_backend(), dict(matplotlib.rcParams)
    separation_figure(Z, result, tmp_path / "a.png", frames=[0])
    assert matplotlib.get_backend() == backend
    assert dict(matplotlib.rcParams) == settings
