"""The focus measures against the paper's formulas written as loops, and exact zeros where there is nothing to see."""

import math

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import MethodConfig
from qmcif_engine.method.focus import amplify_detail, base_focus, detail_focus, gradient_level, measure_focus, saturate
from qmcif_engine.method.solver import Decomposition, History, StopReason

ROUNDINGS = 16
"""How many roundings a sum over two windows of bounded values may add up to, as a multiple of eps times the largest partial sum."""


def noise_layer(seed, shape=(3, 11, 13), dtype=np.float64):
    return np.random.default_rng(seed).normal(0, 20, shape).astype(dtype)


def rounding(values, dtype):
    return ROUNDINGS * np.finfo(dtype).eps * float(np.abs(values).max())


def reflected(index, length):
    """Position of an index outside the image, whose border pixel repeats."""
    index %= 2 * length
    return index if index < length else 2 * length - 1 - index


def window_sum(plane, *, radius_px):
    height, width = plane.shape
    result = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            for s in range(-radius_px, radius_px + 1):
                for t in range(-radius_px, radius_px + 1):
                    result[row, column] += plane[reflected(row + s, height), reflected(column + t, width)]
    return result


def gradient_moduli(layer):
    """|nabla_1 d| + |nabla_2 d| at each pixel; the difference across the border is zero."""
    _, height, width = layer.shape
    result = np.zeros((height, width))
    for row in range(height):
        for column in range(width):
            down = layer[:, min(row + 1, height - 1), column] - layer[:, row, column]
            right = layer[:, row, min(column + 1, width - 1)] - layer[:, row, column]
            result[row, column] = math.hypot(*down) + math.hypot(*right)
    return result


def parts_with(detail, coefficients=None):
    nothing = np.zeros_like(detail)
    return Decomposition(nothing, detail, nothing, coefficients, History((), StopReason.ITERATIONS_DONE))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius_px", [0, 1, 3])
@pytest.mark.parametrize("shape", [(3, 11, 13), (3, 2, 5)])
def test_amplification_is_the_sum_over_the_window_with_reflected_border(shape, radius_px, dtype):
    detail = noise_layer(1, shape, dtype)
    expected = np.stack([window_sum(plane.astype(np.float64), radius_px=radius_px) for plane in detail])

    amplified = amplify_detail(detail, radius_px=radius_px)

    assert amplified.dtype == dtype
    largest_sum = np.abs(detail).max() * (2 * radius_px + 1) ** 2
    np.testing.assert_allclose(amplified, expected, rtol=0, atol=rounding(largest_sum, dtype))


def test_amplification_leaves_its_argument_alone():
    detail = noise_layer(2)
    kept = detail.copy()

    amplify_detail(detail, radius_px=2)
    detail_focus(detail, detail_patch_px=5, radius_px=3)
    gradient_level(detail)

    np.testing.assert_array_equal(detail, kept)


@pytest.mark.parametrize("shape", [(3, 11, 13), (3, 1, 6), (3, 1, 1)])
def test_gradient_level_is_the_sum_of_both_difference_moduli(shape):
    layer = noise_layer(3, shape)
    expected = gradient_moduli(layer)

    np.testing.assert_allclose(gradient_level(layer), expected, rtol=0, atol=rounding(expected, np.float64))


