"""The whole page, driven in a real viewer as a person would."""

import sys
import threading
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from napari.utils.notifications import notification_manager
from qtpy.QtGui import QGuiApplication

from napari_qmcif import fusing_function
from napari_qmcif.dock import FocusDock
from napari_qmcif.fusing_function import fuse_focus_stack
from napari_qmcif.worker import EngineWorker, list_running_workers
from qmcif_engine import FusionConfig, fuse, make_focus_stack, open_stack, prepare_stack

pytestmark = pytest.mark.viewer

PARTS = ["fused", "confidence", "detail map", "base map", "source index"]


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def open_widget(viewer, qtbot):
    """Opens the widget from the manifest, sets one iteration, and ends everything it started."""
    opened = []

    def open_one():
        _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")
        dock.fusion.settings.rows["method.iterations"].value = 1
        opened.append(dock)
        return dock.fusion

    open_one.docks = opened
    yield open_one
    for dock in opened:
        dock.fusion.run_panel.cancel()
        wait_for(dock.fusion, qtbot)
        dock.shut_down()
    opened.clear()


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not (widget.run_panel.is_running or widget.preview.is_running))


def names(viewer):
    return [layer.name for layer in viewer.layers]


def add_images(viewer, images):
    return [viewer.add_image(image, rgb=True, name=f"frame {number}") for number, image in enumerate(images, start=1)]


def work_until_cancelled(request, *, job):
    while True:
        job.check_cancelled()
        time.sleep(0.005)


@pytest.fixture
def endless(monkeypatch):
    monkeypatch.setattr(fusing_function, "fuse_series", work_until_cancelled)


def test_select_layers_change_a_setting_preview_and_run(viewer, open_widget, qtbot, images):
    layers = add_images(viewer, images)
    widget = open_widget()
    assert not widget.run_panel.start_button.enabled
    assert "1 image was given; at least 2 of one scene are needed" in widget.run_panel.reason.text()
    for layer in layers:
        viewer.layers.selection.add(layer)
    widget.use_button.native.click()
    assert (widget.run_panel.start_button.enabled, widget.run_panel.reason.text()) == (True, "")

    widget.preview.button.native.click()
    wait_for(widget, qtbot)
    assert names(viewer)[-1] == "frame 1 + 2: preview"
    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    expected = fuse(list(images), FusionConfig().replaced({"iterations": 1}))
    assert names(viewer)[-5:] == [f"frame 1 + 2: {part}" for part in PARTS], "the preview went away"
    assert viewer.layers.selection.active.name == "frame 1 + 2: fused"
    np.testing.assert_array_equal(viewer.layers["frame 1 + 2: fused"].data, expected.fused)
    np.testing.assert_array_equal(viewer.layers["frame 1 + 2: source index"].data, expected.source_index)
    record = viewer.layers["frame 1 + 2: fused"].metadata["qmcif"]
    assert record["settings"]["method"]["iterations"] == 1
    assert [entry["layer"] for entry in record["inputs"]] == ["frame 1", "frame 2", "frame 3"]
    assert record["focus_range"] == list(expected.focus_range)


