"""Whole journeys of real users in a real viewer, in the natural order: by menus, drops, dialogs and clicks."""

import threading
import time

import numpy as np
import pytest
import tifffile
from napari.layers import Layer
from napari.utils.notifications import notification_manager
from PIL import Image
from qtpy.QtGui import QGuiApplication

from napari_qmcif import fuse_focus_stack, work_row
from napari_qmcif.dock import FocusDock, open_page
from napari_qmcif.layers_out import part_of, read_record
from napari_qmcif.worker import EngineWorker
from qmcif_engine import FusionConfig, WrittenImage, fuse, make_focus_stack, open_stack, prepare_stack, write_image

pytestmark = pytest.mark.viewer


@pytest.fixture
def page(viewer):
    """Turns to a page of the dock."""
    return lambda title="Fuse": open_page(viewer, title)


def wait_for(qtbot, working):
    qtbot.waitUntil(lambda: not working.is_running)


def click(widget):
    assert widget.native.isEnabled()
    widget.native.click()


def fuse_by_click(form, qtbot):
    click(form.row.button)
    wait_for(qtbot, form.row)
    assert form.row.message.text().startswith("fused"), form.row.message.text()


def names(viewer):
    return [layer.name for layer in viewer.layers]


def shown(viewer):
    return [layer.name for layer in viewer.layers if layer.visible]


def chosen(form):
    return [layer.name for layer in form.images.value]


def tabs(viewer):
    (dock,) = [dock for dock in viewer.window.dock_widgets.values() if isinstance(dock, FocusDock)]
    bar = dock.tabs
    return [bar.tabText(number) for number in range(bar.count()) if bar.isTabVisible(number)] if not bar.tabBar().isHidden() else []


def test_a_newcomer_opens_the_dock_then_a_sample_and_follows_the_tutorial(viewer, page, qtbot, tmp_path):
    form = page()
    assert "nothing is chosen" in form.row.reason.text()
    assert (form.row.button.enabled, tabs(viewer)) == (False, [])
    viewer.open_sample("napari-qmcif", "color_focus_stack")
    assert (chosen(form), form.row.reason.text()) == (["focus stack"], ""), "the truth is hidden, and a single image"

    viewer.scene.camera.zoom *= 4
    form.fold.expand(animate=False)
    form.settings.task_boxes["Background"].value = "smooth"
    qtbot.waitUntil(lambda: form.preview.layer is not None)
    assert "focus stack: preview" in viewer.layers, "a change of settings shows itself"
    fuse_by_click(form, qtbot)
    assert names(viewer) == ["focus stack truth", "focus stack", "focus stack: fused", "focus stack: source map"]
    assert viewer.layers.selection.active.name == "focus stack: fused"
    assert (chosen(form), tabs(viewer)) == (["focus stack"], ["Fuse", "Retouch", "Compare", "Evaluate", "Depth"])
    fused, index = viewer.layers["focus stack: fused"], viewer.layers["focus stack: source map"]
    engines = fused.data.copy()

    retouch = page("Retouch")
    viewer.layers["focus stack"].name = "renamed"
    click(retouch.start_button)
    retouch.paint_with.value = 5
    viewer.layers["retouch"].paint((150, 300), 5)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    assert index.data[150, 300] == 4
    click(retouch.clear_button)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    np.testing.assert_array_equal(fused.data, engines)
    click(retouch.start_button)
    assert viewer.layers["retouch"].mode == "pan_zoom"

    evaluation = page("Evaluate")
    evaluation.truth.value = viewer.layers["focus stack truth"]
    click(evaluation.row.button)
    wait_for(qtbot, evaluation.row)
    (figures,) = evaluation.figures.values()
    assert figures["PSNR"] > 30

    depth = page("Depth")
    click(depth.show_button)
    assert (viewer.dims.ndisplay, shown(viewer)) == (3, ["focus stack: surface"])
    click(depth.flat_button)
    click(depth.row.button)
    wait_for(qtbot, depth.row)
    assert "focus stack: height in pixel" in viewer.layers

    comparison = page("Compare")
    comparison.wipes.value = True
    assert shown(viewer) == ["renamed", "wipe"]
    comparison.wipes.value = False
    assert "wipe" not in viewer.layers

    viewer.layers.selection = {fused, index, viewer.layers["focus stack: height in pixel"]}
    viewer.layers.save(str(tmp_path / "result"), selected=True, plugin="napari-qmcif")
    assert {path.name for path in (tmp_path / "result").iterdir()} == {"fused.ome.tif", "source_index.tif", "height.ome.tif"}


