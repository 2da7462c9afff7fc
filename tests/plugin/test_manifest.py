"""The manifest is valid, is found by napari, and names only things that exist and run."""

import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import npe2
import pytest
import yaml

DISTRIBUTION = "napari-qmcif"
PACKAGED_MANIFEST = Path(str(files("napari_qmcif") / "napari.yaml"))
TOP_LEVEL_MANIFEST = Path(__file__).parents[2] / "napari.yaml"

CONTRIBUTIONS = yaml.safe_load(PACKAGED_MANIFEST.read_text())["contributions"]
COMMANDS = {command["id"] for command in CONTRIBUTIONS["commands"]}
SAMPLES = {sample["command"] for sample in CONTRIBUTIONS["sample_data"]}
WIDGETS = {widget["display_name"]: widget["command"] for widget in CONTRIBUTIONS["widgets"]}


@pytest.fixture
def manifest():
    return npe2.PluginManifest.from_distribution(DISTRIBUTION)


def test_packaged_manifest_is_valid_and_its_python_names_import():
    manifest = npe2.PluginManifest.from_file(PACKAGED_MANIFEST)

    manifest.validate_imports()

    assert manifest.name == DISTRIBUTION
    assert manifest.display_name == "QMCIF focus stacking"


def test_top_level_manifest_equals_the_packaged_one_byte_for_byte():
    assert TOP_LEVEL_MANIFEST.read_bytes() == PACKAGED_MANIFEST.read_bytes()


def test_entry_point_leads_to_the_packaged_manifest(manifest):
    (entry_point,) = entry_points(group="napari.manifest", name=DISTRIBUTION)

    assert entry_point.value == "napari_qmcif:napari.yaml"
    assert manifest.contributions == npe2.PluginManifest.from_file(PACKAGED_MANIFEST).contributions


def test_npe2_finds_nothing_wrong():
    checked = subprocess.run([sys.executable, "-m", "npe2", "validate", DISTRIBUTION], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Manifest for 'QMCIF focus stacking' valid" in checked.stdout.replace("\n", " ")


def test_every_command_is_contributed_somewhere_and_executed_by_a_test_below():
    assert SAMPLES | set(WIDGETS.values()) == COMMANDS


def test_fusion_is_offered_under_layers_project(manifest):
    assert [item.command for item in manifest.contributions.menus["napari/layers/project"]] == ["napari-qmcif.fuse"]


@pytest.mark.parametrize("command", sorted(SAMPLES))
def test_sample_command_runs_without_arguments(command, npe2pm):
    with npe2pm.tmp_plugin(package=DISTRIBUTION):
        result = npe2pm.commands.execute(command)

    assert result


@pytest.mark.viewer
@pytest.mark.parametrize("display_name", sorted(WIDGETS))
def test_widget_command_opens_a_widget_in_an_empty_viewer(display_name, make_napari_viewer_proxy):
    viewer = make_napari_viewer_proxy()

    dock, widget = viewer.window.add_plugin_dock_widget(DISTRIBUTION, display_name)

    assert dock.widget() is widget
