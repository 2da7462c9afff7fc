"""Evaluating, asked of the engine and driven in a real viewer as a person would."""

import csv
import time
from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import evaluate as module
from napari_qmcif.evaluate import EvaluateWidget, assemble_request, evaluate_layers
from napari_qmcif.layers_in import choose_layers, choose_planes
from napari_qmcif.layers_out import describe_fused, record_provenance
from napari_qmcif.worker import EngineWorker
from qmcif_engine import Cancelled, FusionConfig, Window, evaluate, make_focus_stack, open_stack, prepare_stack


@pytest.fixture
def layers(images):
    return [Image(image, rgb=True, name=f"frame {number}") for number, image in enumerate(images)]


def test_opacity_is_left_out_of_the_comparison(images, qapp):
    opaque = np.concatenate([images, np.full((*images.shape[:3], 1), 255, np.uint8)], axis=-1)
    layers = [Image(image, rgb=True) for image in opaque]

    name, figures = evaluate_layers(assemble_request(choose_layers(layers), result=layers[0], truth=None), job=EngineWorker(print))

    assert name == layers[0].name
    assert figures["Q_Y"] == evaluate(list(images), images[0]).structural_similarity


def test_a_cancelled_job_ends_at_the_next_step(layers, qapp):
    job = EngineWorker(print)
    job.cancel()

    with pytest.raises(Cancelled, match="the work was cancelled; nothing was returned: start it again"):
        evaluate_layers(assemble_request(choose_layers(layers), result=layers[0], truth=None), job=job)


def test_integers_have_the_range_of_their_type_and_floats_that_of_the_layer(layers, images):
    floats = [Image(image / 255.0, rgb=False, contrast_limits=(0.1, 0.9)) for image in images[..., 0]]

    assert assemble_request(choose_layers(layers), result=layers[0], truth=None).sample_range is None
    assert assemble_request(choose_layers(floats), result=floats[0], truth=None).sample_range == (0.1, 0.9)


@pytest.mark.parametrize(("record", "is_noted"), [({}, False), ({"align": "none"}, False), ({"align": "affine"}, True)])
def test_a_result_of_aligned_images_is_not_compared_with_the_images_as_they_are_in_silence(layers, images, record, is_noted):
    result = Image(images[0], rgb=True, metadata={"qmcif": record})

    stack = choose_layers(layers)
    note = assemble_request(stack, result=result, truth=None).note

    assert note.startswith("the images were aligned to make this result") == is_noted
    assert assemble_request(replace(stack, align="affine"), result=result, truth=None).note == ""


def test_lazy_layers_reach_the_engine_as_they_are_and_have_the_same_figures(images, qapp, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "evaluate", lambda sources, fused, **options: seen.extend([*sources, fused]) or evaluate(sources, fused))
    layers = [Image(da.from_array(image, chunks=(20, 20, 3)), rgb=True) for image in images]

    _, figures = evaluate_layers(assemble_request(choose_layers(layers), result=layers[0], truth=None), job=EngineWorker(print))

    assert all(isinstance(image, da.Array) for image in seen)
    assert figures["Q_G"] == evaluate(list(images), images[0]).gradient


pytestmark = pytest.mark.viewer


@pytest.fixture(scope="module")
def scene():
    return make_focus_stack(n_images=2, shape=(64, 80), seed=1)


@pytest.fixture
def widget(viewer, qtbot):
    opened = EvaluateWidget(viewer)
    viewer.window.add_dock_widget(opened)
    yield opened
    opened.row.cancel()
    wait_for(opened, qtbot)


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not widget.row.is_running)


def add_layers(viewer, scene):
    layer = viewer.add_image(scene.images, rgb=True, name="leaf")
    viewer.add_image(scene.truth, rgb=True, name="truth")
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    record = record_provenance(stack, FusionConfig(), focus_range=(0, 255))
    viewer.add_image(scene.images[0], **describe_fused(stack, name="leaf: fused", part="fused", record=record))


