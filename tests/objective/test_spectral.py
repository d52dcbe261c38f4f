import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_rpca.objective import spectral, tiles
from tensor_rpca.objective.spectral import spectral_norm
from tensor_rpca.objective.sweep import Sweep
from tests.problems import LAYOUTS, random_factors, tensor_of, tiny_tiles, working_dtype

SHAPES = {2: (9, 13), 3: (5, 6, 7), 4: (4, 5, 3, 6), 5: (3, 2, 4, 3, 5)}
THRESHOLD = 0.7


def dense_clipped(Z, factors, mask=None, threshold=THRESHOLD):
    letters = "abcde"[: Z.ndim]
    X = np.einsum(",".join(f"{c}z" for c in letters) + "->" + letters, *factors)
    D = np.clip(np.asarray(Z, dtype=np.float64) - X, -threshold, threshold)
    return np.nan_to_num(D if mask is None else np.where(mask, D, 0.0))


def unfolding(D, modes):
    others = [k for k in range(D.ndim) if k not in modes]
    return D.transpose([*modes, *others]).reshape(int(np.prod([D.shape[k] for k in modes])), -1)


def contracted(D, directions, k):
    letters = "abcde"[: D.ndim]
    others = [j for j in range(D.ndim) if j != k]
    spec = ",".join([letters, *(letters[j] + "z" for j in others)]) + f"->{letters[k]}z"
    return np.einsum(spec, D, *(directions[j] for j in others))


def value_at(D, direction):
    for u in direction:
        D = np.tensordot(u, D, (0, 0))
    return float(D)


def open_sweep(Z, mask=None, n_threads=2):
    return Sweep(Z, mask, working_dtype(Z), n_threads)


def groups(order):
    return [g for n in range(order) for g in itertools.combinations(range(order), n)]


@st.composite
def residuals(draw):
    order = draw(st.integers(2, 5))
    shape = tuple(draw(st.integers(1, 7 if order < 4 else 4)) for _ in range(order))
    seed = draw(st.integers(0, 1000))
    layout = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    Z = layout(tensor_of("f8", shape, seed, missing=draw(st.sampled_from([0.0, 0.3]))))
    mask = None
    if draw(st.booleans()):
        mask = np.random.default_rng(seed).random(shape) < 0.7
    factors = random_factors(shape, draw(st.integers(1, 4)), seed)
    tiling = tuple(draw(st.sampled_from([1, 8, 40, 10**6])) for _ in range(2))
    return Z, mask, factors, tiling


@given(residuals(), st.integers(1, 5))
def test_contractions_with_any_directions(residual, n):
    Z, mask, factors, tiling = residual
    directions = random_factors(Z.shape, n, seed=7)
    pulls = [np.full_like(u, np.nan) for u in directions]
    with tiny_tiles(*tiling), open_sweep(Z, mask) as sweep:
        sweep.loss_and_gradient(factors, pulls, THRESHOLD, directions=directions)
    D = dense_clipped(Z, factors, mask)
    for k, pull in enumerate(pulls):
        np.testing.assert_allclose(-pull, contracted(D, directions, k), rtol=0, atol=1e-11)


