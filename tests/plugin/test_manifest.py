"""The manifest is valid, is found by napari, and names only things that exist and run."""

from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import npe2
import pytest
import yaml

DISTRIBUTION = "napari-qmcif"
PACKAGED_MANIFEST = Path(str(files("napari_qmcif") / "napari.yaml"))
TOP_LEVEL_MANIFEST = Path(__file__).parents[2] / "napari.yaml"

COMMANDS = [command["id"] for command in yaml.safe_load(PACKAGED_MANIFEST.read_text())["contributions"]["commands"]]


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


def test_every_contribution_refers_to_a_declared_command(manifest):
    declared = {command.id for command in manifest.contributions.commands}
    used = {sample.command for sample in manifest.contributions.sample_data}

    assert used == declared


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs_without_arguments(command, npe2pm):
    with npe2pm.tmp_plugin(package=DISTRIBUTION):
        result = npe2pm.commands.execute(command)

    assert result
