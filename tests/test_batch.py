import threading

import numpy as np
import pytest
import threadpoolctl

from tensor_rpca import decompose, decompose_batch
from tensor_rpca.datasets import low_rank_plus_sparse
from tensor_rpca.objective.threads import single_threaded_blas, without_helpers

ZS = np.stack([low_rank_plus_sparse((8, 9, 10), 2, 0.1, random_state=i)[0] for i in range(5)])


def assert_same_bits(one, other):
    np.testing.assert_array_equal(one.low_rank.weights, other.low_rank.weights)
    for a, b in zip(one.low_rank.factors, other.low_rank.factors, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.sparse.toarray(), other.sparse.toarray())
    assert one.objective == other.objective
    assert one.certificate == other.certificate


@pytest.mark.parametrize(
    "parameters", [{}, {"lambda_x": 1e-5, "lambda_s": 1e-3, "solver": "lbfgs", "max_iter": 30}]
)
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_each_tensor_is_solved_as_alone(n_threads, parameters):
    with threadpoolctl.threadpool_limits(n_threads, user_api="blas"):
        together = decompose_batch(ZS, 4, random_state=7, **parameters)
    for i, result in enumerate(together):
        assert_same_bits(result, decompose(ZS[i], 4, random_state=7 + i, **parameters))


def test_many_starts_of_one_tensor():
    starts = decompose_batch([ZS[0]] * 3, 4, solver="lbfgs", max_iter=5, random_state=0)
    assert len({start.objective for start in starts}) == 3


def test_a_generator_seeds_them_all():
    def run(generator):
        return [r.objective for r in decompose_batch(ZS[:2], 3, random_state=generator)]

    assert run(np.random.default_rng(1)) == run(np.random.default_rng(1))
    assert run(np.random.RandomState(1)) == run(np.random.RandomState(1))


def test_masks():
    mask = np.random.default_rng(0).random(ZS.shape) < 0.8
    for i, result in enumerate(decompose_batch(ZS, 4, mask=mask, random_state=0)):
        assert_same_bits(result, decompose(ZS[i], 4, mask=mask[i], random_state=i))


def test_none_is_an_empty_list():
    assert decompose_batch([], 3) == []


@pytest.mark.parametrize(
    ("Zs", "options", "words"),
    [
        ([np.ones((3, 4)), np.ones((4, 3))], {}, "once for each shape"),
        (ZS, {"mask": [None]}, "one for each"),
        (ZS, {"progress": True}, "callback"),
        (ZS, {"random_state": -1}, "random_state"),
        (ZS, {"rank": 0}, "at least 1"),
        ([ZS[0], np.full_like(ZS[0], np.inf)], {}, "infinite"),
    ],
)
def test_refusals(Zs, options, words):
    with pytest.raises(ValueError, match=words):
        decompose_batch(Zs, **options)


def test_one_that_fails_ends_the_others():
    solved = []

    def stop(state):
        solved.append(threading.get_ident())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decompose_batch(ZS, 3, callback=stop)
    assert len(solved) < len(ZS)


def test_a_thread_alone_has_no_helpers():
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        with without_helpers(), single_threaded_blas() as n_threads:
            assert n_threads == 1
        with single_threaded_blas() as n_threads:
            assert n_threads == 3
