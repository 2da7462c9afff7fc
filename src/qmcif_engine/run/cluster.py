"""Runs on a Dask cluster: one task per tile, whose worker reads its own windows and, on shared storage, writes its own results."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import Client, as_completed
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError
from distributed.protocol.pickle import dumps, loads
from distributed.scheduler import KilledWorker

from qmcif_engine import __version__
from qmcif_engine.errors import ExecutionError
from qmcif_engine.run.execution import Steps, TileElsewhere, TileSink, TileWork, new_name, tile_graph
from qmcif_engine.tiles.plan import Tile

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often the cluster is asked how it is."""

PATIENCE_SECONDS = 120.0
"""A run is aborted when no worker could compute for so long: longer than it takes to start one in place of one that was lost."""


class ClusterWatch:
    """The state of a cluster, looked at from time to time.

    Parameters
    ----------
    client : distributed.Client
    clock : callable
        Tells seconds.
    """

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        # not at once: `check_workers` has just asked all of them
        self._next_look = clock() + LOOK_SECONDS
        self._waiting_since: float | None = None

    def look(self) -> None:
        """Report what is waited for, if anything is and a look is due.

        Raises
        ------
        ExecutionError
            When it has been waited for too long.
        """
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        missing = find_missing(self._client)
        if missing is None:
            self._waiting_since = None
            return
        if self._waiting_since is None:
            self._waiting_since = now
            logger.warning("waiting for %s, for %.0f s at most", missing, PATIENCE_SECONDS)
        if now - self._waiting_since >= PATIENCE_SECONDS:
            msg = f"{missing} did not appear within {PATIENCE_SECONDS:.0f} s; it is needed to continue: start one, then use --resume"
            raise ExecutionError(msg)


def find_missing(client: Client) -> str | None:
    """Return what a cluster lacks to compute; None where it lacks nothing."""
    if client.status != "running":
        return "the scheduler"
    try:
        # -1 for all: by default the scheduler describes only a few
        workers = list(client.scheduler_info(n_workers=-1)["workers"].values())
    except (CommClosedError, OSError, TimeoutError):
        return "the scheduler"
    if not workers:
        return "a worker (the cluster has none)"
    if all(worker.get("status", "running") == "paused" for worker in workers):
        return f"a worker with free memory (all {len(workers)} are paused because theirs is full)"
    return None


def lost_scheduler(client: Client) -> ExecutionError:
    """Return the error for a scheduler that has gone with all it knew."""
    # a client that is closed while it tries to reconnect would print a traceback
    logging.getLogger("distributed.client").addFilter(_is_no_cancelled_reconnection)
    address = client.scheduler.address if client.scheduler is not None else "of this run"
    return ExecutionError(
        f"the scheduler {address} no longer answers; a running scheduler is needed: start one, with workers, and continue with --resume"
    )


def _is_no_cancelled_reconnection(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], CancelledError))


def has_run_out_of_memory(client: Client) -> bool:
    """Return whether a worker was ended because its memory ran out, as the process that looks after it reports."""
    return bool(client.get_events("worker-restart-memory"))


TILES_A_THREAD = 128
"""Tasks sent for each worker thread at most, so that none idles; the scheduler of a large slide never knows more."""

RELAYED_TILES_A_THREAD = 2
"""The same where results come back: one that is computed and one that waits, so that little memory waits for the client."""

LARGEST_TASK_BYTES = 2**20
"""What all tiles have in common is a task of its own, on which they depend, so that the copy of a lost worker is made again. What is
larger, such as arrays in memory, is sent to every worker instead of through the scheduler."""

N_RETRIES = 3

MOST_PREEMPTIONS = 5
"""How often a tile is sent again after the workers it was on were ended from outside, beyond the retries of the scheduler."""

POLL_SECONDS = 0.02
"""How long a finished tile or a request to cancel may wait to be noticed."""


def run_on_cluster(task: TileWork, tiles: Iterable[Tile], *, sink: TileSink, steps: Steps, client: Client) -> None:
    """Compute tiles on the workers of a client; lost workers' tiles are computed again.

    Workers that share storage with this process write their tiles themselves; from others the results come back here. Tasks are sent in
    small graphs, as many as keep the workers busy.

    Raises
    ------
    ExecutionError
        When the scheduler was lost, or no worker can compute for too long; what is finished is kept.
    """
    try:
        _run(task, tiles, sink=sink, steps=steps, client=client)
    except (CommClosedError, FutureCancelledError) as error:
        raise lost_scheduler(client) from error


