"""The clean-up of decision maps: each step on maps small enough to see the answer, and against its formula written as loops."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decisions import follow_neighbors, remove_islands
from qmcif_engine.kernels.regions import mark_small_regions

NO_LIMIT = 1e9


def index_of(rows):
    return np.array([[int(digit) for digit in row] for row in rows], np.uint16)


def halves(shape=(24, 30)):
    return np.broadcast_to((np.arange(shape[1]) >= shape[1] // 2).astype(np.uint16), shape).copy()


# --- following neighbors ---


def test_undecided_pixels_get_the_decision_of_the_nearest_decided_one():
    index = index_of(["0222222223"])
    is_decided = np.array([[True] + [False] * 8 + [True]])

    followed = follow_neighbors(index, is_decided, reach_px=64)

    np.testing.assert_array_equal(followed, index_of(["0000033333"]))
    assert followed.dtype == np.uint16


def test_beyond_the_reach_the_tie_rule_stays():
    index = index_of(["0222222223"])
    is_decided = np.array([[True] + [False] * 8 + [True]])

    np.testing.assert_array_equal(follow_neighbors(index, is_decided, reach_px=2), index_of(["0002222333"]))


@pytest.mark.parametrize("reach_px", [1, 3, 50])
def test_following_agrees_with_a_search_for_the_nearest_decided_pixel(reach_px):
    generator = np.random.default_rng(reach_px)
    index = generator.integers(0, 4, (17, 19)).astype(np.uint16)
    is_decided = generator.random((17, 19)) < 0.06

    followed = follow_neighbors(index, is_decided, reach_px=reach_px)

    places = np.argwhere(is_decided)
    for row, column in np.ndindex(index.shape):
        distances = np.hypot(*(places - (row, column)).T)
        if distances.min() > reach_px:
            assert followed[row, column] == index[row, column]
        else:
            nearest = places[distances == distances.min()]
            assert followed[row, column] in index[tuple(nearest.T)]


def test_decided_pixels_keep_their_decision():
    generator = np.random.default_rng(1)
    index = generator.integers(0, 3, (20, 20)).astype(np.uint16)
    is_decided = generator.random((20, 20)) < 0.3

    followed = follow_neighbors(index, is_decided, reach_px=9)

    np.testing.assert_array_equal(followed[is_decided], index[is_decided])


@pytest.mark.parametrize(
    ("is_decided", "reach_px"), [(np.ones((4, 5), bool), 9), (np.zeros((4, 5), bool), 9), (np.eye(4, 5, dtype=bool), 0)]
)
def test_nothing_follows_where_all_or_none_are_decided_or_the_reach_is_zero(is_decided, reach_px):
    index = np.arange(20, dtype=np.uint16).reshape(4, 5)

    np.testing.assert_array_equal(follow_neighbors(index, is_decided, reach_px=reach_px), index)


# --- islands ---


def test_small_islands_join_what_is_around_them():
    index = index_of(["0000000000", "0110000000", "0110000000", "0000000200", "0000000000"])

    cleaned = remove_islands(index, largest_area_px=4, longest_side_px=NO_LIMIT)

    np.testing.assert_array_equal(cleaned, 0)
    assert cleaned.dtype == np.uint16


def small_regions_by_labels(index, *, largest_area_px, longest_side_px):
    """Every value labeled by itself."""
    is_small = np.zeros(index.shape, bool)
    for value in np.unique(index):
        regions, _ = ndimage.label(index == value)
        for number, (rows, columns) in enumerate(ndimage.find_objects(regions), start=1):
            side = max(rows.stop - rows.start, columns.stop - columns.start)
            if np.count_nonzero(regions == number) <= largest_area_px and side <= longest_side_px:
                is_small |= regions == number
    return is_small


@pytest.mark.parametrize("n_labels", [2, 3, 9])
@pytest.mark.parametrize("shape", [(40, 50), (1, 30), (30, 1), (1, 1)])
def test_islands_are_the_small_connected_regions_of_every_value(shape, n_labels):
    generator = np.random.default_rng(n_labels)
    smooth = ndimage.gaussian_filter(generator.normal(size=(n_labels, *shape)), (0, 1.5, 1.5))
    index = smooth.argmax(axis=0).astype(np.uint16)
    limits = {"largest_area_px": 25.5, "longest_side_px": 9.0}
    is_island = small_regions_by_labels(index, **limits)

    cleaned = remove_islands(index, **limits)

    np.testing.assert_array_equal(cleaned, follow_neighbors(index, ~is_island, reach_px=9))


def test_region_that_winds_back_to_itself_is_one():
    index = index_of(["11111", "10001", "10101", "10100", "10111"])

    np.testing.assert_array_equal(remove_islands(index, largest_area_px=12, longest_side_px=NO_LIMIT)[0], 1)
    is_marked = np.empty(index.shape, bool)
    mark_small_regions(index, 17, NO_LIMIT, is_marked)
    np.testing.assert_array_equal(is_marked, True)


def test_islands_above_the_area_are_kept():
    index = index_of(["000000", "011000", "011010", "000000"])

    np.testing.assert_array_equal(
        remove_islands(index, largest_area_px=3, longest_side_px=NO_LIMIT), index_of(["000000", "011000", "011000", "000000"])
    )


def test_thin_long_islands_are_kept():
    index = np.zeros((12, 30), np.uint16)
    index[5, 3:27] = 1
    index[9, 3:6] = 1

    cleaned = remove_islands(index, largest_area_px=24, longest_side_px=10)

    assert (cleaned[5, 3:27] == 1).all()
    assert (cleaned[9] == 0).all()
    np.testing.assert_array_equal(remove_islands(index, largest_area_px=24, longest_side_px=24), 0)


def test_tall_islands_count_by_their_height_too():
    index = np.zeros((30, 12), np.uint16)
    index[3:27, 5] = 1

    np.testing.assert_array_equal(remove_islands(index, largest_area_px=24, longest_side_px=10), index)


def test_pixels_that_touch_at_a_corner_only_are_two_islands():
    index = np.zeros((8, 8), np.uint16)
    index[2:4, 2:4] = 1
    index[4:6, 4:6] = 1

    np.testing.assert_array_equal(remove_islands(index, largest_area_px=4, longest_side_px=NO_LIMIT), 0)


def test_an_island_between_two_regions_is_shared_by_the_nearer_of_them():
    index = index_of(["00000222211111"] * 9)
    index[:4], index[5:] = index_of(["00000001111111"]), index_of(["00000001111111"])

    cleaned = remove_islands(index, largest_area_px=4, longest_side_px=NO_LIMIT)

    assert set(np.unique(cleaned)) == {0, 1}
    np.testing.assert_array_equal(cleaned[:4], index[:4])


def test_holes_of_any_image_are_islands():
    index = np.ones((9, 9), np.uint16)
    index[4, 4] = 0

    np.testing.assert_array_equal(remove_islands(index, largest_area_px=1, longest_side_px=1), 1)


@pytest.mark.parametrize("index", [np.zeros((5, 5), np.uint16), halves((4, 4))])
def test_a_map_that_is_all_island_stays_as_it_is(index):
    np.testing.assert_array_equal(remove_islands(index, largest_area_px=100, longest_side_px=100), index)


def test_clean_up_leaves_its_argument_alone():
    index = index_of(["0000", "0100", "0000"])
    kept = index.copy()

    remove_islands(index, largest_area_px=1, longest_side_px=1)
    follow_neighbors(index, index == 1, reach_px=5)

    np.testing.assert_array_equal(index, kept)
