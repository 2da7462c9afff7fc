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
from napari_qmcif.layers_in import choose_layers
from qmcif_engine import Cancelled, Window, evaluate, make_focus_stack, open_stack, prepare_stack


def make_layers(images, **look):
    return [Image(image, **{"rgb": True, **look}) for image in images]


def ask(layers, *, result=None, **changes):
    return assemble_request(replace(choose_layers(layers), **changes), result=layers[0] if result is None else result, truth=None)


@pytest.mark.parametrize("kind", ["plain", "opacity", "lazy"])
def test_every_kind_of_layer_has_the_figures_of_its_colors(images, job, monkeypatch, kind):
    seen, expected = [], evaluate(list(images), images[0])
    monkeypatch.setattr(module, "evaluate", lambda sources, fused, **options: seen.extend([*sources, fused]) or evaluate(sources, fused))
    opaque = np.concatenate([images, np.full((*images.shape[:3], 1), 255, np.uint8)], axis=-1)
    kinds = {"plain": images, "opacity": opaque, "lazy": [da.from_array(image, chunks=(20, 20, 3)) for image in images]}

    name, figures = evaluate_layers(ask(make_layers(kinds[kind], name="leaf")), job=job)

    assert (name, figures["Q_Y"], figures["Q_G"]) == ("leaf", expected.structural_similarity, expected.gradient)
    assert all(isinstance(image, da.Array) for image in seen) == (kind == "lazy")


def test_a_cancelled_job_ends_at_the_next_step(images, job):
    job.cancel()
    with pytest.raises(Cancelled, match="the work was cancelled"):
        evaluate_layers(ask(make_layers(images)), job=job)


def test_integers_have_the_range_of_their_type_and_floats_that_of_the_layer(images):
    assert ask(make_layers(images)).sample_range is None
    assert ask(make_layers(images[..., 0] / 255.0, rgb=False, contrast_limits=(0.1, 0.9))).sample_range == (0.1, 0.9)


@pytest.mark.parametrize(("record", "is_noted"), [({}, False), ({"align": "none"}, False), ({"align": "affine"}, True)])
def test_a_result_of_aligned_images_is_not_compared_with_the_images_as_they_are_in_silence(images, record, is_noted):
    layers, result = make_layers(images), Image(images[0], rgb=True, metadata={"qmcif": record})
    assert ask(layers, result=result).note.startswith("the images were aligned to make this result") == is_noted
    assert ask(layers, result=result, align="affine").note == ""


@pytest.fixture
def page(open_page):
    return open_page(EvaluateWidget)


@pytest.mark.viewer
def test_table_plot_and_csv_show_the_figures_of_the_engine(viewer, page, run, wait, tmp_path):
    assert "no result is chosen" in page.row.reason.text()
    scene = make_focus_stack(n_images=2, shape=(64, 80), seed=1)
    layer = viewer.add_image(scene.images, rgb=True, name="leaf")
    assert "no result is chosen" in page.row.reason.text()
    short = viewer.add_image(scene.truth[:-1], rgb=True, name="short")
    page.sources.value = (layer,)
    assert "'short' is uint8 of shape (63, 80, 3), the sources are uint8 of (64, 80) pixels" in page.row.reason.text()
    assert not page.row.button.enabled
    viewer.layers.remove(short)
    fused = run(viewer, layer)["fused"]
    page.truth.value = viewer.add_image(scene.truth, rgb=True, name="truth")
    page.result.value = fused
    assert page.sources.value == (layer,)

    page.row.button.native.click()
    wait(page)

    expected = evaluate(list(scene.images), fused.data, truth=scene.truth).list_by_symbol()
    known = {symbol: figure for symbol, figure in expected.items() if figure is not None}
    assert page.figures == {"leaf: fused": known}
    assert (page.table.value["index"], page.table.value["columns"]) == (("leaf: fused",), tuple(known))
    assert page.table.value["data"] == [[f"{figure:.4g}" for figure in known.values()]]
    assert set(page.plot.figures) == {symbol for symbol in known if not symbol.startswith("PSNR")}
    assert set(page.plot.toolTip().split()) >= {f"{symbol}:" for symbol in known}
    page.export(tmp_path / "figures.csv")
    with (tmp_path / "figures.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["result", "metric", "value"]
    assert {row[1]: float(row[2]) for row in rows[1:]} == known
    assert page.row.message.text() == "written to figures.csv"
    page.export(tmp_path / "missing" / "figures.csv")
    assert "No such file or directory" in page.row.message.text()

    page.truth.value, page.result.value = None, viewer.layers["truth"]
    page.sources.value = (layer,)
    page.row.start()
    wait(page)
    assert page.table.value["index"] == ("leaf: fused", "truth")
    assert list(page.figures["truth"]) == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]


@pytest.mark.viewer
def test_cancel_ends_the_evaluation_without_figures(viewer, page, run, wait, images, monkeypatch):
    def endless(request, *, job):
        while True:
            job.check_cancelled()
            time.sleep(0.005)

    monkeypatch.setattr(module, "evaluate_layers", endless)
    run(viewer, viewer.add_image(images, rgb=True))
    page.row.start()
    assert (page.row.is_running, page.row.button.text) == (True, "Cancel")
    page.row.cancel()
    wait(page)
    assert (page.figures, page.row.message.text(), page.row.button.enabled) == ({}, "cancelled", True)


@pytest.mark.viewer
def test_the_time_point_that_is_shown_is_evaluated(viewer, page, run, wait, time_series):
    viewer.add_layer(time_series)
    fused = run(viewer, time_series)["fused"]
    viewer.dims.set_point(0, 1)
    page.result.value = fused
    page.row.button.native.click()
    wait(page)
    expected = evaluate(list(time_series.data[1]), fused.data[1, 0])
    assert page.figures["leaf: fused, t 1"]["Q_G"] == expected.gradient


@pytest.mark.viewer
def test_a_result_of_aligned_images_is_compared_with_them_aligned_and_without_those_left_out(viewer, page, run, wait):
    scene = make_focus_stack(n_images=3, shape=(200, 240), seed=3).images
    images = np.stack([scene[0], np.roll(scene[1], 5, axis=1), scene[2]])
    fused = run(viewer, viewer.add_image(images, rgb=True, name="leaf"), align="translation", leave_out="3")["fused"]
    aligned, whole = prepare_stack(open_stack(list(images[:2])), align="translation"), Window(0, 0, 200, 240)
    page.result.value = fused
    page.row.button.native.click()
    wait(page)
    expected = evaluate([aligned.read(number, whole) for number in range(2)], fused.data)
    assert page.figures["leaf: fused"]["Q_G"] == pytest.approx(expected.gradient)
