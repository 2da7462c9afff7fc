"""Patches: cutting and joining, padding, sums, the side of a detail patch, and votes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qmcif_engine.config.fusion_config import FocusConfig
from qmcif_engine.method import patches
from qmcif_engine.stack.window import Window

EPS_SINGLE = float(np.finfo(np.float32).eps)
MEAN_TOLERANCE = 4 * EPS_SINGLE
"""Of a mean in float32, as a share of the largest sample."""

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
SIDES = (5, 8, 10)
PAPER_LIMITS = FocusConfig(smallest_detail_patch_px=3, largest_detail_patch_px=99)

grids = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6))  # planes, patch rows, patch columns, side
lengths = st.integers(1, 2000)
odd_sides = st.integers(0, 3).map(lambda half: 2 * half + 1)


def numbered(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def windows(plane, side_px):
    """Return every window centered on a pixel, shape (h, w, side, side), of a plane that continues by reflection."""
    padded = np.pad(plane, side_px // 2, mode="symmetric")
    return np.lib.stride_tricks.sliding_window_view(padded, (side_px, side_px))


def vote_by_counting(choices, *, n_choices, side_px):
    winner = np.zeros(choices.shape, int)
    around = windows(choices, side_px)
    for pixel in np.ndindex(choices.shape):
        counts = [np.count_nonzero(around[pixel] == index) for index in range(n_choices)]
        winner[pixel] = max(index for index in range(n_choices) if counts[index] == max(counts))
    return winner


# cut and join


@PROPERTY
@given(grids)
def test_joining_undoes_cutting(grid):
    n_planes, rows, columns, side = grid
    planes = numbered(n_planes, rows * side, columns * side)
    cut = patches.cut_patches(planes, patch_px=side)

    assert cut.shape == (n_planes * side**2, rows * columns)
    np.testing.assert_array_equal(patches.join_patches(cut, shape=planes.shape[1:], patch_px=side), planes)


@PROPERTY
@given(grids)
def test_cutting_undoes_joining(grid):
    n_planes, rows, columns, side = grid
    cut = numbered(n_planes * side**2, rows * columns)
    planes = patches.join_patches(cut, shape=(rows * side, columns * side), patch_px=side)

    assert planes.shape == (n_planes, rows * side, columns * side)
    np.testing.assert_array_equal(patches.cut_patches(planes, patch_px=side), cut)


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
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (1, 9), (8, 10), (40, 40), (41, 39)])
def test_padding_is_the_least_that_whole_patches_cover(shape, side):
    rows, columns = patches.padding_to_grid(shape, patch_px=side)

    assert 0 <= rows < side
    assert 0 <= columns < side
    assert (shape[0] + rows) % side == (shape[1] + columns) % side == 0


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
    spread = patches.spread_patches(values, patch_px=side)

    assert spread.dtype == np.uint16
    assert spread.shape == (2 * side, 3 * side)
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


# side of a detail patch


@pytest.mark.parametrize(("shape", "side"), [((520, 520), 13), ((560, 560), 15), ((300, 200), 3), ((10, 10), 3), ((6000, 4000), 99)])
def test_detail_side_is_the_published_share_of_the_pixel_count_made_odd(shape, side):
    assert patches.detail_patch_side(shape, PAPER_LIMITS) == side


@pytest.mark.parametrize(("shape", "side"), [((520, 520), 13), ((300, 200), 9), ((100, 100), 9), ((6000, 4000), 17)])
def test_detail_side_keeps_to_the_default_limits(shape, side):
    assert patches.detail_patch_side(shape, FocusConfig()) == side


@PROPERTY
@given(st.tuples(lengths, lengths), st.integers(0, 99))
def test_detail_side_is_odd_and_fits_into_the_image(shape, wanted):
    side = patches.detail_patch_side(shape, FocusConfig(detail_patch_px=wanted))

    assert side % 2 == 1
    assert 1 <= side <= min(shape)


@PROPERTY
@given(st.tuples(st.integers(17, 9000), st.integers(17, 9000)))
def test_detail_side_lies_between_its_limits_where_the_image_is_large_enough(shape):
    config = FocusConfig()

    assert config.smallest_detail_patch_px <= patches.detail_patch_side(shape, config) <= config.largest_detail_patch_px


@pytest.mark.parametrize(("wanted", "side"), [(1, 1), (7, 7), (12, 11), (99, 99)])
def test_detail_side_that_was_asked_for_is_taken_without_the_limits(wanted, side):
    assert patches.detail_patch_side((520, 520), FocusConfig(detail_patch_px=wanted)) == side


@pytest.mark.parametrize(("shape", "side"), [((1, 1), 1), ((2, 2), 1), ((1, 500), 1), ((500, 3), 3), ((6, 500), 5), ((500, 8), 7)])
def test_detail_side_shrinks_with_an_image_smaller_than_a_patch(shape, side):
    assert patches.detail_patch_side(shape, FocusConfig()) == side


# votes


@pytest.mark.parametrize("side_px", [1, 3, 5, 7])
@pytest.mark.parametrize("n_choices", [2, 3, 5, 32])
def test_vote_is_won_by_the_largest_count_and_by_the_later_choice_among_equal_counts(n_choices, side_px):
    choices = np.random.default_rng(n_choices).integers(0, n_choices, (14, 19)).astype(np.uint16)
    voted = patches.vote(choices, n_choices=n_choices, side_px=side_px)

    assert voted.dtype == np.uint16
    np.testing.assert_array_equal(voted, vote_by_counting(choices, n_choices=n_choices, side_px=side_px))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5), (1, 40)])
def test_vote_equals_counting_on_images_smaller_than_the_window(shape):
    choices = np.random.default_rng(7).integers(0, 3, shape).astype(np.uint16)

    np.testing.assert_array_equal(patches.vote(choices, n_choices=3, side_px=5), vote_by_counting(choices, n_choices=3, side_px=5))


def test_vote_ties_do_not_depend_on_where_the_votes_lie():
    """Nineteen votes each for choices 1 and 2, eleven for 0: the later choice wins in every arrangement."""
    generator = np.random.default_rng(0)
    for _ in range(100):
        choices = generator.permutation(np.repeat([0, 1, 2], [11, 19, 19])).reshape(7, 7).astype(np.uint16)
        assert patches.vote(choices, n_choices=3, side_px=7)[3, 3] == 2


def test_vote_of_one_choice_alone_is_that_choice():
    np.testing.assert_array_equal(patches.vote(np.full((6, 7), 3, np.uint16), n_choices=5, side_px=5), 3)


def test_window_of_one_pixel_leaves_the_choices():
    choices = np.random.default_rng(0).integers(0, 4, (6, 7)).astype(np.uint16)

    np.testing.assert_array_equal(patches.vote(choices, n_choices=4, side_px=1), choices)


# ranks of the images


@PROPERTY
@given(
    arrays(np.float32, st.tuples(st.integers(2, 40), st.integers(1, 3), st.integers(1, 3)), elements=st.sampled_from([0.0, 1.0, 2.0, 2.5]))
)
def test_last_of_the_largest_levels_wins(levels):
    winner = patches.rank(levels).winner

    assert winner.dtype == np.uint16
    for pixel in np.ndindex(winner.shape):
        ranked = levels[(slice(None), *pixel)]
        assert winner[pixel] == max(np.flatnonzero(ranked == ranked.max()))


def test_levels_may_come_one_at_a_time_and_are_left_alone():
    levels = np.random.default_rng(0).uniform(size=(32, 4, 5))
    levels.flags.writeable = False  # writing into one would raise

    np.testing.assert_array_equal(patches.rank(iter(levels)).winner, np.argmax(levels, axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_images", [2, 3, 6])
def test_best_second_and_least_agree_with_sorting(n_images, dtype):
    levels = np.random.default_rng(n_images).integers(0, 5, (n_images, 9, 11)).astype(dtype)
    in_order = np.sort(levels, axis=0)

    ranking = patches.rank(levels)

    for found, expected in zip(ranking[1:], (in_order[-1], in_order[-2], in_order[0]), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == dtype


# bands along edges


@pytest.mark.parametrize("reach_px", [0, 1, 2, 4])
def test_edge_band_is_where_another_index_lies_within_the_square(reach_px):
    index = np.kron(np.random.default_rng(1).integers(0, 3, (3, 4)), np.ones((6, 5), int)).astype(np.uint16)
    padded = np.pad(index, reach_px, mode="symmetric")
    around = np.lib.stride_tricks.sliding_window_view(padded, (2 * reach_px + 1,) * 2)

    band = patches.edge_band(index, reach_px=reach_px)

    np.testing.assert_array_equal(band, (around != index[..., None, None]).any(axis=(2, 3)))
    assert band.any() == (reach_px > 0)


# cells, cuts and nearest pixels


def test_cells_are_disjoint_boxes_that_hold_every_wanted_pixel():
    is_wanted = np.random.default_rng(0).random((200, 150)) < 0.0005
    is_wanted[64:128, 64:128] = False
    covered = np.zeros(is_wanted.shape, int)

    cells = list(patches.cells_of(is_wanted))

    for cell in cells:
        covered[cell.slices] += 1
        box = is_wanted[cell.slices]
        assert max(cell.shape) <= patches.CELL_PX
        assert box[0].any()
        assert box[-1].any()
        assert box[:, 0].any()
        assert box[:, -1].any()
    assert len(cells) > 2
    assert covered.max() == 1
    assert covered[is_wanted].all()
    assert not list(patches.cells_of(np.zeros((70, 70), bool)))


@pytest.mark.parametrize("shape", [(30, 40), (6, 9), (2, 3), (1, 1)])
def test_cut_windows_continue_by_reflection(shape):
    planes = numbered(2, *shape)
    padded = np.pad(planes, ((0, 0), (7, 7), (7, 7)), mode="symmetric")
    for window in (Window(0, 0, *shape), Window(shape[0] // 2, 0, shape[0] // 2 + 1, 1), Window(0, shape[1] - 1, 1, shape[1])):
        cut = patches.cut_reflected(planes, window, margin_px=7)

        np.testing.assert_array_equal(cut, padded[:, window.top : window.bottom + 14, window.left : window.right + 14])
        assert cut.flags.c_contiguous


@pytest.mark.parametrize("reach_px", [0, 2, 6, 1000])
def test_nearest_value_is_found_by_distance_then_by_nearest_column_left_and_above(reach_px):
    generator = np.random.default_rng(reach_px)
    index = generator.permutation(300).reshape(15, 20).astype(np.uint16)
    is_marked, is_asking = generator.random((2, 15, 20)) < [[[0.08]], [[0.7]]]
    expected = index.copy()
    for row, column in np.argwhere(is_asking):
        ranked = sorted((np.hypot(y - row, x - column), abs(x - column), x, y) for y, x in np.argwhere(is_marked))
        if ranked[0][0] <= reach_px:
            expected[row, column] = index[ranked[0][3], ranked[0][2]]

    np.testing.assert_array_equal(patches.nearest_values(index, is_marked, is_asking, reach_px=reach_px), expected)
