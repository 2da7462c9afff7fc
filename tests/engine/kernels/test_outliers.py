"""Hot and dead pixels are brought to their neighbors, whatever belongs to the image is kept."""

import numpy as np
import pytest

from qmcif_engine.kernels.outliers import clip_outliers

EXCESS = 60.0


def clipped(plane, *, excess=EXCESS):
    scratch, out = np.full((3, plane.shape[1]), excess, plane.dtype), np.full(plane.shape, np.nan, plane.dtype)
    clip_outliers(plane, scratch, out)
    return out


def clipped_plainly(plane, *, excess):
    out = plane.copy()
    for y in range(1, plane.shape[0] - 1):
        for x in range(1, plane.shape[1] - 1):
            around = np.delete(plane[y - 1 : y + 2, x - 1 : x + 2].ravel(), 4)
            low, high = around.min(), around.max()
            allowed = high - low + plane.dtype.type(excess)
            if plane[y, x] > high + allowed:
                out[y, x] = high
            elif plane[y, x] < low - allowed:
                out[y, x] = low
    return out


def ground(shape=(20, 24), dtype=np.float32):
    return np.random.default_rng(0).uniform(90, 110, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (2, 9), (9, 2), (3, 3), (17, 23)])
def test_values_are_those_of_the_definition(shape, dtype):
    plane = np.random.default_rng(shape).uniform(0, 60, shape).astype(dtype)
    plane[np.random.default_rng(1).random(shape) < 0.1] = 255

    result = clipped(plane, excess=30)

    np.testing.assert_array_equal(result, clipped_plainly(plane, excess=30))
    if min(shape) > 3:
        assert (result != plane).any()


@pytest.mark.parametrize("value", [0.0, 255.0])
def test_a_hot_or_dead_pixel_becomes_one_of_the_values_around_it_and_nothing_else_changes(value):
    plane = ground()
    plane[8, 9] = value

    result = clipped(plane)

    around = np.delete(plane[7:10, 8:11].ravel(), 4)
    assert result[8, 9] == (around.min() if value == 0 else around.max())
    result[8, 9] = value
    np.testing.assert_array_equal(result, plane)


@pytest.mark.parametrize(
    "place",
    [np.s_[8:10, 9:11], np.s_[8, 5:15], np.s_[5:15, 9], np.s_[:, 9:], np.s_[8:, 9:], (np.arange(5, 15), np.arange(5, 15)), np.s_[8, 9:11]],
    ids=["spot of 2 x 2", "line across", "line down", "edge", "corner", "diagonal line", "two pixels"],
)
@pytest.mark.parametrize("value", [0.0, 255.0])
def test_what_has_more_than_one_pixel_is_kept(place, value):
    plane = ground()
    plane[place] = value

    np.testing.assert_array_equal(clipped(plane), plane)


@pytest.mark.parametrize("value", [160.0, 40.0])
def test_a_pixel_that_leaves_the_range_around_it_by_less_than_is_allowed_is_kept(value):
    plane = ground()
    plane[8, 9] = value

    np.testing.assert_array_equal(clipped(plane), plane)


def test_pixels_on_the_border_are_copied():
    plane = ground()
    plane[0, 3], plane[5, 0], plane[-1, 7], plane[9, -1] = 255, 255, 0, 0

    np.testing.assert_array_equal(clipped(plane), plane)
