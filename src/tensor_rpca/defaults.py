"""What ``None`` means: parameters chosen from the data, in units of a typical entry.

They are the same for Z and c * Z, so c * Z gives c * X and c * S.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Residuals below one percent of a typical entry are noise rather than outliers.
LAMBDA_S = 0.01
# Fraction of the theory's ratio lambda_x / lambda_s = sqrt(d_1 + ... + d_K) (Theorem 2). At
# the full ratio components are suppressed once a tenth of the entries are outliers; near
# lambda_x = lambda_s a component may be spent on a single outlier. 0.4 lies between.
RATIO = 0.4
MAX_RANK = 50


def default_lambda_s() -> float:
    """Weight of the sparse part."""
    return LAMBDA_S


def default_lambda_x(lambda_s: float, shape: tuple[int, ...]) -> float:
    """Weight of the low-rank part."""
    return max(RATIO * math.sqrt(sum(shape)), 1.5) * lambda_s


def default_rank(shape: tuple[int, ...]) -> int:
    """Bound on the components: half of what the number of equations could determine."""
    free_per_component = sum(shape) - len(shape) + 1
    bound = min(MAX_RANK, math.prod(shape) // (2 * free_per_component))
    if len(shape) == 2:
        bound = min(bound, *shape)
    return max(1, bound)


def default_tol(dtype: np.dtype[Any]) -> float:
    """Relative gradient at which a point counts as a minimum."""
    return 1e-6 if dtype == np.float64 else 1e-3


MAX_ITER = 1000
