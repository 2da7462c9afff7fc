"""The start of one piece of work: what stands in its way, how far it is, how long it takes, a way to stop it, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from magicgui.widgets import Container, ProgressBar, PushButton
from magicgui.widgets.bases import Widget
from qtpy.QtCore import Qt

from napari_qmcif.form_parts import MessageLabel, group
from napari_qmcif.progress_display import TimeLeft
from napari_qmcif.worker import EngineWorker
from qmcif_engine import QmcifError

CANCELLED = "cancelled"


class WorkRow(Container[Any]):
    """A button that starts a worker, a bar with Cancel while it runs, and messages; what has nothing to show takes no room.

    Without something to start, workers are handed to `follow`. What is called at the end may say what became of a worker.
    """

    def __init__(
        self,
        start: Callable[..., EngineWorker | None] | None = None,
        *,
        text: str = "",
        tooltip: str = "",
        on_end: Callable[[], None] = lambda: None,
        beside: Widget | None = None,
    ) -> None:
        self._start, self._on_end, self._is_allowed, self._is_gone = start, on_end, True, False
        self._worker: EngineWorker | None = None
        self._left, self._note, self._cancelled, self._steps_a_tile = TimeLeft(), "", CANCELLED, 1
        self.start_button = PushButton(text=text, tooltip=tooltip)
        self.cancel_button = PushButton(text="Cancel", tooltip="Stop at once (Esc)")
        self.bar = ProgressBar(label="")
        self.bar.native.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._running = group(self.bar, self.cancel_button)
        starting = self.start_button if beside is None else group(beside, self.start_button)
        super().__init__(widgets=[starting, self._running], labels=False)
        self.margins = (0, 0, 0, 0)
        self.reason, self.message = MessageLabel(), MessageLabel()
        for label in (self.message, self.reason):
            self.native.layout().insertWidget(0, label)
        self.native.destroyed.connect(self._leave)
        self.start_button.changed.connect(self.start)
        self.cancel_button.changed.connect(self.cancel)
        self.start_button.visible, self._running.visible = start is not None, False

    @property
    def is_running(self) -> bool:
        """Whether a worker is under way."""
        return self._worker is not None

    def allow(self, note: str = "") -> None:
        """Enable the button; a note may stand beside it."""
        self._is_allowed = True
        self.reason.say(note)
        self._show_state()

    def forbid(self, reason: str) -> None:
        """Disable the button and say what stands in the way."""
        self._is_allowed = False
        self.reason.say(reason)
        self._show_state()

    def start(self) -> None:
        """Start the work of the button."""
        if self._start is not None:
            self.attempt(self._start)

    def attempt(self, start: Callable[[], EngineWorker | None]) -> None:
        """Start some work and follow it, one at a time; what is refused is said in place."""
        if self.is_running:
            return
        try:
            worker = start()
        except QmcifError as error:
            self.message.complain(error)
            return
        if worker is not None:
            self.follow(worker)

    def follow(self, worker: EngineWorker, *, steps_a_tile: int = 1, if_cancelled: str = CANCELLED) -> None:
        """Show a worker from its start to its end; the time it takes is told once the steps of a tile were measured."""
        self._worker, self._steps_a_tile, self._cancelled = worker, steps_a_tile, if_cancelled
        signals = (worker.noted, worker.progressed, worker.errored, worker.finished)
        shows: tuple[Callable[..., None], ...] = (self._show_phase, self._show_step, self.message.complain, self._end)
        for signal, show in zip(signals, shows, strict=True):
            # a worker may have something to say when the labels are deleted already
            signal.connect(partial(self._show, show))
        # it may be under way: its first note has passed
        self._show_phase(worker.phase or "starting")
        self._show_state()

    def cancel(self) -> None:
        """Ask the worker to stop."""
        if self._worker is not None:
            self._worker.cancel()
            self.cancel_button.enabled = False
            self.message.say("cancelling …")

    def _leave(self) -> None:
        self._is_gone = True

    def _show(self, show: Callable[..., None], *told: Any) -> None:  # noqa: ANN401 - what a signal carries
        """Show what a worker tells, unless the window was closed meanwhile."""
        if not self._is_gone:
            show(*told)

    def _show_phase(self, text: str) -> None:
        # steps of aligning say nothing about those of fusing
        self._left.begin(steps_a_tile=self._steps_a_tile)
        self._note = f"{text} …"
        self.message.say(self._note)
        self._show_step(0, 0)

    def _show_step(self, done: int, total: int) -> None:
        bar, left = self.bar.native, self._left.describe(done, total) if total else ""
        bar.setRange(0, total)
        bar.setValue(done)
        bar.setFormat(f"%p %, {left}" if left else "%p %")

    def _end(self) -> None:
        """Report that it was cancelled; what it was doing is over, and what became of it stays."""
        if self._worker is not None and self._worker.is_cancelled():
            self.message.say(self._cancelled)
        # others may have said what became of it
        elif self.message.text() == self._note:
            self.message.say("")
        self._worker = None
        self._show_state()
        self._on_end()

    def _show_state(self) -> None:
        self._running.visible = self.cancel_button.enabled = self.is_running
        self.start_button.enabled = self._is_allowed and not self.is_running
