"""Tensors with a known answer, for examples, tests and benchmarks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensor_rpca.validation import RandomState, check_generator

Array = NDArray[Any]


def low_rank_plus_sparse(
    shape: tuple[int, ...],
    rank: int,
    outliers: float,
    *,
    noise: float = 0.0,
    random_state: RandomState = None,
) -> tuple[Array, Array, Array]:
    """Draw the synthetic problem of section 6.1: normal factors, normal outliers.

    Parameters
    ----------
    shape : tuple of int
    rank : int
        Components of X, with factors drawn from N(0, 1).
    outliers : float
        Fraction of entries of S, drawn uniformly without replacement, with N(0, 1) values.
    noise : float
        Standard deviation of dense Gaussian noise.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    Z, X, S : ndarrays of shape ``shape``
        ``Z = X + S + noise``.

    Examples
    --------
    >>> Z, X, S = low_rank_plus_sparse((4, 5, 6), rank=2, outliers=0.1, random_state=0)
    >>> Z.shape, int((S != 0).sum())
    ((4, 5, 6), 12)
    """
    generator = check_generator(random_state)
    factors = [generator.standard_normal((d, rank)) for d in shape]
    letters = "abcdefghijklmnopq"[: len(shape)]
    spec = ",".join(f"{c}z" for c in letters) + "->" + letters
    X = np.einsum(spec, *factors, optimize=True)
    S = np.zeros(math.prod(shape))
    support = generator.permutation(S.size)[: round(outliers * S.size)]
    S[support] = generator.standard_normal(support.size)
    S = S.reshape(shape)
    Z = X + S
    if noise:
        Z += noise * generator.standard_normal(shape)
    return Z, X, S


def flickering_scene(
    frames: int = 60, height: int = 64, width: int = 80, *, random_state: int | None = 0
) -> tuple[Array, Array, Array]:
    """Draw a small film with a periodic background and passers-by, for the demonstration.

    The background is five separable patterns (a wall, two gratings, a lamp, a slow drift of
    light), each with its own time course; squares cross it, and single pixels fail.

    Returns
    -------
    Z, X, S : ndarrays of shape (frames, height, width)
        ``Z = X + S + noise``, X of rank 5.
    """
    generator = np.random.default_rng(random_state)
    t = np.arange(frames)[:, None] / frames
    y = np.linspace(0, 1, height)[:, None]
    x = np.linspace(0, 1, width)[:, None]
    time = np.hstack(
        [
            np.ones_like(t),
            np.sin(2 * np.pi * 6 * t),
            np.cos(2 * np.pi * 6 * t),
            (np.sin(2 * np.pi * 2.5 * t) > 0) * 1.0,
            t,
        ]
    )
    down = np.hstack(
        [1 - 0.5 * y, np.sin(18 * y), np.cos(18 * y), np.exp(-60 * (y - 0.25) ** 2), 0.4 * y]
    )
    across = np.hstack(
        [
            0.6 + 0.3 * np.cos(2 * np.pi * x),
            0.25 * (x > 0.55),
            0.25 * (x > 0.55),
            0.6 * np.exp(-60 * (x - 0.2) ** 2),
            0.5 + 0.5 * x,
        ]
    )
    X = np.einsum("tr,yr,xr->tyx", time, down, across)
    S = np.zeros_like(X)
    for walker in range(3):
        size, end = 8 + 2 * walker, max(1, height - 14)
        row = int(generator.integers(min(height // 3, end - 1), end))
        brightness = (0.8, -0.7, 0.6)[walker]
        for frame in range(frames):
            column = int((frame / frames * 1.6 - 0.3 * walker) * width)
            S[frame, row : row + size, max(0, column) : max(0, column + size)] = brightness
    failing = generator.random(X.shape) < 0.01
    S[failing] += generator.choice([-1.0, 1.0], size=int(failing.sum()))
    return X + S + 0.01 * generator.standard_normal(X.shape), X, S
