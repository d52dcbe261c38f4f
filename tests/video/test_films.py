"""Films out and in again: real encoding, real decoding, and what may be wrong with a file."""

from __future__ import annotations

import os
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from tensor_rpca.files import FileError
from tensor_rpca.video import film, read, write
from tensor_rpca.video.film import parse_frames
from tensor_rpca.video.read import read_film, read_roi


@pytest.fixture(scope="module")
def clip():
    """Smooth shapes that move: what H.264 keeps well."""
    rng = np.random.default_rng(0)
    smooth = gaussian_filter(rng.standard_normal((24, 48, 64)), (2, 5, 5))
    smooth -= smooth.min()
    return np.rint(255 * smooth / smooth.max()).astype(np.uint8)


@pytest.fixture(scope="module")
def colours(clip):
    return np.stack([clip, 255 - clip, np.full_like(clip, 90)], axis=3)


def encode(path, frames, fmt="gray", codec="libx264", pix_fmt="yuv420p", pts=None, size=None):
    """Write a film with PyAV alone, so that it owes nothing to ours."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width = size or frames[0].shape[:2]
        stream.pix_fmt = pix_fmt
        if pts:
            stream.codec_context.time_base = Fraction(1, 1000)
        for k, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame, format=fmt)
            if pts:
                picture.pts, picture.time_base = pts[k], Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
def test_what_is_written_is_read(clip, tmp_path, suffix):
    path = write(tmp_path / f"a{suffix}", clip, 30)
    back = read_film(path)
    assert back.frames.shape == clip.shape
    assert back.frames.dtype == np.uint8
    assert back.rate == pytest.approx(30)
    assert (back.lost, back.remarks) == (0, ())
    assert np.abs(back.frames.astype(int) - clip).mean() < 2
    assert sorted(os.listdir(tmp_path)) == [f"a{suffix}"]


def test_lossless_grey_comes_back_to_a_level(clip, tmp_path):
    back = read(write(tmp_path / "a.mp4", clip, quality=0))
    assert np.abs(back.astype(int) - clip).max() <= 2


def test_colours_survive(colours, tmp_path):
    back = read(write(tmp_path / "a.mp4", colours, quality=4), color=True)
    assert back.shape == colours.shape
    assert np.abs(back.astype(int) - colours).mean() < 4


def test_the_film_is_h264_that_browsers_play(clip, tmp_path):
    with av.open(str(write(tmp_path / "a.mp4", clip))) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")


def test_masks_are_black_and_white(tmp_path):
    mask = np.zeros((5, 32, 48), bool)
    mask[:, 8:24, 16:32] = True
    back = read(write(tmp_path / "a.mp4", mask))
    np.testing.assert_array_equal(back > 127, mask)
    assert back[mask].min() > 230


def test_odd_sides_grow_by_a_pixel(tmp_path):
    clip = np.tile(np.arange(33, dtype=np.uint8) * 7, (4, 31, 1))
    back = read(write(tmp_path / "a.mp4", clip, quality=0))
    assert back.shape == (4, 32, 34)
    assert np.abs(back[:, :31, :33].astype(int) - clip).max() <= 2


def test_frames_are_written_one_at_a_time(clip, tmp_path):
    seen = []
    write(tmp_path / "a.mp4", (frame for frame in clip), tick=seen.append)
    assert seen == list(range(1, len(clip) + 1))


@pytest.mark.parametrize(
    ("frames", "chosen"),
    [
        ("7", slice(0, 7)),
        (7, slice(0, 7)),
        ("3:9", slice(3, 9)),
        ("3:20:4", slice(3, 20, 4)),
        (":5", slice(0, 5)),
        ("20:", slice(20, None)),
        ("::6", slice(None, None, 6)),
        (slice(2, 8, 2), slice(2, 8, 2)),
    ],
)
def test_a_part_is_read(clip, tmp_path, frames, chosen):
    path = write(tmp_path / "a.mp4", clip)
    np.testing.assert_array_equal(read(path, frames=frames), read(path)[chosen])


@pytest.mark.parametrize("frames", ["x", "5:2", "-3:", "1:2:3:4", "4:9:0", "0"])
def test_frames_that_make_no_sense_are_named(frames):
    with pytest.raises(ValueError, match="names no frames"):
        parse_frames(frames)


def test_scale(clip, tmp_path):
    path = write(tmp_path / "a.mp4", clip)
    assert read(path, scale=0.5).shape == (24, 24, 32)
    means = read(path).reshape(24, 24, 2, 32, 2).mean((2, 4))
    assert np.abs(read(path, scale=0.5) - means).mean() < 2
    with pytest.raises(ValueError, match="scale=0 is not between"):
        read(path, scale=0)


def test_a_folder_of_images_in_natural_order(clip, tmp_path):
    for k in (10, 9, 2, 1, 0):
        Image.fromarray(clip[k]).save(tmp_path / f"shot{k}.png")
    (tmp_path / "notes.txt").write_text("not an image")
    np.testing.assert_array_equal(read(tmp_path), clip[[0, 1, 2, 9, 10]])


def test_images_of_16_bits_and_with_alpha(clip, tmp_path):
    for k in range(3):
        Image.fromarray(clip[k].astype(np.uint16) * 257).save(tmp_path / f"a{k}.png")
    assert np.abs(read(tmp_path).astype(int) - clip[:3]).max() <= 1
    for k in range(3):
        rgba = np.dstack([clip[k]] * 3 + [np.full_like(clip[k], 10)])
        Image.fromarray(rgba).save(tmp_path / f"a{k}.png")
    assert np.abs(read(tmp_path, color=True).astype(int) - clip[:3, ..., None]).max() <= 1


def test_a_damaged_image_is_left_out_and_said(clip, tmp_path):
    for k in range(4):
        Image.fromarray(clip[k]).save(tmp_path / f"a{k}.png")
    (tmp_path / "a2.png").write_bytes(b"no picture")
    found = read_film(tmp_path)
    assert found.lost == 1
    assert "a2.png" in found.remarks[0]
    np.testing.assert_array_equal(found.frames, clip[[0, 1, 3]])


def test_arrays(clip, colours, tmp_path):
    np.save(tmp_path / "a.npy", clip)
    np.savez(tmp_path / "a.npz", film=clip)
    np.testing.assert_array_equal(read(tmp_path / "a.npy"), clip)
    np.testing.assert_array_equal(read(tmp_path / "a.npz", frames="2:9"), clip[2:9])
    np.save(tmp_path / "c.npy", colours)
    np.testing.assert_array_equal(read(tmp_path / "c.npy", color=True), colours)
    assert read(tmp_path / "c.npy").shape == clip.shape


@pytest.mark.parametrize(
    ("convert", "tolerance"),
    [
        (lambda c: c.astype(np.uint16) * 257, 0),
        (lambda c: c.astype(np.uint16) * 16, 1),  # twelve bits
        (lambda c: c / 255.0, 0),
        (lambda c: (c / 255.0).astype(np.float32), 0),
    ],
)
def test_arrays_of_other_numbers_become_levels(clip, tmp_path, convert, tolerance):
    np.save(tmp_path / "a.npy", convert(clip))
    assert np.abs(read(tmp_path / "a.npy").astype(int) - clip).max() <= tolerance


def test_10_bits_and_alpha_become_8_and_none(clip, colours, tmp_path):
    deep = encode(tmp_path / "a.mkv", clip, codec="ffv1", pix_fmt="gray10le")
    assert np.abs(read(deep).astype(int) - clip).max() <= 1
    rgba = np.concatenate([colours, np.full_like(colours[..., :1], 7)], axis=3)
    clear = encode(tmp_path / "b.mkv", rgba, "rgba", "ffv1", "bgra")
    assert np.abs(read(clear, color=True).astype(int) - colours).max() <= 1


def test_a_variable_frame_rate_is_said(clip, tmp_path):
    pts = [0, 40, 80, 500, 540, 580, 620, 1500]
    found = read_film(encode(tmp_path / "a.mkv", clip[:8], codec="ffv1", pix_fmt="gray", pts=pts))
    assert len(found.frames) == 8
    assert "variable frame rate" in found.remarks[0]


def test_a_cut_film_gives_what_is_whole_and_says_how_much_is_lost(clip, tmp_path):
    whole = write(tmp_path / "a.mkv", np.concatenate([clip] * 4)).read_bytes()
    (tmp_path / "cut.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    found = read_film(tmp_path / "cut.mkv")
    assert 2 <= len(found.frames) < 96
    assert found.lost == 96 - len(found.frames)
    assert f"{found.lost} frames are lost" in found.remarks[0]
    with pytest.warns(UserWarning, match="frames are lost"):
        read(tmp_path / "cut.mkv")


def test_damage_in_the_middle(clip, tmp_path):
    data = bytearray(write(tmp_path / "a.mp4", np.concatenate([clip] * 4)).read_bytes())
    start = data.index(b"mdat") + len(data) // 4
    data[start : start + 400] = bytes(400)
    (tmp_path / "b.mp4").write_bytes(bytes(data))
    found = read_film(tmp_path / "b.mp4")
    assert 2 <= len(found.frames) <= 96
    assert len(found.frames) + found.lost >= 96 or not found.lost


@pytest.mark.parametrize("keep", [0, 10, 300])
def test_a_film_cut_before_its_index_is_refused(clip, tmp_path, keep):
    path = write(tmp_path / "a.mp4", clip)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileError, match=r"a.mp4 is no film that FFmpeg can read"):
        read(path)


def test_what_is_no_film(tmp_path):
    (tmp_path / "a.mp4").write_text("hello")
    with pytest.raises(FileError, match="no film that FFmpeg can read"):
        read(tmp_path / "a.mp4")
    with pytest.raises(FileError, match="does not exist"):
        read(tmp_path / "none.mp4")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="holds no images"):
        read(tmp_path / "empty")
    np.save(tmp_path / "a.npy", np.zeros((4, 5)))
    with pytest.raises(FileError, match="a film is frames x height x width"):
        read(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.full((4, 5, 6), np.nan))
    with pytest.raises(FileError, match="NaN or infinite"):
        read(tmp_path / "a.npy")


def test_one_frame_is_not_enough(clip, tmp_path):
    path = write(tmp_path / "a.mp4", clip)
    with pytest.raises(FileError, match="gave 1 frame; two or more"):
        read(path, frames=1)
    with pytest.raises(FileError, match="gave 0 frames"):
        read(path, frames="500:")
    np.save(tmp_path / "a.npy", clip[:1])
    with pytest.raises(FileError, match="gave 1 frame "):
        read(tmp_path / "a.npy")


def test_a_size_that_changes_is_named(clip, tmp_path):
    for k in range(4):
        frame = clip[k] if k < 3 else clip[k, :20]
        Image.fromarray(frame).save(tmp_path / f"a{k}.png")
    with pytest.raises(FileError, match=r"frame 3 is 64 x 20 pixels, the first is 64 x 48"):
        read(tmp_path)


def test_absurd_length_is_refused_before_reading(clip, tmp_path, monkeypatch):
    path = write(tmp_path / "a.mp4", clip)
    memory = SimpleNamespace(available=50_000)
    monkeypatch.setattr(film.psutil, "virtual_memory", lambda: memory)
    with pytest.raises(FileError, match=r"24 frames .* --frames \d+.*--scale"):
        read(path)


def test_a_film_that_cannot_be_written_leaves_nothing(clip, tmp_path):
    def failing():
        yield clip[0]
        yield clip[1, :20]

    with pytest.raises(ValueError, match="frame 1 is"):
        write(tmp_path / "a.mp4", failing())
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileError, match="does not exist; create it first"):
        write(tmp_path / "none" / "a.mp4", clip)
    with pytest.raises(FileError, match="write films as"):
        write(tmp_path / "a.gif", clip)
    with pytest.raises(ValueError, match="no frames to write"):
        write(tmp_path / "a.mp4", [])
    with pytest.raises(ValueError, match="must be uint8 or bool"):
        write(tmp_path / "a.mp4", clip / 255)
    with pytest.raises(ValueError, match="rate=0 must be"):
        write(tmp_path / "a.mp4", clip, 0)


def test_regions(tmp_path):
    assert read_roi("1, 2,30,4").tolist() == [1, 2, 30, 4]
    white = np.zeros((20, 30), np.uint8)
    white[5:9, 7:20] = 255
    Image.fromarray(white).save(tmp_path / "roi.png")
    np.testing.assert_array_equal(read_roi(str(tmp_path / "roi.png")), white > 0)
    with pytest.raises(FileError, match="neither X,Y,WIDTH,HEIGHT"):
        read_roi("1,2,3")
