"""The engine beside the GUI thread: start, progress, cancellation."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from napari.qt.threading import FunctionWorker, create_worker
from napari.utils.notifications import notification_manager, show_error
from qtpy.QtCore import QCoreApplication, QObject, Qt, QThreadPool, Signal
from superqt.utils import WorkerBase

from qmcif_engine import Cancelled, CompilationListener, QmcifError

SHORTEST_REPORT_INTERVAL_SECONDS = 0.1
"""Each progress report runs the event loop once: more of them than ten a second would keep the viewer from its own work."""

TOO_LARGE = "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"
COMPILING = "compiling the method for this computer, which takes a while and happens once"


class Progress(Protocol):
    """What the engine reports after each step."""

    @property
    def done(self) -> int:
        """Steps finished."""

    @property
    def total(self) -> int:
        """Steps in all."""


class EngineSignals(QObject):
    """Signals of a worker: those that napari connects to, and what the engine tells while it works."""

    started = Signal()
    progressed = Signal(int, int)
    noted = Signal(str)
    returned = Signal(object)
    errored = Signal(object)
    warned = Signal(tuple)
    finished = Signal()
    _left = Signal()
    _finished = Signal(object)
    _worked = Signal(object)
    told = Signal(object)
    _telling = Signal(object)


class EngineWorker(FunctionWorker):  # type: ignore[misc]
    """napari's worker for calls of the engine: they tell their progress, can be cancelled at any time, and change nothing of the process.

    The work gets its arguments and, as ``job``, this worker. Unlike napari's own `run`, this one leaves the warning filters of the process
    alone, drops what came in after Cancel, and lets other workers have its place in the pool. A cancelled worker has ended for the viewer
    at once, whatever its thread is busy with; the thread stops at its next step, and nobody hears of it any more. It is waited for only
    where what comes next would meet it: files that it still writes, or the next preview.
    """

    def __init__(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(work, *arguments, **options)
        self.signals = EngineSignals()
        self._reported_at = float("-inf")
        self._is_over = self.is_waited_for = self._is_compiling = False
        self.phase, self.remarks = "", list[str]()
        # no bound method: by the time it arrives, Qt has deleted its part of this worker, and PyQt calls no methods of such objects
        self._worked.connect(partial(EngineWorker._conclude, self), Qt.ConnectionType.QueuedConnection)
        # queued even where nobody listens yet: whoever gets this worker connects to it when it is under way already
        self._telling.connect(partial(EngineWorker._pass_on, self), Qt.ConnectionType.QueuedConnection)
        self._left.connect(partial(EngineWorker._leave, self), Qt.ConnectionType.QueuedConnection)

    @property
    def is_started(self) -> bool:
        """Whether it was started and has not ended yet."""
        return self in WorkerBase._worker_set

    def cancel(self) -> None:
        """Ask the work to stop at once; nothing is returned any more."""
        self.quit()
        # queued, so that whoever cancels has finished what it is doing
        if not self.is_waited_for:
            self._left.emit()

    def is_cancelled(self) -> bool:
        """Return whether the work shall stop; the engine asks this between its steps."""
        return bool(self.abort_requested)

    def check_cancelled(self) -> None:
        """End the work by raising `Cancelled` where it shall stop."""
        if self.abort_requested:
            msg = "the work was cancelled; nothing was returned: start it again"
            raise Cancelled(msg)

    def report(self, progress: Progress) -> None:
        """Pass a step on to the GUI thread, at most ten times a second; the engine calls this after each step."""
        now = time.monotonic()
        # a step was done, so compiling is over
        if self._is_compiling:
            self.note(self.phase)
        if progress.done >= progress.total or now - self._reported_at >= SHORTEST_REPORT_INTERVAL_SECONDS:
            self._reported_at = now
            self.progressed.emit(progress.done, progress.total)

    def note(self, text: str) -> None:
        """Inform the GUI thread what is being done now."""
        self.phase, self._is_compiling = text, False
        self.noted.emit(text)

    def remark(self, text: str) -> None:
        """Add something that a person should know at the end."""
        self.remarks += [text] * bool(text)

    def note_compiling(self) -> None:
        """Inform the GUI thread why nothing seems to be done, until the next step or note; the engine calls this in any thread."""
        if not self._is_compiling:
            self._is_compiling = True
            self.noted.emit(COMPILING)

    def tell(self, found: object) -> None:
        """Pass something that was found on the way on to the GUI thread."""
        self._telling.emit(found)

    def run(self) -> None:
        """Work in a thread of Qt's pool; Qt calls this."""
        pool: Any = QThreadPool.globalInstance()
        # the engine computes in Dask's threads while this one waits: its place in the pool is for other workers
        pool.releaseThread()
        # closing the viewer takes the signals along; raised in a thread of Qt, the error that follows would end the process
        with suppress(RuntimeError):
            try:
                self.started.emit()
                told = self._attempt()
            finally:
                pool.reserveThread()
            self._worked.emit(told)

    def _attempt(self) -> Callable[[], None]:
        """Work, and return the call that tells what came of it."""
        try:
            self.check_cancelled()
            # the first run on a computer compiles for a minute, which would look like a hang
            with CompilationListener(self.note_compiling):
                result = self._func(*self._args, job=self, **self._kwargs)
        except Cancelled:
            return self.cancel
        except Exception as error:
            return partial(self.errored.emit, error)
        return partial(self.returned.emit, result)

    def _conclude(self, tell: Callable[[], None]) -> None:
        """Announce the end on the thread that made the worker, where `cancel` cannot come between the check and the signal."""
        # the connection holds this worker, and with it the result
        self._worked.disconnect()
        self._set_discard(self)
        if not self._is_over:
            self._is_over = True
            # what came in after Cancel is dropped
            if not self.abort_requested:
                tell()
            self.finished.emit()

    def _pass_on(self, found: object) -> None:
        self.told.emit(found)

    def _leave(self) -> None:
        """Announce the end of a cancelled worker whose thread has still to come to its next step."""
        if self.is_started and not self._is_over:
            self._is_over = True
            self.finished.emit()


