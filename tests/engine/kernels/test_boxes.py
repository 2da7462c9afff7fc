"""Sums over windows and the texture they leave, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.boxes import TEXTURE_PX, sum_boxes, texture_power
from qmcif_engine.kernels.roughness import SQUARE_PX, mark_rough, sum_squares


def windows(plane, side):
    return np.lib.stride_tricks.sliding_window_view(plane, (side, side))


def texture_plainly(plane):
    precise, margin = plane.astype(np.float64), TEXTURE_PX // 2
    return (precise[margin:-margin, margin:-margin] - windows(precise, TEXTURE_PX).mean(axis=(2, 3))) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [1, 2, 3, 5, 7, 12, 17, 33])
def test_sums_of_whole_numbers_are_exact(side, dtype):
    plane = np.random.default_rng(side).integers(0, 256, (40, 51)).astype(dtype)
    kept, sums = plane.copy(), np.empty((41 - side, 52 - side), dtype)

    sum_boxes(plane, side, sums)

    np.testing.assert_array_equal(sums, windows(plane.astype(np.int64), side).sum(axis=(2, 3)))
    np.testing.assert_array_equal(plane, kept)


def test_sums_have_the_same_bytes_wherever_the_plane_begins():
    plane = np.random.default_rng(0).uniform(0, 255, (60, 70)).astype(np.float32)
    whole, part = np.empty((28, 38), np.float32), np.empty((11, 14), np.float32)

    sum_boxes(plane, 33, whole)
    sum_boxes(np.ascontiguousarray(plane[7:50, 9:55]), 33, part)

    np.testing.assert_array_equal(part, whole[7:18, 9:23])


def test_texture_is_what_the_mean_of_a_window_leaves():
    plane = np.random.default_rng(1).uniform(0, 255, (19, 23)).astype(np.float32)
    power = np.empty((15, 19), np.float32)

    texture_power(plane, power)

    np.testing.assert_allclose(power, texture_plainly(plane), rtol=1e-4, atol=1e-3)


def test_squares_are_summed_side_by_side():
    plane = np.random.default_rng(2).integers(0, 100, (14, 19)).astype(np.float32)
    squares = np.empty((3, 4), np.float32)

    sum_squares(plane, squares)

    expected = plane[:12, :16].reshape(3, SQUARE_PX, 4, SQUARE_PX).sum(axis=(1, 3))
    np.testing.assert_array_equal(squares, expected)


@pytest.mark.parametrize("is_pair", [True, False])
@pytest.mark.parametrize("reach", [1, 3, 8, 16])
def test_rough_ground_is_only_where_the_whole_window_has_enough_texture(reach, is_pair):
    """And all of it is found where there is half as much again."""
    generator = np.random.default_rng(reach)
    shape, side = (60, 70), 2 * reach + 1
    block = (generator.normal(0, 1, (3, *shape)) * np.linspace(0, 10, shape[1])).astype(np.float32)
    near = (generator.random((40 + 2 * reach, 50 + 2 * reach)) < 0.001).astype(np.uint16)
    is_rough, corner = np.zeros((40, 50), bool), (5 - reach, 6 - reach)

    n_left = mark_rough(block, 1, corner, near, is_pair, 4.0 * side**2, is_rough)

    margin = reach + TEXTURE_PX // 2
    brightness = np.pad(block.mean(axis=0), margin, mode="symmetric")[5 : 45 + 2 * margin, 6 : 56 + 2 * margin]
    power = windows(texture_plainly(brightness), side).mean(axis=(2, 3))
    counts = np.ones((40, 50), bool) if is_pair else windows(near == 1, side).any(axis=(2, 3))
    assert not is_rough[(power < 4) | ~counts].any()
    if reach >= 8:
        assert is_rough[(power > 12) & counts].all()
        assert is_rough.any()
    assert n_left == np.count_nonzero(~is_rough)
