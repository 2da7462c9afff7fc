"""The clean-up of decision maps: each step on maps small enough to see the answer, and against its formula written as loops."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config import DecisionConfig
from qmcif_engine.decisions import blend_along_edges, follow_neighbors, remove_islands
from qmcif_engine.filters import guided_filter
from qmcif_engine.kernels.regions import mark_small_regions
from qmcif_engine.patches import edge_band

ROUNDINGS = 64
NO_LIMIT = 1e9


def index_of(rows):
    return np.array([[int(digit) for digit in row] for row in rows], np.uint16)


def halves(shape=(24, 30)):
    return np.broadcast_to((np.arange(shape[1]) >= shape[1] // 2).astype(np.uint16), shape).copy()


def texture(shape, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, shape)


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
    blend_along_edges(index, texture(index.shape), DecisionConfig(blend_radius_px=1))

    np.testing.assert_array_equal(index, kept)


# --- blending ---


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_images", [2, 3, 5])
def test_shares_in_the_band_add_up_to_one_and_none_is_negative(n_images, dtype):
    generator = np.random.default_rng(n_images)
    index = np.repeat(np.repeat(generator.integers(0, n_images, (5, 6)), 7, axis=0), 7, axis=1).astype(np.uint16)

    blend = blend_along_edges(index, texture(index.shape).astype(dtype), DecisionConfig())

    assert blend.weights.dtype == dtype
    assert blend.weights.shape == (len(blend.sources), blend.band.sum())
    assert blend.band.any()
    assert set(blend.sources) == set(range(n_images))
    np.testing.assert_allclose(blend.weights.toarray().sum(axis=0), 1, rtol=0, atol=n_images * np.finfo(dtype).eps)
    assert blend.weights.toarray().min() >= 0


def test_index_names_the_image_with_the_largest_share():
    index = halves()

    blend = blend_along_edges(index, texture(index.shape), DecisionConfig())

    led = blend.source_index[blend.band]
    shares = dict(zip(blend.sources, blend.weights.toarray(), strict=True))
    own = np.where(led == 0, shares[0], shares[1])
    assert (own >= 0.5 - np.finfo(np.float64).eps).all()
    np.testing.assert_array_equal(blend.source_index[~blend.band], index[~blend.band])


@pytest.mark.parametrize("radius_px", [1, 2, 4])
def test_band_is_what_the_filter_reaches_from_a_decision_edge(radius_px):
    index = halves((20, 60))

    blend = blend_along_edges(index, texture(index.shape), DecisionConfig(blend_radius_px=radius_px))

    # the filter is two windows of that radius, one after the other
    expected = np.zeros(index.shape, bool)
    expected[:, 30 - 2 * radius_px : 30 + 2 * radius_px] = True
    np.testing.assert_array_equal(blend.band, expected)


def test_sources_are_those_of_the_band_only():
    index = halves((20, 60)) + np.uint16(3)
    index[:, :5] = 0

    blend = blend_along_edges(index, texture(index.shape), DecisionConfig(blend_radius_px=1))

    assert blend.sources == (0, 3, 4)
    assert not set(blend.sources) & {1, 2}


@pytest.mark.parametrize(("index", "radius_px"), [(halves(), 0), (np.full((9, 9), 2, np.uint16), 2), (np.zeros((1, 1), np.uint16), 2)])
def test_there_is_no_band_without_a_radius_or_without_an_edge(index, radius_px):
    blend = blend_along_edges(index, texture(index.shape), DecisionConfig(blend_radius_px=radius_px))

    assert not blend.band.any()
    assert blend.sources == ()
    np.testing.assert_array_equal(blend.source_index, index)


def test_blend_is_soft_on_a_flat_guide_and_sharp_along_an_edge_of_the_picture():
    index = halves((21, 40))
    flat, edge = np.full(index.shape, 0.5), index.astype(np.float64)
    config = DecisionConfig(blend_radius_px=2, blend_edge_contrast=0.05)

    soft, sharp = blend_along_edges(index, flat, config), blend_along_edges(index, edge, config)

    own_soft = np.where(index[soft.band] == 0, *soft.weights.toarray())
    own_sharp = np.where(index[sharp.band] == 0, *sharp.weights.toarray())
    assert own_soft.min() < 0.65
    assert own_sharp.min() > 0.95


def test_decision_edge_moves_to_the_edge_of_the_picture_next_to_it():
    picture_edge = 20
    guide = np.broadcast_to((np.arange(40) >= picture_edge).astype(np.float64), (21, 40))
    index = np.broadcast_to((np.arange(40) >= picture_edge + 1).astype(np.uint16), (21, 40))

    blend = blend_along_edges(index, guide, DecisionConfig(blend_radius_px=2, blend_edge_contrast=0.05))

    np.testing.assert_array_equal(blend.source_index[:, picture_edge], 1)


@pytest.mark.parametrize("radius_px", [1, 2])
def test_shares_of_a_large_map_are_those_filtered_over_the_whole_picture(radius_px):
    """Longer and wider than a cell, with edges across and along its borders."""
    shape, config = (300, 280), DecisionConfig(blend_radius_px=radius_px)
    index = np.kron(np.random.default_rng(2).integers(0, 4, (5, 4)), np.ones((60, 70), int)).astype(np.uint16)
    guide = texture(shape).astype(np.float32)
    band = edge_band(index, reach_px=2 * radius_px)
    shares = [guided_filter((index == n).astype(np.float32), guide, radius_px=radius_px, edge_contrast=0.1)[band] for n in range(4)]
    clipped = np.clip(shares, 0, 1)

    blend = blend_along_edges(index, guide, config)

    assert blend.sources == (0, 1, 2, 3)
    np.testing.assert_array_equal(blend.band, band)
    np.testing.assert_allclose(blend.weights.toarray(), clipped / clipped.sum(axis=0), rtol=0, atol=1e-5)
