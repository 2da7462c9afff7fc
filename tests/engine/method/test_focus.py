"""The focus measures against the paper's formulas written as loops, and exact zeros where there is nothing to see."""

import math

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FocusConfig, Representation
from qmcif_engine.method.decomposition import Decomposition, History, StopReason
from qmcif_engine.method.focus import (
    FAINT_LEVEL,
    FINE_WEIGHT,
    FINEST_WINDOW_PX,
    Borders,
    amplify_detail,
    base_focus,
    detail_focus,
    fine_focus,
    gather_evidence,
    gradient_level,
    saturate,
)
from qmcif_engine.stack.samples import FocusRange, to_planes

ROUNDINGS = 16
"""How many roundings a sum over two windows of bounded values may add up to, as a multiple of eps times the largest partial sum."""


AS_PUBLISHED = FocusConfig(border_px=0)
"""The paper knows no special treatment of the border."""


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
    detail_focus(detail, detail_patch_px=5, config=FocusConfig())
    gradient_level(detail, border_px=2)
    gather_evidence(detail[0], detail_patch_px=3, config=FocusConfig())

    np.testing.assert_array_equal(detail, kept)


@pytest.mark.parametrize("shape", [(3, 11, 13), (3, 1, 6), (3, 1, 1)])
def test_gradient_level_is_the_sum_of_both_difference_moduli(shape):
    layer = noise_layer(3, shape)
    expected = gradient_moduli(layer)

    np.testing.assert_allclose(gradient_level(layer, border_px=0), expected, rtol=0, atol=rounding(expected, np.float64))


@pytest.mark.parametrize(
    ("shape", "border_px", "width_px"), [((3, 20, 24), 3, 3), ((3, 13, 40), 8, 3), ((3, 4, 9), 8, 0), ((3, 1, 1), 8, 0)]
)
def test_levels_near_the_border_are_those_of_the_interior_mirrored_outwards(shape, border_px, width_px):
    layer = noise_layer(3, shape)
    plain = gradient_moduli(layer)
    expected = np.empty(shape[1:])
    for row in range(shape[1]):
        for column in range(shape[2]):
            inner = (
                width_px + reflected(row - width_px, shape[1] - 2 * width_px),
                width_px + reflected(column - width_px, shape[2] - 2 * width_px),
            )
            expected[row, column] = plain[inner]

    np.testing.assert_allclose(gradient_level(layer, border_px=border_px), expected, rtol=0, atol=rounding(expected, np.float64))


@pytest.mark.parametrize("borders", [Borders(top, left, bottom, right) for top, left, bottom, right in np.ndindex(2, 2, 2, 2)])
def test_levels_are_mirrored_only_at_the_sides_where_the_image_ends(borders):
    layer = noise_layer(3, (3, 20, 24))
    plain, width = gradient_level(layer, border_px=0), 3

    def mirrored(position, length, *, is_low, is_high):
        if is_low and position < width:
            return 2 * width - 1 - position
        return 2 * (length - width) - 1 - position if is_high and position >= length - width else position

    rows = [mirrored(row, 20, is_low=borders.top, is_high=borders.bottom) for row in range(20)]
    columns = [mirrored(column, 24, is_low=borders.left, is_high=borders.right) for column in range(24)]

    np.testing.assert_array_equal(gradient_level(layer, border_px=width, borders=borders), plain[np.ix_(rows, columns)])


def test_focus_measures_of_a_block_inside_the_image_keep_their_own_border_levels():
    detail, inside = noise_layer(3, (3, 40, 48)), Borders(False, False, False, False)
    unmirrored = FocusConfig(border_px=0)

    base = base_focus(parts_with(detail), base_patch_px=8, config=FocusConfig(), borders=inside)
    np.testing.assert_array_equal(base, base_focus(parts_with(detail), base_patch_px=8, config=unmirrored))
    level = detail_focus(detail, detail_patch_px=5, config=FocusConfig(), borders=inside)
    np.testing.assert_array_equal(level, detail_focus(detail, detail_patch_px=5, config=unmirrored))


