"""One thread inside, what was before outside, however callers overlap and in whatever threads they run."""

from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest
import sklearn.cluster  # noqa: F401  its OpenMP keeps a number of threads for each thread
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from qmcif_engine.compiled import single_thread


def blas_threads():
    np.ones((2, 2)) @ np.ones((2, 2))  # BLAS is loaded
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def openmp_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2):
        yield


@pytest.fixture
def two_others():
    """Two threads that live on when they have done something."""
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        yield tuple(lambda call, pool=pool: pool.submit(call).result() for pool in (first, second))


def test_inside_there_is_one_thread_and_afterwards_as_many_as_before():
    before = blas_threads()
    with single_thread():
        inside = blas_threads()

    assert before == {2}
    assert inside == {1}
    assert blas_threads() == before


def test_the_first_to_leave_does_not_lift_the_limit_of_the_other():
    first, second = single_thread(), single_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    between = blas_threads()
    second.__exit__(None, None, None)

    assert between == {1}
    assert blas_threads() == {2}


def test_an_error_inside_restores_the_threads():
    with pytest.raises(KeyError), single_thread():
        raise KeyError

    assert blas_threads() == {2}


def test_the_limit_holds_in_a_thread_while_another_one_controls_the_library(two_others):
    in_first, _ = two_others

    def count():
        with single_thread():
            return blas_threads()

    assert in_first(count) == {1}
    assert blas_threads() == {2}


def test_the_last_to_leave_lifts_the_limit_whoever_came_first(two_others):
    in_first, in_second = two_others
    first, second = single_thread(), single_thread()
    in_first(first.__enter__)
    in_second(second.__enter__)
    in_first(lambda: first.__exit__(None, None, None))
    between = blas_threads()
    in_second(lambda: second.__exit__(None, None, None))

    assert between == {1}
    assert blas_threads() == {2}


def test_afterwards_no_thread_is_left_in_control(two_others):
    in_first, _ = two_others
    OpenBLASController.clear_controlling_thread(force=True)
    in_first(lambda: exit_at_once(single_thread()))

    with threadpool_limits(limits=3):
        assert blas_threads() == {3}


def test_every_thread_limits_and_restores_its_own_openmp(two_others):
    in_first, _ = two_others
    in_first(lambda: threadpool_limits(limits=3, user_api="openmp"))

    def count():
        with single_thread():
            return openmp_threads()

    with single_thread():
        assert in_first(count) == {1}
        assert openmp_threads() == {1}
    assert in_first(openmp_threads) == {3}
    assert openmp_threads() == {2}


def exit_at_once(context):
    with context:
        pass


def test_opencv_has_one_thread_inside_and_as_many_as_before_outside():
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        with single_thread(), single_thread():
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
