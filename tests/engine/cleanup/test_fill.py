"""Pixels without evidence of their own: on maps small enough to see the answer, and against a search written as loops."""

import numpy as np
import pytest

from qmcif_engine.cleanup.fill import follow_neighbors


def index_of(rows):
    return np.array([[int(digit) for digit in row] for row in rows], np.uint16)


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


def test_following_leaves_its_argument_alone():
    index = index_of(["0000", "0100", "0000"])
    kept = index.copy()

    followed = follow_neighbors(index, index == 1, reach_px=5)

    np.testing.assert_array_equal(followed, 1)
    np.testing.assert_array_equal(index, kept)
