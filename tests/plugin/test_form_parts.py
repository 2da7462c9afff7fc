"""Choices keep what was chosen, forms scroll without changing, folds are built when they are opened, and closing is noticed."""

import numpy as np
import pytest
from magicgui.widgets import ComboBox, Container, SpinBox
from napari.components import ViewerModel
from napari.layers import Image
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication, QLabel

from napari_qmcif.form_parts import BarPlot, LayerBox, MessageLabel, StackBox, list_stacks, make_fold, shrink_boxes


def turn(widget):
    down = (QPointF(5, 5), QPointF(5, 5), QPoint(0, -120), QPoint(0, -120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier)
    event = QWheelEvent(*down, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(widget.native, event)
    return event.isAccepted()


@pytest.mark.parametrize("make", [lambda: SpinBox(value=3), lambda: ComboBox(choices=("a", "b", "c"), value="b")])
def test_the_wheel_is_left_to_the_form_unless_the_box_has_the_focus(make, qtbot):
    box = make()
    form = Container(widgets=[box])
    qtbot.addWidget(form.native)
    before = box.value
    turn(box)
    assert box.value != before, "without the guard the value changes"
    box.value = before

    shrink_boxes(form.native)

    assert not turn(box)
    assert box.value == before


def test_a_fold_is_built_once_when_it_is_first_opened(qtbot):
    built = []
    fold = make_fold("Settings", lambda: built.append(1) or QLabel("inside"))
    qtbot.addWidget(fold)
    assert built == []
    for _ in range(2):
        fold.expand(animate=False)
        fold.collapse(animate=False)
    assert built == [1]


def test_addresses_in_a_message_can_be_followed_and_all_else_is_plain(qtbot):
    label = MessageLabel()
    qtbot.addWidget(label)
    assert label.isHidden()

    label.show_text("fusing <leaf>, dashboard: http://127.0.0.1:8787/status …")
    assert '<a href="http://127.0.0.1:8787/status"' in label.text()
    assert "&lt;leaf&gt;" in label.text()
    label.show_text("<b>leaf</b>")
    assert (label.text(), label.textFormat(), label.isHidden()) == ("<b>leaf</b>", Qt.TextFormat.PlainText, False)


def test_a_chosen_layer_stays_chosen_under_a_new_name_and_is_announced_when_it_goes(qtbot):
    viewer = ViewerModel()
    first, second = (viewer.add_image(np.zeros((4, 5)), name=name) for name in "ab")
    box, heard = LayerBox(viewer, lambda layer: layer.ndim == 2), []
    qtbot.addWidget(box.native)
    box.changed.connect(heard.append)
    box.value = first
    first.name = "z"
    box.reset_choices()
    assert (box.value, box.native.currentText(), heard) == (first, "z", [first])
    viewer.layers.remove(first)
    box.reset_choices()
    assert (box.value, heard) == (second, [first, second])


def test_stacks_channels_of_one_recording_and_images_of_one_size_are_offered():
    shared = [Image(np.zeros((3, 4, 5)), name=f"cells: {dye}", metadata={"qmcif": {"files": ["cells.czi"]}}) for dye in ("DAPI", "GFP")]
    scene = Image(np.zeros((3, 4, 5)), name="cells: scene 2", metadata={"qmcif": {"files": ["cells.czi"], "image": "2"}})
    frames = [Image(np.zeros((4, 5)), name=f"frame {number}") for number in range(2)]
    lone, hidden = Image(np.zeros((6, 5)), name="lone"), Image(np.zeros((4, 5)), name="truth", visible=False)
    found = dict(list_stacks([*shared, scene, *frames, lone, hidden], (frames[0], lone)))

    assert list(found) == ["cells: DAPI", "cells: GFP", "cells: scene 2", "cells: 2 channels", "2 images, 5 x 4", "2 selected layers"]
    assert found["cells: 2 channels"] == tuple(shared)
    assert found["2 images, 5 x 4"] == tuple(frames)
    double = [Image(np.zeros((3, 4, 5)), name="cells: DAPI"), Image(np.zeros((3, 4, 5)), name="cells: DAPI")]
    assert [name for name, _ in list_stacks(double)] == ["cells: DAPI", "cells: DAPI (2)"]


def test_without_a_stack_nothing_is_chosen(qtbot):
    box = StackBox(ViewerModel())
    qtbot.addWidget(box.native)
    assert (box.value, box.native.currentText()) == ((), "no stack is open")


@pytest.mark.parametrize(("n_bars", "row_px"), [(3, 20), (100, 4), (1000, 3)])
def test_bars_take_less_room_each_the_more_there_are(n_bars, row_px, qtbot):
    plot = BarPlot()
    qtbot.addWidget(plot)
    plot.show_figures({f"{number}": number / n_bars for number in range(n_bars)}, marked=1)
    assert (plot.sizeHint().height(), plot.isHidden()) == (20 + row_px * (n_bars - 1), False)
    assert not plot.grab().isNull()
    plot.show_figures({})
    assert plot.isHidden()
