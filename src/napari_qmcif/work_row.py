"""The start of one piece of work, its progress, a way to stop it, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from magicgui.widgets import Container, ProgressBar, PushButton

from napari_qmcif.form_parts import MessageLabel
from napari_qmcif.worker import EngineWorker
from qmcif_engine import QmcifError


class WorkRow(Container[Any]):
    """A button that starts a worker, a bar with Cancel while it runs, and a message; what has nothing to show takes no room.

    Parameters
    ----------
    start : callable, optional
        Starts the work and returns its worker, or None where there is nothing to do; without it, workers are handed to `follow`.
    text : str
        What the button says.
    on_end : callable, optional
        Called when a worker has ended: to say what became of it.
    """

    def __init__(
        self, start: Callable[..., EngineWorker | None] | None = None, *, text: str = "", on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._start, self._on_end, self._is_allowed, self._note = start, on_end, True, ""
        self._worker: EngineWorker | None = None
        self.start_button, self.cancel_button = PushButton(text=text), PushButton(text="Cancel")
        self.bar = ProgressBar(label="")
        running: list[Any] = [self.bar, self.cancel_button]
        self._running: Container[Any] = Container(widgets=running, layout="horizontal", labels=False)
        parts: list[Any] = [self.start_button, self._running]
        super().__init__(widgets=parts, labels=False)
        self.message = MessageLabel()
        self.native.layout().addWidget(self.message)
        for part in (self, self._running):
            part.margins = (0, 0, 0, 0)
        self.start_button.changed.connect(self.start)
        self.cancel_button.changed.connect(self.cancel)
        self.start_button.visible, self._running.visible = start is not None, False

    @property
    def is_running(self) -> bool:
        """Whether a worker is under way."""
        return self._worker is not None

    def allow(self, reason: str = "", *, note: str = "") -> None:
        """Enable the button, with a note beside it, or say what stands in the way."""
        self._is_allowed = not reason
        self.start_button.enabled = self._is_allowed and not self.is_running
        if not self.is_running:
            self.message.say(reason or note)

    def start(self) -> None:
        """Start the work, one at a time; what is refused is said in place."""
        if self.is_running or self._start is None:
            return
        try:
            worker = self._start()
        except QmcifError as error:
            self.message.complain(error)
            return
        if worker is not None:
            self.follow(worker)

    def follow(self, worker: EngineWorker) -> None:
        """Show a worker from now until its end; an error is told in place and as a notification."""
        worker.progressed.connect(self._show_step)
        worker.noted.connect(self._show_note)
        worker.errored.connect(self.message.complain)
        worker.finished.connect(self._end)
        self._worker = worker
        self._show_note("")
        self._show_step(0, 0)
        self._show_state()

    def cancel(self) -> None:
        """Ask the worker to stop."""
        if self._worker is not None:
            self._worker.cancel()
            self.message.say("cancelling …")

    def _show_step(self, done: int, total: int) -> None:
        self.bar.max = total
        self.bar.value = done

    def _show_note(self, text: str) -> None:
        self._note = text
        self.message.say(text)

    def _end(self) -> None:
        """Say that it was cancelled; what it was doing is over, and what became of it stays."""
        if self._worker is not None and self._worker.is_cancelled():
            self.message.say("cancelled")
        elif self.message.text() == self._note:
            self.message.say("")
        self._worker = None
        self._show_state()
        self._on_end()

    def _show_state(self) -> None:
        self._running.visible = self.is_running
        self.start_button.enabled = self._is_allowed and not self.is_running
