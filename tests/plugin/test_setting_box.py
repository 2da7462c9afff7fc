"""Each kind of setting gets the editor that can hold exactly what the engine takes."""

from dataclasses import field

import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QValidator, QWheelEvent
from qtpy.QtWidgets import QApplication, QCheckBox, QComboBox, QSpinBox

from napari_qmcif.setting_box import NumberBox, SettingBox, explain_setting, label_setting, make_setting_widget
from qmcif_engine import PRESETS, setting_fields

FIELDS = setting_fields()


def make_box(name, qtbot, on_change=lambda: None):
    box = SettingBox(FIELDS[name], on_change=on_change)
    qtbot.addWidget(box.widget)
    return box


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_of_every_preset_comes_back_as_it_went_in(name, preset, qtbot):
    section, _, setting = name.partition(".")
    value = getattr(getattr(PRESETS[preset], section), setting)
    box = make_box(name, qtbot)

    box.value = value

    assert box.value == value
    assert type(box.value) is type(value)


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_of_every_preset_comes_back_from_its_widget(name, qtbot):
    widget = make_setting_widget(name, FIELDS[name])
    qtbot.addWidget(widget.native)
    section, _, setting = name.partition(".")
    for preset in PRESETS.values():
        value = getattr(getattr(preset, section), setting)
        widget.value = value
        assert (widget.value, type(widget.value)) == (value, type(value))


@pytest.mark.parametrize("name", [name for name, item in FIELDS.items() if item.metadata["low"] is not None])
def test_editor_has_the_bounds_of_the_setting(name, qtbot):
    box = make_box(name, qtbot)

    for bound in ("low", "high"):
        box.value = FIELDS[name].metadata[bound]
        assert box.value == FIELDS[name].metadata[bound]
    box.value = FIELDS[name].metadata["low"] - 1
    assert box.value == FIELDS[name].metadata["low"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("decomposition.is_low_rank", QCheckBox),
        ("decomposition.iterations", QSpinBox),
        ("decomposition.penalty", NumberBox),
        ("decomposition.base_patch_px", QComboBox),
        ("refinement.weights", QComboBox),
    ],
)
def test_kind_of_editor_follows_from_the_value(name, kind, qtbot):
    assert isinstance(make_box(name, qtbot).widget, kind)


@pytest.mark.parametrize("name", FIELDS)
def test_label_and_tooltip_tell_unit_name_and_help(name):
    item = FIELDS[name]

    assert item.metadata["unit"] in label_setting(item).lower()
    assert "_" not in label_setting(item)
    assert item.name in explain_setting(item)
    assert item.metadata["help"][1:] in explain_setting(item)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("decomposition.is_low_rank", "Low rank"),
        ("decomposition.n_groups", "Number of groups"),
        ("decomposition.base_patch_px", "Base patch (px)"),
        ("decomposition.iterations", "Iterations"),
        ("decision.consistency", "Consistency"),
    ],
)
def test_labels_read_like_words(name, label):
    assert label_setting(FIELDS[name]) == label


@pytest.mark.parametrize(("value", "text"), [(0.3, "0.3"), (1e6, "1e6"), (1e-5, "1e-5"), (0.0, "0"), (1000.0, "1e3"), (1.5, "1.5")])
def test_numbers_show_the_digits_they_need(value, text, qtbot):
    box = NumberBox()
    qtbot.addWidget(box)
    box.setRange(0, 1e9)

    box.setValue(value)

    assert box.text() == text
    assert box.valueFromText(text) == value


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
    box = NumberBox()
    qtbot.addWidget(box)
    box.setRange(0, 1)

    assert box.validate(text, 0)[0] == state


def test_typing_changes_the_value_once_it_is_finished(qtbot):
    heard = []
    box = make_box("decomposition.penalty", qtbot, on_change=lambda: heard.append(1))
    box.value = 0.2
    heard.clear()

    box.widget.selectAll()
    qtbot.keyClicks(box.widget, "0.75")
    assert heard == []
    qtbot.keyClick(box.widget, Qt.Key.Key_Return)

    assert (box.value, len(heard)) == (0.75, 1)


@pytest.mark.parametrize("name", ["decomposition.iterations", "decomposition.penalty", "refinement.weights"])
def test_scrolling_the_form_changes_nothing_on_its_way(name, qtbot):
    box = make_box(name, qtbot)
    before = box.value
    down = (QPointF(5, 5), QPointF(5, 5), QPoint(0, -120), QPoint(0, -120), Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier)

    QApplication.sendEvent(box.widget, QWheelEvent(*down, Qt.ScrollPhase.NoScrollPhase, False))

    assert box.value == before


def test_a_field_without_bounds_or_unit_is_explained_too():
    item = FIELDS["decomposition.is_low_rank"]

    assert explain_setting(item).endswith("is_low_rank")
    assert isinstance(item, type(field()))
