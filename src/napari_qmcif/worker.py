"""Run the engine beside the GUI thread: start, hear of progress, cancel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from qtpy.QtCore import QCoreApplication, QObject, Signal

from qmcif_engine import Cancelled

SHORTEST_REPORT_INTERVAL_SECONDS = 0.1
"""Each progress report runs the event loop once: more of them than ten a second would keep the viewer from its own work."""


class Progress(Protocol):
    """Describe what the engine reports after each step."""

    @property
    def done(self) -> int:
        """Steps finished."""

    @property
    def total(self) -> int:
        """Steps in all."""


class Job(QObject):
    """Carry out one piece of work in its own thread; the signals arrive on the thread that made the job.

    napari's own worker is not used because it replaces the warning filter of the whole process while it runs: two runs at once would
    leave it replaced.

    Parameters
    ----------
    work : callable
        Receives the job, for its `report` and `is_cancelled`; what it returns is passed on by the signal `returned`.
    owner : QObject
        When it is deleted, say with its window, the job is cancelled.
    """

    progressed = Signal(int, int)
    noted = Signal(str)
    returned = Signal(object)
    failed = Signal(object)
    ended = Signal()

    def __init__(self, work: Callable[[Job], Any], *, owner: QObject) -> None:
        super().__init__()
        self._work = work
        self._is_cancelled = threading.Event()
        self._reported_at = float("-inf")
        owner.destroyed.connect(self.cancel)

    def start(self) -> None:
        """Begin; the job keeps itself alive until it has ended."""
        _running.add(self)
        self.ended.connect(self._forget)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.cancel)
        threading.Thread(target=self._run, name="qmcif").start()

    def cancel(self) -> None:
        """Ask the work to stop at its next step; nothing is returned any more."""
        self._is_cancelled.set()

    def is_cancelled(self) -> bool:
        """Say whether the work shall stop; the engine asks this between its steps."""
        return self._is_cancelled.is_set()

    def report(self, progress: Progress) -> None:
        """Pass a step on to the GUI thread, at most ten times a second; the engine calls this after each step."""
        now = time.monotonic()
        if progress.done >= progress.total or now - self._reported_at >= SHORTEST_REPORT_INTERVAL_SECONDS:
            self._reported_at = now
            self.progressed.emit(progress.done, progress.total)

    def note(self, text: str) -> None:
        """Tell the GUI thread something that a person should read meanwhile."""
        self.noted.emit(text)

    def _run(self) -> None:
        try:
            result = self._work(self)
        except Cancelled:
            self.cancel()
        except Exception as error:
            if not self.is_cancelled():
                self.failed.emit(error)
        else:
            if not self.is_cancelled():
                self.returned.emit(result)
        self.ended.emit()

    def _forget(self) -> None:
        _running.discard(self)


_running: set[Job] = set()
"""A job that only its thread knew would be deleted there, and its last signals with it."""
