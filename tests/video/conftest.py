"""Clips that the tests of video share."""

import numpy as np
import pytest

from tensor_rpca.video import subtract_background
from tensor_rpca.video.scene import lobby_scene


@pytest.fixture(scope="session")
def lobby():
    """A small lobby and where people are."""
    return lobby_scene(100, 66, 80, random_state=0)


@pytest.fixture(scope="session")
def separated(lobby):
    return subtract_background(lobby[0])


def f_measure(mask, truth, scored=True):
    """Of the pixels that are scored."""
    both = np.sum(mask & truth & scored)
    return 2 * both / (np.sum(mask & scored) + np.sum(truth & scored))
