"""Layers are told apart by what they are."""

import numpy as np
import pytest
from napari.layers import Image, Labels
from qtpy.QtCore import QEvent, QPoint
from qtpy.QtGui import QHelpEvent
from qtpy.QtWidgets import QApplication, QToolTip

from napari_qmcif.layer_box import LayerComboBox, is_fused_or_flat, is_index_map, is_source, part_of


@pytest.mark.parametrize(
    ("layer", "image", "index"),
    [
        (Image(np.zeros((4, 5), np.uint16)), True, True),
        (Image(np.zeros((4, 5))), True, False),
        (Image(np.zeros((4, 5, 3), np.uint8), rgb=True), True, False),
        (Image(np.zeros((2, 4, 5), np.uint8)), False, False),
        (Labels(np.zeros((4, 5), int)), False, True),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": {"part": "base_map"}}), False, False),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": {"part": "source_index"}}), False, True),
        (Image(np.zeros((4, 5), np.uint16), metadata={"qmcif": "nonsense"}), True, True),
    ],
)
def test_images_and_index_maps_are_told_apart(layer, image, index):
    assert (is_fused_or_flat(layer), is_index_map(layer)) == (image, index)


def test_the_part_of_a_result_is_read_from_its_record():
    assert part_of(Image(np.zeros((4, 5)), metadata={"qmcif": {"part": "fused"}})) == "fused"
    assert part_of(Image(np.zeros((4, 5)), metadata={"qmcif": {"part": 3}})) is None


def test_our_own_maps_and_previews_are_no_sources_but_fused_images_are():
    parts = ("fused", "source_index", "preview", "height", None)
    layers = [Image(np.zeros((4, 5)), metadata={"qmcif": {"part": part}} if part else {}) for part in parts]

    assert [is_source(layer) for layer in layers] == [True, False, False, False, True]
    assert not is_source(Labels(np.zeros((4, 5), int)))


def test_a_long_name_keeps_its_ends_and_the_tooltip_gives_all_of_it(qtbot, monkeypatch):
    name = "a long name of some experiment, day 3: source index"
    box = LayerComboBox(choices=[(name, 1)], tooltip="Which image each pixel was taken from")
    qtbot.addWidget(box.native)
    told = []
    monkeypatch.setattr(QToolTip, "showText", lambda place, text, widget: told.append(text))

    box.native.resize(160, 24)
    QApplication.sendEvent(box.native, QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), QPoint(5, 5)))

    shown = box.native.elided()
    assert (shown[:3], shown[-3:], "…" in shown) == (name[:3], name[-3:], True)
    assert told == [f"{name}\nWhich image each pixel was taken from"]
    assert not box.native.grab().isNull()
    box.native.resize(900, 24)
    assert box.native.elided() == name