def test_a_microscopist_drops_a_recording_with_time_and_channels_and_saves_all_of_it(viewer, page, qtbot, tmp_path):
    scenes = [[make_focus_stack(n_images=3, shape=(48, 64), seed=2 * t + c, is_color=False) for c in range(2)] for t in range(2)]
    samples = np.stack([np.stack([scene.images for scene in at_time]) for at_time in scenes])
    dyes = {"Name": ["DAPI", "GFP"], "Color": [0x0000FFFF, 0x00FF00FF]}
    size = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 4.0}
    tifffile.imwrite(tmp_path / "cells.ome.tif", samples, metadata={"axes": "TCZYX", "Channel": dyes, **size})
    form = page()
    viewer.open(tmp_path / "cells.ome.tif", plugin="napari-qmcif")
    assert chosen(form) == ["cells.ome.tif: DAPI", "cells.ome.tif: GFP"]
    assert form.row.reason.text() == "4 stacks of 3 images are fused: 2 channels, 2 time points"

    fuse_by_click(form, qtbot)

    fused = [viewer.layers[f"cells.ome.tif: {dye}: fused"] for dye in ("DAPI", "GFP")]
    assert shown(viewer) == [layer.name for layer in fused], "sources would add their light to that of the results"
    for number, layer in enumerate(fused):
        assert (layer.data.shape, layer.axis_labels) == ((2, 1, 48, 64), ("t", "z", "y", "x"))
        np.testing.assert_allclose(layer.colormap.colors[-1][:3], np.eye(3)[2 - number])
    viewer.dims.set_point(0, 1)
    evaluation = page("Evaluate")
    evaluation.result.value = fused[0]
    click(evaluation.row.button)
    wait_for(qtbot, evaluation.row)
    assert list(evaluation.figures) == ["cells.ome.tif: DAPI: fused, t 1"]
    assert page("Depth").z_step.value == 4

    for suffix in (".ome.tif", ".ome.zarr"):
        viewer.layers.selection = {fused[0]}
        viewer.layers.save(str(tmp_path / f"sharp{suffix}"), selected=True, plugin="napari-qmcif")
        written = WrittenImage.open(tmp_path / f"sharp{suffix}")
        assert (written.metadata.channel_names, written.metadata.channel_colors) == (("DAPI", "GFP"), ("#0000ff", "#00ff00"))
        assert (written.has_time, written.metadata.pixel_size) == (True, (0.2, 0.2))
        np.testing.assert_array_equal(written.levels[0], np.stack([layer.data[:, 0] for layer in fused], axis=-1))
    kept = [layer.data[:, 0].copy() for layer in fused]
    viewer.layers.remove(fused[1])
    viewer.layers.selection = {fused[0]}
    with pytest.raises(Exception, match=r"is one of 2 channels of a result, of which 1 would be saved"):
        viewer.layers.save(str(tmp_path / "half.ome.tif"), selected=True, plugin="napari-qmcif")
    assert not (tmp_path / "half.ome.tif").exists()

    viewer.layers.clear()
    viewer.open(tmp_path / "sharp.ome.tif", plugin="napari-qmcif")
    assert names(viewer) == ["sharp: DAPI", "sharp: GFP"]
    for layer, samples in zip(viewer.layers, kept, strict=True):
        np.testing.assert_array_equal(layer.data, samples)
    assert chosen(form) == [], "a result is no stack"


