"""The grid of cells: what belongs to a cell, and windows around cells."""

import numpy as np
import pytest
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import (
    SMALL_WINDOW,
    all_in_cells,
    average_cells,
    cell_grid,
    count_pixels,
    mean_around,
    odd_cells,
    sample_cells,
    spread_cells,
)
from scipy import ndimage

SHAPES = [(1, 1), (1, 9), (9, 1), (3, 4), (4, 4), (8, 12), (5, 6), (23, 17)]


def rounding(dtype):
    """Of a mean of values from 0 to 1."""
    return 64 * np.finfo(dtype).eps


def cells_plainly(plane, reduce):
    """Apply a function to the pixels of each cell."""
    rows, columns = (range(0, side, CELL_PX) for side in plane.shape)
    return np.array([[reduce(plane[y : y + CELL_PX, x : x + CELL_PX]) for x in columns] for y in rows])


def random_plane(shape, dtype=np.float64):
    return np.random.default_rng(shape).random(shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_grid_has_a_cell_for_every_pixel_and_none_without(shape):
    assert cell_grid(shape) == cells_plainly(np.zeros(shape), np.size).shape


@pytest.mark.parametrize("row_step", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_pixels_are_counted_in_each_cell(shape, row_step):
    is_counted = np.zeros(shape)
    is_counted[::row_step] = 1

    np.testing.assert_array_equal(count_pixels(shape, row_step=row_step), cells_plainly(is_counted, np.sum))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_cell_has_a_pixel_in_every_other_row(shape):
    """Sums over every other row are divided by these counts."""
    assert count_pixels(shape, row_step=2).min() >= 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_average_is_that_of_the_pixels_a_cell_has(shape, dtype):
    plane = random_plane(shape, dtype)

    averages = average_cells(plane)

    assert averages.dtype == dtype
    np.testing.assert_allclose(averages, cells_plainly(plane.astype(np.float64), np.mean), rtol=0, atol=rounding(dtype))


@pytest.mark.parametrize("shape", SHAPES)
def test_cell_is_whole_when_no_pixel_of_it_is_missing(shape):
    plane = random_plane(shape) > 0.06

    np.testing.assert_array_equal(all_in_cells(plane), cells_plainly(plane, np.all))
    assert all_in_cells(np.ones(shape, bool)).all()
    assert not all_in_cells(np.zeros(shape, bool)).any()


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, bool])
@pytest.mark.parametrize("shape", SHAPES)
def test_pixels_get_the_value_of_their_cell_and_give_it_back(shape, dtype):
    cells = (10 * random_plane(cell_grid(shape))).astype(dtype)

    spread = spread_cells(cells, shape)

    assert spread.shape == shape
    assert spread.dtype == dtype
    assert spread.flags.c_contiguous
    for y, x in np.ndindex(shape):
        assert spread[y, x] == cells[y // CELL_PX, x // CELL_PX]
    np.testing.assert_array_equal(sample_cells(spread), cells)


@pytest.mark.parametrize("shape", SHAPES)
def test_spread_averages_average_to_themselves(shape):
    cells = random_plane(cell_grid(shape))

    np.testing.assert_allclose(average_cells(spread_cells(cells, shape)), cells, rtol=0, atol=rounding(np.float64))


def test_sample_is_the_center_of_a_cell_or_the_last_pixel_of_one_cut_off():
    plane = np.arange(5 * 10).reshape(5, 10)

    np.testing.assert_array_equal(sample_cells(plane), plane[[2, 4]][:, [2, 6, 9]])


def test_number_of_cells_is_odd_and_the_nearest():
    for side_px in range(1, 200):
        n_cells = odd_cells(side_px)
        misses = {n: abs(n * CELL_PX - side_px) for n in range(1, 101, 2)}

        assert n_cells % 2 == 1
        assert misses[n_cells] == min(misses.values())


def averaged_plainly(levels, side_cells):
    """Mean over a window that may end within a cell: each cell is cut into many small ones, over which an even window slides."""
    fineness = 40
    fine = np.repeat(np.repeat(levels.astype(np.float64), fineness, axis=0), fineness, axis=1)
    margin = 3 * fineness
    fine = np.pad(fine, margin, mode="symmetric")
    side = round(side_cells * fineness)
    assert side == side_cells * fineness
    assert side % 2 == 0
    result = np.empty(levels.shape)
    for y, x in np.ndindex(levels.shape):
        top, left = (margin + number * fineness + fineness // 2 - side // 2 for number in (y, x))
        result[y, x] = fine[top : top + side, left : left + side].mean()
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (2, 3), (7, 9)])
@pytest.mark.parametrize("side_px", [CELL_PX, 5, 7, 9, 12, 13, 17, 19])
def test_small_window_may_end_within_a_cell(side_px, shape, dtype):
    assert side_px / CELL_PX < SMALL_WINDOW
    levels = random_plane(shape, dtype)

    averaged = mean_around(levels, side_px=side_px)

    assert averaged.dtype == dtype
    np.testing.assert_allclose(averaged, averaged_plainly(levels, side_px / CELL_PX), rtol=0, atol=rounding(dtype))


@pytest.mark.parametrize("side_px", [1, 2, 3])
def test_window_smaller_than_a_cell_is_the_cell(side_px):
    levels = random_plane((5, 7))

    np.testing.assert_allclose(mean_around(levels, side_px=side_px), levels, rtol=0, atol=rounding(np.float64))


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (11, 14)])
@pytest.mark.parametrize("side_px", [20, 27, 55, 111])
def test_large_window_has_an_odd_number_of_whole_cells(side_px, shape):
    levels = random_plane(shape)

    averaged = mean_around(levels, side_px=side_px)

    expected = ndimage.uniform_filter(levels, odd_cells(side_px), mode="reflect")
    np.testing.assert_allclose(averaged, expected, rtol=0, atol=rounding(np.float64))


@pytest.mark.parametrize("side_px", [5, 13, 19, 20, 55])
def test_mean_is_scaled(side_px):
    levels = random_plane((9, 8))

    scaled = mean_around(levels, side_px=side_px, scale=0.3)

    np.testing.assert_allclose(scaled, 0.3 * mean_around(levels, side_px=side_px), rtol=0, atol=rounding(np.float64))


@pytest.mark.parametrize("side_px", [5, 13, 19, 20, 55])
def test_mean_of_even_levels_is_their_level(side_px):
    np.testing.assert_allclose(mean_around(np.full((9, 8), 0.7), side_px=side_px), 0.7, rtol=0, atol=rounding(np.float64))
