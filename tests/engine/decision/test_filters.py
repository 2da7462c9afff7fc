"""Gaussian filters and changes of resolution, against scipy and plain NumPy."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision.filters import (
    CUT_OFF,
    average_cells,
    interpolate_cells,
    largest_of_cells,
    reach_of,
    repeat_cells,
    smooth,
)
from tests.scenes import SINGLE_EPS, reach_of_change, texture

SHAPES = ((5, 7), (16, 24), (1, 3), (17, 30))
TOLERANCE = 16 * SINGLE_EPS * 255


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.94, 4.0])
@pytest.mark.parametrize("shape", [(40, 50), (31, 33)])
def test_smoothing_is_the_gaussian_of_scipy(shape, sigma):
    plane = texture(shape)

    expected = ndimage.gaussian_filter(plane.astype(np.float64), sigma, mode="reflect", radius=reach_of(sigma))

    np.testing.assert_allclose(smooth(plane, sigma), expected, atol=TOLERANCE)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.94, 4.0])
def test_a_gaussian_reaches_as_far_as_is_stated_and_no_farther_than_the_cut_off(sigma):
    assert reach_of_change(lambda plane: smooth(plane, sigma), texture((61, 61)), (30, 30)) == reach_of(sigma)
    assert abs(reach_of(sigma) - CUT_OFF * sigma) <= 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smoothing_keeps_the_type_and_the_mean_of_constant_planes(dtype):
    result = smooth(np.full((2, 9, 4), 7, dtype), 2.0)

    assert result.dtype == dtype
    np.testing.assert_allclose(result, 7, rtol=16 * np.finfo(dtype).eps)


def test_planes_are_smoothed_one_by_one():
    planes = texture((2, 3, 12, 15))

    result = smooth(planes, 1.0)

    assert result.shape == planes.shape
    np.testing.assert_array_equal(result[1, 2], smooth(planes[1, 2], 1.0))


def completed(planes, side):
    """Planes with incomplete cells completed by their last rows and columns, cut into cells: shape (..., rows, side, columns, side)."""
    h, w = planes.shape[-2:]
    rows, columns = -(-h // side), -(-w // side)
    taken = planes[..., np.minimum(np.arange(rows * side), h - 1)[:, None], np.minimum(np.arange(columns * side), w - 1)]
    return taken.reshape(*planes.shape[:-2], rows, side, columns, side)


@pytest.mark.parametrize("side", [2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_cells_have_the_mean_and_the_largest_of_their_pixels(shape, side):
    planes = texture((3, *shape))

    np.testing.assert_allclose(average_cells(planes, side), completed(planes, side).mean(axis=(-3, -1)), atol=TOLERANCE)
    np.testing.assert_array_equal(largest_of_cells(planes, side), completed(planes, side).max(axis=(-3, -1)))


def test_one_plane_has_cells_without_a_leading_axis():
    assert average_cells(texture((9, 11)), 4).shape == (3, 3)
    assert largest_of_cells(np.eye(9, dtype=bool), 4).dtype == np.bool_


@pytest.mark.parametrize("side", [2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_interpolation_is_linear_between_centers_and_flat_beyond_them(shape, side):
    rows, columns = (-(-length // side) for length in shape)
    cells = texture((2, rows, columns))
    places = [np.clip((np.arange(length) + 0.5) / side - 0.5, 0, n - 1) for length, n in zip(shape, (rows, columns), strict=True)]

    expected = [ndimage.map_coordinates(plane.astype(np.float64), np.meshgrid(*places, indexing="ij"), order=1) for plane in cells]

    np.testing.assert_allclose(interpolate_cells(cells, side, shape), expected, atol=TOLERANCE)


@pytest.mark.parametrize("shape", SHAPES)
def test_repeating_gives_each_pixel_its_cell(shape):
    cells = np.arange(20 * 20).reshape(20, 20)

    repeated = repeat_cells(cells, 2, shape)

    rows, columns = np.indices(shape)
    np.testing.assert_array_equal(repeated, cells[rows // 2, columns // 2])


@pytest.mark.parametrize("layout", ["turned", "broadcast", "cut"])
def test_any_layout_of_planes_gives_the_same(layout):
    plane = texture((20, 24))
    layouts = {"turned": plane.T.copy().T, "broadcast": np.broadcast_to(plane[:1], plane.shape), "cut": np.repeat(plane, 2, axis=1)[:, ::2]}
    same = layouts[layout]
    copy = same.copy(order="C")

    np.testing.assert_array_equal(smooth(same, 1.0), smooth(copy, 1.0))
    np.testing.assert_array_equal(average_cells(same, 4), average_cells(copy, 4))
    np.testing.assert_array_equal(interpolate_cells(same, 2, (40, 48)), interpolate_cells(copy, 2, (40, 48)))


@pytest.mark.parametrize("side", [2, 4, 8])
@pytest.mark.parametrize("start", [16, 48, 208])
def test_a_window_has_the_cells_of_the_whole_plane_to_the_last_bit(start, side):
    """Tiles that end with the image have fewer columns than it, and its last ones must not depend on that."""
    plane = texture((24, 350))

    whole, window = average_cells(plane, side), average_cells(np.ascontiguousarray(plane[:, start:]), side)

    np.testing.assert_array_equal(window, whole[:, start // side :])
    np.testing.assert_array_equal(smooth(plane, 2.0)[:, start + 6 :], smooth(plane[:, start:], 2.0)[:, 6:])
