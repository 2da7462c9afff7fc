"""Rectangles hold everything wanted, do not overlap, and cost no more than one around all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.covering import cover

SIDE_PX, MARGIN_PX = 64, 32


def cost(windows):
    return sum((window.shape[0] * SIDE_PX + 2 * MARGIN_PX) * (window.shape[1] * SIDE_PX + 2 * MARGIN_PX) for window in windows)


def wanted(*rows):
    return np.array([[mark == "#" for mark in row] for row in rows])


@given(arrays.arrays(bool, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_everything_wanted_is_covered_once_at_no_more_than_the_cost_of_one_rectangle(is_wanted):
    windows = cover(is_wanted, side_px=SIDE_PX, margin_px=MARGIN_PX)

    times = np.zeros(is_wanted.shape, int)
    for window in windows:
        times[window.slices] += 1
    assert times.max() <= 1
    assert (times[is_wanted] == 1).all()
    if is_wanted.any():
        rows, columns = np.nonzero(is_wanted)
        assert cost(windows) <= cost([Window(rows.min(), columns.min(), rows.max() + 1, columns.max() + 1)])


def test_nothing_wanted_needs_no_rectangle():
    assert cover(np.zeros((3, 4), bool), side_px=SIDE_PX, margin_px=MARGIN_PX) == []


def test_all_wanted_is_one_rectangle():
    assert cover(np.ones((3, 4), bool), side_px=SIDE_PX, margin_px=MARGIN_PX) == [Window(0, 0, 3, 4)]


def test_blocks_far_apart_are_not_held_by_one_rectangle():
    windows = cover(wanted("##....", "......", "......", "....##"), side_px=SIDE_PX, margin_px=MARGIN_PX)

    assert sorted(windows) == [Window(0, 0, 1, 2), Window(3, 4, 4, 6)]


@pytest.mark.parametrize(("margin_px", "n_windows"), [(0, 2), (64, 1)])
def test_a_gap_is_left_out_when_that_saves_more_than_the_margins_cost(margin_px, n_windows):
    assert len(cover(wanted("#.#"), side_px=SIDE_PX, margin_px=margin_px)) == n_windows
