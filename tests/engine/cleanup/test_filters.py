"""The guided filter and the local variance against their equations written as loops."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.filters import guided_filter, local_variance

ROUNDINGS = 64


def texture(shape, seed=0):
    return np.random.default_rng(seed).uniform(0, 1, shape)


def guided_by_loops(plane, guide, *, radius_px, edge_contrast):
    """Equations 5 to 8 of He, Sun and Tang, window by window; the image continues by reflection."""
    padded_plane, padded_guide = (np.pad(image, 2 * radius_px, mode="symmetric") for image in (plane, guide))
    height, width = plane.shape
    side = 2 * radius_px + 1
    slope, intercept = np.empty((2, height + 2 * radius_px, width + 2 * radius_px))
    for row, column in np.ndindex(slope.shape):
        window = np.s_[row : row + side, column : column + side]
        p, g = padded_plane[window], padded_guide[window]
        slope[row, column] = np.mean((g - g.mean()) * (p - p.mean())) / (np.mean((g - g.mean()) ** 2) + edge_contrast**2)
        intercept[row, column] = p.mean() - slope[row, column] * g.mean()
    result = np.empty(plane.shape)
    for row, column in np.ndindex(plane.shape):
        window = np.s_[row : row + side, column : column + side]
        result[row, column] = slope[window].mean() * guide[row, column] + intercept[window].mean()
    return result


@pytest.mark.parametrize("radius_px", [1, 2])
@pytest.mark.parametrize("edge_contrast", [0.05, 0.5])
def test_guided_filter_equals_its_equations_written_as_loops(radius_px, edge_contrast):
    planes, guide = texture((2, 11, 12), seed=1), texture((11, 12), seed=2)

    result = guided_filter(planes, guide, radius_px=radius_px, edge_contrast=edge_contrast)

    expected = [guided_by_loops(plane, guide, radius_px=radius_px, edge_contrast=edge_contrast) for plane in planes]
    np.testing.assert_allclose(result, expected, rtol=0, atol=ROUNDINGS * np.finfo(np.float64).eps / edge_contrast**2)


def test_guided_filter_keeps_constants_and_copies_its_guide():
    guide = texture((15, 16), seed=3)

    result = guided_filter(np.stack([np.full(guide.shape, 0.25), guide]), guide, radius_px=2, edge_contrast=1e-4)

    np.testing.assert_allclose(result[0], 0.25, rtol=0, atol=ROUNDINGS * np.finfo(np.float64).eps)
    np.testing.assert_allclose(result[1], guide, rtol=0, atol=1e-6)  # as much as the squared contrast leaves of the slope


def test_guided_filter_of_a_flat_guide_is_the_mean_of_means():
    plane = texture((15, 16), seed=4)

    result = guided_filter(plane[None], np.zeros(plane.shape), radius_px=1, edge_contrast=0.1)

    mean = ndimage.uniform_filter(ndimage.uniform_filter(plane, 3, mode="reflect"), 3, mode="reflect")
    np.testing.assert_allclose(result[0], mean, rtol=0, atol=ROUNDINGS * np.finfo(np.float64).eps)


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