def test_a_border_around_the_image_does_not_count_as_focus():
    layer = np.zeros((3, 64, 64))
    layer[:, :4], layer[:, -4:], layer[:, :, :4], layer[:, :, -4:] = 100, 100, 100, 100

    assert gradient_level(layer, border_px=0).max() > 0
    np.testing.assert_array_equal(gradient_level(layer, border_px=8), 0)


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

    result = base_focus(parts_with(detail), base_patch_px=patch_px, config=AS_PUBLISHED)

    np.testing.assert_allclose(result, expected, rtol=0, atol=rounding(expected, np.float64))


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_base_focus_adds_theta_times_the_length_of_the_coefficients(weight):
    detail = noise_layer(5, (3, 16, 24))
    n_atoms, n_patches = 7, 6
    coefficients = np.random.default_rng(6).normal(0, 100, (4, n_atoms, n_patches))
    lengths = np.array([math.sqrt(sum(coefficients[c, a, p] ** 2 for c in range(4) for a in range(n_atoms))) for p in range(n_patches)])
    config = FocusConfig(coefficient_weight=weight)

    without = base_focus(parts_with(detail), base_patch_px=8, config=config)
    result = base_focus(parts_with(detail, coefficients), base_patch_px=8, config=config)

    # patches in row-major order: 2 rows of 3
    np.testing.assert_allclose(result - without, weight * lengths.reshape(2, 3), rtol=0, atol=rounding(result, np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("radius_px", "patch_px"), [(3, 5), (1, 3), (0, 1)])
def test_detail_focus_is_the_patch_mean_of_the_amplified_gradients_on_the_unit_scale(radius_px, patch_px, dtype):
    detail = noise_layer(7, (3, 10, 9), dtype)
    amplified = np.stack([window_sum(plane.astype(np.float64), radius_px=radius_px) for plane in detail])
    level = gradient_moduli(amplified)
    expected = window_sum(level, radius_px=patch_px // 2) / patch_px**2 / 255

    result = detail_focus(detail, detail_patch_px=patch_px, config=FocusConfig(amplification_radius_px=radius_px, border_px=0))

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

    level = detail_focus(
        np.ascontiguousarray(detail[flip]), detail_patch_px=patch_px, config=FocusConfig(amplification_radius_px=radius_px)
    )

    is_flat = is_flat[flip[1:]]
    assert (level[is_flat] == 0).all()
    assert is_flat.any()
    assert (level > 0).sum() >= texture_px**2


def test_faint_texture_is_not_taken_for_rounding():
    quarter_level = 0.25
    detail = np.zeros((3, 40, 40), np.float32)
    detail[:, 20, 20] = quarter_level

    level = detail_focus(detail, detail_patch_px=9, config=FocusConfig())

    assert level[20, 20] > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("radius_px", "growth_px"), [(3, 0), (0, 0), (1, 4)])
def test_fine_focus_is_the_mean_of_gradients_over_a_small_window_on_the_scale_of_the_detail_focus(radius_px, growth_px, dtype):
    detail = noise_layer(8, (3, 12, 15), dtype)
    side_px = FINEST_WINDOW_PX + growth_px
    expected = window_sum(gradient_moduli(detail.astype(np.float64)), radius_px=side_px // 2) / side_px**2 / 255
    expected = FINE_WEIGHT * (2 * radius_px + 1) * expected

    result = fine_focus(detail, growth_px=growth_px, config=FocusConfig(amplification_radius_px=radius_px))

    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=rounding(expected.max() * side_px**2, dtype))


def test_fine_focus_counts_only_what_lies_above_the_faint_level():
    detail = np.random.default_rng(3).normal(0, 2, (3, 20, 24)).astype(np.float32)
    whole, bounded = (fine_focus(detail, faint_level=faint, config=FocusConfig()) for faint in (0.0, 0.1))

    np.testing.assert_array_equal(bounded, np.maximum(whole - np.float32(0.1), 0))
    assert np.count_nonzero(bounded) > 0


def test_fine_focus_sees_a_hair_that_a_detail_patch_takes_for_its_surroundings():
    """Beside a stronger texture, where a detail patch cannot tell whose contrast it is."""
    plain, hair = np.zeros((2, 3, 40, 60), np.float32)
    plain[:, :, 24:] = noise_layer(1, (3, 40, 36)) / 2
    hair[:, :, 18] = 20
    detail, fine = (
        [measure(image) for image in (plain, hair)]
        for measure in (
            lambda layer: detail_focus(layer, detail_patch_px=17, config=AS_PUBLISHED),
            lambda layer: fine_focus(layer, growth_px=0, config=AS_PUBLISHED),
        )
    )

    assert (fine[1] > fine[0])[10:30, 17:20].all()
    assert (fine[1] == 0)[:, 24:].all()
    assert not (detail[1] > detail[0])[10:30, 17:20].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_scales", [1, 2, 4])
def test_evidence_adds_the_means_of_windows_each_about_twice_as_large_and_less_weighted(n_scales, dtype):
    level = np.random.default_rng(12).exponential(0.1, (10, 13)).astype(dtype)
    decay, side_px = 0.25, 3
    assert 0.05 < (level < FAINT_LEVEL).mean() < 0.5
    counted = level.astype(np.float64) if n_scales == 1 else np.maximum(level.astype(np.float64) - FAINT_LEVEL, 0)
    expected = counted
    for scale in range(1, n_scales):
        side_px = 2 * side_px + 1
        expected = expected + decay**scale * window_sum(counted, radius_px=side_px // 2) / side_px**2

    result = gather_evidence(level, detail_patch_px=3, config=FocusConfig(evidence_scales=n_scales, evidence_decay=decay))

    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=rounding(expected, dtype))


def test_evidence_of_an_empty_patch_comes_from_its_surroundings_and_stays_zero_where_nothing_is_near():
    level = np.zeros((101, 101), np.float32)
    level[:, :10] = 0.3
    config = FocusConfig(evidence_scales=3, evidence_decay=0.2)

    evidence = gather_evidence(level, detail_patch_px=9, config=config)

    largest_radius_px = (9 * 4 + 3) // 2
    assert (evidence[:, : 10 + largest_radius_px] > 0).all()
    np.testing.assert_array_equal(evidence[:, 10 + largest_radius_px :], 0)


def test_levels_of_the_patch_alone_are_taken_as_they_are():
    level = np.random.default_rng(13).exponential(FAINT_LEVEL, (10, 13)).astype(np.float32)

    evidence = gather_evidence(level, detail_patch_px=3, config=FocusConfig(evidence_scales=1))

    np.testing.assert_array_equal(evidence, level)


@pytest.mark.parametrize("n_scales", [2, 5])
def test_a_faint_level_has_no_say_against_structure_in_the_surroundings(n_scales):
    """A defocused gradient in one image, nothing but structure a little further in the other."""
    side_px = 9
    faint, structured = np.full((101, 101), FAINT_LEVEL, np.float32), np.zeros((101, 101), np.float32)
    structured[:, 50 + side_px :] = 3 * FAINT_LEVEL
    config = FocusConfig(evidence_scales=n_scales)

    of_faint, of_structured = (gather_evidence(level, detail_patch_px=side_px, config=config) for level in (faint, structured))

    np.testing.assert_array_equal(of_faint, 0)
    assert 0 < of_structured[50, 50] < FAINT_LEVEL  # as levels are, the faint one would have won


def test_what_a_level_has_above_a_faint_one_is_evidence():
    config = FocusConfig(evidence_scales=2, evidence_decay=0.5)
    level = np.full((40, 40), 1.5 * FAINT_LEVEL)

    evidence = gather_evidence(level, detail_patch_px=5, config=config)

    np.testing.assert_allclose(evidence, 1.5 * 0.5 * FAINT_LEVEL, rtol=1e-12)


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


def test_saturation_never_exceeds_one_nor_changes_an_order():
    levels = np.linspace(0, 5, 1000, dtype=np.float32)

    result = saturate(levels, saturation=0.2)

    assert result.max() <= 1
    assert (np.diff(result) >= 0).all()


def test_equal_channels_count_as_one_channel_times_the_root_of_three():
    plane = noise_layer(10, (1, 20, 20))
    alone = np.concatenate([plane, np.zeros((2, 20, 20))])
    equal = np.repeat(plane, 3, axis=0)

    for measured in (
        lambda layer: detail_focus(layer, detail_patch_px=5, config=FocusConfig()),
        lambda layer: gradient_level(layer, border_px=3),
    ):
        expected = math.sqrt(3) * measured(alone)
        np.testing.assert_allclose(measured(equal), expected, rtol=0, atol=rounding(expected, np.float64) * 49)


def test_gray_image_and_equal_channels_have_the_same_focus_levels():
    gray = np.random.default_rng(11).integers(0, 256, (24, 30), dtype=np.uint8)
    color = np.repeat(gray[..., None], 3, axis=-1)
    bounds = FocusRange(3, 250)
    planes = [to_planes(image, bounds, representation=Representation.QUATERNION) for image in (gray, color)]

    levels = [detail_focus(block, detail_patch_px=9, config=FocusConfig()) for block in planes]

    np.testing.assert_array_equal(levels[0], levels[1])
