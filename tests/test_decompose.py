import itertools
import zipfile

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import ThreadpoolController, threadpool_limits

from tensor_rpca import Decomposition, KruskalTensor, decompose
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.decomposition import SOLVERS
from tensor_rpca.objective import tiles
from tests.problems import (
    CUBE,
    FOUR,
    LAYOUTS,
    MATRIX,
    PROBLEMS,
    SLAB,
    dense_objective,
    figure1,
    random_factors,
    shrink,
    tiny_tiles,
)


def solve(problem, Z=None, **parameters):
    defaults = {
        "rank": None if "init" in parameters else problem.rank,
        "lambda_x": problem.lambda_x,
        "lambda_s": problem.lambda_s,
        "random_state": 0,
    }
    return decompose(problem.Z if Z is None else Z, **(defaults | parameters))


def solve_to_the_end(problem, Z=None, **parameters):
    return solve(problem, Z, **({"tol": 1e-9, "max_iter": 5000} | parameters))


def hide(problem, fraction=0.2, seed=0):
    """A mask that leaves every slice some entries."""
    return np.random.default_rng(seed).random(problem.Z.shape) >= fraction


def assert_same_bits(a, b):
    np.testing.assert_array_equal(a.low_rank.weights, b.low_rank.weights)
    for ours, theirs in zip(a.low_rank.factors, b.low_rank.factors, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(a.sparse.data, b.sparse.data)
    for ours, theirs in zip(a.sparse.coords, b.sparse.coords, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert a.objective == b.objective
    np.testing.assert_array_equal(a.history["objective"], b.history["objective"])
    assert (a.n_iter, a.n_evaluations, a.message) == (b.n_iter, b.n_evaluations, b.message)


def relative_error(found, truth):
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


# What is returned


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_attributes(problem, solver):
    result = solve(problem, solver=solver)
    assert isinstance(result, Decomposition)
    assert isinstance(result.low_rank, KruskalTensor)
    assert result.low_rank.shape == problem.Z.shape
    assert 1 <= result.low_rank.rank <= problem.rank
    assert isinstance(result.sparse, scipy.sparse.coo_array)
    assert result.sparse.shape == problem.Z.shape
    assert result.density == pytest.approx(result.sparse.nnz / problem.Z.size)
    assert (result.lambda_x, result.lambda_s) == (problem.lambda_x, problem.lambda_s)
    assert isinstance(result.objective, float)
    assert isinstance(result.converged, bool)
    assert result.converged
    assert result.message
    assert 1 <= result.n_iter <= result.n_evaluations
    assert result.seconds > 0
    for name in ("objective", "relative_gradient", "seconds"):
        assert result.history[name].shape == (result.n_iter,)
        assert result.history[name].dtype == np.float64
    assert result.certificate.verdict in ("likely global", "global", "unknown")
    assert result.certificate.stationarity <= 1e-5
    assert result.certificate.vanished == problem.rank - result.low_rank.rank


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_objective_is_that_of_the_two_parts(problem, missing, solver):
    mask = hide(problem) if missing else np.ones(problem.Z.shape, bool)
    result = solve(problem, mask=mask, solver=solver, max_iter=40)  # at any point, not at minima
    X, S = result.low_rank.to_dense(), result.sparse.toarray()
    expected = (
        problem.lambda_x * result.low_rank.weights.sum()
        + problem.lambda_s * np.abs(S).sum()
        + ((X + S - problem.Z)[mask] ** 2).sum() / 2
    )
    assert result.objective == pytest.approx(expected, rel=1e-11)
    factorised, _ = dense_objective(
        result.low_rank.balanced_factors(), problem.Z, mask, problem.lambda_x, problem.lambda_s
    )
    assert result.objective == pytest.approx(factorised, rel=1e-11)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_sparse_part_is_the_shrunk_residual(problem, missing, solver):
    mask = hide(problem) if missing else np.ones(problem.Z.shape, bool)
    result = solve(problem, mask=mask, solver=solver, max_iter=40)
    residual = np.where(mask, problem.Z - result.low_rank.to_dense(), 0)
    S = result.sparse.toarray()
    np.testing.assert_allclose(S, shrink(residual, problem.lambda_s), rtol=0, atol=1e-12)
    assert result.sparse.nnz == np.count_nonzero(S)  # each once, none zero
    assert not S[~mask].any()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_the_gradient_vanishes_where_it_converged(problem, solver):
    # Judged by the reference, not by what the solver says of itself.
    result = solve(problem, solver=solver)
    _, both = dense_objective(
        result.low_rank.balanced_factors(), problem.Z, None, problem.lambda_x, problem.lambda_s
    )
    _, fit = dense_objective(
        result.low_rank.balanced_factors(), problem.Z, None, 0.0, problem.lambda_s
    )
    size = np.sqrt(sum((g**2).sum() for g in fit))
    assert np.sqrt(sum((g**2).sum() for g in both)) <= 1e-4 * size


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", [CUBE, SLAB, FOUR], ids=lambda p: p.name)
def test_the_low_rank_part_is_found(problem, solver):
    result = solve(problem, solver=solver)
    # The noise alone is 3 %; a mean of Z and X, or X with outliers in it, would be farther off.
    assert relative_error(result.low_rank.to_dense(), problem.X) < 0.1
    assert relative_error(result.low_rank.to_dense(), problem.X) < 0.7 * relative_error(
        problem.Z, problem.X
    )


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f4", "f4"),
        ("f2", "f4"),
        ("f8", "f8"),
        (">f8", "f8"),
        ("i2", "f8"),
        (">f4", "f4"),
    ],
)
def test_dtype_of_the_parts(dtype, expected):
    Z = (CUBE.Z * (10 if dtype == "i2" else 1)).astype(dtype)
    result = decompose(Z, 3, random_state=0, max_iter=20)
    assert result.low_rank.dtype == expected
    assert result.sparse.dtype == expected
    assert result.low_rank[0, 0, :].dtype == expected


