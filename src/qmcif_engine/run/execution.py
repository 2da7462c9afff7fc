"""A plan as a Dask graph, one task per tile, and who computes it.

Each task reads its own window and writes its own part of the result. Who computes, and in which order, changes no byte. A given client,
one that is active, or what ``dask.config`` names computes; otherwise threads of this machine.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import uuid4

from qmcif_engine.errors import Cancelled, InvalidConfigError
from qmcif_engine.io.dask_threads import compute_on_threads, count_cores
from qmcif_engine.tiles.plan import Tile

if TYPE_CHECKING:
    from distributed import Client


class FusionProgress(NamedTuple):
    """How much of a fusion is done: for each tile one step per image, or one per image and channel, and one for the decision."""

    done: int
    total: int


class Steps:
    """Steps of a run, and the question whether to go on.

    Tiles are computed by threads that belong to Dask, while the caller waits for it. The threads therefore call the callbacks
    themselves, one at a time. Where tiles are part of a longer run, so many steps are done `n_before` them, of `n_total`.
    """

    def __init__(
        self,
        *,
        n_tiles: int,
        steps_a_tile: int,
        n_before: int = 0,
        n_total: int | None = None,
        on_progress: Callable[[FusionProgress], None] | None = None,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.steps_a_tile = steps_a_tile
        self._total = n_tiles * steps_a_tile if n_total is None else n_total
        self._done = n_before
        self._on_progress, self._is_cancelled = on_progress, is_cancelled
        # kept once the run was cancelled: the callback is not called again, and every tile ends
        self._is_stopped = False
        self._n_computing = 0
        # reentrant: the caller is called back while it is held, and may come back here
        self._lock = threading.RLock()
        self._has_changed = threading.Condition(self._lock)

    def count(self, n_steps: int = 1) -> None:
        """Inform the caller of finished steps, one by one."""
        with self._lock:
            for _ in range(n_steps):
                self._done += 1
                if self._on_progress is not None:
                    self._on_progress(FusionProgress(self._done, self._total))

    def check_cancelled(self) -> None:
        """Ask the caller, and end the tile once the run is to end."""
        with self._lock:
            if not self._is_stopped and self._is_cancelled is not None and self._is_cancelled():
                self._is_stopped = True
            if self._is_stopped:
                msg = f"the fusion was cancelled after {self._done} of {self._total} steps; nothing was returned: start it again"
                raise Cancelled(msg)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Count a tile among those that are computed."""
        with self._lock:
            self._n_computing += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_computing -= 1
                self._has_changed.notify_all()

    def stop(self) -> None:
        """Make every tile end at its next iteration, and return when none is computed any more."""
        with self._lock:
            self._is_stopped = True
            # else a tile that is still computed would write after the caller cleaned up
            self._has_changed.wait_for(lambda: self._n_computing == 0)


CONNECT_SECONDS = 10
_PLACE_IN_PROCESS = re.compile(r"[^/]+/[0-9]{1,9}/[0-9]{1,9}")

BATCH_TILES = 1024
"""Tiles of one graph: a slide has more than a scheduler can hold at once."""

RELAYED_TILES_A_WORKER = 2
"""Tiles of one graph, for each process, whose results come back to this process."""

# twelve digits for all tiles of a run, so that the texts of keys sort as their numbers do
_LAST_KEY = 10**12 - 1
_THREADS = ("threads", "threading")
_ONE_THREAD = ("sync", "synchronous", "single-threaded")
_PROCESSES = ("processes", "multiprocessing")


class TileSink(Protocol):
    """Where the results of tiles go.

    `write` is called in the task that computed the tile: by several threads at once, each with another tile.
    """

    def write(self, tile: Tile, result: Any) -> None:  # noqa: ANN401 - what the task of the run returns
        """Take the result of one tile."""

    def share(self, client: Client | None) -> Callable[[Tile, Any], Any] | None:
        """Return what the workers of a client, or other processes of this machine, call with a tile and its result.

        It returns what `write` has to be called with here. It is `write` itself where all is written there, and None where nothing is.
        """


