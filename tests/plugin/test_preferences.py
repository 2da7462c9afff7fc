"""Defaults come from napari's Preferences, and settings outlive a session."""

from types import SimpleNamespace

import pytest

from napari_qmcif import preferences
from napari_qmcif.preferences import Preferences, keep, load_kept, read_preferences, write_text
from qmcif_engine import PRESETS


@pytest.fixture
def own_place(tmp_path, monkeypatch):
    monkeypatch.setattr(preferences, "get_settings", lambda: SimpleNamespace(config_path=str(tmp_path / "napari" / "settings.yaml")))
    return tmp_path / "napari" / "napari-qmcif.toml"


def test_the_manifest_offers_what_is_read_and_its_defaults_change_nothing():
    assert read_preferences() == Preferences()


def test_what_a_person_prefers_is_read(monkeypatch, tmp_path):
    found = SimpleNamespace(fusion=SimpleNamespace(preset="fast", memory_gigabytes=1.5, scratch_folder=str(tmp_path)))
    monkeypatch.setattr(preferences, "get_plugin_settings", lambda name: found)

    assert read_preferences() == Preferences("fast", 1_500_000_000, tmp_path)


def test_settings_outlive_a_session(own_place):
    assert load_kept() is None
    config = PRESETS["fast"].replaced({"iterations": 3})

    keep(config)

    assert load_kept() == config
    assert [path.name for path in own_place.parent.iterdir()] == ["napari-qmcif.toml"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[method]\nnonsense = 1\n", b"[["])
def test_what_cannot_be_read_is_no_reason_to_fail(own_place, content):
    own_place.parent.mkdir()
    own_place.write_bytes(content)

    assert load_kept() is None


def test_a_place_that_cannot_be_written_is_no_reason_to_fail(own_place):
    own_place.parent.write_text("a file where a folder should be")

    keep(PRESETS["default"])

    assert load_kept() is None


def test_a_napari_that_keeps_no_settings_keeps_none_of_ours():
    keep(PRESETS["fast"])

    assert load_kept() is None


def test_a_file_is_written_completely_or_not_at_all(tmp_path):
    resource = pytest.importorskip("resource", reason="this system has no limits for files")
    target = tmp_path / "kept.toml"
    write_text(target, "first")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match=r"'kept.toml' cannot be written .* room and the right to write are needed: choose another place"):
            write_text(target, "second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert target.read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.toml"]
