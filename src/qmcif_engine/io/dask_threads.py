"""Dask's scheduler on threads that end with their work, so that this process can be forked afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def dask_on_threads(n_threads: int) -> Iterator[Callable[..., Any]]:
    """Yield the function that computes keys of a graph in so many threads, which are there for this block alone.

    Dask itself keeps its threads. A fork of the process, such as a worker of `multiprocessing`, would inherit the pool without them and
    wait for its first task forever. A pool that ``dask.config`` names computes instead.
    """
    import dask.threaded

    if dask.config.get("pool", None) is not None:
        yield dask.threaded.get
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield partial(dask.threaded.get, pool=pool)
    finally:
        # not waited for: where one task failed, those under way stop at their next step
        pool.shutdown(wait=False, cancel_futures=True)