class TileWork(Protocol):
    """What computes a tile: a `qmcif_engine.tiles.task.TileTask`, or what makes the smaller levels of its image."""

    def __call__(self, tile: Tile, *, check_cancelled: Callable[[], None] = ..., report_image: Callable[[], None] = ...) -> Any:  # noqa: ANN401
        """Return the result of one tile, which a sink takes."""


def count_workers(wanted: int | None = None) -> int:
    """Return how many tiles to run at once where the caller does not say: one for each core this process may use."""
    return count_cores() if wanted is None else max(wanted, 1)


def run_tiles(
    task: TileWork, tiles: Iterable[Tile], *, sink: TileSink, tiles_at_once: int, steps: Steps, client: Client | None = None
) -> None:
    """Compute tiles, each of which writes its result.

    Parameters
    ----------
    task : TileWork
    tiles : iterable of Tile
    sink : TileSink
    tiles_at_once : int
        Threads or processes on this machine; a cluster has its own number.
    steps : Steps
    client : distributed.Client, optional
        The cluster that computes; see `find_client` for what is taken otherwise.

    Raises
    ------
    Cancelled
        When the caller asked for it.
    ExecutionError
        When a cluster cannot finish.
    """
    import dask

    cluster = find_client(client)
    if cluster is not None:
        # a heavy import that only clusters need
        from qmcif_engine.run.cluster import run_on_cluster

        run_on_cluster(task, tiles, sink=sink, steps=steps, client=cluster)
        return
    scheduler = dask.config.get("scheduler", None)
    if scheduler in _PROCESSES:
        _run_on_processes(task, tiles, sink=sink, n_processes=tiles_at_once, steps=steps)
    elif scheduler is None or scheduler in _THREADS or scheduler in _ONE_THREAD:
        _run_on_threads(task, tiles, sink=sink, n_threads=1 if scheduler in _ONE_THREAD else tiles_at_once, steps=steps)
    else:
        msg = (
            f"the Dask scheduler {scheduler!r} is configured; threads, processes, synchronous or a distributed client is needed: "
            "choose one of these in dask.config"
        )
        raise InvalidConfigError(msg)


def find_client(given: Client | None) -> Client | None:
    """Return the cluster that computes: a given client, or the active one unless ``dask.config`` names another scheduler."""
    import dask

    if given is not None:
        return given
    # not imported here: that takes long, and only clusters need it
    distributed: Any = sys.modules.get("distributed")  # who has a client has imported it
    scheduler = dask.config.get("scheduler", None)
    if distributed is None:
        return None
    client: Client | None = scheduler if isinstance(scheduler, distributed.Client) else None
    if scheduler in (None, "distributed", "dask.distributed"):
        with suppress(ValueError):  # nobody has one
            client = distributed.default_client()
    return client


def tile_graph(tiles: Iterable[Tile], compute: Callable[..., object], *arguments: object, name: str) -> dict[tuple[str, int], Any]:
    """Return a Dask graph with one task per tile, which calls `compute` with the arguments and the tile.

    Dask starts independent tasks in descending order of the text of their keys. These count down, so that tiles come row by row and
    windows that were read for one are still at hand for the next.
    """
    return {(name, _LAST_KEY - tile.number): (compute, *arguments, tile) for tile in tiles}


def batches(tiles: Iterable[Tile], n_tiles: int) -> Iterator[Sequence[Tile]]:
    """Yield the tiles in batches of a number."""
    waiting = iter(tiles)
    # taken as they are needed: the tiles of a large plan are made on the way
    while batch := tuple(islice(waiting, n_tiles)):
        yield batch


def new_name() -> str:
    """Return a name for the tasks of one run: results of two runs are never taken for each other."""
    return f"qmcif-tile-{uuid4().hex}"


@dataclass(frozen=True, slots=True)
class TileHere:
    """What a task of this process does: compute a tile, write it, and count its steps."""

    task: TileWork
    sink: TileSink
    steps: Steps

    def __call__(self, tile: Tile) -> None:
        """Compute one tile."""
        with self.steps.computing():
            self.steps.check_cancelled()
            result = self.task(tile, check_cancelled=self.steps.check_cancelled, report_image=self.steps.count)
            self.sink.write(tile, result)
            self.steps.count()


