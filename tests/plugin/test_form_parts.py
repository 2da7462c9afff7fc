"""Forms scroll without changing, and hear when they are closed."""

import pytest
from magicgui.widgets import CheckBox, ComboBox, Container, SpinBox
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtWidgets import QApplication, QWidget

from napari_qmcif.form_parts import MessageLabel, call_when_closed, calm_wheel, tidy_rows
from napari_qmcif.number_box import NumberBox


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


def test_leaving_the_parent_is_heard_once_each_time(qtbot):
    parent, widget, heard = QWidget(), QWidget(), []
    qtbot.addWidget(parent)
    qtbot.addWidget(widget)
    call_when_closed(widget, lambda: heard.append(widget.parent()))

    widget.setParent(parent)
    assert heard == []
    widget.setParent(None)

    assert heard == [None]


@pytest.fixture
def label(qtbot):
    made = MessageLabel()
    qtbot.addWidget(made)
    return made


def test_without_a_text_the_label_takes_no_room(label):
    assert not label.isVisibleTo(label.parentWidget())
    label.say("copied")
    assert (label.text(), label.isVisibleTo(label.parentWidget())) == ("copied", True)


def test_labels_of_arguments_begin_with_a_capital(qtbot):
    form = Container(widgets=[SpinBox(name="z_step"), CheckBox(name="even_exposure")])
    qtbot.addWidget(form.native)

    tidy_rows(form)

    assert (form.z_step.label, form.even_exposure.text) == ("Z step", "Even exposure")


def test_addresses_in_a_message_can_be_followed_and_all_else_is_plain(qtbot):
    label = MessageLabel()
    qtbot.addWidget(label)

    label.say("fusing <leaf>, dashboard: http://127.0.0.1:8787/status …")
    assert '<a href="http://127.0.0.1:8787/status"' in label.text()
    assert "&lt;leaf&gt;" in label.text()
    label.say("<b>leaf</b>")
    assert (label.text(), label.textFormat()) == ("<b>leaf</b>", Qt.TextFormat.PlainText)
