"""The manifest is valid, is found by napari, and names only things that exist and run."""

import ast
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import npe2
import pytest
import yaml

from qmcif_engine import PRESETS

DISTRIBUTION = "napari-qmcif"
PACKAGED_MANIFEST = Path(str(files("napari_qmcif") / "napari.yaml"))
TOP_LEVEL_MANIFEST = Path(__file__).parents[2] / "napari.yaml"

PAGE_TITLES = {"retouch": "Retouch", "compare": "Compare", "evaluate": "Evaluate", "depth_view": "Depth", "fuse_many": "Batch"}
CONTRIBUTIONS = yaml.safe_load(PACKAGED_MANIFEST.read_text())["contributions"]
COMMANDS = {command["id"] for command in CONTRIBUTIONS["commands"]}
SAMPLES = {sample["command"] for sample in CONTRIBUTIONS["sample_data"]}
FILE_COMMANDS = {item["command"] for kind in ("readers", "writers") for item in CONTRIBUTIONS[kind]}
WIDGETS = {widget["display_name"]: widget["command"] for widget in CONTRIBUTIONS["widgets"]}


PAGE_COMMANDS = {f"napari-qmcif.{name}": title for name, title in PAGE_TITLES.items()}


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
    assert SAMPLES | FILE_COMMANDS | set(WIDGETS.values()) | set(PAGE_COMMANDS) == COMMANDS


def test_the_commands_that_others_may_rely_on_are_there():
    assert {f"napari-qmcif.{name}" for name in ("fuse", "retouch", "evaluate", "read", "write")} <= COMMANDS


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("project", ["fuse", "fuse_many"]),
        ("annotate", ["retouch"]),
        ("measure", ["evaluate", "compare"]),
        ("visualize", ["depth_view"]),
    ],
)
def test_pages_are_offered_where_they_belong_among_the_layers(manifest, place, names):
    assert [item.command for item in manifest.contributions.menus[f"napari/layers/{place}"]] == [f"napari-qmcif.{name}" for name in names]


def test_file_commands_write_and_read_a_result(npe2pm, tmp_path, images):
    target = str(tmp_path / "image.tif")
    attributes = {"name": "image", "metadata": {"qmcif": {"version": "1"}}, "rgb": True}
    with npe2pm.tmp_plugin(package=DISTRIBUTION):
        assert npe2pm.commands.execute("napari-qmcif.write", (target, images[0], attributes)) == [target]
        assert npe2pm.commands.execute("napari-qmcif.write_result", (str(tmp_path / "all"), [(images[0], attributes, "image")]))
        ((samples, _, _),) = npe2pm.commands.execute("napari-qmcif.read", (str(tmp_path / "all"),))(str(tmp_path / "all"))

    assert (samples == images[0]).all()


@pytest.mark.parametrize("command", sorted(SAMPLES))
def test_sample_command_runs_without_arguments(command, npe2pm):
    with npe2pm.tmp_plugin(package=DISTRIBUTION):
        result = npe2pm.commands.execute(command)

    assert result


@pytest.mark.viewer
@pytest.mark.parametrize("display_name", sorted(WIDGETS))
def test_widget_command_opens_a_widget_in_an_empty_viewer(display_name, viewer):
    dock, widget = viewer.window.add_plugin_dock_widget(DISTRIBUTION, display_name)

    assert dock.widget() is getattr(widget, "native", widget)


@pytest.mark.viewer
@pytest.mark.parametrize("command", PAGE_COMMANDS)
def test_page_command_opens_its_page_in_the_one_dock(command, viewer):
    from napari._app_model import get_app_model

    get_app_model().commands.execute_command(command).result()

    (dock,) = viewer.window.dock_widgets.values()
    assert dock.tabs.tabText(dock.tabs.currentIndex()) == PAGE_COMMANDS[command]
    dock.shut_down()


def test_preferences_offer_what_the_plugin_reads(manifest):
    properties = manifest.contributions.configurations["fusion"].properties

    assert list(properties) == ["preset", "memory_gigabytes", "scratch_folder"]
    assert list(properties["preset"].enum) == list(PRESETS)


@pytest.mark.viewer
@pytest.mark.parametrize("is_menu_first", [True, False])
def test_plugins_menu_and_layers_menu_share_one_dock(is_menu_first, viewer):
    from napari._app_model import get_app_model

    commands = ["napari-qmcif.fuse", "napari-qmcif.retouch"]

    for command in commands if is_menu_first else commands[::-1]:
        get_app_model().commands.execute_command(command).result()

    (dock,) = viewer.window.dock_widgets.values()
    assert dock.tabs.tabText(dock.tabs.currentIndex()) == "Retouch"
    dock.shut_down()


def list_private_names(code):
    """Return the private modules that a module imports, and the private attributes that it takes from anything but its own objects."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found += [name for name in names if "._" in name and not name.startswith("__")]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr != "_replace" and not node.attr.endswith("__"):
            found += [ast.unparse(node)] * (ast.unparse(node.value) != "self")
    return found


@pytest.mark.parametrize("path", sorted(PACKAGED_MANIFEST.parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_private_names_of_napari_magicgui_or_superqt_are_used(path):
    assert list_private_names("import napari._qt\nviewer._layers") == ["napari._qt", "viewer._layers"]
    assert list_private_names(path.read_text(encoding="utf-8")) == []
