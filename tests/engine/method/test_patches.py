"""Patches: cutting and joining, padding, sums, means and counts in windows, the side of a detail patch, and groups of similar ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qmcif_engine.config.fusion_config import MethodConfig
from qmcif_engine.method import patches
from qmcif_engine.method.operators import solve_screened

MEAN_TOLERANCE = 4 * float(np.finfo(np.float32).eps)
"""Of a mean in float32, as a share of the largest sample."""

PROPERTY = settings(deadline=None, max_examples=25, derandomize=True)
lengths = st.integers(1, 2000)
odd_sides = st.integers(0, 3).map(lambda half: 2 * half + 1)


def numbered(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def windows(plane, side_px):
    """Return every window centered on a pixel, shape (h, w, side, side), of a plane that continues by reflection."""
    padded = np.pad(plane, side_px // 2, mode="symmetric")
    return np.lib.stride_tricks.sliding_window_view(padded, (side_px, side_px))


@PROPERTY
@given(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6)))
def test_patches_are_cut_in_row_major_order_summed_spread_and_joined_again(grid):
    n_planes, rows, columns, side = grid
    planes = numbered(n_planes, rows * side, columns * side)
    # component rows are stacked
    expected = planes.reshape(n_planes, rows, side, columns, side).transpose(0, 2, 4, 1, 3).reshape(n_planes * side**2, rows * columns)

    cut = patches.cut_patches(planes, patch_px=side)
    sums = patches.sum_patches(planes[0], patch_px=side)
    spread = patches.spread_patches(sums.astype(np.uint16), shape=(rows * side, columns * side - 1), patch_px=side)

    np.testing.assert_array_equal(cut, expected)
    np.testing.assert_array_equal(patches.cut_patches(np.asfortranarray(planes), patch_px=side), expected)
    np.testing.assert_array_equal(patches.join_patches(cut, shape=planes.shape[1:], patch_px=side), planes)
    np.testing.assert_array_equal(sums, expected[: side**2].sum(axis=0, dtype=float).reshape(rows, columns))
    assert spread.dtype == np.uint16
    np.testing.assert_array_equal(spread, sums.astype(np.uint16).repeat(side, axis=0).repeat(side, axis=1)[:, :-1])


def test_patch_sums_accumulate_in_double_precision():
    plane = np.ones((8, 8), np.float32)
    plane[0, 0] = 2**24  # the next whole number is not a float32

    np.testing.assert_array_equal(patches.sum_patches(plane, patch_px=8), [[2**24 + 63]])


@pytest.mark.parametrize("side", [5, 8, 10])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 9), (13, 21), (40, 40)])
def test_padding_reflects_at_the_lower_right_and_repeats_the_border_pixel(shape, side):
    planes = numbered(2, 3, *shape)

    padded = patches.pad_to_grid(planes, patch_px=side)

    np.testing.assert_array_equal(padded, np.pad(planes, ((0, 0), (0, 0), *((0, -length % side) for length in shape)), mode="symmetric"))


@PROPERTY
@given(arrays(np.float32, st.tuples(st.just(2), st.integers(1, 9), st.integers(1, 9)), elements=st.floats(0, 255, width=32)), odd_sides)
def test_means_and_counts_are_those_of_each_centered_window_of_the_reflected_image(planes, side_px):
    averaged = patches.window_mean(planes, side_px=side_px)

    for plane, average in zip(planes, averaged, strict=True):
        expected = windows(plane.astype(np.float64), side_px).mean(axis=(2, 3))
        np.testing.assert_allclose(average, expected, rtol=0, atol=MEAN_TOLERANCE * 255)
        is_marked = plane > 100
        np.testing.assert_array_equal(patches.count_in_windows(is_marked, side_px=side_px), windows(is_marked, side_px).sum(axis=(2, 3)))


def test_counts_in_the_largest_windows_are_exact():
    is_marked = np.random.default_rng(1).random((130, 140)) < 0.5

    np.testing.assert_array_equal(patches.count_in_windows(is_marked, side_px=99), windows(is_marked, 99).sum(axis=(2, 3)))


@pytest.mark.parametrize(
    ("shape", "wanted", "side"),
    # the published share of the pixel count made odd, smaller in an image smaller than a patch; what was asked for without the limits
    [
        *(((520, 520), 0, 13), ((560, 560), 0, 15), ((300, 200), 0, 3), ((10, 10), 0, 3), ((6000, 4000), 0, 99)),
        *(((1, 1), 0, 1), ((2, 2), 0, 1), ((1, 500), 0, 1), ((500, 3), 0, 3), ((6, 500), 0, 3), ((2000, 60), 0, 5)),
        *(((520, 520), wanted, side) for wanted, side in ((1, 1), (7, 7), (12, 11), (99, 99))),
    ],
)
def test_detail_side_is_the_published_one_or_that_asked_for(shape, wanted, side):
    assert patches.detail_patch_side(shape, MethodConfig(detail_patch_px=wanted)) == side


@PROPERTY
@given(st.tuples(lengths, lengths), st.integers(0, 99))
def test_detail_side_is_odd_and_fits_into_the_image(shape, wanted):
    side = patches.detail_patch_side(shape, MethodConfig(detail_patch_px=wanted))

    assert side % 2 == 1
    assert 1 <= side <= min(shape)


# groups


def group(columns, n_groups=8, seed=0):
    """Groups of patches, which are a partition and the same on every run."""
    columns = columns.astype(np.float32)
    columns.flags.writeable = False  # writing into them would raise
    groups, again = (patches.group_patches(columns, n_groups=n_groups, seed=seed) for _ in range(2))
    assert all(len(members) for members in groups)
    assert [members.tolist() for members in groups] == [members.tolist() for members in again]
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(columns.shape[1]))
    return groups


def random_patches(n_patches):
    return np.random.default_rng(0).uniform(0, 255, (75, n_patches))


@pytest.mark.parametrize(("n_patches", "n_groups", "seed"), [(1, 1, 0), (2, 8, 1), (7, 8, 0), (9, 256, 5), (300, 2, 12345), (500, 8, 0)])
def test_groups_name_every_patch_once_and_are_not_more_than_asked_for(n_patches, n_groups, seed):
    assert len(group(random_patches(n_patches), n_groups, seed)) <= min(n_groups, n_patches)


@pytest.mark.parametrize("n_distinct", [1, 3, 7])
@pytest.mark.parametrize("n_copies", [1, 500])
def test_there_is_one_group_for_each_distinct_patch_where_they_are_few(n_distinct, n_copies):
    groups = group(np.repeat(random_patches(n_distinct), n_copies, axis=1))

    np.testing.assert_array_equal(np.sort([members[0] // n_copies for members in groups]), np.arange(n_distinct))


def test_two_kinds_of_patches_come_apart():
    kinds = np.random.default_rng(0).integers(0, 2, 200)
    groups = group(random_patches(200) * 0.05 + 200 * kinds, n_groups=2)  # dark ones and bright ones

    assert [len(np.unique(kinds[members])) for members in groups] == [1, 1]


@pytest.mark.parametrize("level", [0.0, 0.1, 127.3, 255.0])
def test_constant_image_is_grouped_without_complaint(level):
    """The base layer of a constant image differs from patch to patch by rounding."""
    image = patches.pad_to_grid(np.full((3, 33, 47), level, np.float32), patch_px=8)

    group(patches.cut_patches(solve_screened(image, screening=1.0), patch_px=8))