@pytest.fixture
def held(monkeypatch):
    """An event without which no run gets past the beginning of its alignment."""
    go_on, note = threading.Event(), EngineWorker.note

    def hold(worker, text):
        note(worker, text)
        if text.startswith("aligning"):
            go_on.wait()

    monkeypatch.setattr(EngineWorker, "note", hold)
    yield go_on
    go_on.set()


def test_a_photographer_takes_advice_cancels_aligns_retouches_and_keeps_the_camera_data(viewer, page, qtbot, tmp_path, held, monkeypatch):
    monkeypatch.setattr(work_row, "GUARD_SECONDS", 0)
    scene = make_focus_stack(n_images=6, shape=(240, 320), seed=3)
    (tmp_path / "shots").mkdir()
    exif = Image.Exif()
    exif[0x0110] = "Lumix"
    for number, image in enumerate(scene.images):
        moved = Image.fromarray(np.roll(image, 8 * (number % 2), axis=1))
        moved.save(tmp_path / "shots" / f"IMG_{number:04d}.jpg", quality=98, exif=exif)
    viewer.open(tmp_path / "shots", plugin="napari-qmcif")
    form = page()
    qtbot.waitUntil(lambda: form.advice_button.native.isVisibleTo(form.row.native))
    assert "moved by about 8 px" in form.row.message.text()
    assert form.advice_button.text == "Align and run"

    click(form.advice_button)
    qtbot.waitUntil(lambda: form.row.message.text().startswith("aligning"))
    assert form.row.button.text == "Cancel"
    click(form.row.button)
    held.set()
    wait_for(qtbot, form.row)
    assert (form.row.message.text(), names(viewer)) == ("cancelled; nothing was added", ["shots"])
    assert form.run_options.align == "translation"
    fuse_by_click(form, qtbot)
    opened = open_stack(tmp_path / "shots")
    np.testing.assert_array_equal(viewer.layers["shots: fused"].data, fuse(prepare_stack(opened, align="translation")).fused)

    retouch = page("Retouch")
    click(retouch.start_button)
    assert retouch.paint_with.native.itemText(1) == "1: IMG_0000.jpg"
    retouch.paint_with.value = 4
    retouch.session.labels.paint((120, 160), 4)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    assert viewer.layers["shots: source map"].data[120, 160] == 3
    click(retouch.start_button)

    viewer.layers.selection = {viewer.layers["shots: fused"]}
    viewer.layers.save(str(tmp_path / "sharp.jpg"), selected=True, plugin="napari-qmcif")
    with Image.open(tmp_path / "sharp.jpg") as written:
        assert (written.size, written.getexif()[0x0110]) == ((320, 240), "Lumix")


def test_one_in_a_hurry_gets_words_instead_of_tracebacks(viewer, page, qtbot, answer, tmp_path, images, monkeypatch):
    shown_errors = []
    monkeypatch.setattr(notification_manager, "dispatch", shown_errors.append)
    batch = page("Batch")
    click(batch.row.button)
    assert "no folder is chosen" in batch.row.message.text()
    for title, words in (("Retouch", "no fused image"), ("Evaluate", "no result"), ("Depth", "no source map")):
        found = page(title)
        assert words in (found.message if title == "Retouch" else found.row.reason).text()
    form = page()
    click_refused = {"one": images[0], "other": images[1][:40]}
    for name, image in click_refused.items():
        viewer.add_image(image, rgb=True, name=name)
    assert "nothing is chosen" in form.row.reason.text(), "two images of different sizes are no stack"
    viewer.layers.selection = set(viewer.layers)
    assert "all must be equal" in form.row.reason.text()
    assert not form.row.button.enabled

    broken = tmp_path / "broken.toml"
    broken.write_text("[focus]\nno_such_setting = 1\n")
    answer(getOpenFileName=(str(broken), ""))
    before = form.settings.read_config()
    click(form.settings.load_button)
    assert form.settings.read_config() == before
    assert "broken.toml" in shown_errors.pop().message

    gap = images[..., 0].astype(np.float32)
    gap[1, 2, 3] = np.nan
    viewer.add_image(gap, name="gap", contrast_limits=(0, 255))
    assert chosen(form) == ["gap"]
    click(form.row.button)
    wait_for(qtbot, form.row)
    assert "holds NaN or infinite samples" in form.row.message.text()
    assert (shown_errors, names(viewer)[-1]) == ([], "gap"), "an error appears once, where the person looks"
    form.fold.expand(animate=False)
    click(form.command_button)
    assert "such files are needed for a command" in form.row.message.text()

    stack = viewer.add_image(images, rgb=True, name="stack")
    assert (chosen(form), form.row.message.text()) == (["stack"], "")
    click(form.row.button)
    viewer.layers.remove(stack)  # the run has its samples
    wait_for(qtbot, form.row)
    assert "stack: fused" in viewer.layers


