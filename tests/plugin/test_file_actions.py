"""Stacks are opened and results saved from the widget, as a person does it, with scale, channels and record."""

import numpy as np
import pytest
import tifffile
import zarr

from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.depth_view import DepthView
from napari_qmcif.dock import open_dock
from napari_qmcif.file_actions import FOLDER_FILTER, FileActions, add_layers
from napari_qmcif.layers import MAP_NAMES, describe_channel
from napari_qmcif.provenance import record_provenance
from napari_qmcif.reader import open_files
from napari_qmcif.stack_series import StackSeries
from qmcif_engine import FusionConfig, make_focus_stack, write_image

pytestmark = pytest.mark.viewer


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def actions(viewer):
    widget = FileActions(viewer)
    viewer.window.add_dock_widget(widget)
    return widget


@pytest.fixture
def answer(monkeypatch):
    """Answer the dialogs as a person would."""

    def choose(**answers):
        for name, given in answers.items():
            monkeypatch.setattr(f"napari_qmcif.file_actions.QFileDialog.{name}", lambda *_, given=given: given)

    return choose


def wait_for(actions, qtbot):
    qtbot.waitUntil(lambda: not actions.row.is_running)


def add_fused(viewer):
    scene = make_focus_stack(n_images=3, shape=(40, 60), is_color=False, dtype=np.uint16)
    space = {"scale": (4, 0.5, 0.25), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    layer = viewer.add_image(scene.images, name="cells", contrast_limits=(0, 65535), **space)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    maps = {name: scene.depth_index.astype(np.float32 if name == "confidence" else np.uint16) for name in MAP_NAMES}
    add_layers(
        viewer,
        describe_channel(
            StackSeries.of_one(stack),
            0,
            {"fused": scene.truth, **maps},
            record=record_provenance(stack, FusionConfig(), focus_range=(0, 65535)),
        ),
    )
    return scene


def test_an_ome_tiff_is_opened_with_its_channels_apart(viewer, actions, qtbot, answer, tmp_path):
    samples = np.arange(2 * 3 * 2 * 8 * 9, dtype=np.uint16).reshape(2, 3, 2, 8, 9)
    names = {"Name": ["DAPI", "GFP"], "Color": [0x0000FFFF, 0x00FF00FF]}
    size = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 4.0}
    tifffile.imwrite(tmp_path / "cells.ome.tif", samples, metadata={"axes": "TZCYX", "Channel": names, **size})
    answer(getOpenFileNames=([str(tmp_path / "cells.ome.tif")], ""))

    actions.open_button.native.click()
    wait_for(actions, qtbot)

    assert [layer.name for layer in viewer.layers] == ["cells.ome.tif: DAPI", "cells.ome.tif: GFP"]
    for number, layer in enumerate(viewer.layers):
        np.testing.assert_array_equal(layer.data, samples[:, :, number])
        np.testing.assert_allclose(layer.scale, (1, 4, 0.2, 0.2))
        assert [str(unit) for unit in layer.units[1:]] == ["micrometer"] * 3
        np.testing.assert_allclose(layer.colormap.colors[-1][:3], np.eye(3)[2 - number])


def test_a_folder_of_images_is_opened(viewer, actions, qtbot, answer, tmp_path, images):
    for number, image in enumerate(images):
        write_image(tmp_path / f"{number}.jpg", image)
    answer(getExistingDirectory=str(tmp_path))

    actions.folder_button.native.click()
    wait_for(actions, qtbot)

    assert (viewer.layers[0].rgb, viewer.layers[0].data.shape) == (True, images.shape)
    assert actions.row.message.text() == ""


def test_what_is_no_stack_is_said_in_place(actions, qtbot, answer, tmp_path, images):
    write_image(tmp_path / "single.png", images[0])
    answer(getOpenFileNames=([str(tmp_path / "single.png")], ""))

    actions.open_button.native.click()
    wait_for(actions, qtbot)

    assert "at least 2" in actions.row.message.text()


def test_nothing_happens_where_the_dialogs_are_left(viewer, actions, answer):
    answer(getOpenFileNames=([], ""), getExistingDirectory="", getSaveFileName=("", ""))
    add_fused(viewer)
    before = len(viewer.layers)

    for button in (actions.open_button, actions.folder_button, actions.save_button):
        button.native.click()

    assert (actions.row.is_running, len(viewer.layers)) == (False, before)


