"""Gaussian means and the detail between two of them, against the same in plain NumPy."""

import numpy as np

from qmcif_engine.kernels.gaussians import (
    COARSE_REACH_PX,
    FINE_REACH_PX,
    WINDOW_REACH_PX,
    average_inside,
    detail_power,
    gaussian_taps,
    smooth_inside,
)


def smoothed_plainly(plane, taps):
    """The pixels that the kernel fits around, in double precision."""
    kernel, radius = np.concatenate([taps[:0:-1], taps]).astype(np.float64), len(taps) - 1
    height, width = (length - 2 * radius for length in plane.shape)
    rows = sum(weight * plane[shift : shift + height].astype(np.float64) for shift, weight in enumerate(kernel))
    return sum(weight * rows[:, shift : shift + width] for shift, weight in enumerate(kernel))


def test_the_weights_of_both_sides_add_up_to_one_and_fall_as_a_gaussian():
    taps = gaussian_taps(2.0, 6)

    assert taps.dtype == np.float32
    np.testing.assert_allclose(2 * taps[1:].sum() + taps[0], 1, rtol=1e-6)
    np.testing.assert_allclose(taps / taps[0], np.exp(-(np.arange(7) ** 2) / 8), rtol=1e-6)


def test_a_mean_is_that_of_the_kernel_in_both_directions():
    plane, taps = np.random.default_rng(0).uniform(0, 255, (25, 40)).astype(np.float32), gaussian_taps(3.0, WINDOW_REACH_PX)
    mean = np.empty((13, 28), np.float32)

    smooth_inside(plane, taps, mean)

    np.testing.assert_allclose(mean, smoothed_plainly(plane, taps), rtol=1e-5)


def test_a_mean_of_any_reach_is_that_of_the_kernel_in_both_directions():
    for reach in (0, 1, 9):
        plane, taps = np.random.default_rng(reach).uniform(0, 255, (25, 40)), gaussian_taps(3.0, reach, dtype=np.float64)
        mean = np.full((25 - 2 * reach, 40 - 2 * reach), np.nan)

        average_inside(plane, taps, mean)

        np.testing.assert_allclose(mean, smoothed_plainly(plane, taps), rtol=1e-13)


def test_detail_is_the_difference_of_two_means():
    plane = np.random.default_rng(1).uniform(0, 255, (25, 40)).astype(np.float32)
    fine, coarse = gaussian_taps(0.8, FINE_REACH_PX), gaussian_taps(1.6, COARSE_REACH_PX)
    power, beyond = np.empty((15, 30), np.float32), COARSE_REACH_PX - FINE_REACH_PX

    detail_power(plane, fine, coarse, power)

    detail = smoothed_plainly(plane, fine)[beyond:-beyond, beyond:-beyond] - smoothed_plainly(plane, coarse)
    np.testing.assert_allclose(power, detail**2, rtol=1e-4, atol=1e-2)