def test_whatever_the_order_the_obvious_stack_is_chosen(viewer, page, images, tmp_path):
    for number in range(3):
        write_image(tmp_path / f"IMG_{number}.jpg", images[number])
    viewer.open([tmp_path / f"IMG_{number}.jpg" for number in range(3)])  # dropped: a layer each, no dock yet
    form = page()
    assert chosen(form) == ["IMG_0", "IMG_1", "IMG_2"]
    assert form.images.native.currentText() == "3 images, 64 x 48"
    for number in range(3):
        viewer.add_image(images[number], rgb=True, name=f"late {number}")
    assert len(chosen(form)) == 6, "images of one size are one stack"

    viewer.add_image(images, rgb=True, name="stack")
    assert chosen(form) == ["stack"], "what was opened last is meant"
    viewer.add_image(images[::-1], rgb=True, name="hidden", visible=False)
    assert chosen(form) == ["stack"]
    viewer.layers.selection = {viewer.layers["IMG_0"], viewer.layers["IMG_1"]}
    assert chosen(form) == ["IMG_0", "IMG_1"]
    assert form.row.button.enabled
    viewer.layers.selection = {viewer.layers["stack"]}
    viewer.layers["stack"].name = "renamed"
    assert (chosen(form), form.images.native.currentText()) == (["renamed"], "renamed")
    viewer.layers.remove("renamed")
    assert len(chosen(form)) == 6
    viewer.layers.clear()
    assert (chosen(form), form.row.button.enabled) == ([], False)


def test_a_run_goes_on_when_the_dock_is_closed_and_the_same_form_comes_back(viewer, qtbot, images, held):
    viewer.add_image(images, rgb=True, name="leaf")
    viewer.add_image(images[::-1], rgb=True, name="other")
    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif")
    form = dock.fusion
    form.images.value = (viewer.layers["leaf"],)
    form.set_options(align="translation", height=True)
    click(form.row.button)
    qtbot.waitUntil(lambda: form.row.message.text().startswith("aligning"))

    viewer.window.remove_dock_widget(dock)
    again = open_page(viewer)
    assert again.row.is_running
    assert (again.run_options.align, again.run_options.height) == ("translation", True)
    held.set()
    wait_for(qtbot, again.row)
    qtbot.waitUntil(lambda: "leaf: fused" in viewer.layers)
    assert names(viewer)[2:] == ["leaf: fused", "leaf: height", "leaf: source map"]

    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif")
    assert chosen(dock.fusion) == ["leaf"], "its result is selected"
    assert len([one for one in viewer.window.dock_widgets.values() if isinstance(one, FocusDock)]) == 1


def test_a_double_click_on_run_does_not_cancel_and_a_later_click_does(viewer, page, qtbot, images, held):
    viewer.add_image(images, rgb=True, name="leaf")
    form = page()
    form.set_options(align="translation")
    place = form.row.button.native.pos()
    click(form.row.button)
    click(form.row.button)
    qtbot.waitUntil(lambda: form.row.message.text().startswith("aligning"))
    assert (form.row.button.text, form.row.button.native.pos()) == ("Cancel", place)
    time.sleep(work_row.GUARD_SECONDS)
    click(form.row.button)
    held.set()
    wait_for(qtbot, form.row)
    assert (form.row.message.text(), form.row.button.text, names(viewer)) == ("cancelled; nothing was added", "Run", ["leaf"])