def test_table_plot_and_csv_show_the_figures_of_the_engine(viewer, widget, qtbot, scene, tmp_path):
    add_layers(viewer, scene)
    widget.result.value = viewer.layers["leaf: fused"]
    widget.truth.value = viewer.layers["truth"]
    assert [layer.name for layer in widget.sources.value] == ["leaf"]

    widget.row.button.native.click()
    wait_for(widget, qtbot)

    expected = evaluate(list(scene.images), scene.images[0], truth=scene.truth).list_by_symbol()
    known = {symbol: figure for symbol, figure in expected.items() if figure is not None}
    assert widget.figures == {"leaf: fused": known}
    assert widget.table.value["columns"] == tuple(known)
    assert widget.table.value["data"] == [[f"{figure:.4g}" for figure in known.values()]]
    assert set(widget.plot.figures) == {symbol for symbol in known if not symbol.startswith("PSNR")}
    assert set(widget.plot.toolTip().split()) >= {f"{symbol}:" for symbol in known}
    widget.export(tmp_path / "figures.csv")
    with (tmp_path / "figures.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["result", "metric", "value"]
    assert {row[1]: float(row[2]) for row in rows[1:]} == known
    assert widget.row.message.text() == "written to figures.csv"


def test_results_stand_below_each_other(viewer, widget, qtbot, scene):
    add_layers(viewer, scene)
    for widget.result.value in (viewer.layers["leaf: fused"], viewer.layers["truth"]):
        widget.sources.value = (viewer.layers["leaf"],)
        widget.row.start()
        wait_for(widget, qtbot)

    assert widget.table.value["index"] == ("leaf: fused", "truth")
    assert list(widget.figures["truth"]) == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]


def test_what_does_not_fit_is_said_in_place(viewer, widget, scene):
    message = widget.row.reason
    assert "no result is chosen" in message.text()
    viewer.add_image(scene.images, rgb=True, name="leaf")
    widget.sources.value = (viewer.layers["leaf"],)
    assert "no result is chosen" in message.text()

    viewer.add_image(scene.truth[:-1], rgb=True, name="short")

    assert "'short' is uint8 of shape (63, 80, 3), the sources are uint8 of (64, 80) pixels" in message.text()
    assert not widget.row.button.enabled


def test_cancel_ends_the_evaluation_without_figures(viewer, widget, qtbot, scene, monkeypatch):
    def endless(request, *, job):
        while True:
            job.check_cancelled()
            time.sleep(0.005)

    monkeypatch.setattr(module, "evaluate_layers", endless)
    add_layers(viewer, scene)
    row = widget.row
    row.start()
    assert (row.is_running, row.button.text) == (True, "Cancel")

    row.cancel()
    wait_for(widget, qtbot)

    assert (widget.figures, row.message.text(), row.button.enabled) == ({}, "cancelled", True)


def test_a_place_that_cannot_be_written_is_told(widget, tmp_path):
    widget.export(tmp_path / "missing" / "figures.csv")

    assert "No such file or directory" in widget.row.message.text()


def test_floats_are_judged_between_the_limits_that_their_layer_shows(viewer, widget, qtbot, scene):
    images = scene.images.astype(np.float32) / 100
    result = viewer.add_image(images[0][..., 0], rgb=False, contrast_limits=(0, 2.55), name="result")
    gray = viewer.add_image(images[..., 0], rgb=False, name="gray", contrast_limits=(0, 2.55))
    widget.result.value, widget.sources.value = result, (gray,)

    widget.row.start()
    wait_for(widget, qtbot)

    expected = evaluate(list(images[..., 0]), images[0][..., 0], sample_range=(0, 2.55)).list_by_symbol()
    assert widget.figures["result"]["Q_G"] == expected["Q_G"]


def test_the_time_point_that_is_shown_is_evaluated(viewer, widget, qtbot, add_time_series):
    scenes = add_time_series(viewer)
    viewer.dims.set_point(0, 1)
    widget.result.value = viewer.layers["leaf: fused"]
    assert [layer.name for layer in widget.sources.value] == ["leaf"]

    widget.row.button.native.click()
    wait_for(widget, qtbot)

    figures = widget.figures["leaf: fused, t 1"]
    assert figures["Q_G"] == evaluate(list(scenes[1].images), scenes[1].truth).gradient


def test_a_result_of_aligned_images_is_compared_with_them_aligned_and_without_those_left_out(viewer, widget, qtbot):
    scene = make_focus_stack(n_images=3, shape=(200, 240), seed=3).images
    images = np.stack([scene[0], np.roll(scene[1], 5, axis=1), scene[2]])
    layer = viewer.add_image(images, rgb=True, name="leaf")
    stack = replace(choose_planes(layer, 0, point=(0, 0, 0)), align="translation", left_out=(2,))
    record = record_provenance(stack, FusionConfig(), focus_range=(0, 255))
    viewer.add_image(scene[0], **describe_fused(stack, name="leaf: fused", part="fused", record=record))
    aligned = prepare_stack(open_stack(list(images[:2])), align="translation")
    whole = Window(0, 0, 200, 240)

    widget.result.value = viewer.layers["leaf: fused"]
    assert widget.row.message.text() == ""
    widget.row.button.native.click()
    wait_for(widget, qtbot)

    expected = evaluate([aligned.read(number, whole) for number in range(2)], scene[0])
    assert widget.figures["leaf: fused"]["Q_G"] == pytest.approx(expected.gradient)
