"""Surfaces have a corner a pixel, thinned out where there are too many."""

import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import height_layers as height_surface
from napari_qmcif.height_layers import color_surface, make_surface, place_surface


def test_corners_are_pixels_and_triangles_cover_the_map():
    depth = np.array([[0, 1, 2], [3, 4, 5]], np.uint16)

    corners, triangles, stride = make_surface(depth)

    np.testing.assert_array_equal(corners, [[0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 1, 0], [4, 1, 1], [5, 1, 2]])
    first, second, third = (corners[triangles[:, corner], 1:] for corner in range(3))
    one, other = second - first, third - first
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    assert (areas.sum(), stride) == (2, 1)


def test_a_large_map_is_thinned_out_but_keeps_its_extent(monkeypatch):
    monkeypatch.setattr(height_surface, "LARGEST_N_CORNERS", 100)

    corners, _, stride = make_surface(np.zeros((31, 41), np.uint16))

    assert (len(corners) <= 100, stride) == (True, 4)
    assert corners[:, 1:].max(axis=0).tolist() == [28, 40]


def test_the_place_of_the_map_becomes_the_place_of_the_surface():
    layer = Image(np.zeros((5, 6), np.uint16), scale=(2, 3), translate=(7, 8), rotate=30, shear=[0.2], affine=np.diag([2, 2, 1]))

    arguments = place_surface(layer, z_step=4)
    surface = Image(np.zeros((2, 5, 6)), **{name: value for name, value in arguments.items() if name != "axis_labels"})

    np.testing.assert_allclose(surface.data_to_world((0, 3, 4))[1:], layer.data_to_world((3, 4)))
    assert surface.data_to_world((1, 0, 0))[0] == 4
    assert arguments["axis_labels"][0] == "z"


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
