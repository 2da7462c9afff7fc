"""The smoothing kernel against its definition."""

import numpy as np

from qmcif_engine.depth import smooth_heights

TOLERANCE = 20 * np.finfo(np.float32).eps


def smoothed_plainly(heights, weights, guide, *, radius, largest, contrast):
    out = np.empty([side - 2 * radius for side in heights.shape])
    for y, x in np.ndindex(out.shape):
        near = (slice(y, y + 2 * radius + 1), slice(x, x + 2 * radius + 1))
        difference = heights[near].astype(float) - heights[y + radius, x + radius]
        step = guide[near].astype(float) - guide[y + radius, x + radius]
        weight = weights[near] * np.maximum(1 - (difference / largest) ** 2, 0) ** 2 / (1 + (step / contrast) ** 2)
        out[y, x] = heights[y + radius, x + radius] + (weight * difference).sum() / weight.sum()
    return out


def test_every_pixel_is_the_weighted_mean_of_its_definition():
    generator = np.random.default_rng(3)
    heights = (4 * generator.random((13, 11))).astype(np.float32)
    weights = (0.01 + generator.random((13, 11))).astype(np.float32)
    guide = generator.random((13, 11)).astype(np.float32)
    out = np.empty((9, 7), np.float32)

    smooth_heights(heights, weights, guide, np.array([1.5, 0.1], np.float32), out)

    expected = smoothed_plainly(heights, weights, guide, radius=2, largest=1.5, contrast=0.1)
    np.testing.assert_allclose(out, expected, rtol=TOLERANCE, atol=4 * TOLERANCE)
