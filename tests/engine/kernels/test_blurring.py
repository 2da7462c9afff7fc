"""What a blurred picture leaves of others, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.blurring import add_rests, add_unexplained


def blurred_plainly(planes, taps):
    """The pixels that the kernel fits around."""
    kernel, radius = np.concatenate([taps[:0:-1], taps]), len(taps) - 1
    height, width = (length - 2 * radius for length in planes.shape[1:])
    rows = sum(weight * planes[:, shift : shift + height] for shift, weight in enumerate(kernel))
    return sum(weight * rows[..., shift : shift + width] for shift, weight in enumerate(kernel))


def without_margin(planes, margin):
    return planes[:, margin : planes.shape[1] - margin, margin : planes.shape[2] - margin]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("taps", [(1.0,), (0.5, 0.25), (0.3, 0.2, 0.1, 0.05)])
def test_rests_of_two_pictures_are_added_to_what_is_there(taps, dtype):
    fused, first, second = np.random.default_rng(len(taps)).uniform(0, 255, (3, 3, 15, 19)).astype(dtype)
    taps, margin = np.array(taps, dtype), len(taps) - 1
    rests = np.full((2, 15 - 2 * margin, 19 - 2 * margin), 7, dtype)

    add_rests(fused, first, second, taps, rests)

    found = blurred_plainly(fused.astype(np.float64), taps.astype(np.float64))
    for rest, picture in zip(rests, (first, second), strict=True):
        expected = 7 + ((without_margin(picture, margin) - found) ** 2).sum(axis=0)
        np.testing.assert_allclose(rest, expected, rtol=0, atol=32 * np.finfo(dtype).eps * 255**2)


def test_rests_of_two_pictures_are_those_that_each_leaves_alone():
    fused, first, second = np.random.default_rng(0).uniform(0, 255, (3, 3, 12, 14)).astype(np.float32)
    taps, rests, alone = np.array([0.4, 0.2, 0.1], np.float32), np.zeros((2, 8, 10), np.float32), np.zeros((2, 8, 10), np.float32)

    add_rests(fused, first, second, taps, rests)
    for picture, power in zip((first, second), alone, strict=True):
        add_unexplained(fused, picture, taps, power)

    np.testing.assert_allclose(rests, alone, rtol=1e-6)
