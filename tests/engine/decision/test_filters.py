"""Gaussian filters and changes of resolution, against scipy and plain NumPy."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision import filters
from tests.scenes import SINGLE_EPS, reach_of_change, texture

TOLERANCE = 16 * SINGLE_EPS * 255
sigmas = pytest.mark.parametrize("sigma", [0.5, 1.0, 1.94, 4.0])
cells_of_shapes = pytest.mark.parametrize(("side", "shape"), [(2, (5, 7)), (4, (17, 30)), (8, (16, 24)), (8, (1, 3))])


@sigmas
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smoothing_is_the_gaussian_of_scipy_plane_by_plane(sigma, dtype):
    planes = texture((2, 3, 31, 40)).astype(dtype)
    reach = filters.reach_of(sigma)

    result = filters.smooth(planes, sigma)

    expected = ndimage.gaussian_filter(planes.astype(np.float64), (0, 0, sigma, sigma), mode="reflect", radius=(0, 0, reach, reach))
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, atol=TOLERANCE)


@sigmas
def test_a_gaussian_reaches_as_far_as_is_stated_and_no_farther_than_the_cut_off(sigma):
    reach = filters.reach_of(sigma)

    assert reach_of_change(lambda plane: filters.smooth(plane, sigma), texture((61, 61)), (30, 30)) == reach
    assert abs(reach - filters.CUT_OFF * sigma) <= 0.5


@cells_of_shapes
@pytest.mark.parametrize("leading", [(), (3,)])
def test_cells_have_the_mean_and_the_largest_of_their_pixels(side, shape, leading):
    """Incomplete cells are completed by their last row and column."""
    planes = texture((*leading, *shape))
    rows, columns = (-(-length // side) for length in shape)
    taken = planes[..., np.minimum(np.arange(rows * side), shape[0] - 1)[:, None], np.minimum(np.arange(columns * side), shape[1] - 1)]
    cells = taken.reshape(*leading, rows, side, columns, side)

    np.testing.assert_allclose(filters.average_cells(planes, side), cells.mean(axis=(-3, -1)), atol=TOLERANCE)
    np.testing.assert_array_equal(filters.largest_of_cells(planes, side), cells.max(axis=(-3, -1)))


@cells_of_shapes
def test_cells_are_interpolated_between_centers_or_repeated(side, shape):
    cells = texture((2, *(-(-length // side) for length in shape)))
    places = [np.clip((np.arange(length) + 0.5) / side - 0.5, 0, n - 1) for length, n in zip(shape, cells.shape[1:], strict=True)]
    rows, columns = np.indices(shape)

    expected = [ndimage.map_coordinates(plane.astype(np.float64), np.meshgrid(*places, indexing="ij"), order=1) for plane in cells]

    np.testing.assert_allclose(filters.interpolate_cells(cells, side, shape), expected, atol=TOLERANCE)
    np.testing.assert_array_equal(filters.repeat_cells(cells, side, shape), cells[:, rows // side, columns // side])


@pytest.mark.parametrize("lay_out", [lambda plane: plane.T.copy().T, lambda plane: np.repeat(plane, 2, axis=1)[:, ::2]])
def test_any_layout_of_planes_gives_the_same(lay_out):
    plane = texture((20, 24))
    same = lay_out(plane)

    for change in (
        lambda plane: filters.smooth(plane, 1.0),
        lambda plane: filters.average_cells(plane, 4),
        lambda plane: filters.interpolate_cells(plane, 2, (40, 48)),
    ):
        np.testing.assert_array_equal(change(same), change(plane))


@pytest.mark.parametrize("side", [2, 4, 8])
@pytest.mark.parametrize("start", [16, 208])
def test_a_window_has_the_cells_of_the_whole_plane_to_the_last_bit(side, start):
    """Tiles that end with the image have fewer columns than it, and its last ones must not depend on that."""
    plane = texture((24, 350))
    window = np.ascontiguousarray(plane[:, start:])

    np.testing.assert_array_equal(filters.average_cells(window, side), filters.average_cells(plane, side)[:, start // side :])
    np.testing.assert_array_equal(filters.smooth(window, 2.0)[:, 6:], filters.smooth(plane, 2.0)[:, start + 6 :])
