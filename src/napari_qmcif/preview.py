"""The fusion of a part of the image, before the whole is run: in one layer, in place, replaced by the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from magicgui.widgets import CheckBox, Container, PushButton
from napari.components import Dims
from napari.layers import Layer, Shapes
from napari.viewer import Viewer
from numpy.typing import NDArray
from qtpy.QtCore import QTimer

from napari_qmcif.form_parts import LayerBox, MessageLabel, group
from napari_qmcif.fusing import Outcome, fuse_area
from napari_qmcif.layers_in import ChosenStack
from napari_qmcif.layers_out import describe_fused, name_part, record_provenance, selection_kept
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionConfig, InvalidImageError, QmcifError, Window

LARGEST_PREVIEW_PX = 2**20
"""A preview that takes longer than a glance is none."""

SMALLEST_SIDE_PX = 2
PAUSE_MILLISECONDS = 300
"""A preview that follows changes starts when nothing has changed for so long."""


class _AreaBox(LayerBox):
    null_string = "visible field"


class PreviewPanel(Container[Any]):
    """Preview of the visible field or of a drawn rectangle: on request, and when a setting changes; then it follows the view, too."""

    def __init__(
        self, viewer: Viewer, *, choose: Callable[[], ChosenStack], read_config: Callable[[], FusionConfig], message: MessageLabel
    ) -> None:
        self._viewer, self._choose, self._read_config, self.message = viewer, choose, read_config, message
        self._worker: EngineWorker | None = None
        self._layer: Layer | None = None
        self._watched: Layer | None = None
        self._is_wanted_again = False
        tip = "What to preview: what the viewer shows, or the last rectangle of a shapes layer"
        self.area_box = _AreaBox(viewer, lambda layer: isinstance(layer, Shapes), name="area", nullable=True, tooltip=tip)
        self.draw_button = PushButton(text="Draw area", tooltip="Add a shapes layer to draw a rectangle in")
        tip = "Fuse the area by itself, at most the middle 1 megapixel of it, and show it in place (Ctrl+Shift+R)."
        self.button = PushButton(text="Preview", tooltip=tip)
        tip = "Preview whenever a setting changes; once there is a preview, it follows the view, too"
        self.live_box = CheckBox(text="Show changes of settings", value=True, tooltip=tip)
        super().__init__(widgets=[group(self.area_box, self.draw_button), self.live_box, self.button], labels=False)
        self.margins = (0, 0, 0, 0)
        # every change starts it anew, so that it ends when there are no more
        self.timer = QTimer(self.native)
        self.timer.setSingleShot(True)
        self.timer.setInterval(PAUSE_MILLISECONDS)
        self.timer.timeout.connect(self.start)
        self.button.changed.connect(self.toggle)
        self.draw_button.changed.connect(self.draw_area)
        self.area_box.changed.connect(self._watch_area)
        for events in (viewer.scene.camera.events, viewer.dims.events):
            events.connect(self._follow_view)

    @property
    def layer(self) -> Layer | None:
        """The layer with the preview, unless there is none yet or the user deleted it."""
        return self._layer if self._layer is not None and self._layer in self._viewer.layers else None

    @property
    def is_running(self) -> bool:
        """Whether a preview is being computed."""
        return self._worker is not None

    def schedule(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        """Preview soon, where changes of settings are to be shown."""
        if self.live_box.value:
            self.timer.start()

    def start(self) -> None:
        """Preview now; a preview that is under way gives way."""
        self.timer.stop()
        if self._worker is not None:
            # begun at its end: two at once would share the cores
            self._is_wanted_again = True
            self._worker.cancel()
            return
        try:
            stack, config = self._choose(), self._read_config()
            wanted = self._find_area(stack)
        except QmcifError as error:
            self.message.show_error(error)
            return
        area = find_middle(wanted, LARGEST_PREVIEW_PX)
        sizes = [f"{math.prod(part.shape) / 1e6:.1f} megapixels" for part in (area, wanted)]
        note = "" if area == wanted else f"the preview shows the middle {sizes[0]} of {sizes[1]}"
        worker = EngineWorker(fuse_area, stack, config, area, on_return=partial(self._show, stack, config, area, note), is_waited_for=True)
        worker.noted.connect(lambda text: self.message.show_text(f"preview: {text} …"))
        worker.errored.connect(self.message.show_error)
        worker.finished.connect(self._end)
        self._worker, self.button.text = worker, "Stop preview"
        worker.start()

    def toggle(self) -> None:
        """Preview, or stop the preview that is under way."""
        if self._worker is None:
            self.start()
        else:
            self.stop()

    def stop(self) -> None:
        """Give up the preview that is under way, and those that would follow."""
        self.timer.stop()
        self._is_wanted_again = False
        if self._worker is not None:
            self._worker.cancel()

    def drop(self, *_: object) -> None:
        """Take the preview away, and those that would follow."""
        self.stop()
        self._remove_layer()

    def _remove_layer(self) -> None:
        if self.layer is not None:
            self._viewer.layers.remove(self.layer)

    def draw_area(self) -> None:
        """Add a shapes layer that lies on the image, ready to draw a rectangle in."""
        try:
            placement = self._choose().placement.as_layer_arguments()
        except QmcifError as error:
            self.message.show_error(error)
            return
        look = {"name": "preview area", "ndim": 2, "face_color": "transparent", "edge_color": "yellow", "edge_width": 2}
        shapes = self._viewer.add_shapes(**look, **placement)
        shapes.mode = "add_rectangle"
        self.area_box.reset_choices()
        # the same as equal, but not as identical: plugins are given proxies of layers
        self.area_box.value = next(layer for layer in self.area_box.choices if layer == shapes)

    def shut_down(self) -> None:
        """Stop for good: no timer, no worker, no layer stays behind."""
        self.live_box.value = False
        self.drop()
        for events in (self._viewer.scene.camera.events, self._viewer.dims.events):
            events.disconnect(self._follow_view)

    def _find_area(self, stack: ChosenStack) -> Window:
        shapes = self.area_box.value
        return find_visible_area(stack, self._viewer.dims) if shapes is None else find_drawn_area(stack, shapes)

    def _show(self, stack: ChosenStack, config: FusionConfig, area: Window, note: str, outcome: Outcome) -> None:
        """Put a preview where it belongs; the layer is kept where it can hold it, so that what the user set on it stays."""
        fused = outcome.parts["fused"]
        record = {**record_provenance(stack, config, focus_range=outcome.focus_range), "area": list(area)}
        arguments = describe_fused(stack, name=name_part(stack.title, "preview"), part="preview", record=record)
        placement, layer = stack.placement.as_layer_arguments((area.top, area.left)), self.layer
        # napari cannot turn a gray layer into one of colors
        if layer is not None and (layer.rgb, layer.data.dtype) == (stack.is_color, fused.dtype):
            layer.data = fused
            for key, value in {**placement, "name": arguments["name"], "metadata": arguments["metadata"]}.items():
                setattr(layer, key, value)
        else:
            self._remove_layer()
            with selection_kept(self._viewer):
                # it covers what lies below, also where the channels of its stack are shown as a sum
                self._layer = self._viewer.add_image(fused, **{**arguments, **placement, "blending": "translucent_no_depth"})
        self.message.show_text(note)

    def _end(self) -> None:
        is_cancelled = self._worker is not None and self._worker.is_cancelled()
        self._worker, self.button.text = None, "Preview"
        if self._is_wanted_again:
            self._is_wanted_again = False
            self.start()
        elif is_cancelled:
            self.message.show_text("")

    def _follow_view(self, *_: Any) -> None:  # noqa: ANN401 - napari's events
        if self.layer is not None:
            self.schedule()

    def _watch_area(self) -> None:
        """Follow changes to the chosen shapes layer, and to no other."""
        shapes = self.area_box.value
        if self._watched is not None and self._watched != shapes:
            self._watched.events.data.disconnect(self._follow_view)
        if shapes is not None and self._watched != shapes:
            shapes.events.data.connect(self._follow_view)
        self._watched = shapes
        self._follow_view()


def find_middle(area: Window, largest_px: int) -> Window:
    """Return a rectangle, or its middle part of the same proportions where it has more pixels than that."""
    share = min(1.0, (largest_px / max(math.prod(area.shape), 1)) ** 0.5)
    height, width = (max(int(side * share), min(side, SMALLEST_SIDE_PX)) for side in area.shape)
    top, left = area.top + (area.shape[0] - height) // 2, area.left + (area.shape[1] - width) // 2
    return Window(top, left, top + height, left + width)


def find_visible_area(stack: ChosenStack, dims: Dims) -> Window:
    """Return what the viewer shows of the first layer; refuse other axes than rows and columns, and an image that lies outside.

    Axes are counted in the dimensions of the viewer; a layer of fewer takes part in the last ones.
    """
    layer = stack.layers[0]
    if tuple(sorted(axis - (dims.ndim - layer.ndim) for axis in dims.displayed)) != stack.image_axes:
        msg = "the viewer shows other axes than rows and columns; the image itself is needed: go back to the 2-D view of it"
        raise InvalidImageError(msg)
    axes = list(stack.image_axes)
    # corners are counted in pixels of the level that is drawn, and name the last pixel of it
    factors = layer.downsample_factors[layer.data_level][axes] if layer.multiscale else np.ones(2)
    first, last = np.asarray(layer.corner_pixels)[:, axes]
    return _clip(first * factors, (last + 1) * factors, stack)


def find_drawn_area(stack: ChosenStack, shapes: Layer) -> Window:
    """Return the box around the selected shape of a layer, or around its last one; refuse a layer without any, or one outside the image."""
    if len(shapes.data) == 0:
        msg = f"{shapes.name!r} holds no shape; a rectangle is needed: draw one over the part to preview"
        raise InvalidImageError(msg)
    number = max(shapes.selected_data) if shapes.selected_data else len(shapes.data) - 1
    # both layers may be scaled, moved and turned in their own ways
    corners = np.array([stack.layers[0].world_to_data(shapes.data_to_world(corner)) for corner in shapes.data[number]])
    on_image = corners[:, list(stack.image_axes)]
    return _clip(on_image.min(axis=0), on_image.max(axis=0), stack)


def _clip(first: NDArray[Any], end: NDArray[Any], stack: ChosenStack) -> Window:
    sides = stack.size_px
    top, left = (int(side) for side in np.clip(np.floor(first), 0, sides))
    bottom, right = (int(side) for side in np.clip(np.ceil(end), 0, sides))
    area = Window(top, left, bottom, right)
    if min(area.shape) < SMALLEST_SIDE_PX:
        height, width = area.shape
        msg = f"the area to preview covers {height} x {width} pixels of the image; more is needed: move it over the image"
        raise InvalidImageError(msg)
    return area
