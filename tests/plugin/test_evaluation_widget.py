"""Evaluating, driven in a real viewer as a person would."""

import csv
import time

import numpy as np
import pytest
from napari.utils.notifications import notification_manager

from napari_qmcif import evaluation_widget as module
from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.layers import describe_fused
from napari_qmcif.provenance import record_provenance
from qmcif_engine import Cancelled, FusionConfig, evaluate, make_focus_stack

pytestmark = pytest.mark.viewer


@pytest.fixture(scope="module")
def scene():
    return make_focus_stack(n_images=2, shape=(64, 80), seed=1)


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def widget(viewer, qtbot):
    _, opened = viewer.window.add_plugin_dock_widget("napari-qmcif", "Evaluate fusion")
    yield opened
    opened.shut_down()
    wait_for(opened, qtbot)
    del opened


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not widget.is_running)


def add_layers(viewer, scene):
    layer = viewer.add_image(scene.images, rgb=True, name="leaf")
    viewer.add_image(scene.truth, rgb=True, name="truth")
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    record = record_provenance(stack, FusionConfig(), focus_range=(0, 255))
    viewer.add_image(scene.images[0], **describe_fused(stack, part="fused", record=record))


def test_table_plot_and_csv_show_the_figures_of_the_engine(viewer, widget, qtbot, scene, tmp_path):
    add_layers(viewer, scene)
    widget.result_box.choose(viewer.layers["leaf: fused"])
    widget.truth_box.choose(viewer.layers["truth"])
    assert [layer.name for layer in widget.sources.selected_layers()] == ["leaf"]
    assert not widget.export_button.isEnabled()

    widget.evaluate_button.click()
    wait_for(widget, qtbot)

    expected = evaluate(list(scene.images), scene.images[0], truth=scene.truth).list_by_symbol()
    known = {symbol: figure for symbol, figure in expected.items() if figure is not None}
    assert widget.figures == known
    shown = [(widget.table.item(row, 0).text(), widget.table.item(row, 1).text()) for row in range(widget.table.rowCount())]
    assert ("Q_G", f"{known['Q_G']:.4f}") in shown
    assert ("PSNR", f"{known['PSNR']:.2f} dB") in shown
    assert len(shown) == len(known)
    assert set(widget.plot.figures) == {symbol for symbol in known if not symbol.startswith("PSNR")}
    widget.export(tmp_path / "figures.csv")
    with (tmp_path / "figures.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["result", "metric", "value"]
    assert {row[1]: float(row[2]) for row in rows[1:]} == known
    assert widget.message.text() == "written to figures.csv"


def test_without_truth_only_the_sources_are_compared_with(viewer, widget, qtbot, scene):
    add_layers(viewer, scene)
    widget.result_box.choose(viewer.layers["leaf: fused"])

    widget.evaluate_button.click()
    wait_for(widget, qtbot)

    assert list(widget.figures) == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]


def test_what_does_not_fit_is_said_in_place(viewer, widget, scene):
    assert "nothing is chosen" in widget.message.text()
    viewer.add_image(scene.images, rgb=True, name="leaf")
    widget.sources.select_layers([viewer.layers["leaf"]])
    assert "no result is chosen" in widget.message.text()

    viewer.add_image(scene.truth[:-1], rgb=True, name="short")

    assert "'short' is uint8 of shape (63, 80, 3), the sources are uint8 of (64, 80) pixels" in widget.message.text()
    assert not widget.evaluate_button.isEnabled()


def test_cancel_ends_the_evaluation_without_figures(viewer, widget, qtbot, scene, monkeypatch):
    def endless(request, job):
        while not job.is_cancelled():
            time.sleep(0.005)
        msg = "the evaluation was cancelled"
        raise Cancelled(msg)

    monkeypatch.setattr(module, "evaluate_layers", endless)
    add_layers(viewer, scene)
    widget.result_box.choose(viewer.layers["leaf: fused"])
    widget.evaluate_button.click()
    assert (widget.evaluate_button.isEnabled(), widget.cancel_button.isEnabled()) == (False, True)

    widget.cancel_button.click()
    wait_for(widget, qtbot)

    assert widget.figures == {}
    assert widget.evaluate_button.isEnabled()


def test_a_place_that_cannot_be_written_is_told(viewer, widget, qtbot, scene, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(notification_manager, "dispatch", told.append)

    widget.export(tmp_path / "missing" / "figures.csv")

    assert "No such file or directory" in widget.message.text()
    assert len(told) == 1


def test_bars_follow_the_theme(viewer, widget, qtbot):
    widget.plot.show_figures({"Q_G": 0.5})
    dark = widget.plot.grab().toImage()

    viewer.theme = "light"
    light = widget.plot.grab().toImage()

    assert dark != light
    viewer.theme = "dark"


def test_floats_are_judged_between_the_limits_that_their_layer_shows(viewer, widget, qtbot, scene):
    images = scene.images.astype(np.float32) / 100
    viewer.add_image(images, rgb=True, name="leaf")
    result = viewer.add_image(images[0][..., 0], rgb=False, contrast_limits=(0, 2.55), name="result")
    gray = viewer.add_image(images[..., 0], rgb=False, name="gray", contrast_limits=(0, 2.55))
    widget.result_box.choose(result)
    widget.sources.select_layers([gray])

    widget.evaluate_button.click()
    wait_for(widget, qtbot)

    expected = evaluate(list(images[..., 0]), images[0][..., 0], sample_range=(0, 2.55)).list_by_symbol()
    assert widget.figures["Q_G"] == expected["Q_G"]
