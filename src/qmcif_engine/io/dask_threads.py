"""Cores of this machine, and Dask's threads, which a fork of the process makes anew: it inherits the pools without their threads."""

from __future__ import annotations

import os
import sys
from threading import Lock
from typing import Any


def count_cores() -> int:
    """Return how many cores this process may use: all of the machine's where the system does not say."""
    # Linux only; containers and clusters often allow fewer cores than the machine has
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def compute_on_threads(graph: Any, keys: Any, **options: Any) -> Any:  # noqa: ANN401 - dask's
    """Compute keys of a graph by Dask's scheduler of threads; the options are its own."""
    import dask.threaded

    return dask.threaded.get(graph, keys, **options)


def _forget_pools() -> None:
    """Drop Dask's pools in a forked child, such as a worker of `multiprocessing`: it would wait for their threads forever."""
    threaded: Any = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.default_pool = None
        threaded.pools.clear()
        # another thread of the parent may have held it
        threaded.pools_lock = Lock()


if sys.platform != "win32":  # there nothing is forked
    os.register_at_fork(after_in_child=_forget_pools)
