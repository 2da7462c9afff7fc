"""Window averages, moments and similarities are those of their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib.stride_tricks import sliding_window_view
from skimage.metrics import structural_similarity

from qmcif_engine.metrics.windows import (
    SlidingWindow,
    compare_structure,
    compute_covariance,
    compute_exact_moments,
    compute_moments,
    filter_valid,
)

PROPERTY = settings(deadline=None, max_examples=15, derandomize=True)
ROUNDING = 1e-9  # differences of float64 numbers up to 255^2
sides = st.tuples(st.integers(1, 14), st.integers(1, 14))


@pytest.fixture
def pair(paint_scene):
    return paint_scene((21, 25)).sources


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


@pytest.mark.parametrize("window", [SlidingWindow(11, 1.5), SlidingWindow(8)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (20, 2), (5, 6)])
def test_window_shrinks_to_an_image_that_is_smaller(window, shape):
    image = np.random.default_rng(0).uniform(0, 255, shape)

    averages = window.average(image)

    assert averages.shape == tuple(max(1, length - window.side + 1) for length in shape)
    assert image.min() <= averages.min() <= averages.max() <= image.max()


@pytest.mark.parametrize(("n_weights", "axis"), [(1, 0), (2, 1), (5, 0), (6, 1)])
def test_valid_filtering_correlates_and_does_not_convolve(n_weights, axis):
    image = np.random.default_rng(0).uniform(0, 1, (8, 9))
    weights = np.arange(1.0, n_weights + 1)
    expected = np.apply_along_axis(np.correlate, axis, image, weights, mode="valid")

    np.testing.assert_allclose(filter_valid(image, weights, axis=axis), expected, rtol=0, atol=ROUNDING)


def test_moments_equal_mean_variance_and_covariance_of_each_window(pair):
    window = SlidingWindow(8)
    first, second = (compute_moments(image, window) for image in pair)
    views = [sliding_window_view(image.astype(float), (8, 8)) for image in pair]
    centered = [view - view.mean(axis=(2, 3), keepdims=True) for view in views]

    np.testing.assert_allclose(first.mean, views[0].mean(axis=(2, 3)), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(first.variance, views[0].var(axis=(2, 3)), rtol=0, atol=ROUNDING)
    expected = np.mean(centered[0] * centered[1], axis=(2, 3))
    np.testing.assert_allclose(compute_covariance(first, second, window=window), expected, rtol=0, atol=ROUNDING)
    assert compute_moments(np.full((30, 30), 0.1), SlidingWindow(11, 1.5)).variance.min() >= 0


def test_similarity_equals_that_of_scikit_image(pair):
    window = SlidingWindow(11, 1.5)
    constants = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    _, expected = structural_similarity(*pair, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, full=True)

    similarity = compare_structure(*(compute_moments(image, window) for image in pair), window=window, constants=constants)

    np.testing.assert_allclose(similarity, expected[5:-5, 5:-5], rtol=0, atol=ROUNDING)


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


def test_every_constant_level_has_exactly_no_variance_which_rounding_alone_would_not_give():
    window = SlidingWindow(7, 1.5)
    constants = [np.full((7, 7), level, np.uint8) for level in range(256)]

    assert all(compute_exact_moments(image, window).variance.item() == 0 for image in constants)
    assert any(compute_moments(image, window).variance.item() > 0 for image in constants)
