"""Patches: cutting and joining, padding, sums, means and counts in windows, and the side of a detail patch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qmcif_engine.config.fusion_config import MethodConfig
from qmcif_engine.method import patches

EPS_SINGLE = float(np.finfo(np.float32).eps)
MEAN_TOLERANCE = 4 * EPS_SINGLE
"""Of a mean in float32, as a share of the largest sample."""

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
SIDES = (5, 8, 10)

grids = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6))  # planes, patch rows, patch columns, side
lengths = st.integers(1, 2000)
odd_sides = st.integers(0, 3).map(lambda half: 2 * half + 1)


def numbered(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def windows(plane, side_px):
    """Return every window centered on a pixel, shape (h, w, side, side), of a plane that continues by reflection."""
    padded = np.pad(plane, side_px // 2, mode="symmetric")
    return np.lib.stride_tricks.sliding_window_view(padded, (side_px, side_px))


# cut and join


@PROPERTY
@given(grids)
def test_joining_undoes_cutting(grid):
    n_planes, rows, columns, side = grid
    planes = numbered(n_planes, rows * side, columns * side)
    cut = patches.cut_patches(planes, patch_px=side)

    assert cut.shape == (n_planes * side**2, rows * columns)
    np.testing.assert_array_equal(patches.join_patches(cut, shape=planes.shape[1:], patch_px=side), planes)


@pytest.mark.parametrize("side", SIDES)
def test_each_column_is_one_patch_in_row_major_order_with_component_rows_stacked(side):
    planes = numbered(3, 2 * side, 3 * side)
    cut = patches.cut_patches(planes, patch_px=side)

    for row, column in np.ndindex(2, 3):
        patch = planes[:, row * side : (row + 1) * side, column * side : (column + 1) * side]
        np.testing.assert_array_equal(cut[:, row * 3 + column], patch.reshape(-1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_cutting_does_not_depend_on_the_memory_order(order):
    planes = np.asarray(numbered(3, 10, 15), order=order)

    np.testing.assert_array_equal(patches.cut_patches(planes, patch_px=5), patches.cut_patches(numbered(3, 10, 15), patch_px=5))


# padding


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 9), (2, 3), (13, 21), (40, 40)])
def test_padding_reflects_at_the_lower_right_and_repeats_the_border_pixel(shape, side):
    planes = numbered(2, *shape)
    padded = patches.pad_to_grid(planes, patch_px=side)

    def mirrored(position, length):
        """Walk to the end, then back, and so on; each turning pixel counts twice."""
        turn = position % (2 * length)
        return min(turn, 2 * length - 1 - turn)

    for row, column in np.ndindex(padded.shape[1:]):
        np.testing.assert_array_equal(padded[:, row, column], planes[:, mirrored(row, shape[0]), mirrored(column, shape[1])])


def test_padding_adds_nothing_to_whole_patches_and_keeps_leading_axes():
    stack = numbered(2, 3, 16, 24)

    np.testing.assert_array_equal(patches.pad_to_grid(stack, patch_px=8), stack)
    assert patches.pad_to_grid(stack, patch_px=10).shape == (2, 3, 20, 30)


# sums and values of base patches


@pytest.mark.parametrize("side", SIDES)
def test_patch_sums_are_the_sums_of_the_columns_of_the_cut(side):
    plane = np.random.default_rng(0).integers(0, 256, (2 * side, 3 * side)).astype(np.float32)
    by_columns = patches.cut_patches(plane[None], patch_px=side).sum(axis=0).reshape(2, 3)

    np.testing.assert_array_equal(patches.sum_patches(plane, patch_px=side), by_columns)


def test_patch_sums_accumulate_in_double_precision():
    plane = np.ones((8, 8), np.float32)
    plane[0, 0] = 2**24  # the next whole number is not a float32
    total = patches.sum_patches(plane, patch_px=8)

    assert total.dtype == np.float64
    np.testing.assert_array_equal(total, [[2**24 + 63]])


@pytest.mark.parametrize("side", SIDES)
def test_spreading_gives_each_pixel_the_value_of_its_patch(side):
    values = np.arange(6, dtype=np.uint16).reshape(2, 3)
    spread = patches.spread_patches(values, shape=(2 * side, 3 * side - 1), patch_px=side)

    assert spread.dtype == np.uint16
    assert spread.shape == (2 * side, 3 * side - 1)
    for row, column in np.ndindex(spread.shape):
        assert spread[row, column] == values[row // side, column // side]


@PROPERTY
@given(arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.floats(0, 255, width=32)), odd_sides)
def test_window_mean_averages_each_centered_window_of_the_reflected_image(plane, side_px):
    expected = windows(plane.astype(np.float64), side_px).mean(axis=(2, 3))

    np.testing.assert_allclose(patches.window_mean(plane, side_px=side_px), expected, rtol=0, atol=MEAN_TOLERANCE * 255)


def test_window_mean_does_not_mix_planes():
    planes = np.random.default_rng(0).uniform(0, 255, (2, 3, 9, 11)).astype(np.float32)
    averaged = patches.window_mean(planes, side_px=5)

    for index in np.ndindex(2, 3):
        np.testing.assert_array_equal(averaged[index], patches.window_mean(planes[index], side_px=5))


@PROPERTY
@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))), odd_sides)
def test_counts_are_whole_and_those_of_each_centered_window(is_marked, side_px):
    expected = windows(is_marked, side_px).sum(axis=(2, 3))

    np.testing.assert_array_equal(patches.count_in_windows(is_marked, side_px=side_px), expected)


def test_counts_in_the_largest_windows_are_exact():
    is_marked = np.random.default_rng(1).random((130, 140)) < 0.5

    np.testing.assert_array_equal(patches.count_in_windows(is_marked, side_px=99), windows(is_marked, 99).sum(axis=(2, 3)))


# side of a detail patch


@pytest.mark.parametrize(("shape", "side"), [((520, 520), 13), ((560, 560), 15), ((300, 200), 3), ((10, 10), 3), ((6000, 4000), 99)])
def test_detail_side_is_the_published_share_of_the_pixel_count_made_odd(shape, side):
    assert patches.detail_patch_side(shape, MethodConfig()) == side


@PROPERTY
@given(st.tuples(lengths, lengths), st.integers(0, 99))
def test_detail_side_is_odd_and_fits_into_the_image(shape, wanted):
    side = patches.detail_patch_side(shape, MethodConfig(detail_patch_px=wanted))

    assert side % 2 == 1
    assert 1 <= side <= min(shape)


@pytest.mark.parametrize(("wanted", "side"), [(1, 1), (7, 7), (12, 11), (99, 99)])
def test_detail_side_that_was_asked_for_is_taken_without_the_limits(wanted, side):
    assert patches.detail_patch_side((520, 520), MethodConfig(detail_patch_px=wanted)) == side


@pytest.mark.parametrize(("shape", "side"), [((1, 1), 1), ((2, 2), 1), ((1, 500), 1), ((500, 3), 3), ((6, 500), 3), ((2000, 60), 5)])
def test_detail_side_shrinks_with_an_image_smaller_than_a_patch(shape, side):
    assert patches.detail_patch_side(shape, MethodConfig()) == side
