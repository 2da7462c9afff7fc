"""The guided filter is the local linear fit it is defined as."""

from __future__ import annotations

import numpy as np

from qmcif_engine.comparison.baselines.guided_filtering import guide_filter


def test_each_window_fits_a_line_and_lines_are_averaged():
    generator = np.random.default_rng(4)
    guide, weights = generator.random((2, 7, 9))
    radius, power = 2, 0.05
    slopes, offsets = np.empty((2, 7, 9))

    def window(row, column):
        return np.s_[max(0, row - radius) : row + radius + 1, max(0, column - radius) : column + radius + 1]

    for row, column in np.ndindex(7, 9):
        near_guide, near_weights = guide[window(row, column)], weights[window(row, column)]
        covariance = np.mean(near_guide * near_weights) - near_guide.mean() * near_weights.mean()
        slopes[row, column] = covariance / (near_guide.var() + power)
        offsets[row, column] = near_weights.mean() - slopes[row, column] * near_guide.mean()
    expected = [
        slopes[window(row, column)].mean() * guide[row, column] + offsets[window(row, column)].mean() for row, column in np.ndindex(7, 9)
    ]

    np.testing.assert_allclose(guide_filter(weights, guide, radius_px=radius, regularization=power).ravel(), expected)
