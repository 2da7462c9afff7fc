"""What images have in a part of a picture, and what they have when cut along a map, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.cuts import REACH_PX, compare_cut, take_in_image
from qmcif_engine.kernels.gaussians import gaussian_taps

TAPS = (gaussian_taps(0.8, 3), gaussian_taps(1.6, 5), gaussian_taps(3.0, 6))


def smoothed_plainly(plane, taps):
    kernel, radius = np.concatenate([taps[:0:-1], taps]).astype(np.float64), len(taps) - 1
    padded = np.pad(plane.astype(np.float64), radius, mode="symmetric")
    rows = sum(weight * padded[shift : shift + plane.shape[0]] for shift, weight in enumerate(kernel))
    return sum(weight * rows[:, shift : shift + plane.shape[1]] for shift, weight in enumerate(kernel))


def power_plainly(plane):
    return (smoothed_plainly(plane, TAPS[0]) - smoothed_plainly(plane, TAPS[1])) ** 2


@pytest.mark.parametrize("n_images", [2, 3])
def test_the_detail_of_a_cut_over_that_of_its_images(n_images):
    generator = np.random.default_rng(n_images)
    blocks = [(generator.uniform(0, 20, (3, 60, 70)) + 15 * number).astype(np.float32) for number in range(n_images)]
    index = np.broadcast_to(np.arange(70) * n_images // 70, (60, 70)).astype(np.uint16)
    inner = slice(REACH_PX, -REACH_PX)
    cut, own, sharpest = np.empty((60, 70), np.float32), np.empty((50, 60), np.float32), np.zeros((38, 48), np.float32)
    seams, is_wanted = np.zeros((38, 48), np.float32), generator.random((38, 48)) < 0.7

    for source, block in enumerate(blocks):
        take_in_image(block, source, (0, 0), index, n_images == 2, TAPS, cut, own, sharpest)
    compare_cut(cut, own, sharpest, TAPS, 0.25, (1.0, 1.5), is_wanted, seams)

    planes = [block.astype(np.float64).mean(axis=0) for block in blocks]
    powers = [power_plainly(plane) for plane in planes]
    near = [
        np.lib.stride_tricks.sliding_window_view(index == source, (2 * REACH_PX + 1,) * 2).any(axis=(2, 3)) | (n_images == 2)
        for source in range(n_images)
    ]
    means = [smoothed_plainly(power, TAPS[2])[inner, inner] for power in powers]
    best = np.max([np.where(is_near, mean, 0) for is_near, mean in zip(near, means, strict=True)], axis=0)
    accounted = np.maximum(best, smoothed_plainly(np.choose(index, powers), TAPS[2])[inner, inner]) + 0.25
    found = smoothed_plainly(power_plainly(np.choose(index, planes)), TAPS[2])[inner, inner]
    expected = np.where(is_wanted, np.clip((np.sqrt(found / accounted) - 1.0) / 0.5, 0, 1), 0)
    np.testing.assert_allclose(seams, expected, rtol=0, atol=1e-4)
    assert (expected > 0).any()
