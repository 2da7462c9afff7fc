"""The local variance against its equation written as loops."""

import numpy as np
import pytest

from qmcif_engine.cleanup.filters import local_variance

ROUNDINGS = 64


def texture(shape, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_planes", "side_px"), [(1, 3), (3, 5), (2, 9)])
def test_local_variance_is_that_of_each_window_summed_over_the_planes(n_planes, side_px, dtype):
    block = texture((n_planes, 8, 11), seed=5).astype(dtype)
    padded = np.pad(block.astype(np.float64), [(0, 0)] + [(side_px // 2, side_px // 2)] * 2, mode="symmetric")
    expected = np.empty((8, 11))
    for row, column in np.ndindex(expected.shape):
        expected[row, column] = padded[:, row : row + side_px, column : column + side_px].var(axis=(1, 2)).sum()

    result = local_variance(block, side_px=side_px)

    assert (result.dtype, result.shape) == (dtype, (8, 11))
    np.testing.assert_allclose(result, expected, rtol=0, atol=ROUNDINGS * np.finfo(dtype).eps)


@pytest.mark.parametrize("level", [0.0, 0.1, 200.3, 255.0])
def test_local_variance_of_even_ground_is_never_negative_and_far_below_a_gray_level(level):
    variance = local_variance(np.full((1, 40, 50), level, np.float32), side_px=33)

    assert variance.min() >= 0
    assert np.sqrt(variance.max()) < 0.2
