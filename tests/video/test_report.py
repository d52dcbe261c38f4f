"""The page, in a real browser: its slider moves four pictures, and nothing comes from outside."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tensor_rpca.video.outputs import described, summary_of
from tensor_rpca.video.report import write_report
from tests.browser import opened

PANELS = ("original", "background", "foreground", "mask")


@pytest.fixture(scope="module")
def report(separated, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    numbers = described(summary_of(separated, 25.0)) | {"<b>evil</b>": "</script>"}
    write_report(path, separated, "A <lobby>", 25.0, numbers)
    return path


def pixels(page, name):
    """What a canvas shows, as grey levels."""
    flat, width = page.run(
        "const c = document.getElementById(arguments[0]);"
        "return [Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
        ".filter((_, i) => i % 4 === 0), c.width]",
        name,
    )
    return np.array(flat, float).reshape(-1, width)


def move(page, frame):
    """Move the slider and wait until the pictures are drawn."""
    page.run(
        "const s = document.getElementById('slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        frame,
    )
    wait(page, str(frame))


def wait(page, shown):
    for _ in range(100):
        if page.find("body").get_attribute("data-shown") == shown:
            return
        time.sleep(0.05)
    pytest.fail(f"frame {shown} was not drawn")


def test_the_slider_shows_each_frames_four_pictures(report, lobby, separated):
    clip, _ = lobby
    parts = (clip, separated.background, separated.foreground, separated.mask * 255)
    with opened(report) as page:
        wait(page, "0")
        for frame in (40, 75):
            move(page, frame)
            for name, part in zip(PANELS, parts, strict=True):
                assert np.abs(pixels(page, name) - part[frame]).mean() < 8, name
            assert page.find("#number").text == f"frame {frame}"
        assert np.abs(clip[40].astype(int) - clip[75]).mean() > 5
        # Reading canvases back, as this test does, makes Chromium offer advice.
        assert [line for line in page.console() if "willReadFrequently" not in line] == []
        assert page.requests() == []


def test_playing_moves_on(report):
    with opened(report) as page:
        wait(page, "0")
        page.find("#play").click()
        time.sleep(0.6)
        page.find("#play").click()
        stopped = int(page.run("return document.getElementById('slider').value"))
        assert 0 < stopped < 99
        assert page.find("#play").text == "play"
        wait(page, str(stopped))


def test_the_curves_are_those_of_the_solve(report, separated):
    with opened(report) as page:
        wait(page, "0")
        rank = separated.temporal.shape[1]
        assert page.run("return document.querySelectorAll('#temporal polyline').length") == rank
        assert page.run("return document.querySelectorAll('#weights rect').length") == rank
        points = page.run("return document.querySelector('#convergence polyline').points.length")
        assert points == len(separated.decomposition.history["objective"])
        before = page.run("return document.querySelector('.cursor').getAttribute('x1')")
        move(page, 60)
        assert page.run("return document.querySelector('.cursor').getAttribute('x1')") != before


def test_names_are_text(report):
    with opened(report) as page:
        assert page.driver.title == "A <lobby>"
        assert page.find("h1").text == "A <lobby>"
        assert "<b>evil</b>" in page.find("table").text
        assert page.console() == []