def test_a_stack_is_fused_along_its_axis_and_the_result_lies_on_it(viewer, open_widget, qtbot, images):
    space = {"scale": (2, 0.5, 0.5), "translate": (0, 10, 20), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    viewer.add_image(images, rgb=True, name="leaf", **space)
    widget = open_widget()

    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    for layer in viewer.layers[1:]:
        np.testing.assert_allclose((layer.scale, layer.translate), ((0.5, 0.5), (10, 20)))
        assert (layer.axis_labels, [str(unit) for unit in layer.units]) == (("y", "x"), ["micrometer"] * 2)
        assert layer.data.shape[:2] == images.shape[1:3]
    assert viewer.layers["leaf: fused"].rgb
    assert widget.run_panel.message.text().startswith("fused 3 images in")


def test_cancel_in_the_middle_adds_nothing_and_the_next_run_works(viewer, open_widget, qtbot, monkeypatch):
    steps, is_cancelled = [], threading.Event()
    report = EngineWorker.report

    def hold_the_first_step(job, progress):
        report(job, progress)
        steps.append(progress)
        is_cancelled.wait()

    monkeypatch.setattr(EngineWorker, "report", hold_the_first_step)
    scene = make_focus_stack(n_images=3, shape=(320, 320), seed=0)
    viewer.add_image(scene.images, rgb=True, name="leaf")
    widget = open_widget()
    widget.run_panel.start_button.native.click()
    qtbot.waitUntil(lambda: bool(steps))

    widget.run_panel.cancel_button.native.click()
    is_cancelled.set()
    wait_for(widget, qtbot)

    assert [tuple(progress) for progress in steps] == [(1, 4)], "the engine stops before its next step"
    assert names(viewer) == ["leaf"]
    assert widget.run_panel.message.text() == "cancelled; nothing was added"
    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)
    assert names(viewer)[-5:] == [f"leaf: {part}" for part in PARTS]


def test_what_cannot_be_fused_is_said_in_place_and_run_is_disabled(viewer, open_widget):
    add_images(viewer, np.zeros((2, 8, 8, 3), np.uint8))
    viewer.add_image(np.zeros((8, 9), np.uint8), name="wide", rgb=False)
    viewer.add_image(np.zeros((8, 8), np.int64), name="counts", rgb=False)
    viewer.add_image(np.zeros((1, 8, 8), np.uint8), name="flat", rgb=False)
    viewer.add_labels(np.zeros((8, 8), int), name="cells")
    widget = open_widget()
    reasons = {}
    for chosen in (["frame 1", "wide"], ["counts", "wide"], ["flat"], ["frame 1", "cells"], []):
        viewer.layers.selection.clear()
        for name in chosen:
            viewer.layers.selection.add(viewer.layers[name])
        widget.use_button.native.click()
        assert not widget.run_panel.start_button.enabled
        reasons[tuple(chosen)] = widget.run_panel.reason.text()

    assert "all must be equal" in reasons["frame 1", "wide"]
    assert "samples of type int64" in reasons["counts", "wide"]
    assert "has length 1" in reasons["flat",]
    assert "'cells' is a labels layer" in reasons["frame 1", "cells"]
    assert "nothing is chosen" in reasons[()]


def test_all_points_in_time_come_in_one_run_with_the_time_axis_kept(viewer, open_widget, qtbot, images):
    viewer.add_image(np.stack([images, images[:, ::-1]]), rgb=True, name="leaf", axis_labels=("t", "z", "y", "x"))
    widget = open_widget()
    assert widget.run_panel.reason.text() == "2 stacks of 3 images are fused: 2 time points"

    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    fused = viewer.layers["leaf: fused"]
    assert (fused.data.shape, tuple(fused.axis_labels), fused.rgb) == ((2, 1, 48, 64, 3), ("t", "z", "y", "x"), True)
    config = FusionConfig().replaced({"iterations": 1})
    np.testing.assert_array_equal(fused.data[1, 0], fuse(images[:, ::-1], config).fused)


def test_one_image_may_be_taken_where_the_sliders_stand(viewer, open_widget, qtbot, images):
    viewer.add_image(np.stack([images, images[:, ::-1]]), rgb=True, name="leaf", axis_labels=("t", "z", "y", "x"))
    widget = open_widget()
    assert widget.form.scope.native.isVisibleTo(widget.native)
    widget.form.scope.value = "shown"
    viewer.dims.set_current_step(0, 1)
    assert "taken where the sliders stand: axis t at 1" in widget.run_panel.reason.text()

    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    assert viewer.layers["leaf, t 1: fused"].data.shape == (48, 64, 3)


