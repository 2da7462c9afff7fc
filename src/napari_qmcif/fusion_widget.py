"""Fuse a focus stack: choose layers, look at a preview, run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from napari.viewer import Viewer
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QCheckBox, QFormLayout, QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from napari_qmcif.aligning import ALIGNMENTS
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.clipboard import write_command, write_python
from napari_qmcif.destination import DestinationPanel
from napari_qmcif.layer_choice import LayerChoice
from napari_qmcif.layers import add_result
from napari_qmcif.preview import PreviewPanel
from napari_qmcif.provenance import record_provenance
from napari_qmcif.run_panel import FinishedRun, RunPanel
from napari_qmcif.setting_box import CalmComboBox
from napari_qmcif.settings_form import SettingsForm
from qmcif_engine import QmcifError


class FusionWidget(QWidget):
    """Put the parts together; pixels are the engine's, in its own thread."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self._is_docked = False
        self.layer_choice = LayerChoice(napari_viewer)
        self.align_box = CalmComboBox()
        self.align_box.addItems(ALIGNMENTS)
        self.align_box.setToolTip("Move the images to coincide before they are fused; nothing is cropped.\nNeeds OpenCV (extra: align).")
        self.exposure_box = QCheckBox("Even exposure")
        self.exposure_box.setToolTip("Bring every image to the brightness and color of the middle one before they are fused.")
        # not a method: a child that knows its parent would keep it from being deleted
        self.choose = partial(_choose, self.layer_choice, self.align_box, self.exposure_box)
        self.settings = SettingsForm()
        self.preview = PreviewPanel(napari_viewer, choose=self.choose, read_config=self.settings.read_config)
        self.destination = DestinationPanel()
        self.run_panel = RunPanel()
        self.python_button, self.command_button = QPushButton("Copy as Python"), QPushButton("Copy as command")
        self.python_button.setToolTip("Put a script with the same result on the clipboard")
        self.command_button.setToolTip("Put a command line with the same result on the clipboard; the layers must come from files")
        self._arrange()
        self._connect()
        self.layer_choice.use_selected_layers()

    def check(self) -> None:
        """Say in place what stands in the way of a run, and allow it where nothing does."""
        try:
            stack = self.choose()
            self.settings.read_config()
            self.destination.choose(stack)
        except QmcifError as error:
            self.run_panel.forbid(str(error))
        else:
            self.run_panel.allow(stack.note)
        self.preview.schedule()

    def run(self) -> None:
        """Fuse what is chosen, as the settings say."""
        try:
            stack, config = self.choose(), self.settings.read_config()
            target = self.destination.choose(stack)
        except QmcifError as error:
            self.run_panel.forbid(str(error))
            return
        self.run_panel.start(stack, config, target=target)

    def copy_python(self) -> None:
        """Put the equivalent script on the clipboard."""
        self._copy(write_python)

    def copy_command(self) -> None:
        """Put the equivalent command line on the clipboard."""
        self._copy(write_command)

    def shut_down(self) -> None:
        """Stop what runs and let go of the viewer; a closed widget adds nothing any more."""
        self.preview.shut_down()
        self.run_panel.cancel()
        self._viewer.dims.events.current_step.disconnect(self._on_sliders)
        for events in self._layer_events():
            events.disconnect(self._on_layers)

    def event(self, event: QEvent | None) -> bool:
        """Shut down when napari takes the widget out of its dock: that is all it does when a person closes it."""
        if event is not None and event.type() == QEvent.Type.ParentChange:
            if self._is_docked and self.parent() is None:
                self.shut_down()
            self._is_docked = self.parent() is not None
        return super().event(event)

    def _copy(self, write: Callable[..., str]) -> None:
        try:
            stack = self.choose()
            self.settings.read_config()
            text = write(stack, preset=self.settings.preset, changes=self.settings.list_changes())
        except QmcifError as error:
            self.run_panel.say(str(error))
            return
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(text)
            self.run_panel.say("copied")

    def _add_result(self, run: FinishedRun) -> None:
        record = record_provenance(run.stack, run.config, focus_range=run.outcome.focus_range, path=run.outcome.path)
        add_result(self._viewer, run.stack, run.outcome.pictures, record=record)

    def _on_layers(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self.layer_choice.refresh_layers()
        self.preview.refresh_areas()

    def _on_choice(self) -> None:
        """Forget what was said of other layers."""
        if not self.run_panel.is_running:
            self.run_panel.say("")

    def _on_sliders(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self.check()

    def _layer_events(self) -> tuple[Any, ...]:
        events = self._viewer.layers.events
        return events.inserted, events.removed, events.reordered, events.renamed

    def _connect(self) -> None:
        for events in self._layer_events():
            events.connect(self._on_layers)
        self._viewer.dims.events.current_step.connect(self._on_sliders)
        self.layer_choice.changed.connect(self.check)
        self.layer_choice.list.itemSelectionChanged.connect(self._on_choice)
        self.align_box.currentIndexChanged.connect(self.check)
        self.exposure_box.toggled.connect(self.check)
        self.settings.changed.connect(self.check)
        self.destination.changed.connect(self.check)
        self.preview.said.connect(self.run_panel.say)
        self.preview.failed.connect(self.run_panel.complain)
        self.run_panel.wanted.connect(self.run)
        self.run_panel.returned.connect(self._add_result)
        self.python_button.clicked.connect(self.copy_python)
        self.command_button.clicked.connect(self.copy_command)

    def _arrange(self) -> None:
        form = QWidget()
        column = QVBoxLayout(form)
        images = QWidget()
        choice = QFormLayout(images)
        choice.setContentsMargins(0, 0, 0, 0)
        choice.addRow(self.layer_choice)
        choice.addRow("Align", self.align_box)
        choice.addRow("", self.exposure_box)
        parts = {"Images": images, "Settings": self.settings, "Preview": self.preview, "Result": self.destination}
        for title, part in parts.items():
            column.addWidget(QLabel(f"<b>{title}</b>"))
            column.addWidget(part)
        column.addStretch()
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(form)
        copies = QHBoxLayout()
        copies.addWidget(self.python_button)
        copies.addWidget(self.command_button)
        layout = QVBoxLayout(self)
        layout.addWidget(scroll)
        layout.addWidget(self.run_panel)
        layout.addLayout(copies)


def _choose(choice: LayerChoice, align_box: CalmComboBox, exposure_box: QCheckBox) -> ChosenStack:
    """Return the stack that was chosen, to be prepared as the form says; refuse one that cannot be fused."""
    return replace(choice.choose(), align=align_box.currentText(), even_exposure=exposure_box.isChecked())
