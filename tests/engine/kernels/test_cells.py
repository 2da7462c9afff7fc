"""Boxes around wanted pixels, and flat copies of parts of an image."""

import numpy as np
import pytest

from qmcif_engine.kernels.cells import GRID_PX, copy_cell, largest_size, list_boxes


def boxes_plainly(is_wanted, side):
    """The smallest rectangle on the grid in each cell that has wanted pixels."""
    boxes = []
    for top in range(0, is_wanted.shape[0], side):
        for left in range(0, is_wanted.shape[1], side):
            places = np.argwhere(is_wanted[top : top + side, left : left + side])
            if len(places):
                first, last = (np.add(corner, (top, left)) for corner in (places.min(axis=0), places.max(axis=0)))
                boxes.append([*(first // GRID_PX * GRID_PX), *((last // GRID_PX + 1) * GRID_PX)])
    return boxes


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (5, 90), (70, 64), (131, 150)])
def test_boxes_are_the_smallest_on_the_grid_that_hold_what_is_wanted(shape, share):
    is_wanted = np.random.default_rng(0).random(shape) < share

    assert list_boxes(is_wanted, 64).tolist() == boxes_plainly(is_wanted, 64)


def test_the_largest_size_is_that_of_a_box_with_its_margin():
    boxes = np.array([(0, 0, 4, 8), (8, 4, 20, 12), (0, 0, 4, 4)])

    assert largest_size(boxes, 3) == (12 + 6) * (8 + 6)
    assert largest_size(boxes[:0], 3) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint16, bool])
@pytest.mark.parametrize(("top", "left", "shape"), [(3, 2, (4, 5)), (-6, -9, (30, 40)), (-2, 15, (5, 4)), (9, 17, (6, 9)), (0, 20, (3, 3))])
def test_a_flat_copy_is_that_of_the_reflected_plane(top, left, shape, dtype):
    plane, margin = np.random.default_rng(1).integers(0, 2 if dtype is bool else 200, (11, 18)).astype(dtype), 40
    copied = np.zeros(shape[0] * shape[1], dtype)

    copy_cell(plane, top, left, shape[1], copied)

    around = np.pad(plane, margin, mode="symmetric")[margin + top :, margin + left :]
    np.testing.assert_array_equal(copied.reshape(shape), around[: shape[0], : shape[1]])