def test_float32_agrees_with_float64():
    single = solve(CUBE, CUBE.Z.astype(np.float32))
    double = solve(CUBE)
    assert single.converged
    assert single.objective == pytest.approx(double.objective, rel=1e-4)
    assert relative_error(single.low_rank.to_dense(), double.low_rank.to_dense()) < 1e-2


def test_history():
    result = solve(CUBE, solver="lbfgs")
    # The line search lets no iteration climb.
    assert (np.diff(result.history["objective"]) <= 0).all()
    assert (np.diff(result.history["seconds"]) >= 0).all()
    assert result.history["seconds"][-1] <= result.seconds
    assert result.history["objective"][-1] == pytest.approx(result.objective, rel=1e-5)
    assert result.history["relative_gradient"][-1] <= 1e-6


def test_repr_tells_the_story():
    text = repr(solve(MATRIX, solver="lbfgs"))
    for words in (
        "30 x 40",
        "components",
        "sparse",
        "lambda_x = 2",
        "lambda_s = 0.3",
        "iterations",
        "converged",
        "stationary",
        "verdict",
    ):
        assert words in text
    assert "not converged" not in text
    assert "not converged" in repr(solve(MATRIX, max_iter=2))
    assert max(map(len, text.splitlines())) <= 100


# When it stops


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_callback_sees_every_iteration(solver):
    states = []

    def callback(state):
        states.append((state.iteration, state.objective, state.relative_gradient, state.rank))

    result = solve(CUBE, solver=solver, callback=callback)
    iterations, objectives, gradients, ranks = zip(*states, strict=True)
    assert iterations == tuple(range(1, result.n_iter + 1))
    np.testing.assert_array_equal(objectives, result.history["objective"])
    np.testing.assert_array_equal(gradients, result.history["relative_gradient"])
    assert all(1 <= rank <= CUBE.rank for rank in ranks)
    assert ranks[-1] == result.low_rank.rank


def test_a_state_keeps_to_its_iteration():
    # Solvers reuse their vectors: a count asked for later must not be that of a later point.
    counted, kept = [], []

    def count(state):
        counted.append(state.rank)

    solve(CUBE, tol=0, callback=count)
    solve(CUBE, tol=0, callback=kept.append)
    assert [state.rank for state in kept] == counted
    assert len(set(counted)) > 1  # components vanish on the way
    assert "iteration=1," in repr(kept[0])


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_callback_can_stop(solver):
    result = solve(CUBE, solver=solver, callback=lambda state: state.iteration == 7)
    assert result.n_iter == 7
    assert not result.converged
    assert "callback" in result.message
    # The point reached is returned, not the start and not a point tried in between.
    assert result.objective == pytest.approx(result.history["objective"][-1], rel=1e-2)
    assert_same_bits(
        solve(CUBE, solver=solver, callback=lambda state: state.iteration == 7), result
    )


