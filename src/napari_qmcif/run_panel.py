"""What a run shows: what stands in its way, how far it is, how long it takes, what became of it, and a way to stop it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from magicgui.widgets import Container, ProgressBar, PushButton
from psygnal import Signal
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QVBoxLayout

from napari_qmcif.form_parts import MessageLabel, describe_failure
from napari_qmcif.progress_display import TimeLeft
from napari_qmcif.worker import EngineWorker
from qmcif_engine import InvalidImageError

KEPT = "cancelled; the finished tiles are kept, and Run goes on from there"


class RunPanel(Container[Any]):
    """Buttons to run and to cancel, with messages; it follows one worker at a time."""

    wanted = Signal()

    def __init__(self, *, run_text: str = "Run") -> None:
        self.run_button, self.cancel_button = PushButton(text=run_text, name="run"), PushButton(text="Cancel", name="cancel")
        self.run_button.tooltip = "Fuse the whole image (Ctrl+R)"
        self.cancel_button.tooltip = "Stop at once; nothing is added (Esc)"
        self.bar = ProgressBar(name="bar", visible=False)
        buttons = Container(widgets=[self.run_button, self.cancel_button], layout="horizontal", labels=False)
        buttons.margins = (0, 0, 0, 0)
        super().__init__(widgets=[self.bar, buttons], labels=False)
        self.margins = (0, 0, 0, 0)
        self.reason, self.status = MessageLabel(), MessageLabel()
        layout: Any = self.native.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(0, self.reason)
        layout.insertWidget(1, self.status)
        self._worker: EngineWorker | None = None
        self._is_gone = False
        self.native.destroyed.connect(self._leave)
        self._left, self._steps_a_tile, self._is_on_disk, self._is_possible = TimeLeft(), 1, False, False
        self.run_button.changed.connect(self.wanted)
        self.cancel_button.changed.connect(self.stop)
        self._show_state()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._worker is not None

    def allow(self, note: str = "") -> None:
        """Enable Run; a note may stand beside it."""
        self._is_possible = True
        self.reason.say(note)
        self._show_state()

    def forbid(self, reason: str) -> None:
        """Disable Run and say why."""
        self._is_possible = False
        self.reason.say(reason)
        self._show_state()

    def say(self, text: str) -> None:
        """Show in place what became of something."""
        self.status.say(text)

    def follow(self, worker: EngineWorker, *, steps_a_tile: int = 1, is_on_disk: bool = False) -> None:
        """Show a worker from its start to its end; the time it takes is told once so many steps were measured."""
        self._worker, self._steps_a_tile, self._is_on_disk = worker, steps_a_tile, is_on_disk
        signals = (worker.noted, worker.progressed, worker.errored, worker.finished)
        shows: tuple[Callable[..., None], ...] = (self._show_phase, self._show_step, self.complain, self._end)
        for signal, show in zip(signals, shows, strict=True):
            signal.connect(partial(self._show, show))
        self._show_phase(worker.phase or "starting")
        self._show_state()

    def _show(self, show: Callable[..., None], *told: Any) -> None:  # noqa: ANN401 - what a signal carries
        """Show what a worker tells, unless the window was closed meanwhile."""
        if not self._is_gone:
            show(*told)

    def _leave(self) -> None:
        self._is_gone = True

    def stop(self) -> None:
        """Ask the run to stop."""
        if self._worker is not None:
            self._worker.cancel()
            self.cancel_button.enabled = False
            self.say("cancelling …")

    def complain(self, error: Exception) -> None:
        """Show an error in place; where the images must change first, it stands in the way of the next run."""
        self.say("" if isinstance(error, InvalidImageError) else describe_failure(error))
        if isinstance(error, InvalidImageError):
            self.forbid(str(error))

    def _show_phase(self, text: str) -> None:
        self._left.begin(steps_a_tile=self._steps_a_tile)
        self.say(f"{text} …")
        self.bar.native.setRange(0, 0)

    def _show_step(self, done: int, total: int) -> None:
        bar: Any = self.bar.native
        bar.setRange(0, total)
        bar.setValue(done)
        left = self._left.describe(done, total)
        bar.setFormat(f"%p %, {left}" if left else "%p %")

    def _end(self) -> None:
        if self._worker is not None and self._worker.is_cancelled():
            self.say(KEPT if self._is_on_disk else "cancelled; nothing was added")
        self._worker = None
        self._show_state()

    def _show_state(self) -> None:
        self.run_button.enabled = self._is_possible and not self.is_running
        self.cancel_button.enabled = self.is_running
        self.bar.visible = self.is_running
        self.bar.native.setAlignment(Qt.AlignmentFlag.AlignCenter)
