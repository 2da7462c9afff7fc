"""The choice of what to fuse: two or more pictures, or one stack and its axis."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from napari.layers import Image, Layer
from napari.viewer import Viewer
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QAbstractItemView, QFormLayout, QLabel, QListWidget, QListWidgetItem, QPushButton, QVBoxLayout, QWidget

from napari_qmcif.chosen_stack import ChosenStack, choose_pictures, choose_planes, guess_focus_axis, name_axis
from napari_qmcif.provenance import METADATA_KEY
from napari_qmcif.setting_box import CalmComboBox
from qmcif_engine import InvalidImageError

SHOWN_ROWS = 5


class LayerChoice(QWidget):
    """List the image layers of a viewer; one chosen stack shows its axes."""

    changed = Signal()

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._refused: tuple[Any, ...] = ()
        self.list = QListWidget()
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setToolTip(
            "Pictures of one scene, each sharp somewhere else, or one layer that holds them all.\nCtrl or Shift for several."
        )
        self.list.setFixedHeight(SHOWN_ROWS * self.list.fontMetrics().lineSpacing() + 24)
        self.use_selected_button = QPushButton("Use selected layers")
        self.use_selected_button.setToolTip("Take what is selected in the viewer's layer list")
        self.axis_label, self.axis_box = QLabel("Fuse along"), CalmComboBox()
        self.axis_box.setToolTip("The axis along which the focus changes. Further axes are taken where their sliders stand.")
        self._arrange()
        self.list.itemSelectionChanged.connect(self._on_selection)
        self.use_selected_button.clicked.connect(self.use_selected_layers)
        self.axis_box.currentIndexChanged.connect(self.changed)
        self.refresh_layers()

    def choose(self) -> ChosenStack:
        """Return the stack that was chosen.

        Raises
        ------
        InvalidImageError
            When what was chosen cannot be fused.
        """
        layers = self._refused or self.selected_layers()
        if not layers:
            msg = "nothing is chosen; two or more image layers, or one stack, are needed: select them in the list above"
            raise InvalidImageError(msg)
        if len(layers) == 1 and isinstance(layers[0], Image) and layers[0].ndim > 2:
            axis = self.axis_box.currentData()
            return choose_planes(layers[0], guess_focus_axis(layers[0]) if axis is None else axis, point=self._viewer.dims.point)
        return choose_pictures(layers)

    def selected_layers(self) -> tuple[Any, ...]:
        """Return the chosen layers, in the order of the list."""
        items = (self.list.item(row) for row in range(self.list.count()))
        return tuple(item.data(Qt.ItemDataRole.UserRole) for item in items if item is not None and item.isSelected())

    def select_layers(self, layers: Collection[Layer]) -> None:
        """Choose these layers and no others."""
        self._refused = ()
        for row in range(self.list.count()):
            item = self.list.item(row)
            if item is not None:
                item.setSelected(item.data(Qt.ItemDataRole.UserRole) in layers)
        self._on_selection()

    def use_selected_layers(self) -> None:
        """Choose what is selected in the viewer; anything but an image stays chosen as the reason why nothing can be run."""
        selected = [layer for layer in self._viewer.layers if layer in self._viewer.layers.selection]
        self.select_layers(selected)
        if any(not isinstance(layer, Image) for layer in selected):
            self._refused = tuple(selected)
            self.changed.emit()

    def refresh_layers(self) -> None:
        """List the viewer's image layers again; what was chosen stays chosen, also under a new name."""
        chosen = self.selected_layers()
        self._refused = tuple(layer for layer in self._refused if layer in self._viewer.layers)
        self.list.blockSignals(True)
        self.list.clear()
        for layer in self._viewer.layers:
            if is_source(layer):
                item = QListWidgetItem(str(layer.name))
                item.setData(Qt.ItemDataRole.UserRole, layer)
                self.list.addItem(item)
                item.setSelected(layer in chosen)
        self.list.blockSignals(False)
        self._list_axes()
        self.changed.emit()

    def _on_selection(self) -> None:
        self._refused = ()
        self._list_axes()
        self.changed.emit()

    def _list_axes(self) -> None:
        """Offer the axes of the one chosen stack; keep the chosen axis while the layer stays the same."""
        layers = self.selected_layers()
        is_stack = len(layers) == 1 and layers[0].ndim > 2
        self.axis_label.setVisible(is_stack)
        self.axis_box.setVisible(is_stack)
        entries = [self._describe_axis(layers[0], axis) for axis in range(layers[0].ndim)] if is_stack else []
        if entries == [self.axis_box.itemText(row) for row in range(self.axis_box.count())]:
            return
        self.axis_box.blockSignals(True)
        self.axis_box.clear()
        for axis, entry in enumerate(entries):
            self.axis_box.addItem(entry, axis)
        if is_stack:
            self.axis_box.setCurrentIndex(guess_focus_axis(layers[0]))
        self.axis_box.blockSignals(False)

    @staticmethod
    def _describe_axis(layer: Layer, axis: int) -> str:
        shape = layer.level_shapes[0] if layer.multiscale else layer.data.shape
        return f"{name_axis(layer, axis).removeprefix('axis ')} ({shape[axis]})"

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list)
        layout.addWidget(self.use_selected_button)
        form = QFormLayout()
        form.addRow(self.axis_label, self.axis_box)
        layout.addLayout(form)


def is_source(layer: Layer) -> bool:
    """Say whether a layer may be fused: an image, but none of our own maps and previews."""
    record = dict(layer.metadata).get(METADATA_KEY)
    return isinstance(layer, Image) and (not isinstance(record, dict) or record.get("part") in (None, "fused"))