def make_worker(
    work: Callable[..., Any],
    *arguments: Any,  # noqa: ANN401 - passed on
    owner: QObject | None = None,
    is_waited_for: bool = False,
    is_quiet: bool = False,
) -> EngineWorker:
    """Return a worker that has still to be started; closing the window, or deleting its owner, cancels it.

    An error becomes one of napari's notifications, unless it is quiet: then whoever made it tells.
    """
    # errors are told below: napari would raise them again in the event loop
    worker: EngineWorker = create_worker(work, *arguments, _start_thread=False, _worker_class=EngineWorker, _ignore_errors=True)
    worker.is_waited_for = is_waited_for
    if not is_quiet:
        worker.errored.connect(notify)
    if owner is not None:
        owner.destroyed.connect(worker.cancel)
    application = QCoreApplication.instance()
    if application is not None:
        # threads that go on would keep the process from ending
        application.aboutToQuit.connect(worker.cancel)
    return worker


def describe_failure(error: Exception) -> str:
    """Return an error in words: its own where it was foreseen, its kind too where not."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    return str(error) if isinstance(error, QmcifError | OSError) else f"{type(error).__name__}: {error}"


def notify(error: Exception) -> None:
    """Show an error as napari does: in words where it was foreseen, with its traceback where not."""
    if isinstance(error, QmcifError | OSError | MemoryError):
        show_error(describe_failure(error))
    else:
        notification_manager.receive_error(type(error), error, error.__traceback__)


def list_running_workers() -> list[EngineWorker]:
    """Return the workers whose threads have not ended yet, also cancelled ones, for whoever must not leave before them."""
    return [worker for worker in WorkerBase._worker_set if isinstance(worker, EngineWorker)]
