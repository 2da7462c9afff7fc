"""The start of one piece of work: what stands in its way, how far it is, how long it takes, a way to stop it, and its outcome."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from magicgui.widgets import Container, ProgressBar, PushButton
from magicgui.widgets.bases import Widget
from napari.utils.notifications import show_error
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from napari_qmcif.form_parts import MessageLabel, group
from napari_qmcif.worker import EngineWorker, describe_failure
from qmcif_engine import QmcifError

GUARD_SECONDS = 0.5
"""So long after the start, a click does not cancel: it is the second one of a double click."""


class WorkRow(Container[Any]):
    """A button that starts a worker and cancels it while it runs, a bar, and messages; the bar keeps its place, so that nothing moves.

    The function called at the end may show its own message.
    """

    def __init__(
        self, make: Callable[[], EngineWorker | None], *, text: str, tooltip: str = "", on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._make, self._on_end, self._text, self.is_allowed, self._is_gone = make, on_end, text, True, False
        self._worker: EngineWorker | None = None
        self._left, self._note, self._began = TimeLeft(), "", 0.0
        self.button, self.bar = PushButton(text=text, tooltip=tooltip), ProgressBar(label="")
        self.bar.native.setAlignment(Qt.AlignmentFlag.AlignCenter)
        super().__init__(widgets=[self.button, self.bar], labels=False)
        self.margins = (0, 0, 0, 0)
        self.reason, self.message = MessageLabel(), MessageLabel()
        for label in (self.reason, self.message):
            self.native.layout().addWidget(label)
        # hidden, they keep their room: nothing moves while the work is under way
        for part in (self.bar.native, self.message):
            policy = part.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            part.setSizePolicy(policy)
        self.native.destroyed.connect(self.leave)
        self.button.changed.connect(self.toggle)
        self.bar.visible = False

    @property
    def is_running(self) -> bool:
        """Whether a worker is under way."""
        return self._worker is not None

    def check(self, find_note: Callable[[], str]) -> None:
        """Enable the button, with a note, or disable it where finding the note is refused, with the reason."""
        try:
            note, self.is_allowed = find_note(), True
        except QmcifError as error:
            note, self.is_allowed = str(error), False
        self.reason.show_text(note)
        self._show_state()

    def toggle(self) -> None:
        """Start the work, or cancel it where it is under way; the second click of a double click does neither."""
        if not self.is_running:
            self.start()
        elif time.monotonic() - self._began > GUARD_SECONDS:
            self.cancel()

    def start(self) -> None:
        """Start the work of the button."""
        self.attempt(self._make)

    def attempt(self, make: Callable[[], EngineWorker | None]) -> None:
        """Start a worker and follow it, one at a time; refusals are shown in place."""
        if self.is_running:
            return
        try:
            worker = make()
        except QmcifError as error:
            self.message.show_error(error)
            return
        if worker is not None:
            self.follow(worker)
            worker.start()

    def follow(self, worker: EngineWorker) -> None:
        """Show a worker from its start to its end; the time left is shown once the steps of a tile were measured."""
        self._worker, self._began = worker, time.monotonic()
        worker.errored.connect(self._fail)
        shown: list[tuple[Any, Any]] = [(worker.noted, self._show_phase), (worker.progressed, self._show_step)]
        for signal, show in [*shown, (worker.returned, self._sum_up), (worker.finished, self._end)]:
            signal.connect(partial(self._show, worker, show))
        # it may be under way: its first note has passed
        self._show_phase(worker.phase or "starting")
        self._show_state()

    def cancel(self) -> None:
        """Ask the worker to stop."""
        if self._worker is not None:
            self._worker.cancel()
            self.message.show_text("cancelling …")
            self.button.enabled = False

    def leave(self, *_: object) -> None:
        """Show nothing any more; the worker goes on."""
        self._is_gone = True

    def _fail(self, error: Exception) -> None:
        if self._is_gone:
            show_error(describe_failure(error))
        else:
            self.message.show_error(error)

    def _show(self, worker: EngineWorker, show: Callable[..., None], *reported: Any) -> None:  # noqa: ANN401 - what a signal carries
        """Show what a worker reports.

        That comes from its thread, maybe when the labels are deleted already, or when the worker was cancelled: then only its end is shown,
        since its thread goes on to its next step.
        """
        if not self._is_gone and worker is self._worker and (show == self._end or not worker.is_cancelled()):
            show(*reported)

    def _show_phase(self, text: str) -> None:
        # steps of aligning and of fusing take different times
        self._left.begin(steps_a_tile=1 if self._worker is None else self._worker.steps_a_tile)
        self._note = f"{text} …"
        self.message.show_text(self._note)
        self._show_step(0, 0)

    def _show_step(self, done: int, total: int) -> None:
        bar, left = self.bar.native, self._left.describe(done, total) if total else ""
        bar.setRange(0, total)
        bar.setValue(done)
        bar.setFormat(f"%p %, {left}" if left else "%p %")

    def _sum_up(self, _: object) -> None:
        if self._worker is not None and self._worker.remarks:
            self.message.show_text("; ".join(self._worker.remarks))

    def _end(self) -> None:
        """Show that it was cancelled; a message about the outcome stays."""
        if self._worker is not None and self._worker.is_cancelled():
            self.message.show_text(self._worker.if_cancelled)
        elif self.message.text() == self._note:
            self.message.show_text("")
        self._worker = None
        self._show_state()
        self._on_end()

    def _show_state(self) -> None:
        self.bar.visible = self.is_running
        self.button.text = "Cancel" if self.is_running else self._text
        self.button.enabled = self.is_allowed or self.is_running


class Page(Container[Any]):
    """A page of the dock: choices, the work that they are for, and what that shows."""

    def __init__(self, viewer: Viewer, choices: Sequence[Widget], row: WorkRow, *shown: QWidget) -> None:
        self._viewer, self.row = viewer, row
        self.form = group(*choices, layout="vertical", labels=True)
        super().__init__(widgets=[self.form, row], labels=False)
        for part in shown:
            self.native.layout().addWidget(part)

    def shut_down(self) -> None:
        """Stop what runs."""
        self.row.cancel()


class TimeLeft:
    """The estimated time that a piece of work still takes, from whole tiles that were measured.

    The steps of a tile are not equally long: its decision takes as long as all of its images. Of the steps so far the later half counts,
    if that is a tile or more: the first ones also compiled, read and warmed up.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._first_done, self._steps_a_tile = 0, 1

    def begin(self, *, steps_a_tile: int) -> None:
        """Forget what was measured: another piece of work begins, with steps of its own length."""
        self._marks.clear()
        self._steps_a_tile = steps_a_tile

    def describe(self, done: int, total: int) -> str:
        """Take a finished step and return the time left in words; nothing while no tile was measured."""
        if not self._marks:
            self._first_done = done
        self._marks.append((time.monotonic(), done))
        wanted = max((done - self._first_done) / 2, self._steps_a_tile)
        while len(self._marks) > 1 and done - self._marks[1][1] >= wanted:
            self._marks.popleft()
        begin, done_before = self._marks[0]
        if done - done_before < self._steps_a_tile:
            return ""
        seconds = round((self._marks[-1][0] - begin) * (total - done) / (done - done_before))
        if seconds < 90:
            return f"{seconds} s left" if seconds else "almost done"
        return f"{round(seconds / 60)} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
