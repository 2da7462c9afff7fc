"""Each kind of setting gets the editor that can hold exactly what the engine takes."""

from dataclasses import field

import pytest
from magicgui.widgets import CheckBox, ComboBox, SpinBox

from napari_qmcif import settings_form
from napari_qmcif.number_box import NumberBox
from napari_qmcif.preferences import Preferences
from napari_qmcif.settings_form import OWN, SettingsForm, describe_changes, explain_setting, label_setting, make_setting_widget
from napari_qmcif.task_choices import TASK_CHOICES
from qmcif_engine import PRESETS, FusionConfig, InvalidConfigError

FIELDS = FusionConfig.setting_fields()


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
        ("method.is_low_rank", CheckBox),
        ("method.iterations", SpinBox),
        ("method.penalty", NumberBox),
        ("method.base_patch_px", ComboBox),
        ("method.weights", ComboBox),
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
        ("method.is_low_rank", "Low rank"),
        ("method.n_groups", "Number of groups"),
        ("method.base_patch_px", "Base patch (px)"),
        ("method.iterations", "Iterations"),
        ("decision.smoothness", "Smoothness"),
    ],
)
def test_labels_read_like_words(name, label):
    assert label_setting(FIELDS[name]) == label


def test_a_field_without_bounds_or_unit_is_explained_too():
    item = FIELDS["method.is_low_rank"]

    assert explain_setting(item).endswith("is_low_rank")
    assert isinstance(item, type(field()))


@pytest.fixture
def form(qtbot):
    form = SettingsForm()
    qtbot.addWidget(form.native)
    return form


def test_form_has_a_row_for_every_setting_and_starts_with_the_defaults(form):
    assert list(form.rows) == list(FusionConfig.setting_fields())
    assert form.value == PRESETS["default"]
    assert form.list_changes() == {}


@pytest.mark.parametrize("name", PRESETS)
def test_choosing_a_preset_sets_everything_and_is_told_once(form, name):
    form.preset_box.value = "paper" if name == "default" else "default"
    heard = []
    form.changed.connect(heard.append)

    form.preset_box.value = name

    assert (form.value, form.list_changes(), heard) == (PRESETS[name], {}, [PRESETS[name]])


@pytest.mark.parametrize("name", PRESETS)
def test_given_settings_are_shown_under_their_preset(form, name):
    form.value = PRESETS[name].replaced({"iterations": 4})

    assert (form.preset, form.list_changes()) == (name, {"method.iterations": 4})
    assert form.value == PRESETS[name].replaced({"iterations": 4})


def test_a_changed_row_is_marked_and_counted_while_the_settings_are_folded_away(form):
    form.rows["method.iterations"].value = 7

    assert form.value == PRESETS["default"].replaced({"iterations": 7})
    assert form.expert.text() == "Expert (1 changed)"
    assert form._names["method.iterations"].text() == "• Iterations"
    assert form._names["method.penalty"].text() == "Penalty"
    assert not form.expert.isExpanded()


@pytest.mark.parametrize("question", TASK_CHOICES)
def test_an_answer_sets_what_it_stands_for_and_is_recognized_again(form, question):
    for answer, values in TASK_CHOICES[question].answers.items():
        form.task_boxes[question].value = answer

        assert form.value == PRESETS["default"].replaced(dict(values))
        assert {name: box.value for name, box in form.task_boxes.items()} == {
            name: answer if name == question else next(iter(choice.answers)) for name, choice in TASK_CHOICES.items()
        }


def test_the_first_answers_are_the_defaults_of_the_engine(form):
    for choice in TASK_CHOICES.values():
        assert choice.find_answer(FusionConfig()) == next(iter(choice.answers))


def test_what_was_set_one_by_one_is_no_answer(form):
    form.rows["decision.feather_px"].value = 11

    assert form.task_boxes["background"].value == OWN


def test_the_paper_s_own_settings_are_shown_under_its_rule_only(form):
    form.native.show()
    form.expert.expand(False)
    for preset, is_shown in (("default", False), ("paper", True), ("fast", False)):
        form.preset_box.value = preset

        assert form.rows["method.iterations"].native.isVisibleTo(form.native) == is_shown
        assert form.rows["method.representation"].native.isVisibleTo(form.native)


def test_reset_takes_back_preset_and_settings(form):
    form.preset_box.value = "paper"
    form.rows["method.iterations"].value = 7

    form.reset_button.native.click()

    assert (form.preset, form.value, form.reset_button.enabled) == ("default", PRESETS["default"], False)


def test_the_default_is_that_of_preferences(qtbot, monkeypatch):
    monkeypatch.setattr(settings_form, "read_preferences", lambda: Preferences(preset="fast"))
    form = SettingsForm()
    qtbot.addWidget(form.native)

    assert form.value == PRESETS["fast"]


def test_settings_that_cannot_go_together_are_refused_in_the_words_of_the_engine(form):
    form.rows["method.tolerance"].value = 1e-8

    with pytest.raises(InvalidConfigError, match="setting tolerance is 1e-08; float32 cannot resolve less than 1e-06"):
        form.get_value()


def test_settings_are_saved_and_loaded_as_the_command_line_reads_them(form, tmp_path):
    form.value = PRESETS["fast"].replaced({"iterations": 4})
    form.save(tmp_path / "mine.toml")
    assert FusionConfig.from_toml((tmp_path / "mine.toml").read_text()) == form.value
    form.reset()

    form.load(tmp_path / "mine.toml")

    assert form.value == PRESETS["fast"].replaced({"iterations": 4})


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[method]\nnonsense = 1\n", b"[["])
def test_a_file_that_holds_no_settings_is_told_and_changes_nothing(form, tmp_path, monkeypatch, content):
    told = []
    monkeypatch.setattr(settings_form, "show_error", told.append)
    if content is not None:
        (tmp_path / "other.toml").write_bytes(content)

    form.load(tmp_path / "other.toml")

    assert form.value == PRESETS["default"]
    assert told[0].startswith("other.toml: ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "balanced"),
        ({"iterations": 7}, "balanced, iterations 7"),
        ({"iterations": 7, "saturation": 0.5, "penalty": 0.3, "smoothness": 5.0}, "balanced, smoothness 5.0, penalty 0.3, iterations 7, …"),
    ],
)
def test_settings_are_told_in_a_few_words(changes, words):
    assert describe_changes(FusionConfig().replaced(changes)) == words
