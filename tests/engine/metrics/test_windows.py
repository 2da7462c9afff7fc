"""Window averages, moments and similarities are those of their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib.stride_tricks import sliding_window_view

from qmcif_engine.metrics.windows import (
    SlidingWindow,
    compute_covariance,
    compute_exact_moments,
)

PROPERTY = settings(deadline=None, max_examples=15, derandomize=True)
ROUNDING = 1e-9  # differences of float64 numbers up to 255^2
sides = st.tuples(st.integers(1, 14), st.integers(1, 14))


@pytest.mark.parametrize("side", [7, 11])
def test_gaussian_average_equals_the_weighted_sum_over_each_window(side):
    image = np.random.default_rng(0).uniform(0, 255, (17, 15))
    distance = np.arange(side) - (side - 1) / 2
    weights = np.exp(-(distance[:, None] ** 2 + distance**2) / 4.5)
    expected = np.einsum("yxij,ij->yx", sliding_window_view(image, (side, side)), weights / weights.sum())

    np.testing.assert_allclose(SlidingWindow(side, 1.5).average(image), expected, rtol=0, atol=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, sides))
def test_box_averages_are_the_means_of_each_window(image):
    windows = sliding_window_view(image.astype(int), tuple(min(8, length) for length in image.shape))

    np.testing.assert_allclose(SlidingWindow(8).average(image.astype(float)), windows.mean(axis=(2, 3)), rtol=0, atol=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, sides, elements=st.sampled_from([7, 7, 7, 8])), st.integers(1, 20), st.sampled_from([None, 1.5]))
def test_exact_moments_find_the_windows_whose_samples_are_all_equal(image, side, sigma):
    window = SlidingWindow(side, sigma)
    windows = sliding_window_view(image, tuple(min(side, length) for length in image.shape))
    moments = compute_exact_moments(image, window)
    is_flat = windows.min(axis=(2, 3)) == windows.max(axis=(2, 3))

    np.testing.assert_array_equal(moments.flat, is_flat)
    np.testing.assert_array_equal(moments.variance == 0, is_flat)
    other = compute_exact_moments(np.arange(image.size).reshape(image.shape), window)
    assert np.all(compute_covariance(other, moments, window=window)[is_flat] == 0)