def test_a_numpy_comparison_stops_too():
    result = solve(CUBE, callback=lambda state: np.float64(state.iteration) >= 7)
    assert result.n_iter == 7


@pytest.mark.parametrize("answer", [None, False, 0, 1, "stop", object()])
def test_other_answers_go_on(answer):
    result = solve(CUBE, callback=lambda state: answer, max_iter=9)
    assert result.n_iter == 9


def test_a_callback_that_raises_is_heard_and_leaves_blas_as_it_was():
    def blas_threads():
        return [p["num_threads"] for p in ThreadpoolController().select(user_api="blas").info()]

    def callback(state):
        raise KeyError("mine")

    before = blas_threads()
    with pytest.raises(KeyError, match="mine"):
        solve(CUBE, callback=callback)
    assert blas_threads() == before


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("max_iter", [1, 13])
def test_max_iter(max_iter, solver):
    result = solve(CUBE, solver=solver, max_iter=max_iter)
    assert result.n_iter == max_iter
    assert not result.converged
    assert f"max_iter={max_iter}" in result.message


def test_tol():
    loose, tight = (solve(CUBE, solver="lbfgs", tol=tol) for tol in (1e-2, 1e-5))
    assert loose.n_iter < tight.n_iter
    for result, tol in ((loose, 1e-2), (tight, 1e-5)):
        gradients = result.history["relative_gradient"]
        assert gradients[-1] <= tol < gradients[:-1].min()
        assert result.converged
        assert "stationary" in result.message


def test_tol_zero_goes_on_until_rounding_errors_rule():
    result = solve(CUBE, solver="lbfgs", tol=0, max_iter=5000)
    assert result.converged
    assert "rounding" in result.message
    assert result.certificate.stationarity < 1e-5


def test_progress_is_drawn_on_standard_error(capsys):
    quiet = solve(CUBE, max_iter=15)
    assert capsys.readouterr() == ("", "")
    shown = solve(CUBE, max_iter=15, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "15" in err
    assert "objective" in err
    assert_same_bits(shown, quiet)


# What is missing


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_nan_mask_and_masked_array_agree_bit_for_bit(problem, solver):
    mask = hide(problem)
    by_mask = solve(problem, mask=mask, solver=solver)
    by_nan = solve(problem, np.where(mask, problem.Z, np.nan), solver=solver)
    by_masked_array = solve(problem, np.ma.masked_array(problem.Z, mask=~mask), solver=solver)
    assert_same_bits(by_mask, by_nan)
    assert_same_bits(by_mask, by_masked_array)


def test_ways_to_be_missing_add_up():
    masks = [hide(CUBE, seed=seed) for seed in range(3)]
    together = solve(CUBE, mask=np.logical_and.reduce(masks))
    Z = np.ma.masked_array(np.where(masks[0], CUBE.Z, np.nan), mask=~masks[1])
    assert_same_bits(solve(CUBE, Z, mask=masks[2]), together)


@pytest.mark.parametrize("garbage", [np.inf, -1e300, np.nan])
def test_what_is_masked_is_never_looked_at(garbage):
    mask = hide(CUBE)
    expected = solve(CUBE, mask=mask)
    assert_same_bits(solve(CUBE, np.where(mask, CUBE.Z, garbage), mask=mask), expected)


def test_a_mask_of_ones_changes_nothing():
    assert_same_bits(solve(CUBE, mask=np.ones(CUBE.Z.shape, bool)), solve(CUBE))


def test_missing_entries_are_filled_in():
    mask = hide(SLAB, 0.4)
    X = solve(SLAB, mask=mask).low_rank.to_dense()
    assert relative_error(X[~mask], SLAB.X[~mask]) < 0.25


# What goes in


@pytest.mark.parametrize("layout", sorted(set(LAYOUTS) - {"broadcast"}))
def test_layout_does_not_matter(layout):
    result = solve_to_the_end(CUBE, LAYOUTS[layout](CUBE.Z))
    expected = solve_to_the_end(CUBE)
    assert result.objective == pytest.approx(expected.objective, rel=1e-9)
    assert relative_error(result.low_rank.to_dense(), expected.low_rank.to_dense()) < 1e-5


@pytest.mark.parametrize("layout", ["read-only", "misaligned", "strided", "memmap"])
def test_layouts_in_the_same_order_give_the_same_bits(layout):
    assert_same_bits(solve(CUBE, LAYOUTS[layout](CUBE.Z)), solve(CUBE))


def test_memory_mapped_files_are_read_where_they_are(tmp_path):
    np.save(tmp_path / "Z.npy", CUBE.Z)
    mapped = np.load(tmp_path / "Z.npy", mmap_mode="r")
    assert_same_bits(solve(CUBE, mapped), solve(CUBE))


def test_nested_lists_are_tensors():
    Z = MATRIX.Z[:6, :7]
    assert_same_bits(decompose(Z.tolist(), 2, random_state=0), decompose(Z, 2, random_state=0))


def test_arguments_are_left_as_they_are():
    Z, mask = CUBE.Z.copy(), hide(CUBE)
    init = random_factors(Z.shape, 3)
    kept = [Z.copy(), mask.copy(), *(a.copy() for a in init)]
    decompose(Z, mask=mask, init=init, max_iter=10)
    for now, before in zip([Z, mask, *init], kept, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 9), (9, 1), (2, 2), (1, 6, 7), (6, 7, 1), (3, 3, 3, 3, 3)], ids=str
)
def test_small_and_thin_tensors(shape):
    Z = np.random.default_rng(0).standard_normal(shape) + 2
    result = decompose(Z, random_state=0, max_iter=50)
    assert result.low_rank.shape == shape
    assert np.isfinite(result.objective)
    assert result.objective <= result.history["objective"][0]


