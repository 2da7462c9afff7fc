"""Window moments and the similarity built on them agree with scikit-image and with plain sums."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.metrics import structural_similarity

from qmcif_engine.metrics.local_moments import compare_structure, compute_covariance, compute_exact_moments, compute_moments
from qmcif_engine.metrics.sliding_windows import BoxWindow, GaussianWindow

ROUNDING = 1e-9  # differences of float64 numbers up to 255^2


@pytest.fixture
def pair(paint_scene):
    return paint_scene((21, 25)).sources


def test_moments_equal_mean_variance_and_covariance_of_each_window(pair):
    window = BoxWindow(8)
    first, second = (compute_moments(image, window) for image in pair)
    views = [np.lib.stride_tricks.sliding_window_view(image.astype(float), (8, 8)) for image in pair]

    np.testing.assert_allclose(first.mean, views[0].mean(axis=(2, 3)), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(first.variance, views[0].var(axis=(2, 3)), rtol=0, atol=ROUNDING)
    centered = [view - view.mean(axis=(2, 3), keepdims=True) for view in views]
    expected = np.mean(centered[0] * centered[1], axis=(2, 3))
    np.testing.assert_allclose(compute_covariance(first, second, window=window), expected, rtol=0, atol=ROUNDING)


def test_similarity_equals_that_of_scikit_image(pair):
    window = GaussianWindow(11, 1.5)
    constants = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    _, expected = structural_similarity(*pair, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, full=True)

    similarity = compare_structure(*(compute_moments(image, window) for image in pair), window=window, constants=constants)

    np.testing.assert_allclose(similarity, expected[5:-5, 5:-5], rtol=0, atol=ROUNDING)


def test_constant_windows_have_exactly_no_variance_and_covariance():
    window = GaussianWindow(7, 1.5)
    half_flat = np.random.default_rng(0).integers(0, 256, (7, 20)).astype(np.uint8)
    half_flat[:, :10] = 77
    busy = half_flat[:, ::-1].copy()

    first, second = (compute_exact_moments(image, window) for image in (half_flat, busy))

    assert np.all(first.variance[0, :4] == 0)
    assert np.all(first.variance[0, 4:] > 0)
    covariance = compute_covariance(first, second, window=window)
    assert np.all(covariance[0, :4] == 0)
    assert np.all(covariance[0, -4:] == 0)
    assert np.all(covariance[0, 4:-4] != 0)


def test_every_constant_level_has_exactly_no_variance_which_rounding_alone_would_not_give():
    window = GaussianWindow(7, 1.5)
    constants = [np.full((7, 7), level, np.uint8) for level in range(256)]

    assert all(compute_exact_moments(image, window).variance.item() == 0 for image in constants)
    assert any(compute_moments(image, window).variance.item() > 0 for image in constants)


def test_exact_moments_are_the_plain_ones_where_nothing_is_flat(pair):
    window = GaussianWindow(7, 1.5)

    np.testing.assert_array_equal(compute_exact_moments(pair[0], window).variance, compute_moments(pair[0], window).variance)


def test_variance_is_never_negative():
    constant = np.full((30, 30), 0.1)

    assert compute_moments(constant, GaussianWindow(11, 1.5)).variance.min() >= 0
