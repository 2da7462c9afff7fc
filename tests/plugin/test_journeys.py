"""Whole journeys by the buttons and dialogs that people use: a newcomer, a microscopist, a photographer, and one in a hurry."""

import threading
from functools import partial

import numpy as np
import pytest
import tifffile
from qtpy.QtCore import Qt

from napari_qmcif.dock import open_dock, open_page
from napari_qmcif.file_actions import FOLDER_FILTER
from napari_qmcif.worker import EngineWorker
from qmcif_engine import make_focus_stack, write_image

pytestmark = pytest.mark.viewer


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def answer(monkeypatch):
    """Answer the dialogs as a person would."""

    def choose(**answers):
        for name, given in answers.items():
            monkeypatch.setattr(f"qtpy.QtWidgets.QFileDialog.{name}", lambda *_, given=given: given)

    return choose


@pytest.fixture
def page(viewer, qtbot):
    """Turns to a page of the dock; everything that runs there is stopped at the end."""
    yield partial(open_page, viewer)
    dock = open_dock(viewer)
    dock.fusion.run_panel.cancel()
    wait_for(qtbot, dock.fusion.run_panel)
    dock.shut_down()


def wait_for(qtbot, working):
    qtbot.waitUntil(lambda: not working.is_running)


def click(widget):
    assert widget.native.isEnabled()
    widget.native.click()


def fuse(page, qtbot):
    form = page("Fuse")
    click(form.run_panel.start_button)
    wait_for(qtbot, form.run_panel)
    assert form.run_panel.message.text().startswith("fused")
    return form


def shown(viewer):
    return [layer.name for layer in viewer.layers if layer.visible]


def test_a_newcomer_follows_the_tutorial(viewer, page, qtbot, answer, tmp_path):
    viewer.open_sample("napari-qmcif", "color_focus_stack")
    viewer.layers.selection = {viewer.layers["focus stack"]}
    form = page("Fuse")
    viewer.scene.camera.zoom *= 4
    click(form.preview.button)
    wait_for(qtbot, form.preview)
    assert "focus stack: preview" in viewer.layers
    fuse(page, qtbot)
    assert "focus stack: preview" not in viewer.layers
    fused, index = viewer.layers["focus stack: fused"], viewer.layers["focus stack: source index"]
    engines = fused.data.copy()

    retouch = page("Retouch")
    click(retouch.start_button)
    retouch.paint_with.value = 5
    viewer.layers["retouch"].paint((150, 300), 5)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    assert index.data[150, 300] == 4
    click(retouch.clear_button)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    np.testing.assert_array_equal(fused.data, engines)
    click(retouch.start_button)

    evaluation = page("Evaluate")
    evaluation.form.truth.value = viewer.layers["focus stack truth"]
    click(evaluation.row.start_button)
    wait_for(qtbot, evaluation.row)
    (figures,) = evaluation.figures.values()
    assert figures["PSNR"] > 30

    depth = page("Depth")
    click(depth.show_button)
    assert (viewer.dims.ndisplay, shown(viewer)) == (3, ["focus stack: surface"])
    click(depth.flat_button)
    click(depth.row.start_button)
    wait_for(qtbot, depth.row)
    assert "focus stack: height in pixel" in viewer.layers

    comparison = page("Compare")
    comparison.wipes.value = True
    assert shown(viewer) == ["focus stack", "wipe"]
    comparison.wipes.value = False
    assert "wipe" not in viewer.layers

    answer(getSaveFileName=(str(tmp_path / "result"), FOLDER_FILTER))
    form = page("Fuse")
    click(form.files.save_button)
    wait_for(qtbot, form.files.row)
    assert {"fused.ome.tif", "source_index.tif", "height.ome.tif"} <= {path.name for path in (tmp_path / "result").iterdir()}


