"""The depth in 3-D, driven in a real viewer, at the right scale."""

import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import depth_view
from napari_qmcif.depth_view import DepthView, color_surface, make_surface, show_depth
from napari_qmcif.layers_in import StackSeries, choose_planes
from napari_qmcif.layers_out import MAP_NAMES, add_layers, describe_channel, record_provenance
from napari_qmcif.reader import open_files
from qmcif_engine import FusionConfig, InvalidImageError, fuse, height_map, make_focus_stack

pytestmark = pytest.mark.viewer


@pytest.fixture
def open_widget(viewer):
    opened = []

    def open_one():
        widget = DepthView(viewer)
        viewer.window.add_dock_widget(widget)
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
    add_layers(
        viewer,
        describe_channel(
            StackSeries.of_one(stack),
            0,
            {"fused": scene.truth, **maps},
            record=record_provenance(stack, FusionConfig(), focus_range=(0, 255)),
        ),
    )
    return scene


def test_the_surface_has_the_scale_of_the_stack_and_the_colors_of_the_image(viewer, open_widget):
    scene = add_fused(viewer, scale=(4, 0.5, 0.25), translate=(0, 10, 20), units=("um",) * 3, axis_labels=("z", "y", "x"))
    widget = open_widget()
    assert (widget.z_step.value, widget.unit.value) == (4, "micrometer")
    assert widget.painted.value.name == "leaf: fused"

    widget.show_button.native.click()

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
    widget.z_step.value = 250
    widget.unit.value = "nanometer"
    widget.exaggerate.value = 3

    widget.show_button.native.click()

    assert viewer.layers[-1].scale[0] == pytest.approx(0.75)


def test_a_stack_without_units_offers_pixels_only(viewer, open_widget):
    add_fused(viewer)
    widget = open_widget()

    assert widget.unit.choices == ("pixel",)
    assert widget.z_step.value == 1


@pytest.mark.parametrize("is_color", [True, False])
def test_painting_by_depth_and_by_a_gray_image(viewer, open_widget, is_color):
    scene = add_fused(viewer, is_color=is_color)
    widget = open_widget()
    if is_color:
        widget.painted.value = None

    widget.show_button.native.click()

    surface = viewer.layers[-1]
    expected = scene.depth_index if is_color else scene.truth
    np.testing.assert_array_equal(np.asarray(surface.vertex_values).reshape(40, 60), expected)
    assert surface.colormap.name == ("turbo" if is_color else "gray")


def test_a_second_surface_takes_the_place_of_the_first_and_the_way_back_restores_the_layers(viewer, open_widget):
    add_fused(viewer)
    shown = [layer.name for layer in viewer.layers if layer.visible]
    widget = open_widget()

    widget.show_button.native.click()
    widget.show_button.native.click()
    assert sum(layer.name.endswith("surface") for layer in viewer.layers) == 1
    widget.flat_button.native.click()

    assert viewer.dims.ndisplay == 2
    assert [layer.name for layer in viewer.layers if layer.visible] == shown
    assert not any(layer.name.endswith("surface") for layer in viewer.layers)


def test_deleting_layers_meanwhile_is_safe(viewer, open_widget):
    add_fused(viewer)
    widget = open_widget()
    widget.show_button.native.click()

    viewer.layers.clear()
    widget.flat_button.native.click()

    assert not widget.show_button.enabled
    assert "there is no source map" in widget.row.reason.text()


def test_an_image_of_another_size_is_refused_in_place(viewer, open_widget):
    add_fused(viewer)
    viewer.add_image(np.zeros((9, 9, 3), np.uint8), rgb=True, name="other")
    widget = open_widget()
    widget.painted.value = viewer.layers["other"]

    assert not widget.show_button.enabled
    assert "'other' and 'leaf: source map' differ in size" in widget.row.reason.text()
    assert viewer.dims.ndisplay == 2


def wait_for(widget, qtbot):
    qtbot.waitUntil(lambda: not widget.row.is_running)


def add_result_of_a_fusion(viewer):
    """Add a stack of micrometers and its real fusion; return the result of the engine with positions."""
    scene = make_focus_stack(n_images=5, shape=(64, 80), is_color=False, dtype=np.uint16)
    space = {"scale": (4, 0.5, 0.5), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}
    layer = viewer.add_image(scene.images, name="cells", contrast_limits=(0, 65535), **space)
    stack, config = choose_planes(layer, 0, point=(0, 0, 0)), FusionConfig().replaced({"iterations": 1})
    result = fuse(list(scene.images), config, with_position=True, with_maps=True)
    parts = {"fused": result.fused, **{name: getattr(result, name) for name in MAP_NAMES}}
    add_layers(
        viewer,
        describe_channel(StackSeries.of_one(stack), 0, parts, record=record_provenance(stack, config, focus_range=result.focus_range)),
    )
    return result


@pytest.mark.parametrize("is_between", [True, False])
def test_heights_become_a_layer_with_their_unit(viewer, open_widget, qtbot, is_between):
    result = add_result_of_a_fusion(viewer)
    widget = open_widget()
    widget.smoothing.value = 3
    widget.between_images.value = is_between

    widget.row.button.native.click()
    wait_for(widget, qtbot)

    layer = viewer.layers["cells: height in micrometer"]
    position = result.position if is_between else result.source_index
    expected = height_map(position, z_step=4, confidence=result.confidence, guide=result.fused, smoothing_px=3).height
    np.testing.assert_array_equal(layer.data, expected)
    assert layer.metadata["qmcif"]["height"] == {"z_step": 4.0, "unit": "micrometer", "smoothing_px": 3}
    np.testing.assert_allclose(layer.scale, (0.5, 0.5))
    assert widget.row.message.text() == ""

    widget.depth_map.value = layer
    widget.show_button.native.click()
    np.testing.assert_allclose(viewer.layers[-1].extent.world[:, 0], (expected.min(), expected.max()), rtol=1e-6)


