"""Depths of a result as a surface at the right scale and as a layer of heights, driven in a real viewer."""

import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import depth_view
from napari_qmcif.depth_view import DepthView, color_surface, make_surface, show_depth
from napari_qmcif.reader import open_files
from qmcif_engine import InvalidImageError, fuse, height_map, make_focus_stack

pytestmark = pytest.mark.viewer

SPACE = {"scale": (4, 0.5, 0.25), "translate": (0, 10, 20), "units": ("um",) * 3, "axis_labels": ("z", "y", "x")}


@pytest.fixture
def add_run(viewer, run):
    """Returns what fuses a small stack as a run, and returns the layers of the result by part."""

    def add(is_color=True, options=(), **space):
        images = make_focus_stack(n_images=3, shape=(40, 60), is_color=is_color).images
        layer = viewer.add_image(images, rgb=is_color, name="leaf", contrast_limits=(0, 255), **space)
        return run(viewer, layer, **dict(options))

    return add


def test_the_surface_has_the_scale_of_the_stack_and_the_colors_of_the_image_until_the_way_back(viewer, add_run, open_page):
    result = add_run(**SPACE)
    shown, page = [layer for layer in viewer.layers if layer.visible], open_page(DepthView)
    page.depth_map.value = result["source_index"]
    assert (page.z_step.value, page.unit.value, page.painted.value) == (4, "micrometer", result["fused"])

    page.show_button.native.click()
    page.show_button.native.click()

    (surface,) = [layer for layer in viewer.layers if layer.name == "leaf: surface"]
    lowest, highest = surface.extent.world
    index, fused = result["source_index"].data, result["fused"].data
    np.testing.assert_allclose(lowest, (4 * index.min(), 10, 20))
    np.testing.assert_allclose(highest, (4 * index.max(), 10 + 39 * 0.5, 20 + 59 * 0.25))
    assert [str(unit) for unit in surface.units] == ["micrometer"] * 3
    np.testing.assert_array_equal(surface.data[0][:, 0].reshape(40, 60), index)
    np.testing.assert_allclose(np.asarray(surface.vertex_colors)[:, :3].reshape(40, 60, 3), fused / 255, atol=1e-6)
    assert (viewer.dims.ndisplay, [layer for layer in viewer.layers if layer.visible]) == (3, [surface])
    page.z_step.value, page.unit.value, page.exaggerate.value = 250, "nanometer", 3
    page.show_button.native.click()
    assert viewer.layers[-1].scale[0] == pytest.approx(0.75)

    page.flat_button.native.click()
    assert (viewer.dims.ndisplay, [layer for layer in viewer.layers if layer.visible]) == (2, shown)
    page.show_button.native.click()
    viewer.layers.clear()
    page.flat_button.native.click()
    assert (page.show_button.enabled, "there is no source map" in page.row.reason.text()) == (False, True)


@pytest.mark.parametrize("is_color", [True, False])
def test_painting_by_depth_and_by_a_gray_image_and_not_by_one_of_another_size(viewer, add_run, open_page, is_color):
    result, page = add_run(is_color), open_page(DepthView)
    page.depth_map.value = result["source_index"]
    assert (page.unit.choices, page.z_step.value) == (("pixel",), 1), "a stack without units counts images"
    page.painted.value = None if is_color else result["fused"]
    page.show_button.native.click()
    surface = viewer.layers[-1]
    expected = result["source_index" if is_color else "fused"].data
    np.testing.assert_array_equal(np.asarray(surface.vertex_values).reshape(40, 60), expected)
    assert surface.colormap.name == ("turbo" if is_color else "gray")

    page.painted.value = viewer.add_image(np.zeros((9, 9), np.uint8), rgb=False, name="other")
    assert "'other' and 'leaf: source map' differ in size" in page.row.reason.text()
    assert not page.show_button.enabled
    with pytest.raises(InvalidImageError, match="the z step is in micrometer and 'leaf: source map' in pixel"):
        show_depth(viewer, result["source_index"], z_step=2, unit="micrometer")


