"""Pixels taken from one image, against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels.selecting import take_pixels


@pytest.mark.parametrize("pixel_bytes", [1, 3, 8])
def test_the_pixels_that_a_map_names_are_copied_and_no_others(pixel_bytes):
    generator = np.random.default_rng(pixel_bytes)
    index = generator.integers(0, 3, (9, 14)).astype(np.uint16)
    image, fused = generator.integers(0, 256, (2, 9, 14 * pixel_bytes)).astype(np.uint8)
    expected = np.where(np.repeat(index == 2, pixel_bytes, axis=1), image, fused)

    take_pixels(image, index, 2, pixel_bytes, fused)

    np.testing.assert_array_equal(fused, expected)
