"""Q_SSIM against Definition 5 written out, and the properties a similarity must have."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import SimilarityPart
from qmcif_engine.method.similarity import STABILIZER, quaternion_similarity, window_moments

LARGEST_POWER = 3 * 255.0**2
"""Squared modulus of white: what the moments may have to cancel."""

ROUNDINGS = 64
"""How many roundings of that size the two window sums and the four products of one similarity may add up to."""


def tolerance(dtype, *, power=LARGEST_POWER, variance=0.0):
    """Rounding of second moments of that power, as a share of the smallest denominator they are divided by."""
    return ROUNDINGS * np.finfo(dtype).eps * (1 + power / (2 * variance + STABILIZER))


def reflected(image, margin_px):
    return np.pad(image, ((0, 0), (margin_px, margin_px), (margin_px, margin_px)), mode="symmetric")


def similarity(first, second, *, part, side_px=3):
    """Similarity over the window around every pixel."""
    moments = (window_moments(image, side_px=side_px) for image in (first, second))
    return quaternion_similarity(*moments, side_px=side_px, part=part)


def smallest_variance(image, *, side_px):
    windows = np.lib.stride_tricks.sliding_window_view(reflected(image, side_px // 2), (side_px, side_px), axis=(1, 2))
    return float(windows.astype(np.float64).var(axis=(-2, -1)).sum(axis=0).min())


def product(p, q):
    """The product from ``i^2 = j^2 = k^2 = ijk = -1``, unit by unit: (1, i, j, k) are numbers 0 to 3."""
    sign_and_unit = {
        (1, 1): (-1, 0), (2, 2): (-1, 0), (3, 3): (-1, 0),
        (1, 2): (1, 3), (2, 3): (1, 1), (3, 1): (1, 2),
        (2, 1): (-1, 3), (3, 2): (-1, 1), (1, 3): (-1, 2),
    }  # fmt: skip
    result = np.zeros(4)
    for a in range(4):
        for b in range(4):
            sign, unit = sign_and_unit.get((a, b), (1, a + b))
            result[unit] += sign * p[a] * q[b]
    return result


def conjugate(q):
    return q * np.array([1, -1, -1, -1])


def definition_5(x, y, *, side_px):
    """Q_SSIM, a quaternion a window, by loops; the image continues by reflection."""
    radius = side_px // 2
    x, y = (reflected(image, radius) for image in (x, y))
    height, width = x.shape[1] - 2 * radius, x.shape[2] - 2 * radius
    result = np.empty((4, height, width))
    one = np.array([1.0, 0, 0, 0])
    for row in range(height):
        for column in range(width):
            window = np.s_[:, row : row + side_px, column : column + side_px]
            p, q = ([np.array([0.0, *pixel]) for pixel in image[window].reshape(3, -1).T] for image in (x, y))
            mean_p, mean_q = np.mean(p, axis=0), np.mean(q, axis=0)
            spread_p = np.mean([product(conjugate(u - mean_p), u - mean_p) for u in p], axis=0)
            spread_q = np.mean([product(conjugate(v - mean_q), v - mean_q) for v in q], axis=0)
            cross = np.mean([product(conjugate(u - mean_p), v - mean_q) for u, v in zip(p, q, strict=True)], axis=0)
            light = product(conjugate(mean_p), mean_p) + product(conjugate(mean_q), mean_q) + STABILIZER * one
            a = (2 * product(conjugate(mean_p), mean_q) + STABILIZER * one) / light[0]
            b = (2 * cross + STABILIZER * one) / (spread_p + spread_q + STABILIZER * one)[0]
            result[:, row, column] = product(conjugate(a), b)
    return result


def noise_image(seed, shape=(3, 6, 7), dtype=np.float64):
    return np.random.default_rng(seed).uniform(0, 255, shape).astype(dtype)


def period_three_texture(shape=(12, 12)):
    """A zero-mean texture whose 3x3 window means are all zero, away from the border."""
    return np.resize([40.0, -10.0, -30.0], shape[1]) * np.ones(shape)


@pytest.mark.parametrize("side_px", [1, 3, 5])
@pytest.mark.parametrize("shape", [(3, 6, 7), (3, 5, 9)])
def test_both_parts_equal_definition_5_written_as_loops(shape, side_px):
    x, y = noise_image(1, shape), noise_image(2, shape)
    expected = definition_5(x, y, side_px=side_px)

    scalar = similarity(x, y, part=SimilarityPart.SCALAR, side_px=side_px)
    modulus = similarity(x, y, part=SimilarityPart.MODULUS, side_px=side_px)

    np.testing.assert_allclose(scalar, expected[0], rtol=0, atol=tolerance(np.float64))
    np.testing.assert_allclose(modulus, np.linalg.norm(expected, axis=0), rtol=0, atol=tolerance(np.float64))


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("level", [255, 1000, 5000])
def test_similarity_in_a_bright_flat_area_is_that_of_its_noise(level, part):
    """In float32 the rounding of the squares, up to 5000 squared, would exceed the variance 3 x 0.2 squared."""
    x, y = ((level + np.random.default_rng(seed).normal(0, 0.2, (3, 9, 10))).astype(np.float32) for seed in (1, 2))
    precise = definition_5(x.astype(np.float64), y.astype(np.float64), side_px=5)
    expected = precise[0] if part is SimilarityPart.SCALAR else np.linalg.norm(precise, axis=0)

    result = similarity(x, y, part=part, side_px=5)

    accepted = tolerance(np.float64, power=3.0 * level**2)
    assert accepted < 1e-4
    np.testing.assert_allclose(result, expected, rtol=0, atol=accepted)
    assert result.max() <= 1


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_images_have_similarity_one(part, dtype):
    x = noise_image(3, (3, 20, 30), dtype)

    result = similarity(x, x.copy(), part=part, side_px=5)

    assert result.dtype == np.float64
    np.testing.assert_allclose(result, 1, rtol=0, atol=tolerance(np.float64, variance=smallest_variance(x, side_px=5)))


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("seed", range(5))
def test_similarity_is_at_most_one_and_below_it_for_different_images(part, seed):
    x = noise_image(seed, (3, 15, 16))
    y = x + np.random.default_rng(seed + 100).normal(0, 10.0 ** (seed - 2), x.shape)

    result = similarity(x, y, part=part, side_px=5)

    assert result.max() <= 1 + tolerance(np.float64)
    assert result.mean() < 1


def test_modulus_is_blind_to_inverted_contrast_while_scalar_part_is_not():
    texture = period_three_texture()
    x = np.stack([128 + texture, 100 + texture, 90 + texture])
    inverted = np.stack([128 - texture, 100 - texture, 90 - texture])
    inside = np.s_[2:-2, 2:-2]
    variance = 3 * np.mean(np.square([40.0, -10.0, -30.0]))
    pull_of_stabilizer = 2 * STABILIZER / variance

    modulus = similarity(x, inverted, part=SimilarityPart.MODULUS)[inside]
    scalar = similarity(x, inverted, part=SimilarityPart.SCALAR)[inside]

    np.testing.assert_allclose(modulus, 1, rtol=0, atol=pull_of_stabilizer)
    np.testing.assert_allclose(scalar, -1, rtol=0, atol=pull_of_stabilizer)


def test_modulus_is_blind_to_texture_that_moves_from_red_to_green_while_scalar_part_is_not():
    texture, flat = period_three_texture(), np.zeros((12, 12))
    red, green = 100 + np.stack([texture, flat, flat]), 100 + np.stack([flat, texture, flat])
    inside = np.s_[2:-2, 2:-2]
    pull_of_stabilizer = 2 * STABILIZER / np.mean(np.square([40.0, -10.0, -30.0]))

    np.testing.assert_allclose(similarity(red, green, part=SimilarityPart.MODULUS)[inside], 1, rtol=0, atol=pull_of_stabilizer)
    np.testing.assert_allclose(similarity(red, green, part=SimilarityPart.SCALAR)[inside], 0, rtol=0, atol=pull_of_stabilizer)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_flat_windows_are_finite_and_compare_by_their_level(part, dtype):
    black, dark, bright = (np.full((3, 9, 9), level, dtype) for level in (0, 10, 250))

    assert np.isfinite([similarity(first, second, part=part) for first in (black, dark, bright) for second in (black, dark, bright)]).all()
    np.testing.assert_allclose(similarity(black, black, part=part), 1, rtol=0, atol=tolerance(np.float64, power=0))
    expected = (2 * 3 * 10 * 250 + STABILIZER) / (3 * 10**2 + 3 * 250**2 + STABILIZER)
    np.testing.assert_allclose(similarity(dark, bright, part=part), expected, rtol=0, atol=tolerance(np.float64))


def test_images_are_left_alone():
    x = noise_image(8, dtype=np.float32)
    x.flags.writeable = False  # writing into it would raise

    assert similarity(x, x, part=SimilarityPart.SCALAR).shape == (6, 7)
