"""Spread independent work over processes, so that neither their number nor an interruption changes a result."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import threadpool_limits

from qmcif_engine.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.synchronize import Event
    from typing import TypeAlias

    _Stop: TypeAlias = Callable[[], bool]

_TaskT = TypeVar("_TaskT")
_ResultT = TypeVar("_ResultT")


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Carry a refused target to the parent process: pickling an `OutputError` would lose the number that tells a full disk."""

    message: str
    number: int | None


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    if min(n_processes, len(tasks)) <= 1:
        with threadpool_limits(limits=1):
            for task in tasks:
                on_result(work(task, _never))
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    n_workers = min(n_processes, len(tasks))
    with ProcessPoolExecutor(n_workers, mp_context=context, initializer=_prepare_worker, initargs=(stop,)) as pool:
        try:
            for future in as_completed([pool.submit(_work_in_process, work, task) for task in tasks]):
                on_result(_unpack(future.result()))
        except BrokenProcessPool as error:
            msg = "a worker process was lost, perhaps for want of memory; run the same command again, it resumes, with fewer --jobs"
            raise ChildProcessError(msg) from error
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _never() -> bool:
    return False


_is_stopped: _Stop = _never


def _prepare_worker(stop: Event) -> None:
    """Leave the interrupt key to the parent, which then sets the event, and use one thread: the cores are taken by processes."""
    global _is_stopped  # a worker process has one parent for life
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(limits=1)
    _is_stopped = stop.is_set


def _work_in_process(work: Callable[[_TaskT, _Stop], _ResultT], task: _TaskT) -> _ResultT | _Refusal:
    try:
        return work(task, _is_stopped)
    except OutputError as error:
        return _Refusal(str(error), error.errno)


def _unpack(outcome: _ResultT | _Refusal) -> _ResultT:
    if isinstance(outcome, _Refusal):
        refusal = OutputError(outcome.message)
        refusal.errno = outcome.number
        raise refusal
    return outcome
