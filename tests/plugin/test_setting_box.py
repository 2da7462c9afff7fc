"""Each kind of setting gets the editor that can hold exactly what the engine takes."""

from dataclasses import field

import pytest
from magicgui.widgets import CheckBox, ComboBox, SpinBox

from napari_qmcif.number_box import NumberBox
from napari_qmcif.setting_box import explain_setting, label_setting, make_setting_widget
from qmcif_engine import PRESETS, setting_fields

FIELDS = setting_fields()


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_of_every_preset_comes_back_from_its_widget(name, qtbot):
    widget = make_setting_widget(name, FIELDS[name])
    qtbot.addWidget(widget.native)
    section, _, setting = name.partition(".")
    for preset in PRESETS.values():
        value = getattr(getattr(preset, section), setting)
        widget.value = value
        assert (widget.value, type(widget.value)) == (value, type(value))


@pytest.mark.parametrize(
    "name", [name for name, item in FIELDS.items() if item.metadata["low"] is not None and not item.metadata["choices"]]
)
def test_editor_has_the_bounds_of_the_setting(name, qtbot):
    widget = make_setting_widget(name, FIELDS[name])
    qtbot.addWidget(widget.native)

    assert (widget.min, widget.max) == (FIELDS[name].metadata["low"], FIELDS[name].metadata["high"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("decomposition.is_low_rank", CheckBox),
        ("decomposition.iterations", SpinBox),
        ("decomposition.penalty", NumberBox),
        ("decomposition.base_patch_px", ComboBox),
        ("refinement.weights", ComboBox),
    ],
)
def test_kind_of_editor_follows_from_the_value(name, kind, qtbot):
    widget = make_setting_widget(name, FIELDS[name])
    qtbot.addWidget(widget.native)

    assert isinstance(widget, kind)


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


def test_a_field_without_bounds_or_unit_is_explained_too():
    item = FIELDS["decomposition.is_low_rank"]

    assert explain_setting(item).endswith("is_low_rank")
    assert isinstance(item, type(field()))
