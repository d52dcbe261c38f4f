import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from tensor_rpca.objective.threads import single_threaded_blas


def blas_threads():
    return [pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture(autouse=True)
def _three_threads():
    # A known limit that is not 1, on machines with one core as well.
    with threadpool_limits(3, user_api="blas"):
        if set(blas_threads()) != {3}:
            pytest.skip("this BLAS does not take limits")
        yield


def test_blas_runs_single_threaded_inside_and_as_before_after():
    with single_threaded_blas() as n_threads:
        assert n_threads == 3
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {3}


def test_threadpoolctl_limits_are_ours():
    with threadpool_limits(2, user_api="blas"):
        with single_threaded_blas() as n_threads:
            assert n_threads == 2
        assert set(blas_threads()) == {2}


def test_nested_uses_share_one_limit():
    with single_threaded_blas() as outer:
        with single_threaded_blas() as inner:
            assert (outer, inner) == (3, 3)
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {3}


@pytest.mark.parametrize("nested", [False, True])
def test_an_exception_lifts_the_limit(nested):
    def fail():
        with single_threaded_blas():
            raise KeyError

    if nested:
        with single_threaded_blas():
            with pytest.raises(KeyError):
                fail()
            assert set(blas_threads()) == {1}
    else:
        with pytest.raises(KeyError):
            fail()
    assert set(blas_threads()) == {3}


# threadpoolctl 3.8 lets one thread alone limit OpenBLAS; others' requests do nothing, silently.
def in_another_thread(work):
    """Run to the end in a thread; what it raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(timeout=60)


def test_the_limit_holds_in_whatever_thread_it_is_asked_for():
    def work():
        with single_threaded_blas() as n_threads:
            return n_threads, set(blas_threads())

    assert in_another_thread(work) == (3, {1})
    assert set(blas_threads()) == {3}


@pytest.mark.parametrize(
    ("enters_first", "leaves_first"),
    [
        ("we", "we"),
        ("we", "they"),
        ("they", "we"),
        ("they", "they"),
    ],
)
def test_concurrent_uses_end_in_any_order(enters_first, leaves_first):
    entered, may_leave = threading.Event(), threading.Event()

    def use():
        with single_threaded_blas() as n_threads:
            entered.set()
            may_leave.wait(timeout=60)
            return n_threads

    with ThreadPoolExecutor(1) as pool, ExitStack() as ours:
        ours.callback(may_leave.set)  # whatever happens below, nobody waits
        if enters_first == "we":
            assert ours.enter_context(single_threaded_blas()) == 3
        theirs = pool.submit(use)
        assert entered.wait(timeout=60)
        if enters_first == "they":
            assert ours.enter_context(single_threaded_blas()) == 3
        assert set(blas_threads()) == {1}
        if leaves_first == "we":
            ours.pop_all().close()
        else:
            may_leave.set()
        assert theirs.result(timeout=60) == 3
    assert set(blas_threads()) == {3}


def test_many_threads_come_and_go():
    def work(_):
        seen = []
        for _ in range(50):
            with single_threaded_blas() as n_threads:
                seen.append((n_threads, *blas_threads()))
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(work, range(8)))
    assert {n_threads for n_threads, *_ in seen} == {3}
    assert {limit for _, *limits in seen for limit in limits} == {1}
    assert set(blas_threads()) == {3}
