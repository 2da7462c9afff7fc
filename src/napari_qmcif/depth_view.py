"""Look at the scene from the side: a surface of the depths that a fusion found, at the right scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pint
from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtWidgets import QCheckBox, QFormLayout, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout

from napari_qmcif.docked_widget import DockedWidget
from napari_qmcif.height_surface import color_surface, make_surface, place_surface
from napari_qmcif.layer_box import LayerBox, is_index_map, is_picture, part_of
from napari_qmcif.message_label import MessageLabel
from napari_qmcif.retouch_subject import find_sources
from napari_qmcif.setting_box import CalmComboBox, NumberBox

LENGTHS = ("nanometer", "micrometer", "millimeter")
VIEW_DIRECTION, UP_DIRECTION = (-1.0, -0.9, 0.15), (1.0, -0.9, 0.0)
"""From above the lower edge and a little from the left, so that heights are seen from the side; z, y, x."""

TILTED_ZOOM = 0.65
"""What fits seen from above does not when it is tilted."""


class DepthView(DockedWidget):
    """Choose a source index, say how far apart the images are, see the surface."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self.surface: Layer | None = None
        self.index_box = LayerBox(napari_viewer, fits=is_index_map)
        self.index_box.setToolTip("Which image each pixel was taken from: the depth, counted in images")
        self.color_box = LayerBox(napari_viewer, fits=is_picture, none_text="depth")
        self.color_box.setToolTip("What the surface is painted with: a picture, or the depth")
        self.step_box, self.unit_box = NumberBox(), CalmComboBox()
        self.step_box.setRange(-1e9, 1e9)
        self.step_box.setToolTip(
            "Distance between neighboring images. Heights grow along the stack; negative where the first image is the nearest."
        )
        self.stretch_box = NumberBox()
        self.stretch_box.setRange(1e-3, 1e6)
        self.stretch_box.setValue(1)
        self.stretch_box.setToolTip("Draws heights larger than they are; 1 is the right scale")
        self.alone_box = QCheckBox("Hide other layers")
        self.alone_box.setChecked(True)
        self.show_button, self.flat_button = QPushButton("Show in 3-D"), QPushButton("Back to 2-D")
        self.message = MessageLabel()
        self._hidden: list[Layer] = []
        self._arrange()
        self._connect()
        self.find_scale()

    def find_scale(self) -> None:
        """Take the picture and the distance of the images from the result, as far as it says them."""
        index = self.index_box.layer
        self.show_button.setEnabled(index is not None)
        self.message.say("" if index is not None else "no source index is there; one is needed: fuse a stack first")
        if index is None:
            return
        self._list_units(index)
        self.step_box.setValue(1)
        fused = next((layer for layer in reversed(self._viewer.layers) if part_of(layer) == "fused" and self._fits(layer, index)), None)
        self.color_box.choose(fused)
        stack = None if fused is None else find_sources(fused, list(self._viewer.layers))
        if stack is not None and stack.axis is not None:
            source = stack.layers[0]
            self.step_box.setValue(float(source.scale[stack.axis]))
            self.unit_box.setCurrentText(str(source.units[stack.axis]))

    def show_surface(self) -> None:
        """Add the surface, in place of an earlier one, and look at it from the side."""
        index, picture = self.index_box.layer, self.color_box.layer
        if index is None:
            return
        if picture is not None and not self._fits(picture, index):
            self.message.say(f"{picture.name!r} and {index.name!r} differ in size; equal ones are needed: choose another picture")
            return
        depth: Any = index.data[0] if index.multiscale else index.data
        made = make_surface(depth)
        n_images = int(made.corners[:, 0].max()) + 1
        values = made.corners[:, 0]
        if picture is not None and not picture.rgb:
            values = np.asarray(_finest(picture)[:: made.stride, :: made.stride]).ravel()
        self._remove_surface()
        self.surface = self._viewer.add_surface(
            (made.corners, made.triangles, values),
            name=f"{str(index.name).removesuffix(': source index')}: surface",
            **place_surface(index, z_step=self._z_step(index)),
            **color_surface(picture, made.stride, n_images=n_images),
        )
        self._look_from_the_side()
        self.message.say("" if made.stride == 1 else f"1 pixel in {made.stride} is shown, down and across")

    def show_flat(self) -> None:
        """Go back to the pictures."""
        self._remove_surface()
        for layer in self._hidden:
            layer.visible = True
        self._hidden.clear()
        self._viewer.dims.ndisplay = 2
        self._viewer.reset_view()

    def _look_from_the_side(self) -> None:
        if self.alone_box.isChecked():
            shown = [layer for layer in self._viewer.layers if layer.visible and layer != self.surface]
            for layer in shown:
                layer.visible = False
            self._hidden += shown
        self._viewer.dims.ndisplay = 3
        self._viewer.reset_view()
        camera = self._viewer.scene.camera
        camera.set_view_direction(view_direction=VIEW_DIRECTION, up_direction=UP_DIRECTION)
        camera.zoom *= TILTED_ZOOM

    def _remove_surface(self) -> None:
        if self.surface is not None and self.surface in self._viewer.layers:
            self._viewer.layers.remove(self.surface)
        self.surface = None

    def _z_step(self, index: Layer) -> float:
        """Return the distance of the images, stretched, in the unit of the pixels."""
        distance = pint.Quantity(self.step_box.value(), self.unit_box.currentText())
        return float(distance.to(str(index.units[0])).magnitude) * float(self.stretch_box.value())

    def _list_units(self, index: Layer) -> None:
        """Offer units of length for a map that has one, else its own unit only."""
        own = str(index.units[0])
        lengths = [unit for unit in LENGTHS if unit != own] if index.units[0].is_compatible_with(LENGTHS[0]) else []
        self.unit_box.clear()
        self.unit_box.addItems([own, *lengths])

    @staticmethod
    def _fits(picture: Layer, index: Layer) -> bool:
        return bool(_finest(picture).shape[:2] == _finest(index).shape[:2])

    def _on_layers(self, event: Any = None) -> None:  # noqa: ANN401 - napari's events
        self._hidden = [layer for layer in self._hidden if layer in self._viewer.layers]
        self.color_box.refresh_layers()
        self.index_box.refresh_layers()

    def _connect(self) -> None:
        self.follow_layers(self._on_layers)
        self.index_box.currentIndexChanged.connect(self.find_scale)
        self.show_button.clicked.connect(self.show_surface)
        self.flat_button.clicked.connect(self.show_flat)

    def _arrange(self) -> None:
        for box in (self.step_box, self.stretch_box):  # their hint has room for the longest number there is
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        distance = QHBoxLayout()
        distance.addWidget(self.step_box, 1)
        distance.addWidget(self.unit_box, 1)
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapAllRows)
        form.addRow("Source index", self.index_box)
        form.addRow("Paint with", self.color_box)
        form.addRow("Z step", distance)
        form.addRow("Exaggerate", self.stretch_box)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        for part in (self.alone_box, self.show_button, self.flat_button, self.message):
            layout.addWidget(part)
        layout.addStretch()


def _finest(layer: Layer) -> Any:  # noqa: ANN401 - any array
    return layer.data[0] if layer.multiscale else layer.data