def test_no_rank_is_a_bound_that_suits_the_shape():
    result = decompose(CUBE.Z, random_state=0, max_iter=5)
    assert 1 <= result.low_rank.rank <= 50
    assert decompose(MATRIX.Z[:3], random_state=0, max_iter=5).low_rank.rank <= 3


def test_numpy_integers_and_floats_are_parameters():
    result = decompose(
        CUBE.Z,
        np.int64(3),
        lambda_x=np.float32(1),
        lambda_s=np.float64(0.25),
        max_iter=np.int32(4),
        tol=np.float64(1e-3),
        random_state=np.int64(0),
    )
    plain = decompose(CUBE.Z, 3, lambda_x=1, lambda_s=0.25, max_iter=4, tol=1e-3, random_state=0)
    assert_same_bits(result, plain)


# Where it starts


def test_forms_of_init_agree():
    factors = random_factors(CUBE.Z.shape, 4)
    start = KruskalTensor(None, factors)
    by_tensor = solve(CUBE, init=start)
    assert_same_bits(solve(CUBE, init=(start.weights, start.factors)), by_tensor)
    assert_same_bits(solve(CUBE, init=list(start)), by_tensor)
    # Normalising what is normal already moves the last digits.
    by_list = solve(CUBE, init=start.balanced_factors(), max_iter=3)
    assert by_list.objective == pytest.approx(solve(CUBE, init=start, max_iter=3).objective)
    assert_same_bits(solve(CUBE, init=factors, rank=4), solve(CUBE, init=(None, factors)))


def test_two_factors_of_a_matrix_are_no_pair_of_weights_and_factors():
    factors = random_factors(MATRIX.Z.shape, 4)
    assert_same_bits(solve(MATRIX, init=factors), solve(MATRIX, init=(None, factors)))
    assert_same_bits(solve(MATRIX, init=tuple(factors)), solve(MATRIX, init=(None, factors)))


def test_a_minimum_is_kept():
    found = solve_to_the_end(CUBE)
    again = solve(CUBE, init=found.low_rank)
    assert again.n_iter <= 3
    assert again.objective == pytest.approx(found.objective, rel=1e-10)


def test_the_same_seed_gives_the_same_bits():
    first = solve(CUBE, random_state=3)
    assert_same_bits(solve(CUBE, random_state=3), first)
    assert_same_bits(solve(CUBE, random_state=np.random.default_rng(3)), first)
    other = solve(CUBE, random_state=4)
    assert other.history["objective"][0] != first.history["objective"][0]


