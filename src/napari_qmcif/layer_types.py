"""Kinds of layers that the functions of the plugin take, with the widget that offers them."""

from typing import Annotated

from napari.layers import Image

from napari_qmcif.layer_box import LayerComboBox, LayerSelect, is_picture, is_source, list_layers

Picture = Annotated[Image, {"widget_type": LayerComboBox, "choices": list_layers(is_picture)}]
OptionalPicture = Annotated[Image | None, {"widget_type": LayerComboBox, "choices": list_layers(is_picture), "nullable": True}]
Sources = Annotated[list[Image], {"widget_type": LayerSelect, "choices": list_layers(is_source, from_top=False)}]

SHOWN_ROWS = 5


def shorten_list(choice: LayerSelect) -> None:
    """Let a list of layers take the room of a few rows; it scrolls."""
    choice.native.setFixedHeight(SHOWN_ROWS * choice.native.fontMetrics().lineSpacing() + 10)
