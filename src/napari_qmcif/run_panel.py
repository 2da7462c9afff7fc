"""Run a fusion: one at a time, with progress, time left and a way to stop it."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from napari.utils.notifications import notification_manager, show_error
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from napari_qmcif.aligning import hint_at_preparation
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.layer_fusing import Outcome, fuse_layers, fuse_to_disk
from napari_qmcif.progress_display import DockEntry, describe_time_left
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError


class FinishedRun(NamedTuple):
    """A result together with what it was made from."""

    stack: ChosenStack
    config: FusionConfig
    outcome: Outcome
    seconds: float
    hint: str


class RunPanel(QWidget):
    """Start and stop runs, and say in place what stands in the way or what became of them."""

    wanted = Signal()
    returned = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._job: BackgroundJob | None = None
        self._started_at = 0.0
        self._is_on_disk = False
        self._is_possible = False
        self.reason, self.status = _Message(), _Message()
        self.progress_bar = QProgressBar()
        self.run_button, self.cancel_button = QPushButton("Run"), QPushButton("Cancel")
        self.cancel_button.setToolTip("Stop at the next step; nothing is added")
        self._arrange()
        self.run_button.clicked.connect(self.wanted)
        self.cancel_button.clicked.connect(self.cancel)
        self._show_state()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._job is not None

    def allow(self, note: str = "") -> None:
        """Enable Run; a note may stand beside it."""
        self._is_possible = True
        self.run_button.setToolTip("Fuse the whole picture")
        self.reason.show_text(note)
        self._show_state()

    def forbid(self, reason: str) -> None:
        """Disable Run and say why."""
        self._is_possible = False
        self.run_button.setToolTip(reason)
        self.reason.show_text(reason)
        self._show_state()

    def say(self, text: str) -> None:
        """Show in place what became of something."""
        self.status.show_text(text)

    def start(self, stack: ChosenStack, config: FusionConfig, *, target: Path | None = None) -> None:
        """Fuse in a thread of its own, into memory or to a folder; one at a time."""
        if self._job is not None:
            return
        self._started_at, self._is_on_disk = time.monotonic(), target is not None
        job = BackgroundJob(partial(_run, stack, config, target), owner=self)
        job.progressed.connect(self._show_step)
        job.noted.connect(self.say)
        job.returned.connect(self._pass_on)
        job.failed.connect(self.complain)
        job.ended.connect(self._end)
        DockEntry(job, title=f"Fusing {stack.title}")
        self._job = job
        self.say("")
        self.progress_bar.setRange(0, 0)
        self.progress_bar.setFormat("")
        self._show_state()
        job.start()

    def cancel(self) -> None:
        """Ask the run to stop."""
        if self._job is not None:
            self._job.cancel()
            self.cancel_button.setEnabled(False)
            self.say("cancelling …")

    def complain(self, error: Exception) -> None:
        """Show an error: in the engine's words where it was foreseen, with its traceback where not."""
        if isinstance(error, QmcifError | MemoryError):
            words = str(error) if isinstance(error, QmcifError) else _TOO_LARGE
            show_error(words)
            if isinstance(error, InvalidImageError):  # the images must change first, and then this is checked again
                self.forbid(words)
                self.say("")
                return
        else:
            words = f"{type(error).__name__}: {error}"
            notification_manager.receive_error(type(error), error, error.__traceback__)
        self.say(words)

    def _pass_on(self, run: FinishedRun) -> None:
        self.say(f"fused {run.stack.n_images} images in {run.seconds:.1f} s" + (f"; {run.hint}" if run.hint else ""))
        self.returned.emit(run)

    def _show_step(self, done: int, total: int) -> None:
        self.progress_bar.setRange(0, total)
        self.progress_bar.setValue(done)
        self.progress_bar.setFormat(f"%p %, {describe_time_left(time.monotonic() - self._started_at, done=done, total=total)}")

    def _end(self) -> None:
        if self._job is not None and self._job.is_cancelled():
            self.say(_KEPT if self._is_on_disk else "cancelled; nothing was added")
        self._job = None
        self._show_state()

    def _show_state(self) -> None:
        self.run_button.setEnabled(self._is_possible and not self.is_running)
        self.cancel_button.setEnabled(self.is_running)
        self.progress_bar.setVisible(self.is_running)

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.reason)
        layout.addWidget(self.status)
        layout.addWidget(self.progress_bar)
        buttons = QHBoxLayout()
        buttons.addWidget(self.run_button)
        buttons.addWidget(self.cancel_button)
        layout.addLayout(buttons)


class _Message(QLabel):
    """Show a text that wraps and can be copied; without one take no room."""

    def __init__(self) -> None:
        super().__init__()
        self.setWordWrap(True)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def show_text(self, text: str) -> None:
        self.setText(text)
        self.setVisible(bool(text))


_KEPT = "cancelled; the finished tiles are kept, and Run goes on from there"
_TOO_LARGE = "the images do not fit into memory; more memory or smaller images are needed: crop or reduce them first"


def _run(stack: ChosenStack, config: FusionConfig, target: Path | None, job: BackgroundJob) -> FinishedRun:
    started_at = time.monotonic()
    hint = hint_at_preparation(stack)
    if hint:
        job.note(hint)
    outcome = fuse_layers(stack, config, job=job) if target is None else fuse_to_disk(stack, config, target=target, job=job)
    return FinishedRun(stack, config, outcome, time.monotonic() - started_at, hint)