def test_heights_are_saved_and_come_back(viewer, open_widget, qtbot, tmp_path):
    add_result_of_a_fusion(viewer)
    widget = open_widget()
    widget.row.start()
    wait_for(widget, qtbot)
    viewer.layers.selection = {viewer.layers[-1]}
    viewer.layers.save(str(tmp_path / "height.ome.tif"), selected=True, plugin="napari-qmcif")

    ((heights, attributes, _),) = open_files([tmp_path / "height.ome.tif"])
    np.testing.assert_array_equal(heights, viewer.layers[-1].data)
    assert attributes["metadata"]["qmcif"]["height"]["unit"] == "micrometer"
    assert (attributes["metadata"]["qmcif"]["part"], attributes["scale"]) == ("height", (0.5, 0.5))


def test_between_images_needs_the_images(viewer, open_widget):
    add_result_of_a_fusion(viewer)
    viewer.layers.remove("cells")
    widget = open_widget()
    widget.between_images.value = True

    widget.row.start()

    assert "they are needed to look between them" in widget.row.message.text()


def test_a_z_step_in_another_kind_of_unit_is_refused(viewer):
    add_fused(viewer)

    with pytest.raises(InvalidImageError, match="the z step is in micrometer and 'leaf: source map' in pixel"):
        show_depth(viewer, viewer.layers["leaf: source map"], z_step=2, unit="micrometer")


def test_the_heights_of_a_run_and_its_index_give_surfaces_of_one_size(viewer):
    scene = add_fused(viewer, scale=(4, 0.5, 0.5), units=("um",) * 3)
    index = viewer.layers["leaf: source map"]
    index.metadata["qmcif"]["height"] = {"z_step": 4.0, "unit": "micrometer", "smoothing_px": 0}  # all layers of a run say this
    record = {**index.metadata["qmcif"], "part": "height"}
    heights = viewer.add_image(
        4.0 * scene.depth_index, name="leaf: height", scale=(0.5, 0.5), units=("um",) * 2, metadata={"qmcif": record}
    )

    extents = []
    for layer in (index, heights):
        show_depth(viewer, layer, z_step=4, unit="micrometer")
        extents.append(viewer.layers["leaf: surface"].extent.world)

    np.testing.assert_allclose(*extents)
    assert extents[0][1][0] == 4 * scene.depth_index.max()


def test_the_time_point_that_is_shown_becomes_the_surface_and_the_height_map(viewer, open_widget, qtbot, add_time_series):
    scenes = add_time_series(viewer)
    widget = open_widget()
    viewer.dims.set_point(0, 1)
    assert (widget.z_step.value, widget.unit.value) == (4, "micrometer")

    widget.smoothing.value = 0
    widget.row.button.native.click()
    qtbot.waitUntil(lambda: not widget.row.is_running)
    widget.show_button.native.click()

    heights = viewer.layers["leaf, t 1: height in micrometer"]
    np.testing.assert_allclose(heights.data, 4.0 * scenes[1].depth_index)
    surface = viewer.layers["leaf, t 1: surface"]
    np.testing.assert_array_equal(surface.data[0][:, 0].reshape(48, 64), scenes[1].depth_index)
    np.testing.assert_array_equal(np.asarray(surface.vertex_values).reshape(48, 64), scenes[1].truth)
    np.testing.assert_allclose(surface.scale, (4, 0.5, 0.5))


def test_corners_are_pixels_and_triangles_cover_the_map():
    depth = np.array([[0, 1, 2], [3, 4, 5]], np.uint16)

    corners, triangles, stride = make_surface(depth)

    np.testing.assert_array_equal(corners, [[0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 1, 0], [4, 1, 1], [5, 1, 2]])
    first, second, third = (corners[triangles[:, corner], 1:] for corner in range(3))
    one, other = second - first, third - first
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    assert (areas.sum(), stride) == (2, 1)


def test_a_large_map_is_thinned_out_but_keeps_its_extent(monkeypatch):
    monkeypatch.setattr(depth_view, "LARGEST_N_CORNERS", 100)

    corners, _, stride = make_surface(np.zeros((31, 41), np.uint16))

    assert (len(corners) <= 100, stride) == (True, 4)
    assert corners[:, 1:].max(axis=0).tolist() == [28, 40]


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1)])
def test_a_color_image_paints_the_corners(dtype, white):
    image = np.full((4, 6, 3), white, dtype)
    image[0, 2] = 0

    colors = color_surface(Image(image, rgb=True), 2, depths=(0, 2))["vertex_colors"]

    assert colors.shape == (6, 3)
    assert colors.tolist() == [[1, 1, 1], [0, 0, 0], *[[1, 1, 1]] * 4]


def test_depth_is_colored_from_the_first_to_the_last_image():
    assert color_surface(None, 1, depths=(0, 4))["contrast_limits"] == (0, 4)
    assert color_surface(None, 1, depths=(2, 2))["contrast_limits"][1] > 2
