"""The fusion of a part of the image, before the whole is run: in one layer, in place, replaced by the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from magicgui.widgets import CheckBox, Container, PushButton
from napari.layers import Layer, Shapes
from napari.viewer import Viewer
from psygnal import Signal
from qtpy.QtCore import QTimer

from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.form_parts import group
from napari_qmcif.layer_box import LayerComboBox, list_layers
from napari_qmcif.layer_fusing import Outcome, fuse_area
from napari_qmcif.layers import describe_fused, name_part
from napari_qmcif.preview_area import LARGEST_PREVIEW_PX, find_drawn_area, find_middle, find_visible_area
from napari_qmcif.provenance import record_provenance
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import FusionConfig, QmcifError, Window


class Preview(NamedTuple):
    """What was previewed together with how and where."""

    stack: ChosenStack
    config: FusionConfig
    area: Window
    outcome: Outcome


def compute_preview(stack: ChosenStack, config: FusionConfig, area: Window, *, job: EngineWorker) -> Preview:
    """Fuse one part of a stack; runs in a worker thread."""
    return Preview(stack, config, area, fuse_area(stack, config, area=area, job=job))


class PreviewLayer:
    """Previews in a viewer, one at a time."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._layer: Layer | None = None

    @property
    def layer(self) -> Layer | None:
        """The layer, unless there is none yet or the user deleted it."""
        return self._layer if self._layer is not None and self._layer in self._viewer.layers else None

    def show(self, preview: Preview) -> None:
        """Put a preview where it belongs; the layer is kept where it can hold it, so that what the user set on it stays."""
        stack, fused = preview.stack, preview.outcome.parts["fused"]
        record = record_provenance(stack, preview.config, focus_range=preview.outcome.focus_range)
        name = name_part(stack.title, "preview")
        arguments = describe_fused(stack, name=name, part="preview", record={**record, "area": list(preview.area)})
        placement = stack.placement.as_layer_arguments((preview.area.top, preview.area.left))
        layer = self.layer
        # napari cannot turn a gray layer into one of colors
        if layer is not None and (layer.rgb, layer.data.dtype) == (stack.is_color, fused.dtype):
            layer.data = fused
            for key, value in {**placement, "name": arguments["name"], "metadata": arguments["metadata"]}.items():
                setattr(layer, key, value)
            return
        self.remove()
        active = self._viewer.layers.selection.active
        # it covers what lies below, also where the channels of its stack are shown as a sum
        self._layer = self._viewer.add_image(fused, **{**arguments, **placement, "blending": "translucent_no_depth"})
        self._viewer.layers.selection.active = active

    def remove(self) -> None:
        """Take the preview away."""
        if self.layer is not None:
            self._viewer.layers.remove(self.layer)


PAUSE_MILLISECONDS = 300
"""A live preview starts when nothing has changed for so long."""


class _AreaBox(LayerComboBox):
    null_string = "visible field"