@dataclass(frozen=True, slots=True)
class TileElsewhere:
    """What a task of another process does: compute a tile, and write it or send it back."""

    task: TileWork
    deliver: Callable[[Tile, Any], Any] | None
    """As `TileSink.share` returns it: a sink that is of no use there is not sent, since it may hold whole arrays."""

    def __call__(self, tile: Tile) -> Any:  # noqa: ANN401
        """Compute one tile; what of its result has to be written elsewhere is returned."""
        result = self.task(tile)
        return result if self.deliver is None else self.deliver(tile, result)


def _run_on_threads(task: TileWork, tiles: Iterable[Tile], *, sink: TileSink, n_threads: int, steps: Steps) -> None:
    import dask.local

    compute = TileHere(task, sink, steps)
    try:
        for batch in batches(tiles, BATCH_TILES):
            graph = tile_graph(batch, compute, name=new_name())
            # no pool for a single thread: the caller's own computes
            is_alone = min(n_threads, len(batch)) == 1
            get = dask.local.get_sync if is_alone else partial(compute_on_threads, num_workers=n_threads)
            get(graph, list(graph))
    except BaseException:
        steps.stop()  # Dask returns at the first failure, while other tiles are computed
        raise


def _run_on_processes(task: TileWork, tiles: Iterable[Tile], *, sink: TileSink, n_processes: int, steps: Steps) -> None:
    import dask.multiprocessing

    compute = TileElsewhere(task, sink.share(None))
    # small batches: results that come back wait in this process for the whole graph
    for batch in batches(tiles, RELAYED_TILES_A_WORKER * n_processes):
        steps.check_cancelled()
        graph = tile_graph(batch, compute, name=new_name())
        results = dask.multiprocessing.get(graph, list(graph), num_workers=n_processes)
        for tile, result in zip(batch, results, strict=True):
            if result is not None:
                sink.write(tile, result)
            steps.count(steps.steps_a_tile)


def connect_to_scheduler(address: str) -> Client:
    """Return a client of the Dask scheduler at this address that takes over no other computation of this process.

    Parameters
    ----------
    address : str
        Such as ``tcp://host:8786``.

    Returns
    -------
    distributed.Client
        To be closed by the caller; a ``with`` block does that.

    Raises
    ------
    InvalidConfigError
        When it is no address, or nobody answers there, or the package ``distributed`` is missing.
    """
    try:
        from distributed import Client
    except ImportError as error:
        msg = "the package distributed is not installed; it is needed for a cluster: pip install 'napari-qmcif[distributed]'"
        raise InvalidConfigError(msg) from error
    try:
        _check_address(address)
        # as the default it would also get what the caller computes with dask elsewhere
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        msg = (
            f"the scheduler {address!r} cannot be reached ({str(error) or type(error).__name__}); the address of a running Dask scheduler, "
            "such as tcp://host:8786, is needed: start one with `dask scheduler` or correct the address"
        )
        raise InvalidConfigError(msg) from error


def _check_address(address: str) -> None:
    """Refuse an address that no client can connect to: one that fails on it cannot be closed any more, and hangs.

    Raises
    ------
    ValueError
        Saying what is wrong with it.
    """
    from distributed.comm.addressing import get_address_host_port
    from distributed.security import Security

    scheme, _, place = address.rpartition("://")
    if scheme == "inproc":  # a cluster in this process, which has no port
        if not (_PLACE_IN_PROCESS.fullmatch(place) and int(place.split("/")[1]) == os.getpid()):
            msg = "inproc addresses lead to a cluster of this very process"
            raise ValueError(msg)
        return
    _, port = get_address_host_port(address)
    if not 0 < (port or 0) < 2**16:
        msg = f"{port} is no port"
        raise ValueError(msg)
    if scheme in ("tls", "wss") and Security().get_connection_args("client").get("ssl_context") is None:
        msg = "certificates are needed for encryption: name them in Dask's configuration, distributed.comm.tls"
        raise ValueError(msg)
