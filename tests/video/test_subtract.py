"""What moves, what is there: against truth, closed forms, and what users may hand in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage, optimize

from tensor_rpca import Decomposition
from tensor_rpca.video import kernels, subtract_background
from tensor_rpca.video.background import LIMIT, RIDGE
from tensor_rpca.video.levels import Levels
from tensor_rpca.video.mask import HOLE, objects, smoothed
from tensor_rpca.video.moving import ghosts, steepness
from tensor_rpca.video.scene import lobby_scene
from tensor_rpca.video.small import factor_for, places, shrink
from tests.video.conftest import f_measure

# --- the whole -----------------------------------------------------------------------------------


def test_people_are_found_and_the_escalator_is_not(lobby, separated):
    _, truth = lobby
    assert f_measure(separated.mask, truth) > 0.8
    empty = ~truth.any(axis=0)
    assert separated.mask[:, empty].mean() < 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_on_other_lobbies(seed):
    clip, truth = lobby_scene(150, 90, 110, random_state=seed)
    assert f_measure(subtract_background(clip).mask, truth) > 0.8


def test_the_parts_have_the_clips_shape_and_dtype(lobby, separated):
    clip, _ = lobby
    assert separated.background.shape == separated.foreground.shape == clip.shape
    assert separated.background.dtype == separated.foreground.dtype == np.uint8
    assert (separated.mask.shape, separated.mask.dtype) == (clip.shape, np.bool_)
    np.testing.assert_array_equal(separated.foreground, clip * separated.mask)
    visible = ~separated.mask
    away = np.abs(separated.background.astype(int) - clip)
    assert np.median(away[visible]) <= 4


def test_the_decomposition_is_the_background_plus_what_covers_it(lobby, separated):
    clip, _ = lobby
    found = separated.decomposition
    T, pixels = len(clip), clip[0].size
    assert isinstance(found, Decomposition)
    assert found.low_rank.shape == found.sparse.shape == (T, pixels)
    X = found.low_rank.to_dense()
    background = np.clip(np.rint(X), 0, 255).reshape(clip.shape)
    assert np.abs(background - separated.background).max() <= 1
    S = found.sparse.toarray()
    hidden = separated.mask.reshape(T, pixels)
    np.testing.assert_allclose((X + S)[hidden], clip.reshape(T, pixels)[hidden], atol=1e-2)
    assert not S[~hidden].any()
    assert len(found.history["objective"]) == found.n_iter


def test_the_same_clip_gives_the_same_bits(lobby, separated):
    again = subtract_background(lobby[0])
    np.testing.assert_array_equal(again.packed, separated.packed)
    np.testing.assert_array_equal(again.model.spatial, separated.model.spatial)


def test_views_need_no_copy(lobby, separated):
    clip = np.ascontiguousarray(lobby[0].transpose(1, 2, 0)).transpose(2, 0, 1)
    assert not clip.flags.c_contiguous
    np.testing.assert_array_equal(subtract_background(clip).packed, separated.packed)


@pytest.mark.parametrize(
    "convert",
    [
        lambda c: c.astype(np.uint16) * 257,
        lambda c: c / 255.0,
        lambda c: (c / 255.0 - 0.3).astype(np.float32),
        lambda c: c.astype(np.int32) - 100,
    ],
)
def test_other_numbers_give_nearly_the_same(lobby, separated, convert):
    clip = convert(lobby[0])
    found = subtract_background(clip)
    assert found.background.dtype == clip.dtype
    assert f_measure(found.mask, separated.mask) > 0.9


def test_colours(lobby, separated):
    clip, truth = lobby
    colours = np.stack([clip, clip // 2 + 40, 255 - clip], axis=3)
    found = subtract_background(colours)
    assert found.background.shape == colours.shape
    assert found.mask.shape == clip.shape
    assert f_measure(found.mask, truth) > 0.75
    assert found.decomposition.low_rank.shape == (len(clip), colours[0].size)
    # Red on green of the same brightness is nothing in grey.
    rng = np.random.default_rng(0)
    red_green = np.full((40, 40, 50, 3), 90.0) + 2 * rng.standard_normal((40, 40, 50, 3))
    for t in range(40):
        red_green[t, 12:26, t : t + 10] = (150, 60, 90)
    mask = subtract_background(red_green.clip(0, 255).astype(np.uint8)).mask
    assert mask[20, 15:23, 22:28].all()
    assert not mask[20, 30:].any()


def test_whoever_stops_is_not_absorbed():
    """A square that stands for 45 % of the film, on noise."""
    rng = np.random.default_rng(0)
    clip = 100 + 3 * rng.standard_normal((100, 50, 60))
    truth = np.zeros(clip.shape, bool)
    for t in range(100):
        left = min(t, 25) if t < 70 else t - 45
        truth[t, 15:30, max(0, left) : left + 10] = True
    clip[truth] = 160
    found = subtract_background(clip.astype(np.uint8))
    assert f_measure(found.mask, truth) > 0.95


def test_whoever_stood_there_first_leaves_no_ghost():
    """Most frames show an object, and the others are right about the background."""
    rng = np.random.default_rng(0)
    clip = 100 + 3 * rng.standard_normal((80, 50, 60))
    truth = np.zeros(clip.shape, bool)
    truth[:50, 15:30, 20:32] = True
    clip[truth] = 170
    found = subtract_background(clip.astype(np.uint8))
    assert f_measure(found.mask, truth) > 0.9
    assert not found.mask[55:].any()


def test_light_that_changes_is_background():
    rng = np.random.default_rng(0)
    still = rng.uniform(60, 160, (40, 50))
    light = np.linspace(0.7, 1.3, 60)[:, None, None]
    clip = still * light + 2 * rng.standard_normal((60, 40, 50))
    assert subtract_background(clip.astype(np.uint8)).mask.mean() < 1e-3


def test_a_still_film_has_no_foreground():
    clip = np.tile(np.arange(50, dtype=np.uint8), (10, 40, 1))
    found = subtract_background(clip)
    assert not found.mask.any()
    assert np.abs(found.background.astype(int) - clip).max() <= 1
    black = subtract_background(np.zeros((5, 20, 30), np.uint8))
    assert not black.mask.any()
    assert not black.background.any()


@pytest.mark.parametrize("shape", [(2, 8, 8), (3, 1, 40), (5, 33, 2), (4, 1, 1)])
def test_tiny_clips(shape):
    clip = np.random.default_rng(0).integers(90, 110, shape, dtype=np.uint8)
    assert subtract_background(clip).mask.shape == shape


def test_threshold_and_region(lobby, separated):
    clip, _ = lobby
    strict, lax = (subtract_background(clip, threshold=t) for t in (2.0, -1.0))
    assert strict.mask.sum() < separated.mask.sum() < lax.mask.sum()
    part = subtract_background(clip, roi=(10, 20, 30, 25))
    inside = np.zeros(clip.shape[1:], bool)
    inside[20:45, 10:40] = True
    np.testing.assert_array_equal(part.mask, separated.mask & inside)
    np.testing.assert_array_equal(subtract_background(clip, roi=inside).packed, part.packed)


@pytest.mark.parametrize(
    ("clip", "error", "match"),
    [
        (np.zeros((1, 5, 5)), ValueError, "1 frames; two or more"),
        (np.zeros((0, 5, 5)), ValueError, "0 frames; two or more"),
        (np.zeros((5, 5)), ValueError, "expected frames x height x width"),
        (np.zeros((5, 5, 5, 9)), ValueError, "is the order frames, height, width, colours"),
        (np.zeros((5, 0, 5)), ValueError, "no pixels"),
        (np.zeros((5, 5, 5), complex), TypeError, "must be real"),
        (np.full((5, 5, 5), np.nan), ValueError, "NaN or infinite"),
    ],
)
def test_what_is_no_clip_is_refused(clip, error, match):
    with pytest.raises(error, match=match):
        subtract_background(clip)


def test_wrong_options_are_refused(lobby):
    clip, _ = lobby
    for rank in (0, -1, 2.5):
        with pytest.raises((ValueError, TypeError), match="rank"):
            subtract_background(clip, rank=rank)
    with pytest.raises(ValueError, match="does not lie within the frames"):
        subtract_background(clip, roi=(70, 0, 30, 10))
    with pytest.raises(ValueError, match="selects no pixel"):
        subtract_background(clip, roi=np.zeros(clip.shape[1:]))
    with pytest.raises(ValueError, match="roi has shape"):
        subtract_background(clip, roi=(1, 2, 3))
    with pytest.raises(ValueError, match="threshold"):
        subtract_background(clip, threshold=np.nan)


# --- frames that arrive later --------------------------------------------------------------------


def test_later_frames_are_separated_as_in_one_go(lobby, separated):
    clip, truth = lobby
    first = subtract_background(clip[:60])
    later = first.update(clip[60:])
    assert later.mask.shape == clip[60:].shape
    batch = f_measure(separated.mask[60:], truth[60:])
    assert f_measure(later.mask, truth[60:]) > batch - 0.08
    assert later.decomposition.low_rank.shape == (40, clip[0].size)


def test_the_background_follows_slowly():
    rng = np.random.default_rng(0)
    still = rng.uniform(80, 150, (30, 40))

    def frames(offset, n=30):
        level = still + offset[..., None, None] if np.ndim(offset) else still + offset
        return (level + rng.standard_normal((n, 30, 40))).clip(0, 255).astype(np.uint8)

    fitted = subtract_background(frames(0.0))
    corner = np.zeros((30, 40))
    corner[:10, :10] = 6
    later = fitted
    before = None
    for _ in range(6):
        later = later.update((still + corner + rng.standard_normal((30, 30, 40))).astype(np.uint8))
        before = before or later
    gap = [
        np.abs(r.background[-1].astype(float) - still - corner)[:10, :10].mean()
        for r in (before, later)
    ]
    assert gap[1] < 0.5 * gap[0]
    np.testing.assert_array_equal(fitted.model.spatial, before.model.spatial)  # the fit is kept


def test_later_frames_must_match(lobby, separated):
    clip, _ = lobby
    with pytest.raises(ValueError, match="new frames have shape"):
        separated.update(clip[:5, :20])
    with pytest.raises(TypeError, match="convert them"):
        separated.update(clip[:5].astype(float))
    with pytest.raises(ValueError, match="at least 1"):
        separated.update(clip[:0])
    assert separated.update(clip[:1]).mask.shape == (1, *clip.shape[1:])


# --- the parts -----------------------------------------------------------------------------------


def test_pixels_are_regressed_as_an_independent_solver_does():
    rng = np.random.default_rng(0)
    A = np.vstack([np.ones(60), rng.standard_normal((2, 60))]).astype(np.float32)
    truth = rng.normal(0, 20, (8, 3))
    Z = truth @ A + rng.standard_normal((8, 60))
    known = (rng.random((4, 60)) < 0.8).astype(np.uint8)
    place = np.arange(8, dtype=np.int32) // 2
    Z += 90 * (known[place] == 0)  # what hides it must not matter
    Z[0, 5] += 60  # an outlier that nobody has marked
    start = rng.normal(0, 20, (4, 3)).astype(np.float32)
    B, e = np.empty((8, 3), np.float32), np.empty((8, 60), np.float32)
    Z32 = Z.astype(np.float32)
    kernels.regress_pixels(Z32, known, place, A, start, RIDGE, LIMIT, 100, B, e)
    for p in range(8):
        q = place[p]

        def loss(b, p=p, q=q):
            r = np.abs(Z[p] - b @ A)
            huber = np.where(r <= LIMIT, r**2 / 2, LIMIT * r - LIMIT**2 / 2)
            return (known[q] * huber).sum() + RIDGE / 2 * ((b - start[q]) ** 2).sum()

        best = optimize.minimize(loss, truth[p], method="BFGS", options={"gtol": 1e-9}).x
        np.testing.assert_allclose(B[p], best, atol=2e-3)
        np.testing.assert_allclose(e[p], Z[p] - B[p] @ A, atol=1e-3)


def test_evidence_is_the_log_odds_of_the_neighbourhoods_counts():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (5, 6, kernels.N_BINS)).astype(np.uint16)
    prior = rng.random(kernels.N_BINS).astype(np.float32)
    odds = np.full(kernels.N_BINS, 0.01, np.float32)
    table = np.empty((3, 6, kernels.N_BINS), np.int8)
    kernels.weigh_evidence(counts, 1, 4, prior, np.float32(prior.sum()), odds, table)
    near = counts.astype(float)
    for axis, weights in ((0, (0.25, 0.5, 0.25)), (1, (0.25, 0.5, 0.25))):
        near = ndimage.convolve1d(near, 4 * np.array(weights) / 2, axis=axis, mode="nearest")
    near /= 4  # the pixel itself counts fully
    total = near.sum(axis=2, keepdims=True) + prior.sum()
    share = (ndimage.convolve1d(near, [0.25, 0.5, 0.25], axis=2, mode="nearest") + prior) / total
    evidence = np.log(odds / (share + 1e-3 * odds)).clip(-kernels.MOST, kernels.MOST)
    np.testing.assert_allclose(table / kernels.STEPS, evidence[1:4], atol=0.051)


def test_small_clips_are_block_means():
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (3, 10, 15, 2), dtype=np.uint8)
    small = shrink(frames, Levels(), 5)
    expected = frames.reshape(3, 2, 5, 3, 5, 2).mean(axis=(2, 4))
    assert np.abs(small - expected).max() <= 0.5
    ragged = shrink(frames[:, :9, :13], Levels(), 5)
    assert ragged.shape == small.shape
    np.testing.assert_allclose(ragged[0, 1, 2], frames[0, 5:9, 10:13].mean((0, 1)), atol=0.5)
    np.testing.assert_array_equal(np.unique(places(9, 13, 5)), np.arange(6))
    assert factor_for(130, 160) == 2
    assert factor_for(720, 1280) == 10
    assert factor_for(50, 60) == 1


def test_time_is_averaged_only_where_movement_overlaps():
    still = np.full((40, 50), -3.0, np.float32)
    object_ = still.copy()
    object_[10:30, 10:40] = 2.0
    weak = still.copy()
    weak[10:30, 10:40] = 0.5
    steady = list(smoothed([object_, weak, object_]))
    assert steady[1][20, 20] > 1
    cut = np.roll(object_, 20, axis=0)[:, ::-1]
    moved = list(smoothed([still, object_, still]))
    assert len(moved) == 3
    assert moved[1][20, 20] > 1.5
    assert len(list(smoothed([object_] * 2))) == 2
    assert cut.shape == still.shape


def test_objects_are_contiguous():
    evidence = np.full((100, 100), -3.0)
    evidence[20:50, 20:50] = 3.0
    evidence[30:33, 30:33] = -3.0  # a hole
    evidence[80, 80] = 5.0  # a speck
    evidence[60:75, 60:75] = 0.5  # never certain
    evidence[50:55, 20:50] = 0.5  # uncertain, but part of something certain
    empty = np.full((100, 100), -3.0)
    # What a frame lacks another does not lend it: frames are taken one by one.
    mask, none, alone = objects(np.stack([evidence, empty, np.minimum(evidence, 0.5)]), 0.0)
    assert not none.any()
    assert not alone.any()
    expected = np.zeros((100, 100), bool)
    expected[20:55, 20:50] = True
    np.testing.assert_array_equal(mask, expected)
    assert HOLE * evidence.size > 9


def test_an_outline_tells_objects_from_ghosts():
    frame, background = (np.full((40, 60, 1), 100.0) for _ in range(2))
    frame[10:25, 10:20] = 180  # somebody
    background[10:25, 35:45] = 180  # where somebody was when the background was learnt
    mask = (frame != background)[..., 0]
    [found] = ghosts(mask[None], steepness(frame[None]), steepness(background[None]))
    assert not found[10:25, 10:20].any()
    assert found[10:25, 35:45].all()
