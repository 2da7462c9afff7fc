"""The form holds every setting of the engine, starts from a preset and gives back a checked configuration."""

import pytest

from napari_qmcif.settings_form import SettingsForm
from qmcif_engine import PRESETS, InvalidConfigError, setting_fields


@pytest.fixture
def form(qtbot):
    form = SettingsForm()
    qtbot.addWidget(form)
    return form


def test_form_has_a_box_for_every_setting_and_starts_with_the_defaults(form):
    assert list(form.boxes) == list(setting_fields())
    assert form.read_config() == PRESETS["default"]
    assert form.list_changes() == {}


@pytest.mark.parametrize("name", PRESETS)
def test_choosing_a_preset_sets_everything(form, name):
    form.preset_box.setCurrentText(name)

    assert form.read_config() == PRESETS[name]
    assert form.list_changes() == {}


def test_a_change_is_counted_while_the_settings_are_folded_away(form):
    form.boxes["decomposition.iterations"].value = 7

    assert form.list_changes() == {"decomposition.iterations": 7}
    assert form.read_config() == PRESETS["default"].replaced({"iterations": 7})
    assert form.advanced.button.text() == "▸ Advanced (1 changed)"


def test_reset_takes_back_preset_and_settings(form):
    form.preset_box.setCurrentText("paper")
    form.boxes["decomposition.iterations"].value = 7
    assert form.reset_button.isEnabled()

    form.reset_button.click()

    assert (form.preset, form.read_config()) == ("default", PRESETS["default"])
    assert not form.reset_button.isEnabled()


def test_reset_takes_back_settings_of_the_default_preset(form):
    form.boxes["decomposition.iterations"].value = 7

    form.reset_button.click()

    assert form.read_config() == PRESETS["default"]


def test_changing_a_preset_is_told_once(form, qtbot):
    heard = []
    form.changed.connect(lambda: heard.append(1))

    form.preset_box.setCurrentText("paper")

    assert len(heard) == 1


def test_settings_that_cannot_go_together_are_refused_in_the_words_of_the_engine(form):
    form.boxes["focus.smallest_detail_patch_px"].value = 31

    with pytest.raises(InvalidConfigError, match="setting smallest_detail_patch_px is 31, above largest_detail_patch_px 17"):
        form.read_config()


def test_every_preset_is_offered(form):
    assert [form.preset_box.itemText(row) for row in range(form.preset_box.count())] == list(PRESETS)
