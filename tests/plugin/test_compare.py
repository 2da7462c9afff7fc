"""Two images are compared by a wipe or by blinking, and the focus of every image is shown where a person clicks."""

from types import SimpleNamespace

import numpy as np
import pytest

from napari_qmcif.compare import CompareWidget
from qmcif_engine import focus_response, make_focus_stack

pytestmark = pytest.mark.viewer


@pytest.fixture
def images():
    return make_focus_stack(n_images=3, shape=(96, 128), seed=0).images


@pytest.fixture
def result(viewer, run, images):
    return run(viewer, viewer.add_image(images, rgb=True, name="leaf", scale=(4, 0.5, 0.5)))


@pytest.fixture
def page(open_page, result):
    return open_page(CompareWidget)


def list_shown(viewer):
    return {layer.name for layer in viewer.layers if layer.visible}


def test_a_wipe_shows_the_result_left_of_the_line_and_nothing_but_the_source_beside_it(viewer, page, result):
    assert (page.result.value, page.other.value.name) == (result["fused"], "leaf"), "a result and its source, unless others are chosen"
    viewer.add_image(np.zeros((96, 128), np.uint8), rgb=False, name="on top")
    before = list_shown(viewer)
    page.wipes.value = True
    page.wipe_at.value = 0.25

    wipe = viewer.layers["wipe"]
    np.testing.assert_array_equal(wipe.data, result["fused"].data[:, :32])
    assert np.shares_memory(wipe.data, result["fused"].data)
    np.testing.assert_allclose(wipe.scale, (0.5, 0.5))
    assert list_shown(viewer) == {"wipe", "leaf"}

    page.blinks.value, seen = True, []
    for _ in range(3):
        page._timer.timeout.emit()
        seen.append(list_shown(viewer))
    assert ("wipe" in viewer.layers, seen) == (False, [{"leaf"}, {"leaf: fused"}, {"leaf"}])
    page.blinks.value = False
    assert list_shown(viewer) == before


def test_the_first_image_of_an_emptied_viewer_is_taken_without_an_error(viewer, page):
    viewer.layers.clear()
    layer = viewer.add_image(np.zeros((9, 9), np.uint8), rgb=False, name="first")
    assert (page.result.value, page.other.value) == (layer, layer)


def click(viewer, position):
    """Press and release the mouse at a place of the world."""
    event = SimpleNamespace(type="mouse_press", position=position)
    step = viewer.mouse_drag_callbacks[-1](viewer, event)  # the others are napari's own
    next(step)
    event.type = "mouse_release"
    next(step, None)


def read_shares(page):
    return list(page.plot.figures.values())


def test_the_sharpness_of_every_image_is_shown_in_view_and_where_one_clicks(viewer, page, result, images, wait):
    focus_range = result["fused"].metadata["qmcif"]["focus_range"]
    click(viewer, (0, 20.0, 30.0))
    assert not page.row.is_running, "not asked for"
    page.points.value = True
    click(viewer, (0, -5.0, 30.0))
    assert not page.row.is_running, "outside"
    click(viewer, (0, 20.0, 30.0))
    wait(page)

    levels = focus_response(images, (40, 60, 41, 61), focus_range=focus_range)[:, 0, 0]
    np.testing.assert_allclose(read_shares(page), levels / levels.max())
    taken = result["source_index"].data[40, 60]
    assert page.title.text() == f"focus at row 40, column 60; taken from image {taken + 1}, plane {taken + 1}"

    page.row.button.native.click()
    wait(page)
    levels = focus_response(images, (0, 0, 96, 128), focus_range=focus_range).mean(axis=(1, 2))
    np.testing.assert_allclose(read_shares(page), levels / levels.max())
    assert page.title.text() == "mean focus of 128 x 96 px in view"
    viewer.layers.remove("leaf")
    page.row.start()
    assert "the images of this result are not there" in page.row.message.text()


def test_closing_leaves_the_layers_as_they_were(viewer, open_page, result):
    n_callbacks = len(viewer.mouse_drag_callbacks)
    page = open_page(CompareWidget)
    page.wipes.value = True
    assert "wipe" in viewer.layers
    page.shut_down()
    assert ("wipe" in viewer.layers, len(viewer.mouse_drag_callbacks)) == (False, n_callbacks)


def test_a_result_with_time_points_is_wiped_and_measured_at_the_time_that_is_shown(viewer, run, open_page, time_series, wait):
    viewer.add_layer(time_series)
    result = run(viewer, time_series)
    page = open_page(CompareWidget)
    page.wipes.value, page.wipe_at.value = True, 0.25
    np.testing.assert_array_equal(viewer.layers["wipe"].data, result["fused"].data[..., :16])
    np.testing.assert_allclose(viewer.layers["wipe"].translate, result["fused"].translate)

    viewer.dims.set_point(0, 1)
    page.row.attempt(lambda: page.measure_at(20, 30))
    wait(page)

    taken = int(result["source_index"].data[1, 0, 20, 30])
    assert page.title.text() == f"focus at row 20, column 30; taken from image {taken + 1}, z {taken + 1}"
    focus_range = result["fused"].metadata["qmcif"]["focus_range"]
    levels = focus_response(list(time_series.data[1]), (20, 30, 21, 31), focus_range=focus_range)[:, 0, 0]
    np.testing.assert_allclose(read_shares(page), levels / levels.max())