class PreviewPanel(Container[Any]):
    """Preview of the visible field or of a drawn rectangle, once or whenever something changes."""

    said = Signal(str)
    failed = Signal(object)

    def __init__(self, viewer: Viewer, *, choose: Callable[[], ChosenStack], read_config: Callable[[], FusionConfig]) -> None:
        self._viewer, self._choose, self._read_config = viewer, choose, read_config
        self._worker: EngineWorker | None = None
        self._is_wanted_again = False
        self._shown = PreviewLayer(viewer)
        self._watched: Layer | None = None
        self.area_box = _AreaBox(name="area", choices=list_layers(lambda layer: isinstance(layer, Shapes)), nullable=True)
        self.area_box.tooltip = "What to preview: what the viewer shows, or the last rectangle of a shapes layer"
        self.draw_button, self.button = PushButton(text="Draw area", name="draw"), PushButton(text="Preview", name="preview")
        self.draw_button.tooltip = "Add a shapes layer to draw a rectangle in"
        self.button.tooltip = (
            "Fuse the area by itself, at most the middle 1 megapixel of it, and show it in place (Ctrl+Shift+R).\n"
            "The whole may differ a little."
        )
        self.live_box = CheckBox(text="Update live", name="live")
        self.live_box.tooltip = "Preview again whenever the view or a setting changes"
        super().__init__(widgets=[group(self.area_box, self.draw_button), self.live_box], labels=False)
        self.margins = (0, 0, 0, 0)
        # every change starts it anew, so that it ends when there are no more
        self.timer = QTimer(self.native)
        self.timer.setSingleShot(True)
        self.timer.setInterval(PAUSE_MILLISECONDS)
        self._connect()

    @property
    def layer(self) -> Layer | None:
        """The layer with the preview, where there is one."""
        return self._shown.layer

    @property
    def is_running(self) -> bool:
        """Whether a preview is being computed."""
        return self._worker is not None

    def schedule(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Preview soon, if previews are to follow changes."""
        if self.live_box.value:
            self.timer.start()

    def start(self) -> None:
        """Preview now; a preview that is under way gives way."""
        if self._worker is not None:
            # begun at its end: two at once would share the cores
            self._is_wanted_again = True
            self._worker.cancel()
            return
        try:
            stack, config = self._choose(), self._read_config()
            wanted = self._find_area(stack)
        except QmcifError as error:
            self.said.emit(str(error))
            return
        area = find_middle(wanted, LARGEST_PREVIEW_PX)
        # quiet, since the panel says in place what went wrong
        worker = make_worker(compute_preview, stack, config, area, owner=self.native, is_waited_for=True, is_quiet=True)
        worker.noted.connect(lambda text: self.said.emit(f"preview: {text} …"))
        worker.returned.connect(self._show)
        worker.errored.connect(self.failed.emit)
        worker.finished.connect(self._end)
        self._worker = worker
        self.button.text = "Stop preview"
        self.said.emit("" if area == wanted else f"the preview shows the middle {_in_megapixels(area)} of {_in_megapixels(wanted)}")
        worker.start()

    def toggle(self) -> None:
        """Preview, or stop the preview that is under way."""
        if self._worker is None:
            self.start()
        else:
            self.stop()

    def stop(self) -> None:
        """Give up the preview that is under way."""
        self._is_wanted_again = False
        if self._worker is not None:
            self._worker.cancel()

    def remove(self) -> None:  # type: ignore[override] # of a layer, not of a widget
        """Take the preview away: the whole is there."""
        self._shown.remove()

    def draw_area(self) -> None:
        """Add a shapes layer that lies on the image, ready to draw a rectangle in."""
        try:
            placement = self._choose().placement.as_layer_arguments()
        except QmcifError as error:
            self.said.emit(str(error))
            return
        shapes = self._viewer.add_shapes(
            name="preview area", ndim=2, face_color="transparent", edge_color="yellow", edge_width=2, **placement
        )
        shapes.mode = "add_rectangle"
        self.area_box.reset_choices()
        # the same as equal, but not as identical: plugins are given proxies of layers
        self.area_box.value = next(layer for layer in self.area_box.choices if layer == shapes)

    def shut_down(self) -> None:
        """Stop for good: no timer, no worker, no layer stays behind."""
        self.timer.stop()
        self.live_box.value = False
        self.stop()
        for events in (self._viewer.scene.camera.events, self._viewer.dims.events):
            events.disconnect(self.schedule)
        self._shown.remove()

    def _find_area(self, stack: ChosenStack) -> Window:
        shapes = self.area_box.value
        if shapes is not None:
            return find_drawn_area(stack, shapes)
        dims = self._viewer.dims
        return find_visible_area(stack, displayed_axes=tuple(dims.displayed), n_viewer_axes=dims.ndim)

    def _show(self, preview: Preview) -> None:
        self._shown.show(preview)
        self.said.emit("")

    def _end(self) -> None:
        is_cancelled = self._worker is not None and self._worker.is_cancelled()
        self._worker = None
        self.button.text = "Preview"
        if self._is_wanted_again:
            self._is_wanted_again = False
            self.start()
        elif is_cancelled:
            self.said.emit("")

    def _watch_area(self) -> None:
        """Hear of changes to the chosen shapes layer, and of no other's."""
        shapes = self.area_box.value
        if self._watched is not None and self._watched != shapes:
            self._watched.events.data.disconnect(self.schedule)
        if shapes is not None and self._watched != shapes:
            shapes.events.data.connect(self.schedule)
        self._watched = shapes
        self.schedule()

    def _connect(self) -> None:
        self.button.changed.connect(self.toggle)
        self.draw_button.changed.connect(self.draw_area)
        self.timer.timeout.connect(self.start)
        self.live_box.changed.connect(self.schedule)
        self.area_box.changed.connect(self._watch_area)
        for events in (self._viewer.scene.camera.events, self._viewer.dims.events):
            events.connect(self.schedule)


def _in_megapixels(area: Window) -> str:
    return f"{math.prod(area.shape) / 1e6:.1f} megapixels"
