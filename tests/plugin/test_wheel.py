"""A form can be scrolled without changing what the pointer passes over."""

import pytest
from magicgui.widgets import ComboBox, Container, SpinBox
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication

from napari_qmcif.number_box import NumberBox
from napari_qmcif.wheel import calm_wheel


def turn(widget):
    down = (QPointF(5, 5), QPointF(5, 5), QPoint(0, -120), QPoint(0, -120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier)
    event = QWheelEvent(*down, Qt.ScrollPhase.NoScrollPhase, False)
    QApplication.sendEvent(widget.native, event)
    return event.isAccepted()


@pytest.mark.parametrize(
    "make", [lambda: SpinBox(value=3), lambda: ComboBox(choices=("a", "b", "c"), value="b"), lambda: NumberBox(value=0.5)]
)
def test_the_wheel_is_left_to_the_form_unless_the_box_has_the_focus(make, qtbot):
    box = make()
    form = Container(widgets=[box])
    qtbot.addWidget(form.native)
    before = box.value
    turn(box)
    assert box.value != before, "without the guard the value changes"
    box.value = before

    calm_wheel(form.native)

    assert not turn(box)
    assert box.value == before


def test_boxes_that_came_later_are_guarded_by_calling_it_again(qtbot):
    form = Container(widgets=[SpinBox(value=1)])
    qtbot.addWidget(form.native)
    calm_wheel(form.native)
    form.append(SpinBox(value=5, name="late"))

    calm_wheel(form.native)

    turn(form.late)
    assert form.late.value == 5
