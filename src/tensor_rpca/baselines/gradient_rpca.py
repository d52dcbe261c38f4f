"""Gradient RPCA: alternate between a symmetric orthogonal CP fit and hard thresholding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensor_rpca import validation
from tensor_rpca.baselines.result import Given, Separation, check_weight

Array = NDArray[Any]

# Random starts of the search for a component: the first time, and with what was found before.
RESTARTS, RESTARTS_LATER = 12, 3
# Steps of the search from all starts, and at most from the best.
SEARCH, STEPS = 20, 200
# A search ends when no coordinate moves farther than this.
REST = 1e-10


def gradient_rpca(
    Z: ArrayLike,
    rank: int,
    *,
    incoherence: float | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    random_state: validation.RandomState = None,
) -> Separation:
    r"""Robust PCA of a symmetric tensor with orthogonal components, by a nonconvex method.

    .. math:: Z = \sum_{r=1}^R \sigma_r\, u_r \otimes \dots \otimes u_r + S,
              \qquad u_r^T u_s = [r = s], \quad S \text{ sparse}

    For l = 1, ..., R: X is the best sum of l components of Z - S, found one after the other by
    gradient ascent of ``<Z - S, u o ... o u>`` over the sphere and deflation; S is what of Z - X
    exceeds ``beta (|sigma_{l+1}| + |sigma_l| / 2^t)`` in the t-th step.

    Parameters
    ----------
    Z : array-like of shape (d, ..., d), symmetric in all its axes, of order 3 or higher
    rank : int
        R.
    incoherence : float, optional
        mu, such that no entry of a u_r exceeds ``mu / sqrt(d)``; then ``beta = (mu / sqrt(d))^K``
        bounds the entries of a component of weight one. None is ``sqrt(2 log d)``, about the
        largest of d normal numbers.
    max_iter : int
        Most alternations, over all stages.
    tol : float
        A stage ends when X changes by less than this fraction of Z.
    random_state : int, Generator or RandomState, optional

    Returns
    -------
    Separation
        ``history`` has "change", that of X relative to Z, and "stage", which is l.

    References
    ----------
    A. Anandkumar, P. Jain, Y. Shi and U. N. Niranjan, Tensor vs. matrix methods: robust tensor
    decomposition under block sparse perturbations, AISTATS (2016).

    Examples
    --------
    >>> import numpy as np
    >>> from tensor_rpca.baselines import gradient_rpca
    >>> u, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 3)))
    >>> X = np.einsum("r,ir,jr,kr->ijk", [3.0, 2.0, 1.0], u, u, u)
    >>> Z = X.copy()
    >>> Z[4, 4, 4] = 10.0
    >>> result = gradient_rpca(Z, rank=3, random_state=0)
    >>> bool(np.linalg.norm(result.low_rank - X) < 1e-5 * np.linalg.norm(X))
    True
    """
    given = Given(Z, None)
    _refuse_unsymmetric(given)
    rank = validation.check_rank(rank, given.shape)
    d, order = given.shape[0], len(given.shape)
    if rank > d:
        raise ValueError(f"rank={rank} orthogonal components do not fit into dimension {d}")
    max_iter, tol = validation.check_max_iter(max_iter), validation.check_tol(tol)
    generator = validation.check_generator(random_state)
    mu = check_weight("incoherence", incoherence, math.sqrt(2 * math.log(max(d, 2))))
    beta = float((mu / np.sqrt(d)) ** order)

    size = max(float(np.linalg.norm(given.Z)), 1e-300)
    fit = _fit(given.Z, 1, generator, None)
    S = _hard(given.Z, beta * abs(fit.weights[0]))
    X = np.zeros_like(given.Z)
    history: dict[str, list[float]] = {"change": [], "stage": []}
    converged = False
    for stage in range(1, rank + 1):
        t = 0
        converged = False
        while len(history["change"]) < max_iter and not converged:
            fit = _fit(given.Z - S, min(stage + 1, d), generator, fit.vectors)
            before, X = X, fit.sum(stage)
            following = abs(fit.weights[stage]) if stage < d else 0.0
            S = _hard(given.Z - X, beta * (following + abs(fit.weights[stage - 1]) / 2**t))
            t += 1
            history["change"].append(float(np.linalg.norm(X - before)) / size)
            history["stage"].append(stage)
            # In the first steps the threshold is too high for anything to move.
            converged = t > 5 and history["change"][-1] <= tol
    return given.result(X, S, converged, history)


def _refuse_unsymmetric(given: Given) -> None:
    if len(given.shape) < 3 or len(set(given.shape)) != 1:
        raise ValueError(
            "gradient_rpca needs a tensor with three or more equal sides, got shape "
            f"{given.shape}; horpca_s and decompose take any"
        )
    if not given.complete:
        raise ValueError("gradient_rpca knows no missing entries; horpca_s and decompose do")
    for axis in range(1, len(given.shape)):
        if not np.allclose(given.Z, given.Z.swapaxes(0, axis), rtol=1e-6, atol=1e-9):
            raise ValueError(
                f"Z changes when axes 0 and {axis} are exchanged, but gradient_rpca needs a "
                "symmetric tensor; horpca_s and decompose take any"
            )


def _hard(T: Array, threshold: float) -> Array:
    return np.where(np.abs(T) > threshold, T, 0.0)


@dataclass(frozen=True)
class _Fit:
    """Weights (R,) in descending size, and unit vectors (d, R)."""

    weights: Array
    vectors: Array
    order: int

    def sum(self, rank: int) -> Array:
        """Return the sum of the first components, as a dense tensor."""
        U = self.vectors[:, :rank]
        X = U * self.weights[:rank]
        for _ in range(self.order - 2):
            X = X[..., None, :] * U
        dense: Array = X @ U.T
        return dense


def _fit(T: Array, rank: int, generator: Any, known: Array | None) -> _Fit:
    """Find components one after the other; ``known`` ones are among the starts."""
    rest = T.copy()
    weights: list[float] = []
    vectors: list[Array] = []
    for _ in range(rank):
        u = _ascend(rest, _starts(rest, generator, known), SEARCH)
        u = _ascend(T, u[:, None], STEPS)  # what deflation left of the others does no harm there
        weight = float(_contract(rest, u[:, None], T.ndim)[0])
        rest -= _Fit(np.array([weight]), u[:, None], T.ndim).sum(1)
        weights.append(weight)
        vectors.append(u)
    by_size = np.argsort(-np.abs(weights), kind="stable")
    return _Fit(np.array(weights)[by_size], np.array(vectors).T[:, by_size], T.ndim)


def _starts(T: Array, generator: Any, known: Array | None) -> Array:
    """Leading eigenvectors of T contracted with random vectors down to matrices."""
    d = T.shape[0]
    starts = []
    for _ in range(RESTARTS if known is None else RESTARTS_LATER):
        M = T
        while M.ndim > 2:
            M = M @ generator.standard_normal(d)
        values, U = np.linalg.eigh(M)
        starts.append(U[:, np.argmax(np.abs(values))])
    found = np.array(starts).T
    return found if known is None else np.hstack([known, found])


def _ascend(T: Array, V: Array, steps: int) -> Array:
    """From each column of V, climb to a local maximum of ``|<T, v o ... o v>|``; the highest."""
    for _ in range(steps):
        gradient = _contract(T, V, T.ndim - 1)
        heights = (gradient * V).sum(axis=0)
        # Downhill for a negative value: only for even orders does the sign matter.
        following = gradient * np.where(heights < 0, -1.0, 1.0)
        following /= np.maximum(np.linalg.norm(following, axis=0), 1e-300)
        moved = float(np.abs(following - V).max())
        V = following
        if moved < REST:
            break
    best: Array = V[:, np.argmax(np.abs(_contract(T, V, T.ndim)))]
    return best


def _contract(T: Array, V: Array, times: int) -> Array:
    """Contract the last axes with the columns of V, each with itself: (d, n), or (n,) for all."""
    result = T.reshape(-1, T.shape[0]) @ V
    for _ in range(times - 1):
        result = np.einsum("abn,bn->an", result.reshape(-1, *V.shape), V)
    return result.reshape(-1, V.shape[1]) if times < T.ndim else result.reshape(-1)