def test_a_second_run_is_named_by_its_settings(viewer, open_widget, qtbot, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    for is_even in (False, False, True):
        widget.form.even_exposure.value = is_even
        widget.run()
        wait_for(widget, qtbot)

    assert [name for name in names(viewer) if "fused" in name] == [
        "leaf: fused",
        "leaf (balanced, iterations 1): fused 2",
        "leaf (balanced, iterations 1, even exposure): fused 3",
    ]


def test_the_function_is_a_widget_of_its_own_that_can_be_called(viewer, qtbot, images):
    layer = viewer.add_image(images, rgb=True, name="leaf")
    function = fuse_focus_stack()
    viewer.window.add_dock_widget(function)

    worker = function(layers=[layer], settings=FusionConfig().replaced({"iterations": 1}), with_height=True)
    with qtbot.waitSignal(worker.finished):
        pass

    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data, fuse(images, FusionConfig().replaced({"iterations": 1})).fused)
    assert viewer.layers["leaf: height"].metadata["qmcif"]["height"] == {"z_step": 1.0, "unit": "pixel", "smoothing_px": 0}
    assert worker.remarks[0].startswith("fused 3 images in ")


def test_a_copied_script_is_that_of_the_selected_result(viewer, open_widget, qtbot, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    widget.run()
    wait_for(widget, qtbot)
    widget.settings.preset_box.value = "paper"

    widget.python_button.native.click()

    assert "PRESETS['default'].replaced({'method.iterations': 1})" in QGuiApplication.clipboard().text()
    viewer.layers.remove("leaf")
    viewer.layers.selection = {viewer.layers["leaf: fused"]}
    widget.python_button.native.click()
    assert "the images that 'leaf: fused' was made of are not there any more" in widget.run_panel.message.text()


MISSING = Path("missing").absolute()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("leave_out", "7", "'7' names no images of this stack; numbers from 1 to 3 are needed"),
        ("leave_out", "two", "'two' names no images"),
        ("leave_out", "1-2", "1 of 3 images are left; at least 2 are needed"),
        ("reference", 9, "image 9 was given as the reference; the stack has 3"),
        ("slab", 2, "slabs were asked for and the result goes into memory"),
        ("destination", MISSING / "sharp", f"the folder {str(MISSING)!r} does not exist; an existing one is needed"),
        ("transforms", MISSING / "found.json", f"the folder {str(MISSING)!r} does not exist; an existing one is needed"),
    ],
)
def test_wishes_that_cannot_be_fulfilled_are_told_in_place(viewer, open_widget, images, name, value, reason):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()

    getattr(widget.form, name).value = value

    assert (widget.run_panel.start_button.enabled, widget.run_panel.reason.text()[: len(reason)]) == (False, reason)


