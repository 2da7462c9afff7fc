"""Run the tiles of a plan, here on threads or elsewhere on a Dask cluster, with progress and cancellation.

Who runs a tile, and in which order, changes nothing in its result. Tiles in flight are bounded, so memory is too. Callbacks are called
in the thread that called `run_tiles`, never in a worker.
"""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from distributed import Client

    from qmcif_engine.run.steps import Steps
    from qmcif_engine.tiles.plan import Tile
    from qmcif_engine.tiles.task import FusedTile, TileTask

POLL_SECONDS = 0.05
"""How often progress and cancellation are looked at while tiles are computed."""


def count_workers(wanted: int | None = None) -> int:
    """Return how many tiles to run at once where the caller does not say: one for each core this process may use."""
    if wanted is not None:
        return max(wanted, 1)
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def run_tiles(
    task: TileTask,
    tiles: Sequence[Tile],
    *,
    n_workers: int,
    steps: Steps,
    keep: Callable[[Tile, FusedTile], None],
    client: Client | None = None,
) -> None:
    """Compute tiles and hand each result to `keep` as it comes.

    Parameters
    ----------
    task : TileTask
    tiles : sequence of Tile
    n_workers : int
        Tiles at once on this machine; a cluster has its own number.
    steps : Steps
    keep : callable
        Takes a tile and its result, in the calling thread.
    client : distributed.Client, optional
        The cluster that computes, instead of threads here.

    Raises
    ------
    Cancelled
        When the caller asked for it.
    ExecutionError
        When a cluster cannot finish.
    """
    if client is not None:
        # a heavy import that only clusters need
        from qmcif_engine.run.cluster import run_on_cluster

        run_on_cluster(task, tiles, steps=steps, keep=keep, client=client)
    elif min(n_workers, len(tiles)) <= 1:
        _run_here(task, tiles, steps=steps, keep=keep)
    else:
        _run_on_threads(task, tiles, n_workers=n_workers, steps=steps, keep=keep)


def _run_here(task: TileTask, tiles: Sequence[Tile], *, steps: Steps, keep: Callable[[Tile, FusedTile], None]) -> None:
    def report_image() -> None:
        steps.count()
        steps.tell()

    for tile in tiles:
        keep(tile, task(tile, check_cancelled=steps.check_cancelled, report_image=report_image))
        report_image()


def _run_on_threads(
    task: TileTask, tiles: Sequence[Tile], *, n_workers: int, steps: Steps, keep: Callable[[Tile, FusedTile], None]
) -> None:
    waiting = iter(tiles)
    running: dict[Future[FusedTile], Tile] = {}
    with ThreadPoolExecutor(n_workers, thread_name_prefix="qmcif-tile") as pool:

        def start_next() -> None:
            tile = next(waiting, None)
            if tile is not None:
                running[pool.submit(task, tile, check_cancelled=steps.check_stopped, report_image=steps.count)] = tile

        try:
            steps.check_cancelled()
            for _ in range(n_workers):
                start_next()
            while running:
                finished, _ = wait(running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                for future in finished:
                    keep(running.pop(future), future.result())
                    steps.count()
                    start_next()
                steps.tell()
                steps.check_cancelled()
        except BaseException:
            steps.stop()  # the pool waits for what is running before it lets go
            raise