def _run(task: TileWork, tiles: Iterable[Tile], *, sink: TileSink, steps: Steps, client: Client) -> None:
    check_workers(client)
    deliver = sink.share(client)
    # None where workers write for themselves
    relayed = None if deliver == sink.write else sink
    compute = _share_task(TileElsewhere(task, deliver), client)
    name, waiting = new_name(), iter(tiles)
    running: dict[Future[Any], Tile] = {}
    completed = as_completed(loop=client.loop)
    n_wanted, are_all_sent = 0, False
    watch, preempted = ClusterWatch(client), Counter[int]()
    try:
        while True:
            steps.check_cancelled()
            watch.look()
            # refilled at half, so that tasks go out in few graphs and no worker runs dry
            if len(running) <= n_wanted // 2 and not are_all_sent:
                # counted anew each time: workers come and go
                n_wanted = _count_threads(client) * (TILES_A_THREAD if relayed is None else RELAYED_TILES_A_THREAD)
                n_free = max(n_wanted - len(running), 0)  # none where workers were lost
                batch = tuple(islice(waiting, n_free))
                are_all_sent = len(batch) < n_free
                futures = _send(batch, compute, name=name, client=client)
                running.update(zip(futures, batch, strict=True))
                completed.update(futures)
            if not running:
                return
            # never blocks: a request to cancel has to be noticed while no tile finishes
            finished = completed.next_batch(block=False)
            if not finished:
                time.sleep(POLL_SECONDS)
            for future in finished:
                tile = running.pop(future)
                # nothing here cancels before the end, so a future in this state was forgotten by its scheduler
                if future.status in ("lost", "cancelled"):
                    raise lost_scheduler(client)
                if _is_preempted(future, client) and preempted[tile.number] < MOST_PREEMPTIONS:
                    preempted[tile.number] += 1
                    # under a new name: the scheduler would answer the old one with the failure it keeps
                    (future,) = _send([tile], compute, name=new_name(), client=client)
                    running[future] = tile
                    completed.add(future)
                    continue
                if relayed is not None or future.status != "finished":  # what was written elsewhere need not be fetched
                    _relay(future, tile, relayed)
                steps.count(steps.steps_a_tile)
    finally:
        # a client that lost its scheduler would wait for an answer
        if client.status == "running":
            client.cancel(list(running))


def _share_task(compute: TileElsewhere, client: Client) -> Any:  # noqa: ANN401 - a future of it
    """Bring what all tiles have in common to the workers."""
    # packed once here: how large it is decides on the way it goes
    packed = dumps(compute)
    if len(packed) > LARGEST_TASK_BYTES:
        return client.scatter(compute, broadcast=True)
    return client.submit(loads, packed, key=f"qmcif-run-{uuid4().hex}", retries=N_RETRIES)


def _send(tiles: Sequence[Tile], compute: object, *, name: str, client: Client) -> Any:  # noqa: ANN401 - a list of futures
    graph = tile_graph(tiles, _compute, compute, name=name)
    return client.get(graph, list(graph), sync=False, retries=N_RETRIES)


def _is_preempted(future: Future[Any], client: Client) -> bool:
    """Return whether a tile failed because its workers were ended from outside, and not because their memory ran out."""
    return future.status == "error" and isinstance(future.exception(), KilledWorker) and not has_run_out_of_memory(client)


def _count_threads(client: Client) -> int:
    """Return the threads of all workers of the moment, at least one: a lost worker may come back."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return max(sum(int(worker["nthreads"]) for worker in workers), 1)


def _compute(compute: TileElsewhere, tile: Tile) -> Any:  # noqa: ANN401
    return compute(tile)


def check_workers(client: Client) -> None:
    """Refuse a cluster without workers, or one whose workers run another version of this package or of Python.

    Raises
    ------
    ExecutionError
        Naming what differs.
    """
    try:
        # on every worker, beside its tasks
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


def _relay(future: Future[Any], tile: Tile, sink: TileSink | None) -> None:
    """Fetch what a task returned, or raise what ended it, and write it here."""
    try:
        result = future.result()
    except KilledWorker as error:
        if has_run_out_of_memory(future.client):
            ended = f"a tile ended {N_RETRIES + 1} workers one after the other, whose memory ran out"
            msg = f"{ended}; workers with more memory are needed: add some, and continue with --resume"
        else:
            msg = (
                f"the workers that a tile was given to ended again and again ({error}), and not for lack of memory; workers that last as "
                "long as a tile are needed: look why they are stopped, and continue with --resume"
            )
        raise ExecutionError(msg) from error
    if sink is not None and result is not None:
        sink.write(tile, result)


def share_folder(client: Client, folder: Path) -> bool:
    """Return whether every worker of a client sees this very folder and can write into it."""
    token = uuid4().hex
    probe = folder / f"{token}.probe"
    # a path that looks the same may be another disk there: only a file made here proves that it is one folder
    probe.touch()
    try:
        answers = client.run(_can_write, str(folder), token)
    finally:
        probe.unlink()
    return bool(answers) and all(answers.values())


def _can_write(folder: str, token: str) -> bool:
    """Return, in a worker, whether the folder holds the file of that name and takes another one."""
    import tempfile
    from pathlib import Path

    if not (Path(folder) / f"{token}.probe").exists():
        return False
    try:
        # seeing is not enough: the folder may be mounted read-only, or belong to another user
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
