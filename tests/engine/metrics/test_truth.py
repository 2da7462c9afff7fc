"""Figures against the truth agree with scikit-image and with quaternion algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from qmcif_engine.metrics.levels import convert_to_gray
from qmcif_engine.metrics.truth import (
    compare_colors,
    measure_quaternion_similarity,
    measure_right_choices,
    measure_signal_to_noise,
    measure_similarity,
)

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-9

colors = hnp.arrays(np.uint8, st.tuples(st.integers(1, 13), st.integers(1, 13), st.just(3)))
either = pytest.mark.parametrize("shape", [(40, 37, 3), (90, 31)])


@pytest.fixture
def pair(paint_scene):
    def paint(shape):
        scene = paint_scene(shape)
        return scene.fused, scene.sources[0]

    return paint


def multiply_quaternions(p, q):
    """Hamilton's product of two sequences of four."""
    a, b, c, d = p
    e, f, g, h = q
    return np.array(
        [a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e]
    )


def conjugate(p):
    return np.array([p[0], -p[1], -p[2], -p[3]])


def compare_plainly(first, second):
    """Definition 5 on one 11 x 11 window of colors, quaternion by quaternion."""
    taps = np.exp(-((np.arange(11) - 5) ** 2) / 4.5)
    weights = (np.outer(taps, taps) / taps.sum() ** 2).ravel()
    one, two = (np.vstack([np.zeros(121), image.reshape(121, 3).T]) for image in (first, second))
    means = [(weights * image).sum(axis=1) for image in (one, two)]
    covariance, spread = np.zeros(4), 0.0
    for pixel in range(121):
        deviations = [image[:, pixel] - mean for image, mean in zip((one, two), means, strict=True)]
        covariance += weights[pixel] * multiply_quaternions(conjugate(deviations[0]), deviations[1])
        spread += weights[pixel] * sum(np.sum(deviation**2) for deviation in deviations)
    real = np.array([1.0, 0, 0, 0])
    constants = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    a = 2 * multiply_quaternions(conjugate(means[0]), means[1]) + constants[0] * real
    b = 2 * covariance + constants[1] * real
    product = multiply_quaternions(conjugate(a / (sum(np.sum(mean**2) for mean in means) + constants[0])), b / (spread + constants[1]))
    return np.linalg.norm(product)


@either
def test_signal_to_noise_equals_that_of_scikit_image(pair, shape):
    fused, truth = pair(shape)

    assert measure_signal_to_noise(fused, truth) == pytest.approx(peak_signal_noise_ratio(truth, fused), abs=ROUNDING)


@pytest.mark.parametrize("border_px", [1, 8, 15])
@either
def test_border_is_left_out_on_all_four_sides(pair, shape, border_px):
    fused, truth = pair(shape)
    inner = slice(border_px, -border_px), slice(border_px, -border_px)
    expected = peak_signal_noise_ratio(truth[inner], fused[inner])
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        fused[edge] = 255 - truth[edge]

    assert measure_signal_to_noise(fused, truth, border_px=border_px) == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize(("shape", "border_px"), [((1, 1), 8), ((16, 40), 8), ((17, 40), 9)])
def test_border_that_leaves_nothing_is_not_left_out(pair, shape, border_px):
    fused, truth = pair(shape)

    assert measure_signal_to_noise(fused, truth, border_px=border_px) == measure_signal_to_noise(fused, truth)


def test_equal_images_have_a_finite_ratio_above_all_others():
    truth = np.full((10, 12, 3), 100, np.uint8)
    nearly = truth.copy()
    nearly[3, 4, 1] += 1

    assert measure_signal_to_noise(nearly, truth) == pytest.approx(10 * math.log10(255**2 * 360), abs=ROUNDING)
    assert measure_signal_to_noise(truth, truth) == pytest.approx(10 * math.log10(255**2 * 360 * 4), abs=ROUNDING)


@either
def test_similarity_equals_that_of_scikit_image(pair, shape):
    fused, truth = pair(shape)
    expected = structural_similarity(
        convert_to_gray(fused), convert_to_gray(truth), data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )

    assert measure_similarity(fused, truth) == pytest.approx(expected, abs=ROUNDING)


def test_quaternion_similarity_equals_definition_five_window_by_window(pair):
    fused, truth = pair((13, 14, 3))
    expected = [[compare_plainly(fused[y : y + 11, x : x + 11], truth[y : y + 11, x : x + 11]) for x in range(4)] for y in range(3)]

    found = compare_colors(*(np.moveaxis(image, 2, 0).astype(float) for image in (fused, truth)))

    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
    assert measure_quaternion_similarity(fused, truth) == pytest.approx(np.mean(expected), abs=ROUNDING)


def test_quaternion_similarity_of_gray_is_that_of_equal_colors(pair):
    fused, truth = pair((20, 90))

    in_color = measure_quaternion_similarity(*(np.dstack([image] * 3) for image in (fused, truth)))

    assert measure_quaternion_similarity(fused, truth) == pytest.approx(in_color, abs=ROUNDING)


def test_modulus_is_blind_to_inverted_contrast_as_documented():
    wave = np.rint(100 * np.sin(np.arange(40) * 1.3))
    image = np.repeat(np.broadcast_to(128 + wave, (40, 40))[..., np.newaxis], 3, axis=2).astype(np.uint8)
    inverted = (256 - image.astype(int)).astype(np.uint8)

    assert measure_quaternion_similarity(image, inverted) > 0.95
    assert measure_similarity(image, inverted) < -0.9


@PROPERTY
@given(colors)
def test_equal_images_are_fully_similar_at_any_size(image):
    assert measure_similarity(image, image) == pytest.approx(1, abs=ROUNDING)
    assert measure_quaternion_similarity(image, image) == pytest.approx(1, abs=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, (2, 12, 13, 3)))
def test_similarities_lie_in_their_ranges_and_are_symmetric(two):
    gray, color = measure_similarity(*two), measure_quaternion_similarity(*two)

    assert -1 <= gray <= 1
    assert 0 <= color <= 1 + ROUNDING
    assert measure_similarity(*two[::-1]) == pytest.approx(gray, abs=ROUNDING)
    assert measure_quaternion_similarity(*two[::-1]) == pytest.approx(color, abs=ROUNDING)


def test_right_choices_are_counted():
    chosen, true = np.array([[0, 1, 2], [2, 2, 2]]), np.array([[0, 1, 1], [2, 0, 2]], np.uint16)

    assert measure_right_choices(chosen, true) == pytest.approx(4 / 6)
