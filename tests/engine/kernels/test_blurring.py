"""Blurs of flat images, and images of a quarter of the resolution, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.blurring import COARSE_BORDER, COARSE_PX, SPLINE, blur_cell, expand_cell, shrink, shrink_choice


def blurred_plainly(plane, taps):
    """The pixels that the kernel fits around."""
    kernel, radius = np.concatenate([taps[:0:-1], taps]), len(taps) - 1
    height, width = (length - 2 * radius for length in plane.shape)
    rows = sum(weight * plane[shift : shift + height] for shift, weight in enumerate(kernel))
    return sum(weight * rows[:, shift : shift + width] for shift, weight in enumerate(kernel))


def picture(shape, dtype=np.float64, *, seed=0):
    return np.random.default_rng(seed).uniform(0, 255, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("taps", [(1.0,), (0.5, 0.25), (0.4, 0.2, 0.1), (0.3, 0.2, 0.1, 0.05), (0.2, 0.12, 0.1, 0.08, 0.06, 0.04)])
def test_a_blur_is_right_where_its_kernel_fits(taps, dtype):
    plane, taps, margin = picture((17, 21), dtype), np.array(taps, dtype), len(taps) - 1
    rows, found = np.zeros((2, plane.size), dtype)

    blur_cell(plane.reshape(-1), plane.shape[1], taps, rows, found)

    inner = found.reshape(plane.shape)[margin : plane.shape[0] - margin, margin : plane.shape[1] - margin]
    expected = blurred_plainly(plane.astype(np.float64), taps.astype(np.float64))
    np.testing.assert_allclose(inner, expected, rtol=0, atol=16 * np.finfo(dtype).eps * 255)


def shrunk_plainly(plane, border):
    """Means over squares of four by four pixels; the picture continues by reflection."""
    widths = [(COARSE_PX * border, -length % COARSE_PX + COARSE_PX * border) for length in plane.shape]
    padded = np.pad(plane, widths, mode="symmetric")
    return padded.reshape(padded.shape[0] // COARSE_PX, COARSE_PX, -1, COARSE_PX).mean(axis=(1, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("border", [0, 3])
@pytest.mark.parametrize("shape", [(8, 12), (1, 1), (2, 7), (13, 18), (15, 5)])
def test_shrinking_takes_means_over_squares_and_reflects_at_the_ends(shape, border, dtype):
    plane, other, is_first = picture(shape, dtype), picture(shape, dtype, seed=1), picture(shape, seed=2) > 100
    expected, chosen = shrunk_plainly(plane, border), shrunk_plainly(np.where(is_first, plane, other), border)
    small, of_choice = np.empty(expected.shape, dtype), np.empty(expected.shape, dtype)

    shrink(plane, border, small)
    shrink_choice(is_first, plane, other, border, of_choice)

    np.testing.assert_allclose(small, expected, rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_allclose(of_choice, chosen, rtol=8 * np.finfo(dtype).eps)


def enlarged_plainly(coarse, places):
    """A quadratic spline along the first axis; a coarse pixel lies in the middle of its square."""
    square, place = np.divmod(places, COARSE_PX)
    offset = ((place - 1.5) / COARSE_PX)[:, None]
    around = square + COARSE_BORDER
    return (0.5 - offset) ** 2 / 2 * coarse[around - 1] + (0.75 - offset**2) * coarse[around] + (0.5 + offset) ** 2 / 2 * coarse[around + 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("top", "left"), [(-8, -16), (4, 8), (0, 12), (16, 0)])
def test_enlarging_lays_a_spline_through_the_middles_of_squares(top, left, dtype):
    coarse, shape = picture((12 + 2 * COARSE_BORDER, 14 + 2 * COARSE_BORDER), dtype), (20, 32)
    found, lines = np.empty(shape[0] * shape[1], dtype), np.empty(3 * shape[1], dtype)

    expand_cell(coarse, top, left, shape[1], SPLINE.astype(dtype), lines, found)

    rows = enlarged_plainly(coarse.astype(np.float64), top + np.arange(shape[0]))
    expected = enlarged_plainly(rows.T, left + np.arange(shape[1])).T
    np.testing.assert_allclose(found.reshape(shape), expected, rtol=0, atol=8 * np.finfo(dtype).eps * 255)
