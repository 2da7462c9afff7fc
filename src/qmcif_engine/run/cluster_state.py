"""What a run on a cluster waits for, said aloud and not for ever: a scheduler that answers, and a worker that computes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from distributed.comm.core import CommClosedError

from qmcif_engine.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Client

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often the cluster is asked how it is."""

PATIENCE_SECONDS = 120.0
"""A run gives up when no worker could compute for so long: longer than it takes to start one in place of one that was lost."""


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
    address = client.scheduler.address if client.scheduler is not None else "of this run"
    return ExecutionError(
        f"the scheduler {address} no longer answers; a running scheduler is needed: start one, with workers, and continue with --resume"
    )


def has_run_out_of_memory(client: Client) -> bool:
    """Return whether a worker was ended because its memory ran out, as the process that looks after it reports."""
    return bool(client.get_events("worker-restart-memory"))
