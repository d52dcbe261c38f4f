"""Clips that people have labelled by hand."""

from __future__ import annotations

import pytest

from benchmarks import video
from tensor_rpca.video import subtract_background

FOLDER = video.data_folder()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER is None, reason="the labelled clips are absent: TENSOR_RPCA_DATA"),
]


def test_the_default_setting_suits_water_leaves_and_streets():
    scores = []
    for name in video.CLIPS:
        clip, truth, scored = video.load(FOLDER, name)
        scores.append(video.f_measure(subtract_background(clip).mask, truth, scored))
    assert sum(scores) / len(scores) > 0.9


def test_the_default_setting_suits_the_escalator():
    clip, truth, scored = video.load(FOLDER, video.ESCALATOR)
    assert video.f_measure(subtract_background(clip).mask, truth, scored) > 0.68


@pytest.mark.parametrize("name", video.CLIPS)
def test_later_frames_are_separated_nearly_as_well(name):
    clip, truth, scored = video.load(FOLDER, name)
    half = len(clip) // 2
    batch = subtract_background(clip).mask[half:]
    later = subtract_background(clip[:half]).update(clip[half:]).mask
    batch_f, later_f = (video.f_measure(m, truth[half:], scored[half:]) for m in (batch, later))
    assert later_f > batch_f - 0.03
