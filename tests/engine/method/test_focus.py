"""The focus measures against the paper's formulas written as loops, and exact zeros where there is nothing to see."""

import itertools
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


def windows(plane, radius_px):
    """The window around each pixel of a plane that continues by reflection, shape (h, w, side, side)."""
    side = 2 * radius_px + 1
    return np.lib.stride_tricks.sliding_window_view(np.pad(plane, radius_px, mode="symmetric"), (side, side))


def window_sum(planes, radius_px):
    return np.stack([windows(plane.astype(np.float64), radius_px).sum(axis=(2, 3)) for plane in planes])


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


def test_image_in_parts_has_the_levels_of_the_whole_one(textured_image):
    """But for the low-rank term, which depends on all patches of a part, and what a solve cannot see beyond its margin."""
    image, config = textured_image((120, 150)).astype(np.float32), MethodConfig(is_low_rank=False)
    whole, in_parts = (measure_focus(image, config, detail_patch_px=7, part_px=side) for side in (256, 72))

    np.testing.assert_allclose(in_parts.base, whole.base, rtol=1e-3, atol=0.01)
    np.testing.assert_allclose(in_parts.detail, whole.detail, rtol=1e-3, atol=1e-5)


def test_saturation_is_one_minus_the_exponential_and_keeps_small_levels_apart():
    for gamma, dtype in itertools.product((0.05, 0.2, 3.0), (np.float32, np.float64)):
        levels = np.array([0.0, 1e-12, 2e-12, 0.01, 0.2, 1.0, 50.0], dtype)
        expected = [-math.expm1(-x / gamma) for x in levels.tolist()]
        result = saturate(levels, saturation=gamma)
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "radius_px", "patch_px"), [((3, 10, 9), 3, 5), ((3, 5, 6), 0, 1), ((3, 2, 5), 2, 3)])
def test_detail_focus_is_the_patch_mean_of_the_amplified_gradients_on_the_unit_scale(shape, radius_px, patch_px, dtype):
    detail = noise_layer(7, shape, dtype)
    detail.flags.writeable = False  # writing into it would raise
    amplified = window_sum(detail, radius_px)
    level = gradient_moduli(amplified)
    expected = window_sum(level[None], patch_px // 2)[0] / patch_px**2 / 255
    accepted = rounding(np.abs(detail).max() * (2 * radius_px + 1) ** 2, dtype)

    result = detail_focus(detail, detail_patch_px=patch_px, radius_px=radius_px)

    assert result.dtype == dtype
    np.testing.assert_allclose(amplify_detail(detail, radius_px=radius_px), amplified, rtol=0, atol=accepted)
    np.testing.assert_allclose(gradient_level(amplified), level, rtol=0, atol=rounding(level, np.float64))
    np.testing.assert_allclose(result, expected, rtol=0, atol=accepted)


@pytest.mark.parametrize(("shape", "patch_px", "weight"), [((3, 16, 20), 5, 2.5), ((3, 11, 13), 8, 0.0), ((3, 2, 3), 5, 1.0)])
def test_base_focus_sums_gradient_moduli_over_each_patch_and_adds_the_length_of_its_coefficients(shape, patch_px, weight):
    detail = noise_layer(4, shape)
    rows, columns = -(-shape[1] // patch_px), -(-shape[2] // patch_px)
    margins = ((0, rows * patch_px - shape[1]), (0, columns * patch_px - shape[2]))
    padded = np.pad(gradient_moduli(detail), margins, mode="symmetric").reshape(rows, patch_px, columns, patch_px)
    coefficients = np.random.default_rng(6).normal(0, 100, (4, 7, rows * columns))
    # patches in row-major order
    expected = padded.sum(axis=(1, 3)) + weight * np.linalg.norm(coefficients.reshape(28, -1), axis=0).reshape(rows, columns)

    nothing, history = np.zeros_like(detail), History((), StopReason.ITERATIONS_DONE)
    parts = Decomposition(nothing, detail, nothing, coefficients, history)

    np.testing.assert_allclose(
        base_focus(parts, base_patch_px=patch_px, coefficient_weight=weight), expected, rtol=0, atol=rounding(expected, np.float64)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("flip", [np.s_[:, :, :], np.s_[:, ::-1, ::-1]])
def test_textureless_area_next_to_texture_has_level_exactly_zero(flip, dtype):
    detail, is_flat = np.zeros((3, 64, 64), dtype), np.ones((64, 64), bool)
    detail[:, :20, :20] = 1 / 3 + 1e3 * np.random.default_rng(8).normal(size=(3, 20, 20))
    is_flat[: 20 + 8, : 20 + 8] = False  # radius, difference, and half a patch

    level = detail_focus(np.ascontiguousarray(detail[flip]), detail_patch_px=9, radius_px=3)

    assert (level[is_flat[flip[1:]]] == 0).all()
    assert (level > 0).sum() >= 20**2