def test_a_saved_folder_shows_the_image_again_with_its_z_step(viewer, actions, qtbot, answer, tmp_path):
    scene = add_fused(viewer)
    answer(getSaveFileName=(str(tmp_path / "result"), FOLDER_FILTER), getExistingDirectory=str(tmp_path / "result"))
    actions.save_button.native.click()
    wait_for(actions, qtbot)
    assert actions.row.message.text() == "saved 5 files to result"
    viewer.layers.clear()

    actions.folder_button.native.click()
    wait_for(actions, qtbot)

    shown = [layer for layer in viewer.layers if layer.visible]
    assert [layer.metadata["qmcif"]["part"] for layer in shown] == ["fused"]
    np.testing.assert_array_equal(shown[0].data, scene.truth)
    np.testing.assert_allclose(shown[0].scale, (0.5, 0.25))
    assert shown[0].metadata["qmcif"]["z_step"] == [4.0, "micrometer"]
    depth = DepthView(viewer)
    viewer.window.add_dock_widget(depth)
    assert (depth.surface.z_step.value, depth.surface.unit.value, depth.surface.paint_with.value) == (4, "micrometer", shown[0])


@pytest.mark.parametrize("suffix", ["ome.tif", "ome.zarr", "png"])
def test_one_image_is_saved_in_the_format_that_the_filter_names(viewer, actions, qtbot, answer, tmp_path, suffix):
    scene = add_fused(viewer)
    answer(getSaveFileName=(str(tmp_path / "sharp"), f"FusedImage (*.{suffix})"))

    actions.save_button.native.click()
    wait_for(actions, qtbot)

    assert actions.row.message.text() == f"saved to sharp.{suffix}"
    if suffix != "png":
        ((samples, attributes, _),) = open_files([tmp_path / f"sharp.{suffix}"])
        np.testing.assert_array_equal(samples, scene.truth)
        assert (attributes["scale"], attributes["metadata"]["qmcif"]["z_step"]) == ((0.5, 0.25), [4.0, "micrometer"])


def test_without_a_result_saving_says_so(actions):
    actions.save_button.native.click()

    assert "there is no result" in actions.row.message.text()


def test_a_place_that_cannot_be_written_is_told(viewer, actions, qtbot, answer, tmp_path):
    add_fused(viewer)
    answer(getSaveFileName=(str(tmp_path / "missing" / "a.ome.tif"), "OME-TIFF (*.ome.tif)"))

    actions.save_button.native.click()
    wait_for(actions, qtbot)

    assert "missing" in actions.row.message.text()


@pytest.fixture
def page(viewer, qtbot):
    dock = open_dock(viewer)
    yield dock.fusion
    dock.shut_down()
    del dock


def test_an_opened_stack_is_chosen_for_the_fusion_and_an_opened_result_is_not(viewer, page, qtbot, answer, tmp_path, images):
    (tmp_path / "leaf").mkdir()
    for number, image in enumerate(images):
        write_image(tmp_path / "leaf" / f"{number}.png", image)
    write_image(tmp_path / "fused.tif", images[0], provenance={"version": "1"})
    answer(getExistingDirectory=str(tmp_path / "leaf"), getOpenFileNames=([str(tmp_path / "fused.tif")], ""))

    page.files.folder_button.native.click()
    wait_for(page.files, qtbot)
    page.files.open_button.native.click()
    wait_for(page.files, qtbot)

    assert [layer.name for layer in viewer.layers] == ["leaf", "fused"]
    assert page.form.layers.value == [viewer.layers["leaf"]]


def test_of_a_file_with_stacks_of_several_sizes_those_like_the_first_are_chosen(viewer, page, qtbot, answer, tmp_path):
    root = zarr.open_group(tmp_path / "slide.zarr", mode="w", zarr_format=2)
    root.attrs["bioformats2raw.layout"] = 3
    for name, side in (("0", 8), ("1", 12), ("2", 8)):
        image = root.create_group(name)
        image.create_array("0", data=np.arange(3 * side * 9, dtype=np.uint16).reshape(3, side, 9))
        axes = [{"name": axis, "type": "space"} for axis in "zyx"]
        image.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": [{"path": "0"}]}]
    answer(getExistingDirectory=str(tmp_path / "slide.zarr"))

    page.files.folder_button.native.click()
    wait_for(page.files, qtbot)

    assert [layer.data.shape[1] for layer in viewer.layers] == [8, 12, 8]
    assert page.form.layers.value == [viewer.layers[0], viewer.layers[2]]
    assert page.files.row.message.text() == "2 of 3 layers are chosen, which have the size of the first: choose others under Images"
    assert page.run_panel.start_button.enabled


def test_a_result_with_time_points_is_offered_as_a_folder_only(viewer, actions, monkeypatch, add_time_series):
    add_time_series(viewer)
    offered = []
    monkeypatch.setattr(
        "napari_qmcif.file_actions.QFileDialog.getSaveFileName", lambda *arguments: offered.append(arguments[-1]) or ("", "")
    )

    actions.save_button.native.click()

    assert offered == [FOLDER_FILTER]
