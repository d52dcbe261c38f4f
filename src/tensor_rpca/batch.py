"""decompose_batch(): many tensors of one shape at once.

One tensor of a few thousand entries is too small to be shared by several cores: its tiles take
microseconds. So each core takes whole tensors, one after another. How they are dealt is all
that this file decides; another array library that solves many at a time takes the place of
:func:`_deal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensor_rpca import validation
from tensor_rpca.decomposition import decompose
from tensor_rpca.objective.threads import single_threaded_blas, without_helpers
from tensor_rpca.result import Decomposition

# Seeds drawn from a Generator lie below this.
SEEDS = 2**31


def decompose_batch(
    Zs: ArrayLike | Sequence[ArrayLike],
    rank: int | None = None,
    *,
    mask: ArrayLike | Sequence[ArrayLike | None] | None = None,
    random_state: validation.RandomState = None,
    **parameters: Any,
) -> list[Decomposition]:
    """Decompose many tensors of one shape, as many at a time as there are cores.

    Parameters
    ----------
    Zs : array-like of shape (n, d_1, ..., d_K), or sequence of n array-likes of one shape
        ``[Z] * n`` makes n starts on one tensor.
    rank : int, optional
        Upper bound on the number of components of each.
    mask : array-like of bool of the shape of Zs, or sequence of n, optional
        False marks a missing entry.
    random_state : int, Generator or RandomState, optional
        With an int, tensor i is solved as ``decompose(Zs[i], random_state=random_state + i)``
        solves it, bit for bit.
    **parameters
        As for :func:`tensor_rpca.decompose`, the same for all; a callback is called from several
        threads, and returning True ends the tensor whose state it was given.

    Returns
    -------
    list of n Decomposition

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca import decompose_batch
    >>> from tensor_rpca.datasets import low_rank_plus_sparse
    >>> Zs = [low_rank_plus_sparse((12, 12, 12), 2, 0.1, random_state=i)[0] for i in range(4)]
    >>> [result.low_rank.rank for result in decompose_batch(Zs, rank=5, random_state=0)]
    [2, 2, 2, 2]
    """
    if parameters.pop("progress", False):
        raise ValueError("progress bars of many tensors would overwrite each other; use callback")
    tensors = _check_tensors(Zs)
    masks = _check_masks(mask, len(tensors))
    seeds = _seeds(random_state, len(tensors))

    def solve(i: int) -> Decomposition:
        return decompose(tensors[i], rank, mask=masks[i], random_state=seeds[i], **parameters)

    return _deal(solve, len(tensors))


def _deal(solve: Callable[[int], Decomposition], n: int) -> list[Decomposition]:
    """Solve 0, ..., n - 1, each on one core."""

    def alone(i: int) -> Decomposition:
        with without_helpers():
            return solve(i)

    with single_threaded_blas() as n_threads:
        if min(n, n_threads) < 2:
            return [alone(i) for i in range(n)]
        with ThreadPoolExecutor(n_threads) as pool:
            running = [pool.submit(alone, i) for i in range(n)]
            try:
                return [one.result() for one in running]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _check_tensors(Zs: Any) -> list[Any]:
    tensors = [validation.check_tensor(Z, None)[0] for Z in Zs]
    shapes = {Z.shape for Z in tensors}
    if len(shapes) > 1:
        first, other = sorted(shapes)[:2]
        raise ValueError(
            f"Zs holds tensors of shapes {first} and {other}; call decompose_batch once for "
            "each shape"
        )
    return tensors


def _check_masks(mask: Any, n: int) -> list[Any]:
    if mask is None:
        return [None] * n
    masks = list(mask)
    if len(masks) != n:
        raise ValueError(f"mask holds {len(masks)} masks for {n} tensors; give one for each")
    return masks


def _seeds(random_state: validation.RandomState, n: int) -> list[Any]:
    generator = validation.check_generator(random_state)
    if random_state is None:
        return [None] * n
    if generator is not random_state:
        return [int(random_state) + i for i in range(n)]  # type: ignore[arg-type]
    draw = getattr(generator, "integers", None) or generator.randint  # type: ignore[union-attr]
    return [int(seed) for seed in np.asarray(draw(SEEDS, size=n))]