def test_legacy_random_states_serve_too():
    first, second = (solve(CUBE, random_state=np.random.RandomState(0)) for _ in range(2))
    assert_same_bits(first, second)


def test_no_seed_draws_anew():
    first, second = (solve(CUBE, random_state=None, max_iter=1) for _ in range(2))
    assert first.objective != second.objective


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    "n_threads",
    [
        1,
        2,
        4,
    ],
)
def test_the_same_bits_whatever_the_number_of_threads(n_threads, dtype):
    mask = hide(CUBE, 0.1)

    def run(limit):
        with threadpool_limits(limit, user_api="blas"):
            return solve(CUBE, CUBE.Z.astype(dtype), mask=mask, max_iter=30)

    with tiny_tiles(100, 100):
        assert len(tiles.plan_sweep(CUBE.Z.shape, CUBE.rank).chunks) > 4  # work for all
        assert_same_bits(run(n_threads), run(3))


# What must not depend on units and order


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e6])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_scaling_data_and_weights_scales_both_parts(problem, scale, solver):
    one = solve_to_the_end(problem, solver=solver)
    other = solve_to_the_end(
        problem,
        scale * problem.Z,
        lambda_x=scale * problem.lambda_x,
        lambda_s=scale * problem.lambda_s,
        solver=solver,
    )
    assert other.objective == pytest.approx(scale**2 * one.objective, rel=1e-9)
    assert other.history["objective"][0] == pytest.approx(
        scale**2 * one.history["objective"][0], rel=1e-9
    )
    X, Y = one.low_rank.to_dense(), other.low_rank.to_dense() / scale
    assert relative_error(Y, X) < 1e-5
    S, T = one.sparse.toarray(), other.sparse.toarray() / scale
    np.testing.assert_allclose(T, S, rtol=0, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e6])