def test_a_reference_that_is_left_out_is_refused(viewer, open_widget, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    widget.form.leave_out.value, widget.form.reference.value = "2", 2

    assert "image 2 is left out and is the reference too" in widget.run_panel.reason.text()


def test_settings_that_cannot_go_together_disable_run_until_they_do(viewer, open_widget, images):
    viewer.add_image(images, rgb=True)
    widget = open_widget()

    widget.settings.rows["method.tolerance"].value = 1e-8
    assert not widget.run_panel.start_button.enabled
    assert "float32 cannot resolve less than 1e-06" in widget.run_panel.reason.text()

    widget.settings.reset_button.native.click()
    assert widget.run_panel.start_button.enabled


def test_missing_samples_are_told_by_the_run_in_the_words_of_the_engine(viewer, open_widget, qtbot, monkeypatch):
    told = []
    monkeypatch.setattr(notification_manager, "dispatch", told.append)
    samples = np.zeros((2, 16, 16), np.float32)
    samples[1, 2, 3] = np.nan
    viewer.add_image(samples, name="gap", contrast_limits=(0, 1))
    widget = open_widget()

    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    assert "holds NaN or infinite samples" in widget.run_panel.message.text()
    assert [notification.message for notification in told] == [widget.run_panel.message.text()]
    assert names(viewer) == ["gap"]


def test_no_pixel_is_touched_on_the_gui_thread(viewer, open_widget, qtbot, images):
    readers, modules = set(), set()

    def read(block):
        readers.add(threading.get_ident())
        return block

    array = da.from_array(images, chunks=(1, *images.shape[1:])).map_blocks(read, meta=images)
    viewer.add_image(array, rgb=True, name="lazy", visible=False)
    widget = open_widget()
    readers.clear()

    def note(frame, event, argument):
        if event == "call":
            modules.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        widget.run_panel.start_button.native.click()
        wait_for(widget, qtbot)
    finally:
        sys.setprofile(None)

    on_gui_thread = {name for name in modules if name.startswith("qmcif_engine")}
    assert on_gui_thread <= {
        f"qmcif_engine{name}"
        for name in ("", ".config", ".config.former_settings", ".config.fusion_config", ".config.settings", ".config.presets", ".errors")
    }
    assert readers
    assert threading.get_ident() not in readers
    assert names(viewer)[-5] == "lazy: fused"


def test_two_widgets_run_at_once_and_both_give_the_right_result(viewer, open_widget, qtbot, images):
    viewer.add_image(images, rgb=True, name="a")
    viewer.add_image(images[::-1], rgb=True, name="b")
    first = open_widget()
    dock = FocusDock(viewer)
    viewer.window.add_dock_widget(dock, name="another")
    second = dock.fusion
    second.settings.rows["method.iterations"].value = 1
    first.select_layers([viewer.layers["a"]])
    second.select_layers([viewer.layers["b"]])

    first.run_panel.start_button.native.click()
    second.run_panel.start_button.native.click()
    wait_for(first, qtbot)
    wait_for(second, qtbot)

    config = FusionConfig().replaced({"iterations": 1})
    np.testing.assert_array_equal(viewer.layers["a: fused"].data, fuse(images, config).fused)
    np.testing.assert_array_equal(viewer.layers["b: fused"].data, fuse(images[::-1], config).fused)
    dock.shut_down()


def test_deleting_a_source_while_running_changes_nothing(viewer, open_widget, qtbot, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    widget.run_panel.start_button.native.click()

    viewer.layers.remove("leaf")
    wait_for(widget, qtbot)

    assert names(viewer) == [f"leaf: {part}" for part in PARTS]
    assert not widget.run_panel.start_button.enabled
    assert "nothing is chosen" in widget.run_panel.reason.text()


def test_closing_the_widget_while_running_stops_the_run(viewer, open_widget, qtbot, images, endless):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    widget.run_panel.start_button.native.click()

    viewer.window.remove_dock_widget(open_widget.docks[-1])
    wait_for(widget, qtbot)
    viewer.add_image(images, rgb=True, name="later")

    assert names(viewer) == ["leaf", "later"]
    assert len(widget.form.layers.choices) == 1, "a closed widget hears nothing of the viewer"


def test_closing_the_viewer_while_running_stops_the_run(make_napari_viewer, qtbot, images, endless):
    viewer = make_napari_viewer()
    viewer.add_image(images, rgb=True, name="leaf")
    _, dock = viewer.window.add_plugin_dock_widget("napari-qmcif", "Fuse focus stack")
    dock.fusion.run_panel.start_button.native.click()
    (job,) = list_running_workers()
    del dock

    with qtbot.waitSignal(job.finished):
        viewer.close()

    assert job.is_cancelled()


def test_the_activity_dock_shows_the_run_and_can_cancel_it(viewer, open_widget, qtbot, images, endless):
    from napari.utils import progress

    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()
    widget.run_panel.start_button.native.click()
    (entry,) = [entry for entry in progress._all_instances if entry.desc.startswith("Fusing leaf")]

    entry.cancel()
    wait_for(widget, qtbot)

    assert entry not in progress._all_instances
    assert widget.run_panel.message.text() == "cancelled; nothing was added"


def test_a_result_on_disk_is_opened_as_a_pyramid_with_its_maps(viewer, open_widget, qtbot, tmp_path):
    scene = make_focus_stack(n_images=2, shape=(300, 600), seed=1)
    viewer.add_image(scene.images, rgb=True, name="leaf", scale=(1, 0.5, 0.5))
    widget = open_widget()
    widget.form.destination.line_edit.value = str(tmp_path / "leaf")

    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)

    assert names(viewer)[-5:] == [f"leaf: {part}" for part in PARTS]
    fused = viewer.layers["leaf: fused"]
    assert (fused.multiscale, fused.rgb, fused.data[0].shape) == (True, True, (300, 600, 3))
    np.testing.assert_allclose(fused.scale, (0.5, 0.5))
    assert fused.metadata["qmcif"]["path"] == str(tmp_path / "leaf.ome.zarr")


def test_copy_as_python_puts_a_script_on_the_clipboard(viewer, open_widget, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()

    widget.python_button.native.click()

    text = QGuiApplication.clipboard().text()
    assert "viewer.layers['leaf'].data" in text
    assert "PRESETS['default'].replaced({'method.iterations': 1})" in text
    assert widget.run_panel.message.text() == "copied"


def test_copy_as_command_says_what_it_needs(viewer, open_widget, images):
    viewer.add_image(images, rgb=True, name="leaf")
    widget = open_widget()

    widget.command_button.native.click()

    assert "such files are needed for a command" in widget.run_panel.message.text()


def test_layers_that_are_selected_when_the_widget_opens_are_chosen(viewer, open_widget, images):
    viewer.add_image(images, rgb=True, name="leaf")

    assert [layer.name for layer in open_widget().form.layers.value] == ["leaf"]


def test_align_and_exposure_are_heeded_by_preview_and_run_and_written_down(viewer, open_widget, qtbot):
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    darker = (0.8 * np.roll(scene[1], 5, axis=1)).astype(np.uint8)
    viewer.add_image(np.stack([scene[0], darker]), rgb=True, name="leaf")
    widget = open_widget()
    widget.form.align.value = "translation"
    widget.form.even_exposure.value = True

    records = []
    for button, part in ((widget.preview.button, "preview"), (widget.run_panel.start_button, "fused")):
        button.native.click()
        wait_for(widget, qtbot)
        records.append(viewer.layers[f"leaf: {part}"].metadata["qmcif"])

    config = FusionConfig().replaced({"iterations": 1})
    opened = open_stack(list(viewer.layers["leaf"].data))
    expected = fuse(prepare_stack(opened, align="translation", even_exposure=True), config).fused
    np.testing.assert_array_equal(viewer.layers["leaf: fused"].data, expected)
    assert [(record["align"], record["even_exposure"]) for record in records] == [("translation", True)] * 2


@pytest.mark.parametrize("name", ["color_focus_stack", "gray_z_stack"])
def test_a_sample_can_be_run_as_it_was_opened(viewer, open_widget, name):
    viewer.open_sample("napari-qmcif", name)

    assert open_widget().run_panel.start_button.enabled


def test_what_was_said_of_one_stack_is_not_said_of_the_next(viewer, open_widget, qtbot, images, monkeypatch):
    monkeypatch.setattr(notification_manager, "dispatch", lambda notification: None)
    broken = images[..., 0].astype(np.float32)
    broken[1, 3, 4] = np.nan
    viewer.add_image(broken, rgb=False, name="broken", contrast_limits=(0, 255))
    widget = open_widget()
    widget.run_panel.start_button.native.click()
    wait_for(widget, qtbot)
    assert "holds NaN or infinite samples" in widget.run_panel.message.text()

    fine = viewer.add_image(images, rgb=True, name="fine")
    viewer.layers.selection = {fine}
    widget.use_button.native.click()

    assert (widget.run_panel.start_button.enabled, widget.run_panel.reason.text(), widget.run_panel.message.text()) == (True, "", "")


def test_the_images_can_be_looked_at_as_they_are_fused(viewer, open_widget, qtbot):
    scene = make_focus_stack(n_images=2, shape=(120, 160), seed=3).images
    viewer.add_image(np.stack([scene[0], np.roll(scene[1], 5, axis=1)]), rgb=True, name="leaf")
    widget = open_widget()
    widget.form.align.value = "translation"

    widget.aligned_button.native.click()
    wait_for(widget, qtbot)

    assert viewer.layers["leaf: aligned"].data.shape == (2, 120, 160, 3)
    assert widget.run_panel.message.text() == ""