@pytest.mark.parametrize("patch_px", [5, 8])
@pytest.mark.parametrize("shape", [(3, 16, 20), (3, 11, 13), (3, 2, 3)])
def test_base_focus_sums_gradient_moduli_over_each_patch(shape, patch_px):
    detail = noise_layer(4, shape)
    level = gradient_moduli(detail)
    rows, columns = -(-shape[1] // patch_px), -(-shape[2] // patch_px)
    expected = np.zeros((rows, columns))
    for row in range(rows * patch_px):
        for column in range(columns * patch_px):
            expected[row // patch_px, column // patch_px] += level[reflected(row, shape[1]), reflected(column, shape[2])]

    result = base_focus(parts_with(detail), base_patch_px=patch_px, coefficient_weight=1.0)

    np.testing.assert_allclose(result, expected, rtol=0, atol=rounding(expected, np.float64))


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_base_focus_adds_theta_times_the_length_of_the_coefficients(weight):
    detail = noise_layer(5, (3, 16, 24))
    n_atoms, n_patches = 7, 6
    coefficients = np.random.default_rng(6).normal(0, 100, (4, n_atoms, n_patches))
    lengths = np.array([math.sqrt(sum(coefficients[c, a, p] ** 2 for c in range(4) for a in range(n_atoms))) for p in range(n_patches)])

    without = base_focus(parts_with(detail), base_patch_px=8, coefficient_weight=weight)
    result = base_focus(parts_with(detail, coefficients), base_patch_px=8, coefficient_weight=weight)

    # patches in row-major order: 2 rows of 3
    np.testing.assert_allclose(result - without, weight * lengths.reshape(2, 3), rtol=0, atol=rounding(result, np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("radius_px", "patch_px"), [(3, 5), (1, 3), (0, 1)])
def test_detail_focus_is_the_patch_mean_of_the_amplified_gradients_on_the_unit_scale(radius_px, patch_px, dtype):
    detail = noise_layer(7, (3, 10, 9), dtype)
    amplified = np.stack([window_sum(plane.astype(np.float64), radius_px=radius_px) for plane in detail])
    level = gradient_moduli(amplified)
    expected = window_sum(level, radius_px=patch_px // 2) / patch_px**2 / 255

    result = detail_focus(detail, detail_patch_px=patch_px, radius_px=radius_px)

    assert result.dtype == dtype
    largest_sum = np.abs(detail).max() * (2 * radius_px + 1) ** 2
    np.testing.assert_allclose(result, expected, rtol=0, atol=rounding(largest_sum, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flip", [np.s_[:, :, :], np.s_[:, :, ::-1], np.s_[:, ::-1, :]])
def test_textureless_area_next_to_texture_has_level_exactly_zero(flip, dtype):
    texture_px, radius_px, patch_px = 20, 3, 9
    reach_px = radius_px + 1 + patch_px // 2
    detail = np.zeros((3, 64, 64), dtype)
    detail[:, :texture_px, :texture_px] = 1 / 3 + 1e3 * np.random.default_rng(8).normal(size=(3, texture_px, texture_px))
    is_flat = np.ones((64, 64), bool)
    is_flat[: texture_px + reach_px, : texture_px + reach_px] = False

    level = detail_focus(np.ascontiguousarray(detail[flip]), detail_patch_px=patch_px, radius_px=radius_px)

    is_flat = is_flat[flip[1:]]
    assert (level[is_flat] == 0).all()
    assert is_flat.any()
    assert (level > 0).sum() >= texture_px**2


def test_saturation_is_one_minus_the_exponential():
    levels = np.array([[0.0, 1e-12, 0.01], [0.2, 1.0, 50.0]])
    for gamma in (0.05, 0.2, 3.0):
        expected = [[1 - math.exp(-x / gamma) for x in row] for row in levels]
        accepted = 4 * np.finfo(np.float64).eps
        np.testing.assert_allclose(saturate(levels, saturation=gamma), expected, rtol=0, atol=accepted)


def test_saturation_keeps_small_levels_apart_in_float32():
    levels = np.array([0, 1e-9, 2e-9], np.float32)

    result = saturate(levels, saturation=0.2)

    assert result.dtype == np.float32
    assert result[0] == 0
    np.testing.assert_allclose(result[1:], [5e-9, 1e-8], rtol=4 * np.finfo(np.float32).eps, atol=0)


def test_equal_channels_count_as_one_channel_times_the_root_of_three():
    plane = noise_layer(10, (1, 20, 20))
    alone = np.concatenate([plane, np.zeros((2, 20, 20))])
    equal = np.repeat(plane, 3, axis=0)

    for measured in (
        lambda layer: detail_focus(layer, detail_patch_px=5, radius_px=3),
        lambda layer: gradient_level(layer),
    ):
        expected = math.sqrt(3) * measured(alone)
        np.testing.assert_allclose(measured(equal), expected, rtol=0, atol=rounding(expected, np.float64) * 49)


def test_image_in_parts_has_the_levels_of_the_whole_one(textured_image):
    """But for the low-rank term, which depends on all patches of a part, and what a solve cannot see beyond its margin."""
    image, config = textured_image((120, 150)).astype(np.float32), MethodConfig(is_low_rank=False)
    whole, in_parts = (measure_focus(image, config, detail_patch_px=7, part_px=side) for side in (256, 72))

    np.testing.assert_allclose(in_parts.base, whole.base, rtol=1e-3, atol=0.01)
    np.testing.assert_allclose(in_parts.detail, whole.detail, rtol=1e-3, atol=1e-5)
