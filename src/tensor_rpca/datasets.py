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