def test_default_weights_scale_with_the_data(scale):
    # Few iterations, so that the paths have no time to part.
    one = decompose(CUBE.Z, 4, random_state=0, max_iter=12)
    other = decompose(scale * CUBE.Z, 4, random_state=0, max_iter=12)
    assert other.lambda_x == pytest.approx(scale * one.lambda_x, rel=1e-12)
    assert other.lambda_s == pytest.approx(scale * one.lambda_s, rel=1e-12)
    assert other.objective == pytest.approx(scale**2 * one.objective, rel=1e-7)
    X, Y = one.low_rank.to_dense(), other.low_rank.to_dense() / scale
    assert relative_error(Y, X) < 1e-6
    S, T = one.sparse.toarray(), other.sparse.toarray() / scale
    np.testing.assert_allclose(T, S, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("exponent", [-40, -3, 20])
def test_powers_of_two_change_no_bit_but_the_exponents(exponent, dtype, solver):
    Z, scale = CUBE.Z.astype(dtype), np.dtype(dtype).type(2.0**exponent)
    one = decompose(Z, 4, random_state=0, solver=solver, max_iter=200)
    other = decompose(scale * Z, 4, random_state=0, solver=solver, max_iter=200)
    np.testing.assert_array_equal(other.low_rank.weights, scale * one.low_rank.weights)
    for a, b in zip(other.low_rank.factors, one.low_rank.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(other.sparse.data, scale * one.sparse.data)
    assert other.objective == float(scale) ** 2 * one.objective


def test_units_beyond_all_reason_are_refused_in_words_or_served():
    try:
        result = decompose(1e200 * CUBE.Z, 3, random_state=0, max_iter=20)
    except ValueError as error:
        assert "scale" in str(error)  # noqa: PT017
    else:
        one = decompose(CUBE.Z, 3, random_state=0, max_iter=20)
        np.testing.assert_allclose(result.low_rank.weights, 1e200 * one.low_rank.weights, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(
    ("problem", "axes"),
    [
        (MATRIX, (1, 0)),
        *((SLAB, axes) for axes in itertools.permutations(range(3)) if axes != (0, 1, 2)),
        (FOUR, (3, 1, 0, 2)),
    ],
    ids=lambda v: getattr(v, "name", "".join(map(str, v)) if isinstance(v, tuple) else None),
)
def test_permuted_modes_give_permuted_parts(problem, axes, copied, solver):
    # Close to the minimum, for two starts far away may end in two minima.
    start = KruskalTensor(None, random_factors(problem.Z.shape, 4, seed=5))
    start = solve(problem, init=start, solver=solver, max_iter=100).low_rank
    one = solve_to_the_end(problem, init=start, solver=solver)
    Z = problem.Z.transpose(axes)
    other = solve_to_the_end(
        problem,
        np.ascontiguousarray(Z) if copied else Z,
        init=(start.weights, [start.factors[k] for k in axes]),
        solver=solver,
    )
    assert other.objective == pytest.approx(one.objective, rel=1e-9)
    X, Y = one.low_rank.to_dense().transpose(axes), other.low_rank.to_dense()
    assert relative_error(Y, X) < 1e-5
    S, T = one.sparse.toarray().transpose(axes), other.sparse.toarray()
    np.testing.assert_allclose(T, S, rtol=0, atol=1e-4)


# Whether it is right


def convex_matrix_reference(Z, lambda_x, lambda_s, iterations=3000):
    """min lambda_x ||X||_* + Huber(Z - X) by FISTA with restarts; missing entries are NaN."""

    def residual(X):
        return np.nan_to_num(X - Z)

    X = point = np.zeros_like(Z)
    momentum = 1.0
    for _ in range(iterations):
        step = point - np.clip(residual(point), -lambda_s, lambda_s)
        U, s, V = np.linalg.svd(step, full_matrices=False)
        s = np.maximum(s - lambda_x, 0)
        new = (U * s) @ V
        if ((point - new) * (new - X)).sum() > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        point = new + (momentum - 1) / following * (new - X)
        X, change, momentum = new, np.linalg.norm(new - X), following
        if change <= 1e-13 * np.linalg.norm(X):
            break
    else:
        pytest.fail("the reference did not converge")
    E = np.clip(residual(X), -lambda_s, lambda_s)
    return X, lambda_x * s.sum() + (E * (residual(X) - E / 2)).sum()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("lambda_x", "lambda_s"), [(2.0, 0.3), (3.0, 0.5), (1.0, 0.3)])
def test_matrices_reach_the_convex_minimum(lambda_x, lambda_s, missing, solver):
    # With enough components the factorised problem for K = 2 has no other minima.
    Z = np.where(hide(MATRIX, missing), MATRIX.Z, np.nan)
    X, minimum = convex_matrix_reference(Z, lambda_x, lambda_s)
    weights = {"lambda_x": lambda_x, "lambda_s": lambda_s}
    result = solve_to_the_end(MATRIX, Z, rank=15, solver=solver, **weights)
    assert result.objective == pytest.approx(minimum, rel=1e-10)
    assert relative_error(result.low_rank.to_dense(), X) < 1e-6
    # At a minimum the weights' sum is the nuclear norm.
    nuclear = np.linalg.norm(X, "nuc")
    assert result.low_rank.weights.sum() == pytest.approx(nuclear, rel=1e-6)


@pytest.mark.parametrize("shape", [(1, 2), (3, 5), (5, 3)])
def test_matrices_may_be_offered_more_components_than_they_have_rows(shape):
    Z = np.random.default_rng(0).standard_normal(shape)
    assert decompose(Z, 4, random_state=0).low_rank.rank <= min(shape)


def test_matrices_have_as_many_components_as_their_rank():
    X, _ = convex_matrix_reference(MATRIX.Z, 2.0, 0.3)
    result = solve_to_the_end(MATRIX, lambda_x=2.0, lambda_s=0.3)
    assert result.low_rank.rank == np.linalg.matrix_rank(X, tol=1e-6) == 3


@pytest.mark.parametrize(
    ("rank", "outliers"),
    [(5, 0.05), (5, 0.2), (20, 0.05), (20, 0.2), (35, 0.05), (35, 0.2), (50, 0.05), (50, 0.1)],
)
def test_easy_region_of_figure_1(rank, outliers):
    problem = figure1(rank, outliers, random_state=0)
    result = solve(problem, solver="lbfgs", max_iter=1000)
    assert relative_error(result.low_rank.to_dense(), problem.X) < 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
def test_default_weights_recover_an_easy_tensor(solver):
    Z, X, S = low_rank_plus_sparse((20, 20, 20), 3, 0.1, random_state=0)
    result = decompose(Z, 3, random_state=0, solver=solver)
    assert relative_error(result.low_rank.to_dense(), X) < 1e-2
    assert relative_error(result.sparse.toarray(), S) < 5e-2


def test_weights_too_large_for_any_component_leave_none():
    result = solve(CUBE, lambda_x=1e4)
    S = result.sparse.toarray()
    np.testing.assert_allclose(S, shrink(CUBE.Z, CUBE.lambda_s), rtol=0, atol=1e-6)
    assert result.low_rank.norm() < 1e-6


@pytest.mark.parametrize("problem", [MATRIX, CUBE], ids=lambda p: p.name)
def test_components_that_all_vanished_are_all_dropped(problem):
    assert solve(problem, lambda_x=1e4).low_rank.rank == 0


def test_the_saddle_at_zero_is_not_called_a_global_minimum():
    zero = [np.zeros((d, 3)) for d in CUBE.Z.shape]
    result = solve(CUBE, init=zero, solver="lbfgs")
    assert result.low_rank.rank == 0
    assert result.certificate.verdict == "not global"


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_start_too_large_to_improve_has_not_converged():
    result = solve(CUBE, init=[np.full((d, 2), 1e80) for d in CUBE.Z.shape])
    assert result.objective < 1e10 or not result.converged


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_zero_is_split_into_zeros(shape, missing):
    Z = np.zeros(shape)
    if missing:
        Z[0, 0] = np.nan
    result = decompose(Z, random_state=0)
    assert result.low_rank.rank == 0
    assert result.low_rank.shape == shape
    assert result.low_rank.norm() == 0
    assert result.sparse.nnz == 0
    assert result.sparse.shape == shape
    assert result.objective == 0
    assert result.converged
    assert result.n_iter == 0
    assert result.history["objective"].shape == (0,)
    assert "zero" in result.message
    assert "0 components" in repr(result)


# Files


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_files_give_back_what_was_saved(tmp_path, problem, dtype):
    result = solve(problem, problem.Z.astype(dtype), max_iter=30)
    path = result.save(tmp_path / "result.npz")
    assert path == tmp_path / "result.npz"
    again = Decomposition.load(path)
    assert again.low_rank.dtype == again.sparse.dtype == dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(again.low_rank.weights, result.low_rank.weights, rtol=4 * eps)
    for ours, theirs in zip(again.low_rank.factors, result.low_rank.factors, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=4 * eps)
    np.testing.assert_array_equal(again.sparse.toarray(), result.sparse.toarray())
    assert again.history.keys() == result.history.keys()
    for name, values in result.history.items():
        np.testing.assert_array_equal(again.history[name], values)
    for name in (
        "lambda_x",
        "lambda_s",
        "objective",
        "n_iter",
        "n_evaluations",
        "converged",
        "message",
        "seconds",
    ):
        assert getattr(again, name) == getattr(result, name)
    for name in ("verdict", "stationarity", "vanished"):
        assert getattr(again.certificate, name) == getattr(result.certificate, name)
    assert np.isnan(again.certificate.gap) == np.isnan(result.certificate.gap)
    assert repr(again) == repr(result)


def test_files_hold_no_pickle(tmp_path):
    path = solve(CUBE, max_iter=3).save(tmp_path / "result")
    assert path.name == "result.npz"  # the suffix is added
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert all(array.dtype.kind in "fiuU" for array in arrays.values())
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())


def test_an_empty_result_can_be_saved_too(tmp_path):
    again = Decomposition.load(decompose(np.zeros((3, 4, 5))).save(tmp_path / "zero.npz"))
    assert again.low_rank.shape == again.sparse.shape == (3, 4, 5)
    assert (again.low_rank.rank, again.sparse.nnz) == (0, 0)


def test_saving_replaces_whole_files_and_leaves_nothing_else(tmp_path):
    first, second = (solve(CUBE, max_iter=n) for n in (2, 3))
    first.save(tmp_path / "result.npz")
    second.save(str(tmp_path / "result.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["result.npz"]
    assert Decomposition.load(str(tmp_path / "result.npz")).n_iter == 3


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = solve(CUBE, max_iter=2).save(tmp_path / "result.npz")

    def full_disk(stream, **arrays):
        stream.write(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space"):
        solve(CUBE, max_iter=3).save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.npz"]
    assert Decomposition.load(path).n_iter == 2
