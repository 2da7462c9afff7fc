"""Two images are compared by a wipe or by blinking, and the focus of every image is told where a person clicks."""

from types import SimpleNamespace

import numpy as np
import pytest

from napari_qmcif.compare import CompareWidget
from napari_qmcif.layers_in import StackSeries, choose_planes
from napari_qmcif.layers_out import MAP_NAMES, add_layers, describe_channel, record_provenance
from qmcif_engine import FusionConfig, focus_response, fuse, make_focus_stack

pytestmark = pytest.mark.viewer

CONFIG = FusionConfig().replaced({"iterations": 1})


@pytest.fixture
def images():
    return make_focus_stack(n_images=3, shape=(96, 128), seed=0).images


@pytest.fixture
def result(viewer, images):
    layer = viewer.add_image(images, rgb=True, name="leaf", scale=(4, 0.5, 0.5))
    stack, made = choose_planes(layer, 0, point=(0, 0, 0)), fuse(list(images), CONFIG, with_maps=True)
    parts = {"fused": made.fused, **{name: getattr(made, name) for name in MAP_NAMES}}
    add_layers(
        viewer, describe_channel(StackSeries.of_one(stack), 0, parts, record=record_provenance(stack, CONFIG, focus_range=made.focus_range))
    )
    return made


@pytest.fixture
def widget(viewer, result, qtbot):
    opened = CompareWidget(viewer)
    viewer.window.add_dock_widget(opened)
    opened.result.value, opened.other.value = viewer.layers["leaf: fused"], viewer.layers["leaf"]
    yield opened
    opened.shut_down()
    wait_for(opened, qtbot)


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not widget.row.is_running)


def test_a_wipe_shows_the_result_left_of_the_line_and_the_other_right_of_it(viewer, widget, result):
    fused = viewer.layers["leaf: fused"]
    widget.wipes.value = True
    widget.wipe_at.value = 0.25

    wipe = viewer.layers["wipe"]
    np.testing.assert_array_equal(wipe.data, result.fused[:, :32])
    assert np.shares_memory(wipe.data, fused.data)
    np.testing.assert_allclose(wipe.scale, (0.5, 0.5))
    assert (fused.visible, viewer.layers["leaf"].visible) == (False, True)

    widget.wipes.value = False
    assert "wipe" not in viewer.layers
    assert fused.visible


def test_nothing_lies_over_what_is_compared_and_all_is_back_afterwards(viewer, widget):
    note = viewer.add_image(np.zeros((96, 128), np.uint8), rgb=False, name="on top")
    before = {layer.name: layer.visible for layer in viewer.layers}

    for choice in (widget.wipes, widget.blinks):
        choice.value = True
        widget._timer.timeout.emit()
        assert not note.visible

        choice.value = False
        assert {layer.name: layer.visible for layer in viewer.layers} == before


def test_a_result_is_compared_with_its_source_unless_something_else_is_chosen(viewer, result):
    widget = CompareWidget(viewer)
    viewer.window.add_dock_widget(widget)

    assert (widget.result.value.name, widget.other.value.name) == ("leaf: fused", "leaf")
    widget.shut_down()


def test_the_first_image_of_an_emptied_viewer_is_taken_without_an_error(viewer, widget):
    viewer.layers.clear()

    layer = viewer.add_image(np.zeros((9, 9), np.uint8), rgb=False, name="first")

    assert (widget.result.value, widget.other.value) == (layer, layer)


def test_blinking_shows_both_in_turn_and_ends_with_the_result(viewer, widget):
    fused = viewer.layers["leaf: fused"]
    widget.blinks.value = True
    seen = []
    for _ in range(3):
        widget._timer.timeout.emit()
        seen.append(fused.visible)

    assert seen == [False, True, False]
    widget.blinks.value = False
    assert fused.visible


def click(viewer, position):
    """Press and release the mouse at a place of the world."""
    event = SimpleNamespace(type="mouse_press", position=position)
    step = viewer.mouse_drag_callbacks[-1](viewer, event)  # the others are napari's own
    next(step)
    event.type = "mouse_release"
    next(step, None)


def test_a_click_tells_the_focus_of_every_image_and_which_was_taken(viewer, widget, result, images, qtbot):
    click(viewer, (0, 20.0, 30.0))
    assert not widget.row.is_running  # not asked for

    widget.points.value = True
    click(viewer, (0, 20.0, 30.0))
    wait_for(widget, qtbot)

    levels = focus_response(images, (40, 60, 41, 61), config=CONFIG, focus_range=result.focus_range)[:, 0, 0]
    np.testing.assert_allclose(list(widget.plot.figures.values()), levels / levels.max())
    taken = result.source_index[40, 60]
    assert widget.title.text() == f"focus at row 40, column 60; taken from image {taken + 1}, plane {taken + 1}"

    click(viewer, (0, -5.0, 30.0))
    assert not widget.row.is_running  # outside


def test_the_sharpness_of_every_image_in_view_is_told(viewer, widget, images, result, qtbot):
    widget.row.button.native.click()
    wait_for(widget, qtbot)

    levels = focus_response(images, (0, 0, 96, 128), config=CONFIG, focus_range=result.focus_range).mean(axis=(1, 2))
    np.testing.assert_allclose(list(widget.plot.figures.values()), levels / levels.max())
    assert widget.title.text() == "mean focus of 128 x 96 px in view"


def test_without_the_images_there_is_nothing_to_measure(viewer, widget):
    viewer.layers.remove("leaf")

    widget.row.start()

    assert "the images of this result are not there" in widget.row.message.text()


def test_closing_leaves_the_layers_as_they_were(viewer, result):
    n_callbacks = len(viewer.mouse_drag_callbacks)
    widget = CompareWidget(viewer)
    viewer.window.add_dock_widget(widget)
    widget.other.value = viewer.layers["leaf"]
    widget.wipes.value = True
    assert "wipe" in viewer.layers

    widget.shut_down()

    assert "wipe" not in viewer.layers
    assert len(viewer.mouse_drag_callbacks) == n_callbacks


def test_a_result_with_time_points_is_wiped_and_its_focus_measured_at_the_time_that_is_shown(viewer, qtbot, add_time_series):
    scenes = add_time_series(viewer)
    widget = CompareWidget(viewer)
    viewer.window.add_dock_widget(widget)
    fused = viewer.layers["leaf: fused"]
    widget.result.value, widget.other.value = fused, viewer.layers["leaf"]
    widget.wipes.value, widget.wipe_at.value = True, 0.25
    np.testing.assert_array_equal(viewer.layers["wipe"].data, fused.data[..., :16])
    np.testing.assert_allclose(viewer.layers["wipe"].translate, fused.translate)

    viewer.dims.set_point(0, 1)
    widget.row.attempt(lambda: widget.measure_at(20, 30))
    wait_for(widget, qtbot)

    taken = int(scenes[1].depth_index[20, 30])
    assert widget.title.text() == f"focus at row 20, column 30; taken from image {taken + 1}, z {taken + 1}"
    levels = focus_response(list(scenes[1].images), (20, 30, 21, 31), focus_range=(0, 255))[:, 0, 0]
    np.testing.assert_allclose(list(widget.plot.figures.values()), levels / levels.max())
    widget.shut_down()