@given(residuals())
def test_contractions_with_the_factors_are_the_gradient(residual):
    Z, mask, factors, tiling = residual
    plain, directed = ([np.empty_like(a) for a in factors] for _ in range(2))
    with tiny_tiles(*tiling), open_sweep(Z, mask) as sweep:
        loss = sweep.loss_and_gradient(factors, plain, THRESHOLD)
        same = sweep.loss_and_gradient(
            factors, directed, THRESHOLD, directions=[a.copy() for a in factors]
        )
    assert loss == same
    for a, b in zip(plain, directed, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@given(residuals())
def test_gram_matrices_of_all_unfoldings(residual):
    Z, mask, factors, tiling = residual
    D = dense_clipped(Z, factors, mask)
    with tiny_tiles(*tiling), open_sweep(Z, mask) as sweep:
        for modes in groups(Z.ndim):
            M = unfolding(D, modes)
            gram = sweep.gram(factors, THRESHOLD, modes)
            assert gram.dtype == np.float64
            np.testing.assert_allclose(gram, M @ M.T, rtol=0, atol=1e-11)


@pytest.mark.parametrize("modes", [(), (0,), (1,), (2,)])
def test_plans_leave_modes_whole(modes):
    shape = (40, 30, 50)
    with tiny_tiles(tile_entries=2**10, chunk_work=2**12):
        plan = tiles.plan_sweep(shape, 3, modes)
    boxes = plan.boxes()
    assert len(plan.chunks) > 1
    assert sum(np.prod(tiles.box_shape(box)) for box in boxes) == np.prod(shape)
    assert all(box[k] == slice(0, shape[k]) for box in boxes for k in modes)
    assert plan.rows * plan.columns < np.prod(shape)


@pytest.mark.parametrize("order", SHAPES)
def test_the_same_bits_on_any_number_of_threads(order):
    shape = tuple(2 * d for d in SHAPES[order])
    Z = tensor_of("f8", shape, missing=0.1)
    factors = random_factors(shape, 3)

    def everything(n_threads):
        pulls = [np.empty((d, 4)) for d in shape]
        with open_sweep(Z, None, n_threads) as sweep:
            sweep.loss_and_gradient(factors, pulls, 0.5, directions=random_factors(shape, 4))
            return [*pulls, sweep.gram(factors, 0.5, (1,)), sweep.gram(factors, 0.5, (0,))]

    with tiny_tiles(64, 64):
        for ours, reference in zip(everything(2), everything(5), strict=True):
            np.testing.assert_array_equal(ours, reference)


@given(residuals())
def test_bounds_lie_on_either_side(residual):
    Z, mask, factors, tiling = residual
    D = dense_clipped(Z, factors, mask)
    with tiny_tiles(*tiling), open_sweep(Z, mask) as sweep:
        found = spectral_norm(sweep, factors, THRESHOLD, all_unfoldings=True)
    assert found.lower <= found.upper
    assert found.lower == pytest.approx(value_at(D, found.direction), rel=1e-9, abs=1e-12)
    assert [u.shape for u in found.direction] == [(d,) for d in Z.shape]
    if D.any():
        np.testing.assert_allclose([np.linalg.norm(u) for u in found.direction], 1, rtol=1e-12)
    assert found.frobenius == pytest.approx(np.linalg.norm(D), rel=1e-12)
    best = min(np.linalg.norm(unfolding(D, g), 2) for g in groups(Z.ndim) if g)
    assert found.upper == pytest.approx(best, rel=1e-6, abs=1e-12)
    assert found.upper >= best * (1 - 1e-14)


@pytest.mark.parametrize("shape", [(9, 13), (13, 9), (1, 5), (6, 1), (40, 40)])
def test_bounds_of_a_matrix_meet(shape):
    Z = tensor_of("f8", shape)
    with open_sweep(Z) as sweep:
        found = spectral_norm(sweep, [np.zeros((d, 1)) for d in shape], 2.0)
    exact = np.linalg.norm(np.clip(Z, -2, 2), 2)
    assert found.lower == pytest.approx(exact, rel=1e-12)
    assert found.upper == pytest.approx(exact, rel=1e-9)
    assert found.upper >= exact * (1 - 1e-15)


def orthonormal(d, n, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, n)))[0]


@pytest.mark.parametrize("shape", [(8, 9), (7, 8, 9), (5, 6, 5, 6)])
@pytest.mark.parametrize("weights", [[3.0], [5.0, 4.9, 4.8], [2.0, 2.0, 1.0]])
def test_orthogonally_decomposable_tensors(shape, weights):
    # Their spectral norm is the largest weight, and so is that of all single-mode unfoldings.
    columns = [orthonormal(d, len(weights), seed) for seed, d in enumerate(shape)]
    Z = -dense_clipped(np.zeros(shape), [columns[0] * weights, *columns[1:]], threshold=np.inf)
    with open_sweep(Z) as sweep:
        found = spectral_norm(sweep, [np.zeros((d, 1)) for d in shape], 1e9)
    assert found.lower == pytest.approx(max(weights), rel=1e-4)
    assert found.upper == pytest.approx(max(weights), rel=1e-9)


