"""The depth in 3-D, driven in a real viewer, at the right scale."""

import numpy as np
import pytest

from napari_qmcif.chosen_stack import choose_planes
from napari_qmcif.layers import MAP_NAMES, add_result
from napari_qmcif.provenance import record_provenance
from qmcif_engine import FusionConfig, make_focus_stack

pytestmark = pytest.mark.viewer


@pytest.fixture
def viewer(make_napari_viewer_proxy):
    return make_napari_viewer_proxy()


@pytest.fixture
def open_widget(viewer):
    opened = []

    def open_one():
        _, widget = viewer.window.add_plugin_dock_widget("napari-qmcif", "Depth in 3-D")
        opened.append(widget)
        return widget

    yield open_one
    for widget in opened:
        widget.shut_down()
    opened.clear()


def add_fused(viewer, is_color=True, **space):
    scene = make_focus_stack(n_images=3, shape=(40, 60), is_color=is_color)
    layer = viewer.add_image(scene.images, rgb=is_color, name="leaf", contrast_limits=(0, 255), **space)
    stack = choose_planes(layer, 0, point=(0, 0, 0))
    maps = dict.fromkeys(MAP_NAMES, scene.depth_index)
    add_result(viewer, stack, {"fused": scene.truth, **maps}, record=record_provenance(stack, FusionConfig(), focus_range=(0, 255)))
    return scene


def test_the_surface_has_the_scale_of_the_stack_and_the_colors_of_the_picture(viewer, open_widget):
    scene = add_fused(viewer, scale=(4, 0.5, 0.25), translate=(0, 10, 20), units=("um",) * 3, axis_labels=("z", "y", "x"))
    widget = open_widget()
    assert (widget.step_box.value(), widget.unit_box.currentText()) == (4, "micrometer")
    assert widget.color_box.layer.name == "leaf: fused"

    widget.show_button.click()

    surface = viewer.layers["leaf: surface"]
    lowest, highest = surface.extent.world
    np.testing.assert_allclose(lowest, (0, 10, 20))
    np.testing.assert_allclose(highest, (4 * 2, 10 + 39 * 0.5, 20 + 59 * 0.25))
    assert [str(unit) for unit in surface.units] == ["micrometer"] * 3
    vertices = surface.data[0]
    np.testing.assert_array_equal(vertices[:, 0].reshape(40, 60), scene.depth_index)
    np.testing.assert_allclose(np.asarray(surface.vertex_colors)[:, :3].reshape(40, 60, 3), scene.truth / 255, atol=1e-6)
    assert viewer.dims.ndisplay == 3
    assert [layer.name for layer in viewer.layers if layer.visible] == [surface.name]


def test_another_unit_is_converted_and_heights_are_exaggerated_on_demand(viewer, open_widget):
    add_fused(viewer, scale=(4, 0.5, 0.5), units=("um",) * 3)
    widget = open_widget()
    widget.step_box.setValue(250)
    widget.unit_box.setCurrentText("nanometer")
    widget.stretch_box.setValue(3)

    widget.show_button.click()

    assert viewer.layers[-1].scale[0] == pytest.approx(0.75)


def test_a_stack_without_units_offers_pixels_only(viewer, open_widget):
    add_fused(viewer)
    widget = open_widget()

    assert [widget.unit_box.itemText(row) for row in range(widget.unit_box.count())] == ["pixel"]
    assert widget.step_box.value() == 1


@pytest.mark.parametrize("is_color", [True, False])
def test_painting_by_depth_and_by_a_gray_picture(viewer, open_widget, is_color):
    scene = add_fused(viewer, is_color=is_color)
    widget = open_widget()
    if is_color:
        widget.color_box.choose(None)

    widget.show_button.click()

    surface = viewer.layers[-1]
    expected = scene.depth_index if is_color else scene.truth
    np.testing.assert_array_equal(np.asarray(surface.vertex_values).reshape(40, 60), expected)
    assert surface.colormap.name == ("turbo" if is_color else "gray")


def test_a_second_surface_takes_the_place_of_the_first_and_the_way_back_restores_the_layers(viewer, open_widget):
    add_fused(viewer)
    shown = [layer.name for layer in viewer.layers if layer.visible]
    widget = open_widget()

    widget.show_button.click()
    widget.show_button.click()
    assert sum(layer.name.endswith("surface") for layer in viewer.layers) == 1
    widget.flat_button.click()

    assert viewer.dims.ndisplay == 2
    assert [layer.name for layer in viewer.layers if layer.visible] == shown
    assert not any(layer.name.endswith("surface") for layer in viewer.layers)


def test_deleting_layers_meanwhile_is_safe(viewer, open_widget):
    add_fused(viewer)
    widget = open_widget()
    widget.show_button.click()

    viewer.layers.clear()
    widget.flat_button.click()

    assert not widget.show_button.isEnabled()
    assert "no source index is there" in widget.message.text()


def test_a_picture_of_another_size_is_refused_in_place(viewer, open_widget):
    add_fused(viewer)
    viewer.add_image(np.zeros((9, 9, 3), np.uint8), rgb=True, name="other")
    widget = open_widget()
    widget.color_box.choose(viewer.layers["other"])

    widget.show_button.click()

    assert "'other' and 'leaf: source index' differ in size" in widget.message.text()
    assert viewer.dims.ndisplay == 2
