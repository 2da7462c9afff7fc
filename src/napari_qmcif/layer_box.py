"""Choices of layers that follow the viewer: what was chosen stays chosen, also under a new name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from magicgui.backends._qtpy import widgets as backend
from magicgui.widgets import Select
from magicgui.widgets.bases import CategoricalWidget
from napari.layers import Image, Labels, Layer
from napari.utils._magicgui import find_viewer_ancestor
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QHelpEvent, QPaintEvent
from qtpy.QtWidgets import QComboBox, QSizePolicy, QStyle, QStyleOptionComboBox, QStylePainter, QToolTip

from napari_qmcif.provenance import read_record

MARGIN_PX = 6
"""Styles leave so much free at the sides of a name."""


def list_layers(fits: Callable[[Layer], bool], *, from_top: bool = True) -> Callable[[CategoricalWidget[Any]], list[Layer]]:
    """Return what offers the fitting layers of the viewer that a widget is in: the topmost first, or in the order of the images."""

    def offer(widget: CategoricalWidget[Any]) -> list[Layer]:
        # found anew each time: a widget is made before it is put into a window
        viewer = find_viewer_ancestor(widget.native)
        layers = [] if viewer is None else [layer for layer in viewer.layers if fits(layer)]
        return layers[::-1] if from_top else layers

    return offer


class _KeepsChoice(CategoricalWidget[Any]):
    """Part of a choice that knows layers by what they are: magicgui knows them by name and loses those that are renamed."""

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now, in their order; tell only where what was chosen is gone."""
        before = self.get_value()
        # for a moment the first entry is chosen, which nobody is to hear of
        with self.changed.blocked():
            # emptied first: magicgui finds old entries by name, and appends renamed and new ones at the end
            self._widget._mgui_set_choices([])
            super().reset_choices()
            kept = [layer for layer in before if layer in self.choices] if isinstance(before, list) else before
            if isinstance(kept, list) or kept in self.choices:
                self.value = kept
        if self.get_value() != before:
            self.changed.emit(self.value)


class LayerSelect(_KeepsChoice, Select):
    """Choice of several layers, in the order they are listed in."""

    def get_value(self) -> list[Any]:
        """Return the chosen layers; Qt has them in the order they were clicked on."""
        chosen = super().get_value()
        return [layer for layer in self.choices if layer in chosen]


class ElidingComboBox(QComboBox):
    """Combo box that leaves out the middle of a name it has no room for: the names of layers differ at their ends."""

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the box with as much of the name as fits."""
        painter, option = QStylePainter(self), QStyleOptionComboBox()
        self.initStyleOption(option)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        option.currentText = self.elided()
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)

    def elided(self) -> str:
        """Return what is shown of the name."""
        style, option = self.style(), QStyleOptionComboBox()
        self.initStyleOption(option)
        field = QStyle.SubControl.SC_ComboBoxEditField
        room = self.width() if style is None else style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, field, self).width()
        return self.fontMetrics().elidedText(self.currentText(), Qt.TextElideMode.ElideMiddle, room - MARGIN_PX)

    def event(self, event: QEvent | None) -> bool:
        """Give the whole name in the tooltip."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), "\n".join(filter(None, (self.currentText(), self.toolTip()))), self)
            return True
        return super().event(event)


class _ElidingBackend(backend.ComboBox):
    """What magicgui moves: its combo box, drawn as ours."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - passed on
        # what magicgui does itself, with another class of box
        backend.QBaseValueWidget.__init__(self, ElidingComboBox, "isChecked", "setCurrentIndex", "", **options)
        self._qwidget.currentIndexChanged.connect(self._emit_data)


class LayerComboBox(_KeepsChoice):
    """Choice of one layer; of none, too, where it is nullable."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        super().__init__(**{**options, "widget_type": _ElidingBackend})


class OfferedBox(LayerComboBox):
    """Choice out of what is offered at the time, such as the axes of the chosen layer."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - magicgui's
        self._offered: list[tuple[str, Any]] = [("", "")]
        super().__init__(**{**options, "choices": lambda _: self._offered})

    def offer(self, choices: list[tuple[str, Any]], *, first: Any = None) -> None:  # noqa: ANN401 - a value
        """Offer other choices; what was chosen stays chosen where it is still offered, else `first` is."""
        if choices == self._offered:
            return
        self._offered = choices
        self.reset_choices()
        # other layers, other axes: what was chosen of the last ones means nothing here
        if first is not None and first in self.choices:
            self.value = first


def is_source(layer: Layer) -> bool:
    """Return whether a layer may be fused, or shown beside a result: an image, but none of our own maps and previews."""
    return isinstance(layer, Image) and part_of(layer) in (None, "fused")


def part_of(layer: Layer) -> str | None:
    """Return which part of one of our results a layer is, such as ``fused`` or ``source_index``; None for any other layer."""
    part = read_record(layer).get("part")
    return part if isinstance(part, str) else None


def is_fused_or_flat(layer: Layer) -> bool:
    """Return whether a layer is an image of two axes, or a fused image of ours, which may have more, such as time."""
    return isinstance(layer, Image) and part_of(layer) in ("fused", *[None] * (layer.ndim == 2))


def is_index_map(layer: Layer) -> bool:
    """Return whether a layer may be a source index: whole numbers over two axes, or a source index of ours, which may have more."""
    if not isinstance(layer, Image | Labels) or (isinstance(layer, Image) and layer.rgb):
        return False
    return part_of(layer) in ("source_index", *[None] * (layer.ndim == 2)) and layer.dtype.kind in "iu"


FusedImage = Annotated[Image, {"widget_type": LayerComboBox, "choices": list_layers(is_fused_or_flat)}]
OptionalImage = Annotated[Image | None, {"widget_type": LayerComboBox, "choices": list_layers(is_fused_or_flat), "nullable": True}]
Sources = Annotated[list[Image], {"widget_type": LayerSelect, "choices": list_layers(is_source, from_top=False)}]

SHOWN_ROWS = 5


def shorten_list(choice: LayerSelect) -> None:
    """Limit a list of layers to the height of a few rows; it scrolls, and leaves out the middle of long names."""
    choice.native.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    choice.native.setFixedHeight(SHOWN_ROWS * choice.native.fontMetrics().lineSpacing() + 10)
    choice.native.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    choice.native.setTextElideMode(Qt.TextElideMode.ElideMiddle)