def test_a_planted_direction_is_found():
    shape = (20, 25, 30)
    rng = np.random.default_rng(0)
    planted = [orthonormal(d, 1, 3) for d in shape]
    Z = rng.standard_normal(shape) - dense_clipped(np.zeros(shape), planted, threshold=np.inf) * 40
    with open_sweep(Z) as sweep:
        found = spectral_norm(sweep, [np.zeros((d, 1)) for d in shape], 1e9)
    assert abs(value_at(Z, [u[:, 0] for u in planted])) <= found.lower
    for u, v in zip(found.direction, planted, strict=True):
        assert abs(u @ v[:, 0]) > 0.9


def test_more_starts_find_no_less():
    Z = tensor_of("f8", (12, 12, 12))
    zero = [np.zeros((12, 1))] * 3
    with open_sweep(Z) as sweep:
        few, many = (
            spectral_norm(sweep, zero, 1e9, starts=n, max_iter=i) for n, i in ((1, 4), (100, 60))
        )
    assert few.lower <= many.lower <= many.upper == few.upper


def test_known_directions_are_not_forgotten():
    Z = tensor_of("f8", (12, 12, 12))
    zero = [np.zeros((12, 1))] * 3
    with open_sweep(Z) as sweep:
        best = spectral_norm(sweep, zero, 1e9, starts=100, max_iter=60)
        known = [u[:, None] for u in best.direction]
        again = spectral_norm(sweep, zero, 1e9, starts=1, max_iter=1, known=known)
    assert again.lower >= best.lower * (1 - 1e-12)


def test_what_costs_too_much_is_bounded_by_frobenius(monkeypatch):
    monkeypatch.setattr(spectral, "UNFOLDING_SWEEPS", 0.0)
    Z = tensor_of("f8", (5, 6, 7), missing=0.2)
    zero = [np.zeros((d, 1)) for d in Z.shape]
    with open_sweep(Z) as sweep:
        found = spectral_norm(sweep, zero, 1e9)
    assert found.upper == pytest.approx(np.linalg.norm(np.nan_to_num(Z)), rel=1e-9)
    assert found.lower < found.upper


@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (6, 6, 6, 6), (2, 3, 4, 5, 6)])
def test_each_pair_of_groups_is_unfolded_once_with_the_shorter_side_as_rows(shape):
    chosen = spectral._affordable(shape, 10, True)
    assert len(chosen) == 2 ** (len(shape) - 1) - 1
    everything = set(range(len(shape)))
    assert len({frozenset([frozenset(g), frozenset(everything - set(g))]) for g in chosen}) == len(
        chosen
    )
    for g in chosen:
        assert np.prod([shape[k] for k in g]) ** 2 <= np.prod(shape)


def test_nothing_is_pulled_by_nothing():
    with open_sweep(np.zeros((3, 4, 5))) as sweep:
        found = spectral_norm(sweep, [np.zeros((d, 1)) for d in (3, 4, 5)], 1.0)
    assert (found.lower, found.frobenius) == (0, 0)
    assert found.upper == 0


@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_other_dtypes(dtype):
    Z = tensor_of(dtype, (6, 7, 8))
    working = working_dtype(Z)
    factors = random_factors(Z.shape, 2, dtype=working)
    with open_sweep(Z) as sweep:
        found = spectral_norm(sweep, factors, THRESHOLD)
    D = dense_clipped(Z, factors)
    eps = float(np.finfo(working).eps)
    assert found.direction[0].dtype == working
    assert found.lower == pytest.approx(value_at(D, found.direction), rel=1e3 * eps)
    best = min(np.linalg.norm(unfolding(D, (k,)), 2) for k in range(3))
    assert found.upper == pytest.approx(best, rel=1e3 * eps)