def test_a_microscopist_fuses_a_recording_with_time_and_channels(viewer, page, qtbot, answer, tmp_path):
    scenes = [[make_focus_stack(n_images=3, shape=(48, 64), seed=2 * t + c, is_color=False) for c in range(2)] for t in range(2)]
    samples = np.stack([np.stack([scene.images for scene in at_time]) for at_time in scenes])
    names = {"Name": ["DAPI", "GFP"], "Color": [0x0000FFFF, 0x00FF00FF]}
    size = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 4.0}
    tifffile.imwrite(tmp_path / "cells.ome.tif", samples, metadata={"axes": "TCZYX", "Channel": names, **size})
    folder = str(tmp_path / "result")
    answer(getOpenFileNames=([str(tmp_path / "cells.ome.tif")], ""), getSaveFileName=(folder, FOLDER_FILTER), getExistingDirectory=folder)
    form = page("Fuse")
    click(form.files.open_button)
    wait_for(qtbot, form.files.row)
    assert [layer.name for layer in form.form.layers.value] == ["cells.ome.tif: DAPI", "cells.ome.tif: GFP"]
    assert form.form.axis.value == "z"

    fuse(page, qtbot)

    fused = [viewer.layers[f"cells.ome.tif: {dye}: fused"] for dye in ("DAPI", "GFP")]
    assert shown(viewer) == [layer.name for layer in fused], "sources would add their light to that of the results"
    for number, layer in enumerate(fused):
        assert (layer.data.shape, layer.axis_labels) == ((2, 1, 48, 64), ("t", "z", "y", "x"))
        np.testing.assert_allclose(layer.colormap.colors[-1][:3], np.eye(3)[2 - number])
    viewer.dims.set_point(0, 1)
    evaluation = page("Evaluate")
    evaluation.form.result.value = fused[0]
    click(evaluation.row.start_button)
    wait_for(qtbot, evaluation.row)
    assert list(evaluation.figures) == ["cells.ome.tif: DAPI: fused, t 1"]

    viewer.layers.selection.active = fused[0]
    form = page("Fuse")
    click(form.files.save_button)
    wait_for(qtbot, form.files.row)
    assert "is one of 2 channels of a result, of which 1 would be saved" in form.files.row.message.text()
    viewer.layers.selection = {layer for layer in viewer.layers if ": " in layer.name.removeprefix("cells.ome.tif: ")}
    viewer.layers.save(folder, selected=True, plugin="napari-qmcif")
    kept = [layer.data[:, 0].copy() for layer in fused]
    viewer.layers.clear()
    click(form.files.folder_button)
    wait_for(qtbot, form.files.row)
    assert sorted(shown(viewer)) == ["fused", "fused_2"]
    for name, samples in zip(("fused", "fused_2"), kept, strict=True):
        np.testing.assert_array_equal(viewer.layers[name].data, samples)
    assert page("Depth").surface.z_step.value == 4


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


def test_a_photographer_aligns_cancels_retouches_and_saves(viewer, page, qtbot, answer, tmp_path, held):
    scene = make_focus_stack(n_images=28, shape=(120, 160), seed=3)
    (tmp_path / "shots").mkdir()
    for number, image in enumerate(scene.images):
        write_image(tmp_path / "shots" / f"IMG_{number:04d}.jpg", np.roll(image, number % 3, axis=1))
    answer(getExistingDirectory=str(tmp_path / "shots"))
    form = page("Fuse")
    click(form.files.folder_button)
    wait_for(qtbot, form.files.row)
    form.form.align.value = "translation"
    form.form.with_maps.value = False

    click(form.run_panel.start_button)
    qtbot.waitUntil(lambda: form.run_panel.message.text().startswith("aligning"))
    click(form.run_panel.cancel_button)
    held.set()
    wait_for(qtbot, form.run_panel)
    assert (form.run_panel.message.text(), len(viewer.layers)) == ("cancelled; nothing was added", 1)
    fuse(page, qtbot)

    retouch = page("Retouch")
    click(retouch.start_button)
    assert [name for name, _ in retouch._images][1] == "1: IMG_0000.jpg"
    retouch.paint_with.value = 9
    retouch.session.labels.paint((60, 80), 9)
    qtbot.waitUntil(lambda: not retouch.session.is_running)
    assert viewer.layers["shots: source index"].data[60, 80] == 8
    click(retouch.start_button)

    answer(getSaveFileName=(str(tmp_path / "sharp"), "JPEG (*.jpg)"))
    form = page("Fuse")
    viewer.layers.selection.active = viewer.layers["shots: fused"]
    click(form.files.save_button)
    wait_for(qtbot, form.files.row)
    (opened,) = viewer.open(tmp_path / "sharp.jpg")  # as any other image: nobody asks for a reader
    assert opened.data.shape == (120, 160, 3)


def test_one_in_a_hurry_gets_words_instead_of_tracebacks(viewer, page, qtbot, answer, tmp_path, images):
    form = page("Fuse")
    assert "nothing is chosen" in form.run_panel.reason.text()
    for title, said in (("Retouch", "no fused image"), ("Evaluate", "no result"), ("Depth", "no source index")):
        found = page(title)
        reason = found.message if title == "Retouch" else found.row.reason
        assert said in reason.text()
    batch = page("Batch")
    click(batch.row.start_button)
    assert "no folder is chosen" in batch.row.message.text()
    form = page("Fuse")
    click(form.files.save_button)
    assert "no result" in form.files.row.message.text()

    viewer.add_labels(np.zeros((48, 64), int), name="cells")
    click(form.use_button)
    assert "'cells' is a labels layer" in form.run_panel.reason.text()
    viewer.add_image(images[0], rgb=True, name="one")
    viewer.add_image(images[1][:40], rgb=True, name="other")
    viewer.layers.selection = {viewer.layers["one"], viewer.layers["other"]}
    click(form.use_button)
    assert "all must be equal" in form.run_panel.reason.text()
    assert not form.run_panel.start_button.enabled

    broken = tmp_path / "broken.toml"
    broken.write_text("[focus]\nno_such_setting = 1\n")
    answer(getOpenFileName=(str(broken), ""))
    before = form.settings.get_value()
    click(form.settings.load_button)
    assert form.settings.get_value() == before

    stack = viewer.add_image(images, rgb=True, name="stack")
    viewer.layers.selection = {stack}
    click(form.use_button)
    form.form.native.setFocus(Qt.FocusReason.OtherFocusReason)
    click(form.run_panel.start_button)
    viewer.layers.remove(stack)  # the run has its samples
    wait_for(qtbot, form.run_panel)
    assert "stack: fused" in viewer.layers
