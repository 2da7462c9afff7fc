"""The places shown enlarged are really those where the pictures differ most."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.comparison.html import Place, find_places


def test_planted_differences_are_found_the_larger_first() -> None:
    first = np.full((300, 400, 3), 100, np.uint8)
    second = first.copy()
    second[200:230, 300:330, 1] = 160
    second[50:80, 60:90, 2] = 130
    larger, smaller = find_places([first, second])

    assert larger.row <= 200
    assert larger.row + larger.side_px >= 230
    assert larger.column <= 300
    assert larger.column + larger.side_px >= 330
    assert smaller.cut(second)[..., 2].max() == 130


def test_the_first_place_has_the_largest_spread_of_all_windows() -> None:
    generator = np.random.default_rng(3)
    pictures = [generator.integers(0, 256, (70, 90), dtype=np.uint8) for _ in range(3)]
    (place,) = find_places(pictures, n_places=1)
    inner = np.zeros((70, 90))
    inner[8:-8, 8:-8] = np.ptp(np.stack(pictures).astype(int), axis=0)[8:-8, 8:-8]
    side = place.side_px
    sums = {
        (row, column): inner[row : row + side, column : column + side].sum()
        for row in range(70 - side + 1)
        for column in range(90 - side + 1)
    }

    assert sums[place.row, place.column] == max(sums.values())


def test_places_do_not_overlap_and_lie_inside() -> None:
    generator = np.random.default_rng(4)
    pictures = [generator.integers(0, 256, (200, 260, 3), dtype=np.uint8) for _ in range(2)]
    first, second = find_places(pictures)

    assert max(abs(first.row - second.row), abs(first.column - second.column)) >= first.side_px
    for place in (first, second):
        assert place.cut(pictures[0]).shape == (place.side_px, place.side_px, 3)


def test_a_border_is_left_out_where_there_is_room() -> None:
    first = np.zeros((200, 200), np.uint8)
    second = first.copy()
    second[:8], second[100, 100] = 255, 1

    (place, *_) = find_places([first, second])
    assert place.cut(second).max() == 1


def test_equal_pictures_have_no_place() -> None:
    picture = np.full((60, 60, 3), 9, np.uint8)

    assert find_places([picture, picture.copy()]) == []


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (48, 48), (49, 120)])
def test_small_pictures_have_at_least_one_place(shape: tuple[int, int]) -> None:
    places = find_places([np.zeros(shape, np.uint8), np.full(shape, 9, np.uint8)])

    assert places
    side = min(*shape, 48)
    assert all(place.cut(np.ones(shape, np.uint8)).shape == (side, side) for place in places)


def test_a_place_is_cut_by_row_and_column() -> None:
    picture = np.arange(100, dtype=np.uint8).reshape(10, 10)

    np.testing.assert_array_equal(Place(2, 5, 2).cut(picture), [[25, 26], [35, 36]])
