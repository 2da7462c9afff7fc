"""The form shows every setting of the engine, and the choices in the words of the task set and recognize them."""

import pytest

from napari_qmcif import settings_form
from napari_qmcif.preferences import Preferences
from napari_qmcif.settings_form import OWN, TASK_CHOICES, SettingsForm, label_setting, make_setting_widget
from qmcif_engine import PRESETS, FusionConfig, InvalidConfigError

FIELDS = FusionConfig.setting_fields()


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_of_every_preset_comes_back_from_its_widget_within_its_bounds(name, qtbot):
    item, widget = FIELDS[name], make_setting_widget(name, FIELDS[name])
    qtbot.addWidget(widget.native)
    section, _, setting = name.partition(".")
    for preset in PRESETS.values():
        value = getattr(getattr(preset, section), setting)
        widget.value = value
        assert (widget.value, type(widget.value)) == (value, type(value))
    if item.metadata["low"] is not None and not item.metadata["choices"]:
        assert (widget.min, widget.max) == (item.metadata["low"], item.metadata["high"])
    assert item.metadata["unit"] in label_setting(item).lower()
    assert "_" not in label_setting(item)
    assert item.name in widget.tooltip
    assert item.metadata["help"][1:] in widget.tooltip


@pytest.fixture
def form(qtbot):
    form = SettingsForm()
    qtbot.addWidget(form.native)
    return form


def test_the_method_has_a_row_for_every_setting_once_its_fold_is_opened(form):
    assert (form.rows, form.read_config(), form.list_changes()) == ({}, PRESETS["default"], {})
    form.fold.expand(animate=False)
    assert list(form.rows) == list(FIELDS)
    form.rows["method.iterations"].value = 7
    assert form.read_config() == PRESETS["default"].replaced({"iterations": 7})
    assert form.fold.text() == "Method (1 changed)"
    for preset, is_shown in (("default", True), ("paper", False), ("fast", True)):
        form.preset_box.value = preset
        assert form.rows["method.iterations"].native.isHidden() == is_shown, "the paper's own settings act under its rule only"
        assert not form.rows["method.representation"].native.isHidden()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_set_everything_are_announced_once_and_recognized(form, name):
    form.preset_box.value = "paper" if name == "default" else "default"
    heard = []
    form.configured.connect(lambda: heard.append(form.read_config()))
    form.preset_box.value = name
    assert (form.list_changes(), heard) == ({}, [PRESETS[name]])
    form.show_config(PRESETS[name].replaced({"iterations": 4}))
    assert (form.preset_box.value, form.list_changes()) == (name, {"method.iterations": 4})
    form.reset_button.native.click()
    assert (form.preset_box.value, form.read_config(), form.reset_button.enabled) == ("default", PRESETS["default"], False)


@pytest.mark.parametrize("question", TASK_CHOICES)
def test_an_answer_sets_what_it_stands_for_and_is_recognized_again(form, question):
    firsts = {name: next(iter(answers)) for name, (_, answers) in TASK_CHOICES.items()}
    assert {name: box.value for name, box in form.task_boxes.items()} == firsts, "the first ones are the defaults of the engine"
    for answer, values in TASK_CHOICES[question][1].items():
        form.task_boxes[question].value = answer
        assert form.read_config() == PRESETS["default"].replaced(dict(values))
        assert {name: box.value for name, box in form.task_boxes.items()} == {**firsts, question: answer}


def test_what_was_set_one_by_one_is_no_answer_and_may_be_refused(form):
    form.fold.expand(animate=False)
    form.rows["decision.feather_px"].value = 11
    assert form.task_boxes["Background"].value == OWN
    form.rows["method.tolerance"].native.setDecimals(9)
    form.rows["method.tolerance"].value = 1e-8
    with pytest.raises(InvalidConfigError, match="setting tolerance is 1e-08; float32 cannot resolve less than 1e-06"):
        form.read_config()


def test_the_default_is_that_of_preferences(qtbot, monkeypatch):
    monkeypatch.setattr(settings_form, "read_preferences", lambda: Preferences(preset="fast"))
    form = SettingsForm()
    qtbot.addWidget(form.native)
    assert form.read_config() == PRESETS["fast"]


def test_settings_are_saved_and_loaded_as_the_command_line_reads_them(form, tmp_path):
    mine = PRESETS["fast"].replaced({"iterations": 4})
    form.show_config(mine)
    form.save(tmp_path / "mine.toml")
    assert FusionConfig.from_toml((tmp_path / "mine.toml").read_text()) == mine
    form.reset()
    form.load(tmp_path / "mine.toml")
    assert form.read_config() == mine


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"[method]\nnonsense = 1\n", b"[["])
def test_a_file_that_holds_no_settings_is_reported_and_changes_nothing(form, tmp_path, monkeypatch, answer, content):
    shown = []
    monkeypatch.setattr(settings_form, "show_error", shown.append)
    if content is not None:
        (tmp_path / "other.toml").write_bytes(content)
    answer(getOpenFileName=(str(tmp_path / "other.toml"), ""))
    form.load_button.native.click()
    assert form.read_config() == PRESETS["default"]
    assert shown[0].startswith("other.toml: ")
