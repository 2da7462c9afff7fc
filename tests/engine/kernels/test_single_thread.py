"""One thread inside, what was before outside, however callers overlap."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from qmcif_engine.kernels.single_thread import single_thread


def blas_threads():
    np.ones((2, 2)) @ np.ones((2, 2))  # BLAS is loaded
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(limits=2):
        yield


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
