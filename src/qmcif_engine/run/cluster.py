"""Run tiles on a Dask cluster: one task a tile, whose worker reads its own windows."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from distributed import Client, as_completed
from distributed.comm.addressing import get_address_host_port
from distributed.scheduler import KilledWorker

from qmcif_engine import __version__
from qmcif_engine.errors import ExecutionError, InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Future

    from qmcif_engine.run.steps import Steps
    from qmcif_engine.tiles.plan import Tile
    from qmcif_engine.tiles.task import FusedTile, TileTask

CONNECT_SECONDS = 10
TILES_A_THREAD = 2
"""Tasks sent to each worker thread: one that is computed and one that waits, so that no worker idles and the client's memory is small."""

LARGEST_TASK_BYTES = 2**20
"""A task that carries more, such as arrays in memory, is sent to every worker once instead of with every tile."""

N_RETRIES = 3


def connect(address: str) -> Client:
    """Return a client of the scheduler at this address that takes over no other computation of this process.

    Raises
    ------
    InvalidConfigError
        When it is no address, or nobody answers there.
    """
    try:
        if not address.startswith("inproc://"):  # a cluster in this process has no port
            get_address_host_port(address)  # a client that fails on a malformed one cannot be closed any more, and hangs
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        msg = (
            f"the scheduler {address!r} cannot be reached ({str(error) or type(error).__name__}); the address of a running Dask scheduler, "
            "such as tcp://host:8786, is needed: start one with `dask scheduler` or correct the address"
        )
        raise InvalidConfigError(msg) from error


def run_on_cluster(task: TileTask, tiles: Sequence[Tile], *, steps: Steps, keep: Callable[[Tile, FusedTile], None], client: Client) -> None:
    """Compute tiles on the workers of a client and hand each result to `keep` as it comes; lost workers' tiles are computed again."""
    check_workers(client)
    n_threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    shared = client.scatter(task, broadcast=True) if len(pickle.dumps(task)) > LARGEST_TASK_BYTES else task
    waiting = iter(tiles)
    running: dict[Future[FusedTile], Tile] = {}
    completed = as_completed(loop=client.loop)

    def start_next() -> None:
        tile = next(waiting, None)
        if tile is not None:
            future = client.submit(_run_task, shared, tile, pure=False, retries=N_RETRIES)
            running[future] = tile
            completed.add(future)

    try:
        for _ in range(TILES_A_THREAD * n_threads):
            start_next()
        for future in completed:
            keep(running.pop(future), _result_of(future))
            steps.count(steps.steps_a_tile)
            steps.tell()
            steps.check_cancelled()
            start_next()
    finally:
        client.cancel(list(running))


def check_workers(client: Client) -> None:
    """Refuse a cluster without workers, or one whose workers run another version of this package or of Python.

    Raises
    ------
    ExecutionError
        Naming what differs.
    """
    try:
        answers = client.run(_describe_worker)
    except ImportError as error:
        msg = f"the workers cannot load this package ({error}); it is needed on every worker: install napari-qmcif there"
        raise ExecutionError(msg) from error
    if not answers:
        msg = "the cluster has no workers; at least one is needed: start one with `dask worker ADDRESS`"
        raise ExecutionError(msg)
    here = _describe_worker()
    for worker, there in answers.items():
        if there != here:
            differing = ", ".join(f"{name} {there[name]} instead of {here[name]}" for name in here if there[name] != here[name])
            msg = f"worker {worker} runs {differing}; the same versions everywhere are needed: install them on every worker"
            raise ExecutionError(msg)


def _describe_worker() -> dict[str, str]:
    """Return the versions that decide on the bytes of a result."""
    import platform

    import numpy as np
    import scipy

    return {"qmcif": __version__, "python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}


def _run_task(task: TileTask, tile: Tile) -> FusedTile:
    return task(tile)


def _result_of(future: Future[FusedTile]) -> FusedTile:
    try:
        result: FusedTile = future.result()
    except KilledWorker as error:
        msg = f"a tile ended {N_RETRIES + 1} workers one after the other ({error}); workers with more memory are needed: add some"
        raise ExecutionError(msg) from error
    return result
