"""Independent work spread over Dask's processes, so that neither their number nor an interruption changes a result."""

from __future__ import annotations

import signal
import traceback
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from threadpoolctl import threadpool_limits

from qmcif_engine.compiled import single_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Event
    from typing import TypeAlias

    _Stop: TypeAlias = Callable[[], bool]

_TaskT = TypeVar("_TaskT")
_ResultT = TypeVar("_ResultT")


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error on its way to the parent process: pickling loses the number that tells a full disk, and Dask would rewrite the message."""

    error: Exception
    number: int | None


def run_everywhere(
    work: Callable[[_TaskT, _Stop], _ResultT],
    tasks: Sequence[_TaskT],
    *,
    n_processes: int,
    on_result: Callable[[_ResultT], None],
) -> None:
    """Do all tasks; results come in whatever order they are finished.

    Parameters
    ----------
    work : callable
        Module-level function of a task and of a callable that tells whether to stop.
    tasks : sequence
    n_processes : int
        With 1 everything happens in this process.
    on_result : callable
        Called here, in this process, with each result.

    Raises
    ------
    ChildProcessError
        When a worker process was lost.
    """
    # in this process, where errors need no wrapping and a debugger works
    if min(n_processes, len(tasks)) <= 1:
        with single_thread():
            for task in tasks:
                on_result(work(task, _never))
        return
    # a heavy import that only those need who use several processes
    from dask.multiprocessing import get, get_context

    # of Dask's own context, since an event of another start method cannot be handed to its processes
    stop = get_context().Event()

    def hand_over(_key: object, outcome: _ResultT | _Failure, *_: object) -> None:
        on_result(_unpack(outcome))

    graph = {("task", position): (partial(_work_in_process, work, task),) for position, task in enumerate(tasks)}
    # Dask's five callbacks in its order: start, start_state, pretask, posttask, finish
    observer = (None, None, None, hand_over, lambda *_: stop.set())  # the last is called before Dask waits for its processes
    # tasks take seconds to minutes: one at a time to a process, or one process would work while others wait
    options: dict[str, Any] = {"initializer": partial(_prepare_worker, stop), "chunksize": 1, "optimize_graph": False}
    try:
        get(graph, list(graph), num_workers=min(n_processes, len(tasks)), callbacks=[observer], **options)
    except BrokenProcessPool as error:
        msg = "a worker process was lost, perhaps for lack of memory; run the same command again, it resumes, with fewer --jobs"
        raise ChildProcessError(msg) from error


def _never() -> bool:
    return False


_is_stopped: _Stop = _never


def _prepare_worker(stop: Event) -> None:
    """Leave the interrupt key to the parent, which then sets the event, and use one thread: the cores are taken by processes."""
    global _is_stopped  # a worker process has one parent for life
    # Ctrl+C reaches the whole group of processes; workers that die of it would look like lost ones
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1)
    _is_stopped = stop.is_set


def _work_in_process(work: Callable[[_TaskT, _Stop], _ResultT], task: _TaskT) -> _ResultT | _Failure:
    try:
        return work(task, _is_stopped)
    except Exception as error:  # all of them: raised again in the parent
        # the traceback does not survive pickling
        error.add_note(traceback.format_exc())
        return _Failure(error, error.errno if isinstance(error, OSError) else None)


def _unpack(outcome: _ResultT | _Failure) -> _ResultT:
    if isinstance(outcome, _Failure):
        if isinstance(outcome.error, OSError):
            outcome.error.errno = outcome.number
        raise outcome.error
    return outcome
