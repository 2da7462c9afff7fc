"""Show the fusion of a part of the picture before the whole is run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from napari.layers import Layer, Shapes
from napari.viewer import Viewer
from qtpy.QtCore import QTimer, Signal
from qtpy.QtWidgets import QCheckBox, QFormLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.preview_area import LARGEST_PREVIEW_PX, Area, find_drawn_area, find_visible_area
from napari_qmcif.preview_layer import Preview, PreviewLayer, compute_preview
from napari_qmcif.setting_box import CalmComboBox
from napari_qmcif.worker import BackgroundJob
from qmcif_engine import FusionConfig, QmcifError

PAUSE_MILLISECONDS = 300
"""A live preview starts when nothing has changed for so long."""

VISIBLE_FIELD = "Visible field"


class PreviewPanel(QWidget):
    """Preview the visible field or a drawn rectangle, once or whenever something changes."""

    said = Signal(str)
    failed = Signal(object)

    def __init__(self, viewer: Viewer, *, choose: Callable[[], ChosenStack], read_config: Callable[[], FusionConfig]) -> None:
        super().__init__()
        self._viewer, self._choose, self._read_config = viewer, choose, read_config
        self._job: BackgroundJob | None = None
        self._is_wanted_again = False
        self._shown = PreviewLayer(viewer)
        self._watched: Layer | None = None
        self.area_box = CalmComboBox()
        self.area_box.setToolTip("What to preview: what the viewer shows, or the last rectangle of a shapes layer")
        self.draw_button = QPushButton("Draw area")
        self.draw_button.setToolTip("Add a shapes layer to draw a rectangle in")
        self.button = QPushButton("Preview")
        self.button.setToolTip(
            "Fuse the area by itself, at most the middle 1 megapixel of it, and show it in place.\nThe whole may differ a little."
        )
        self.live_box = QCheckBox("Update live")
        self.live_box.setToolTip("Preview again whenever the view or a setting changes")
        self.timer = QTimer(self)
        self.timer.setSingleShot(True)
        self.timer.setInterval(PAUSE_MILLISECONDS)
        self._arrange()
        self._connect()
        self.refresh_areas()

    @property
    def layer(self) -> Layer | None:
        """The layer with the preview, where there is one."""
        return self._shown.layer

    @property
    def is_running(self) -> bool:
        """Whether a preview is being computed."""
        return self._job is not None

    def schedule(self) -> None:
        """Preview soon, if previews are to follow changes."""
        if self.live_box.isChecked():
            self.timer.start()

    def start(self) -> None:
        """Preview now; a preview that is under way gives way."""
        if self._job is not None:
            self._is_wanted_again = True
            self._job.cancel()
            return
        try:
            stack, config = self._choose(), self._read_config()
            wanted = self._find_area(stack)
        except QmcifError as error:
            self.said.emit(str(error))
            return
        area = wanted.middle(LARGEST_PREVIEW_PX)
        job = BackgroundJob(partial(compute_preview, stack, config, area), owner=self)
        job.noted.connect(self.said)
        job.returned.connect(self._show)
        job.failed.connect(self.failed)
        job.ended.connect(self._end)
        self._job = job
        self.button.setText("Previewing …")
        self.said.emit("" if area == wanted else f"the preview shows the middle {_in_megapixels(area)} of {_in_megapixels(wanted)}")
        job.start()

    def refresh_areas(self) -> None:
        """Offer the visible field and every shapes layer; what was chosen stays chosen."""
        chosen = self.area_box.currentData()
        self.area_box.blockSignals(True)
        self.area_box.clear()
        self.area_box.addItem(VISIBLE_FIELD, None)
        for layer in self._viewer.layers:
            if isinstance(layer, Shapes):
                self.area_box.addItem(str(layer.name), layer)
                if layer == chosen:
                    self.area_box.setCurrentIndex(self.area_box.count() - 1)
        self.area_box.blockSignals(False)
        self._watch_area()

    def draw_area(self) -> None:
        """Add a shapes layer that lies on the picture, ready to draw a rectangle in."""
        try:
            placement = self._choose().placement.as_layer_arguments()
        except QmcifError as error:
            self.said.emit(str(error))
            return
        shapes = self._viewer.add_shapes(
            name="preview area", ndim=2, face_color="transparent", edge_color="yellow", edge_width=2, **placement
        )
        shapes.mode = "add_rectangle"
        self.area_box.setCurrentIndex(self.area_box.findText(str(shapes.name)))

    def shut_down(self) -> None:
        """Stop for good: no timer, no job, no layer stays behind."""
        self.timer.stop()
        self.live_box.setChecked(False)
        self._is_wanted_again = False
        if self._job is not None:
            self._job.cancel()
        for events in (self._viewer.scene.camera.events, self._viewer.dims.events):
            events.disconnect(self._on_event)
        self._shown.remove()

    def _find_area(self, stack: ChosenStack) -> Area:
        shapes = self.area_box.currentData()
        if shapes is not None:
            return find_drawn_area(stack, shapes)
        dims = self._viewer.dims
        return find_visible_area(stack, displayed_axes=tuple(dims.displayed), n_viewer_axes=dims.ndim)

    def _show(self, preview: Preview) -> None:
        self._shown.show(preview)

    def _end(self) -> None:
        self._job = None
        self.button.setText("Preview")
        if self._is_wanted_again:
            self._is_wanted_again = False
            self.start()

    def _watch_area(self) -> None:
        """Hear of changes to the chosen shapes layer, and of no other's."""
        shapes = self.area_box.currentData()
        if self._watched is not None and self._watched != shapes:
            self._watched.events.data.disconnect(self._on_event)
        if shapes is not None and self._watched != shapes:
            shapes.events.data.connect(self._on_event)
        self._watched = shapes

    def _on_event(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self.schedule()

    def _connect(self) -> None:
        self.button.clicked.connect(self.start)
        self.draw_button.clicked.connect(self.draw_area)
        self.timer.timeout.connect(self.start)
        self.live_box.toggled.connect(self.schedule)
        self.area_box.currentIndexChanged.connect(self._on_area_chosen)
        for events in (self._viewer.scene.camera.events, self._viewer.dims.events):
            events.connect(self._on_event)

    def _on_area_chosen(self) -> None:
        self._watch_area()
        self.schedule()

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        form = QFormLayout()
        form.addRow("Area", self.area_box)
        layout.addLayout(form)
        buttons = QHBoxLayout()
        buttons.addWidget(self.draw_button)
        buttons.addWidget(self.button)
        layout.addLayout(buttons)
        layout.addWidget(self.live_box)


def _in_megapixels(area: Area) -> str:
    return f"{area.n_pixels / 1e6:.1f} megapixels"
