"""Parts of planes, their brightness, values and boxes, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.cutting import add_brightness, cut_brightness, cut_plane, find_boxes, values_of

CORNERS = [(2, 3), (-4, -5), (-30, 2), (5, 8)]


def cut_plainly(plane, corner, shape):
    padded = np.pad(plane, 60, mode="symmetric")
    top, left = corner[0] + 60, corner[1] + 60
    return padded[top : top + shape[0], left : left + shape[1]]


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
@pytest.mark.parametrize("corner", CORNERS)
def test_a_plane_continues_by_reflection(corner, dtype):
    plane, out = np.random.default_rng(0).integers(0, 99, (13, 17)).astype(dtype), np.empty((40, 30), dtype)

    cut_plane(plane, *corner, out)

    np.testing.assert_array_equal(out, cut_plainly(plane, corner, out.shape))


@pytest.mark.parametrize("corner", CORNERS)
def test_brightness_is_the_mean_of_the_planes(corner):
    block, out = np.random.default_rng(1).uniform(0, 255, (3, 13, 17)).astype(np.float32), np.empty((40, 30), np.float32)

    cut_brightness(block, *corner, out)

    np.testing.assert_allclose(out, cut_plainly(block.mean(axis=0), corner, out.shape), rtol=1e-6)


def test_brightness_is_added_by_its_weight():
    block, total = np.random.default_rng(2).uniform(0, 255, (3, 9, 11)).astype(np.float32), np.ones((9, 11), np.float32)

    add_brightness(block, 0.25, total)

    np.testing.assert_allclose(total, 1 + 0.25 * block.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("values", [[7], [0, 65535], [3, 4, 900], list(range(12))])
def test_the_values_of_a_map_come_in_ascending_order(values):
    index = np.random.default_rng(3).permutation(np.resize(values, 120)).reshape(10, 12).astype(np.uint16)

    assert values_of(index).tolist() == values


@pytest.mark.parametrize("shape", [(1, 1), (9, 1), (1, 9), (30, 40)])
@pytest.mark.parametrize("seed", range(3))
def test_the_values_of_any_map_are_those_that_numpy_finds(shape, seed):
    index = np.array([0, 3, 7, 65535], np.uint16)[np.random.default_rng(seed).integers(0, 4, shape)]

    assert values_of(index).tolist() == np.unique(index).tolist()


@pytest.mark.parametrize("share", [0, 0.002, 0.05, 1])
def test_boxes_are_those_of_the_marked_pixels_of_each_square(share):
    is_wanted, side = np.random.default_rng(4).random((70, 90)) < share, 32
    expected = []
    for top in range(0, 70, side):
        for left in range(0, 90, side):
            rows, columns = np.nonzero(is_wanted[top : top + side, left : left + side])
            if len(rows):
                expected.append([top + rows.min(), left + columns.min(), top + rows.max() + 1, left + columns.max() + 1])

    assert find_boxes(is_wanted, side).tolist() == expected
