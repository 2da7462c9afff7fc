"""The engine beside the GUI thread: start, progress, remarks, cancellation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from napari.utils import cancelable_progress
from qtpy.QtCore import QCoreApplication, QObject, Qt, Signal

from qmcif_engine import Cancelled, CompilationListener, FusionProgress, QmcifError

logger = logging.getLogger(__name__)

SHORTEST_REPORT_INTERVAL_SECONDS = 0.1
"""Each progress report runs the event loop once: more of them than ten a second would keep the viewer from its own work."""

CANCELLED = "cancelled"
TOO_LARGE = "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"
COMPILING = "compiling the method for this computer, which takes a while and happens once"

_running: set[EngineWorker] = set()
"""Workers whose threads have not ended: nobody else keeps them alive."""


class EngineWorker(QObject):
    """A call of the engine in a thread of its own, which reports progress and can be cancelled at any time.

    This is no `FunctionWorker` of napari: that replaces the warning filters of the whole process while it runs, takes a place in Qt's pool
    while Dask's threads do the work, and has no public way to do otherwise.
    The call gets its arguments and, as ``job``, this worker. A cancelled worker has ended for the viewer at once, whatever its thread is
    busy with; the thread stops at its next step, and its outcome is dropped. It is waited for only where what comes next would meet it:
    files that it still writes, or the next preview.
    """

    progressed = Signal(int, int)
    noted = Signal(str)
    yielded = Signal(object)
    returned = Signal(object)
    errored = Signal(object)
    finished = Signal()
    _ended = Signal(object)
    _left = Signal()

    def __init__(
        self,
        work: Callable[..., Any],
        *arguments: Any,  # noqa: ANN401 - passed on
        on_return: Callable[[Any], object] | None = None,
        is_waited_for: bool = False,
    ) -> None:
        super().__init__()
        self._work = partial(work, *arguments, job=self)
        self._reported_at = float("-inf")
        self._is_cancelled = self._is_over = self._is_compiling = False
        self.is_waited_for = is_waited_for
        # to be shown: how many steps are one tile, and the message after it was cancelled
        self.steps_a_tile, self.if_cancelled = 1, CANCELLED
        self.phase, self.remarks = "", list[str]()
        self._ended.connect(self._conclude, Qt.ConnectionType.QueuedConnection)
        # queued, so that whoever cancels has finished what it is doing
        self._left.connect(self._leave, Qt.ConnectionType.QueuedConnection)
        if on_return is not None:
            self.returned.connect(on_return)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.cancel)

    def start(self) -> None:
        """Begin the work."""
        _running.add(self)
        Thread(target=self._run, daemon=True).start()

    def cancel(self) -> None:
        """Ask the work to stop at once; nothing is returned any more."""
        self._is_cancelled = True
        if not self.is_waited_for:
            self._left.emit()

    def is_cancelled(self) -> bool:
        """Return whether to stop the work; the engine asks this between its steps."""
        return self._is_cancelled

    def check_cancelled(self) -> None:
        """End the work by raising `Cancelled` where it was cancelled."""
        if self._is_cancelled:
            msg = "the work was cancelled; nothing was returned: start it again"
            raise Cancelled(msg)

    def report(self, progress: FusionProgress) -> None:
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

    def _note_compiling(self) -> None:
        """Inform the GUI thread why nothing seems to be done, until the next step or note."""
        if not self._is_compiling:
            self._is_compiling = True
            self.noted.emit(COMPILING)

    def _run(self) -> None:
        outcome = self._attempt()
        # closing the viewer deletes the signals; nobody is left to be informed then
        with suppress(RuntimeError):
            self._ended.emit(outcome)

    def _attempt(self) -> Callable[[], None]:
        """Work, and return the call that announces the outcome."""
        try:
            self.check_cancelled()
            # the first run on a computer compiles for a minute, which would look like a hang
            with CompilationListener(self._note_compiling):
                return partial(self.returned.emit, self._work())
        except Cancelled:
            return self.cancel
        except Exception as error:
            return partial(self.errored.emit, error)

    def _conclude(self, announce: Callable[[], None]) -> None:
        """Announce the end on the thread that made the worker, where `cancel` cannot come between the check and the signal."""
        _running.discard(self)
        if not self._is_over:
            self._is_over = True
            # what came in after Cancel is dropped
            if not self._is_cancelled:
                announce()
            self.finished.emit()

    def _leave(self) -> None:
        """Announce the end of a cancelled worker whose thread has still to come to its next step."""
        if self in _running and not self._is_over:
            self._is_over = True
            self.finished.emit()


class DockEntry(cancelable_progress):  # type: ignore[misc]
    """Bar in napari's activity dock that follows one worker to its end; its Cancel stops the worker at once."""

    def __init__(self, worker: EngineWorker, *, title: str) -> None:
        self._worker, self._title = worker, title
        super().__init__(total=0, desc=title)
        # PyQt holds bound methods weakly: nobody else keeps this entry alive
        worker.progressed.connect(partial(DockEntry.show_step, self))
        worker.noted.connect(lambda text: self.set_description(f"{title}: {text}" if text else title))
        worker.finished.connect(partial(DockEntry.close, self))

    def cancel(self) -> None:
        """Stop the worker."""
        super().cancel()
        self._worker.cancel()

    def show_step(self, done: int, total: int) -> None:
        """Move the bar."""
        if self.total != total:  # type: ignore[has-type] # tqdm's
            self.total = total
        self.update(done - self.n)


def describe_failure(error: Exception) -> str:
    """Return an error in words: its own where it was foreseen, its kind too where not."""
    if isinstance(error, MemoryError):
        return TOO_LARGE
    if isinstance(error, QmcifError | OSError):
        return str(error)
    logger.error("unforeseen failure", exc_info=error)
    return f"{type(error).__name__}: {error}"


def list_running_workers() -> list[EngineWorker]:
    """Return the workers whose threads have not ended yet, also cancelled ones, for whoever must not leave before them."""
    return list(_running)
