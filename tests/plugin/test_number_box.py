"""A number box holds exactly what the engine takes, and shows it with the digits it needs."""

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QValidator

from napari_qmcif.number_box import NumberBox


def make_box(qtbot, **options):
    box = NumberBox(**options)
    qtbot.addWidget(box.native)
    return box


@pytest.mark.parametrize(("value", "text"), [(0.3, "0.3"), (1e6, "1e6"), (1e-5, "1e-5"), (0.0, "0"), (1000.0, "1e3"), (1.5, "1.5")])
def test_numbers_are_kept_and_show_the_digits_they_need(value, text, qtbot):
    box = make_box(qtbot, min=0, max=1e9, value=value)

    assert (box.value, box.native.text()) == (value, text)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("0.5", QValidator.State.Acceptable),
        ("1e-3", QValidator.State.Acceptable),
        ("", QValidator.State.Intermediate),
        ("1e", QValidator.State.Intermediate),
        ("7", QValidator.State.Intermediate),
        ("nan", QValidator.State.Invalid),
        ("two", QValidator.State.Invalid),
    ],
)
def test_only_numbers_within_the_bounds_can_be_typed(text, state, qtbot):
    assert make_box(qtbot, min=0, max=1, value=0).native.validate(text, 0)[0] == state


def test_typing_changes_the_value_once_it_is_finished(qtbot):
    box, heard = make_box(qtbot, min=0, max=1, value=0.2), []
    box.changed.connect(heard.append)

    box.native.selectAll()
    qtbot.keyClicks(box.native, "0.75")
    assert heard == []
    qtbot.keyClick(box.native, Qt.Key.Key_Return)

    assert (box.value, heard) == (0.75, [0.75])