def test_twenty_stacks_of_a_file_each_are_fused_without_a_pattern(viewer, page, qtbot, tmp_path, images):
    (tmp_path / "stacks").mkdir()
    for name in ("leaf", "moss"):
        tifffile.imwrite(tmp_path / "stacks" / f"{name}.ome.tif", images[..., 0], metadata={"axes": "ZYX"})
    (tmp_path / "stacks" / "torn.ome.tif").write_bytes(b"no image")
    batch = page("Batch")
    batch.form.folder.value, batch.form.results.value = tmp_path / "stacks", tmp_path / "results"
    batch.form.with_heights.value = True

    click(batch.row.button)
    wait_for(qtbot, batch.row)

    assert [(row.name, row.status) for row in batch.rows] == [("leaf", "fused"), ("moss", "fused"), ("torn", "failed")]
    assert batch.row.message.text() == "2 fused, 1 failed"
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {"leaf.ome.tif", "leaf_maps", "leaf_height.tif"}
    batch.table.native.cellClicked.emit(0, 0)
    wait_for(qtbot, batch.row)
    np.testing.assert_array_equal(viewer.layers["leaf"].data, fuse(images[..., 0]).fused)
    click(batch.row.button)
    wait_for(qtbot, batch.row)
    assert batch.row.message.text() == "2 skipped, 1 failed"
    batch.form.overwrite.value = True
    click(batch.row.button)
    wait_for(qtbot, batch.row)
    assert batch.row.message.text() == "2 fused, 1 failed"


def test_a_result_larger_than_memory_goes_to_disk_and_is_opened_again(viewer, page, qtbot, tmp_path):
    scene = make_focus_stack(n_images=2, shape=(300, 600), seed=1)
    viewer.add_image(scene.images, rgb=True, name="leaf", scale=(1, 0.5, 0.5))
    form = page()
    form.fold.expand(animate=False)
    form.boxes["destination"].line_edit.value = str(tmp_path / "leaf")
    form.boxes["confidence"].value = True

    fuse_by_click(form, qtbot)

    assert names(viewer)[1:] == ["leaf: fused", "leaf: confidence", "leaf: source map"]
    fused = viewer.layers["leaf: fused"]
    assert (fused.multiscale, fused.rgb, fused.data[0].shape) == (True, True, (300, 600, 3))
    assert read_record(fused)["path"] == str(tmp_path / "leaf.ome.zarr")
    page("Retouch")
    assert "is on disk; retouching changes samples in memory" in page("Retouch").message.text()
    viewer.layers.clear()
    viewer.open(tmp_path / "leaf.ome.zarr", plugin="napari-qmcif")
    (opened,) = viewer.layers
    assert part_of(opened) == "fused"
    np.testing.assert_array_equal(opened.data, fuse(scene.images).fused)


def test_a_script_and_the_console_give_what_run_gives(viewer, page, qtbot, images):
    layer = viewer.add_image(images, rgb=True, name="leaf")
    form = page()
    form.settings.show_config(FusionConfig().replaced({"smoothness": 2.0}))
    form.set_options(leave_out="2", height=True)
    fuse_by_click(form, qtbot)

    made = [Layer.create(*entry) for entry in fuse_focus_stack([layer], FusionConfig().replaced({"smoothness": 2.0}), leave_out="2")]
    assert [one.name for one in made] == ["leaf: fused", "leaf: source map"]
    np.testing.assert_array_equal(made[0].data, viewer.layers["leaf: fused"].data)

    form.python_button.native.click()
    script = QGuiApplication.clipboard().text()
    assert form.row.message.text() == "copied"
    before = names(viewer)
    exec(script, {"viewer": viewer})
    assert [name for name in names(viewer) if name not in before] == ["leaf: fused [1]", "leaf: source map [1]"]
    np.testing.assert_array_equal(viewer.layers["leaf: fused [1]"].data, viewer.layers["leaf: fused"].data)