@pytest.mark.parametrize("is_between", [True, False])
def test_heights_become_a_layer_with_their_unit_and_come_back_when_saved(viewer, add_run, open_page, wait, tmp_path, is_between):
    result, page = add_run(is_color=False, **SPACE), open_page(DepthView)
    page.depth_map.value = result["source_index"]
    page.smoothing.value, page.between_images.value = 3, is_between
    page.row.button.native.click()
    wait(page)

    layer, again = viewer.layers["leaf: height in micrometer"], fuse(viewer.layers["leaf"].data, with_position=True)
    position = again.position if is_between else again.source_index
    expected = height_map(position, z_step=4, confidence=again.confidence, guide=again.fused, smoothing_px=3).height
    np.testing.assert_array_equal(layer.data, expected)
    assert layer.metadata["qmcif"]["height"] == {"z_step": 4.0, "unit": "micrometer", "smoothing_px": 3}
    np.testing.assert_allclose((layer.scale, layer.translate), ((0.5, 0.25), (10, 20)))
    assert page.row.message.text() == ""
    viewer.layers.selection = {layer}
    viewer.layers.save(str(tmp_path / "height.ome.tif"), selected=True, plugin="napari-qmcif")
    ((heights, attributes, _),) = open_files([tmp_path / "height.ome.tif"])
    np.testing.assert_array_equal(heights, expected)
    record = attributes["metadata"]["qmcif"]
    assert (record["height"]["unit"], record["part"], attributes["scale"]) == ("micrometer", "height", (0.5, 0.25))

    page.depth_map.value = layer
    page.show_button.native.click()
    np.testing.assert_allclose(viewer.layers[-1].extent.world[:, 0], (expected.min(), expected.max()), rtol=1e-6)
    page.depth_map.value = result["source_index"]
    page.between_images.value = True
    viewer.layers.remove("leaf")
    page.row.start()
    assert "they are needed to look between them" in page.row.message.text()


def test_the_heights_of_a_run_and_its_index_give_surfaces_of_one_scale(viewer, add_run):
    result, extents = add_run(options={"height": True}, **SPACE), []
    heights, index = result["height"], result["source_index"]
    for layer in (index, heights):
        show_depth(viewer, layer, z_step=4, unit="micrometer")
        extents.append(viewer.layers["leaf: surface"].extent.world)
    np.testing.assert_allclose(extents[0][:, 1:], extents[1][:, 1:])
    np.testing.assert_allclose(extents[1][:, 0], (heights.data.min(), heights.data.max()), rtol=1e-6)
    np.testing.assert_allclose(extents[0][:, 0], (4 * index.data.min(), 4 * index.data.max()))


def test_the_time_point_that_is_shown_becomes_the_surface_and_the_height_map(viewer, run, open_page, wait, time_series):
    viewer.add_layer(time_series)
    result, page = run(viewer, time_series), open_page(DepthView)
    page.depth_map.value = result["source_index"]
    viewer.dims.set_point(0, 1)
    page.smoothing.value = 0
    page.row.button.native.click()
    wait(page)
    page.show_button.native.click()

    index, fused = result["source_index"].data[1, 0], result["fused"].data[1, 0]
    np.testing.assert_allclose(viewer.layers["leaf, t 1: height in micrometer"].data, 4.0 * index)
    surface = viewer.layers["leaf, t 1: surface"]
    np.testing.assert_array_equal(surface.data[0][:, 0].reshape(48, 64), index)
    np.testing.assert_array_equal(np.asarray(surface.vertex_values).reshape(48, 64), fused)
    np.testing.assert_allclose(surface.scale, (4, 0.5, 0.5))


def test_corners_are_pixels_and_triangles_cover_the_map():
    corners, triangles, stride = make_surface(np.array([[0, 1, 2], [3, 4, 5]], np.uint16))

    np.testing.assert_array_equal(corners, [[0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 1, 0], [4, 1, 1], [5, 1, 2]])
    first, second, third = (corners[triangles[:, corner], 1:] for corner in range(3))
    one, other = second - first, third - first
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    assert (areas.sum(), stride) == (2, 1)


def test_a_large_map_is_thinned_out_but_keeps_its_extent(monkeypatch):
    monkeypatch.setattr(depth_view, "LARGEST_N_CORNERS", 100)
    corners, _, stride = make_surface(np.zeros((31, 41), np.uint16))
    assert (len(corners) <= 100, stride, corners[:, 1:].max(axis=0).tolist()) == (True, 4, [28, 40])


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1)])
def test_corners_have_the_colors_of_the_image_else_of_their_depth(dtype, white):
    image = np.full((4, 6, 3), white, dtype)
    image[0, 2] = 0
    colors = color_surface(Image(image, rgb=True), 2, depths=(0, 2))["vertex_colors"]
    assert colors.tolist() == [[1, 1, 1], [0, 0, 0], *[[1, 1, 1]] * 4]
    assert color_surface(None, 1, depths=(0, 4))["contrast_limits"] == (0, 4)
    assert color_surface(None, 1, depths=(2, 2))["contrast_limits"][1] > 2
