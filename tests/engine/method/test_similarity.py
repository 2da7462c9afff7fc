"""Q_SSIM against Definition 5 written out, and the properties a similarity must have."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from qmcif_engine.config.fusion_config import SimilarityPart
from qmcif_engine.method import quaternion
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


def definition_5(x, y, *, side_px):
    """Q_SSIM, a quaternion a window, in products of quaternions; the image continues by reflection."""
    product, conjugate = quaternion.multiply, quaternion.conjugate
    blocks = []
    for image in (x, y):
        windows = sliding_window_view(reflected(image.astype(np.float64), side_px // 2), (side_px, side_px), axis=(1, 2))
        blocks.append(np.concatenate([np.zeros((1, x[0].size, side_px**2)), windows.reshape(3, x[0].size, -1)]))
    means = [block.mean(axis=2, keepdims=True) for block in blocks]
    p, q = (block - mean for block, mean in zip(blocks, means, strict=True))
    light, spread = (sum(product(conjugate(z), z)[0].mean(axis=1) for z in pair) + STABILIZER for pair in (means, (p, q)))
    a, b = (2 * product(conjugate(u), v).mean(axis=2, keepdims=True) for u, v in (means, (p, q)))
    a[0] += STABILIZER
    b[0] += STABILIZER
    return (product(conjugate(a), b)[..., 0] / light / spread).reshape(4, *x.shape[1:])


def noise_image(seed, shape=(3, 6, 7), dtype=np.float64):
    return np.random.default_rng(seed).uniform(0, 255, shape).astype(dtype)


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
def test_equal_images_have_similarity_one_and_others_less(part, dtype):
    x = noise_image(3, (3, 20, 30), dtype)
    x.flags.writeable = False  # writing into it would raise

    result = similarity(x, x.copy(), part=part, side_px=5)

    assert result.dtype == np.float64
    np.testing.assert_allclose(result, 1, rtol=0, atol=tolerance(np.float64, variance=1000))
    for power in range(-2, 3):
        other = similarity(x, x + noise_image(4, x.shape, dtype) * 10.0**power, part=part, side_px=5)
        assert other.max() <= 1 + tolerance(np.float64)
        assert other.mean() < 1


@pytest.mark.parametrize(("other", "scalar"), [((-1, -1, -1), -1), ((0, 0, 3**0.5), 1 / 3**0.5)])
def test_modulus_is_blind_to_inverted_contrast_and_to_texture_that_changes_its_color_while_scalar_part_is_not(other, scalar):
    texture = np.resize([40.0, -10.0, -30.0], 12) * np.ones((3, 12, 12))  # the mean of each window of 3 px is zero
    x, y = 100 + texture, 100 + np.reshape(other, (3, 1, 1)) * texture
    inside = np.s_[2:-2, 2:-2]
    pull_of_stabilizer = 2 * STABILIZER / np.mean(np.square([40.0, -10.0, -30.0]))

    for part, expected in ((SimilarityPart.MODULUS, 1), (SimilarityPart.SCALAR, scalar)):
        np.testing.assert_allclose(similarity(x, y, part=part)[inside], expected, rtol=0, atol=pull_of_stabilizer)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("levels", [(0, 0), (0, 10), (10, 250), (250, 250)])
def test_flat_windows_compare_by_their_level(part, levels):
    dark, bright = levels
    expected = (2 * 3 * dark * bright + STABILIZER) / (3 * dark**2 + 3 * bright**2 + STABILIZER)

    result = similarity(*(np.full((3, 9, 9), level, np.float32) for level in levels), part=part)

    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance(np.float64))
