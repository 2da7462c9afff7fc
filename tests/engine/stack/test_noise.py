"""Noise is measured as it is, and smoothing follows from it and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import DecompositionConfig, FusionConfig, StackOrder
from qmcif_engine.stack.noise import (
    CLEAN_LEVEL,
    LONGEST_BLUR_REACH_PX,
    NO_NOISE,
    OUTLIER_EXCESS,
    ROUNDING_NOISE,
    WIDEST_BLUR_PX,
    WIDEST_STACK_BLUR,
    LevelsAlongStack,
    NoiseAdaptation,
    adapt_to_noise,
    measure_noise,
    smooth_along_stack,
)
from qmcif_engine.stack.samples import FocusRange

RANGE = FocusRange(0.0, 255.0)
SHAPE = (128, 160)


def scene(shape=SHAPE, *, seed=0, channels=()):
    """Texture in the middle, smooth slopes of brightness around it, on the 0-255 scale."""
    generator = np.random.default_rng(seed)
    noise = ndimage.gaussian_filter(generator.normal(size=(*shape, *channels)), (1, 1, *[0] * len(channels)))
    rows, columns = np.indices(shape)
    is_textured = (np.hypot(rows - shape[0] / 2, columns - shape[1] / 2) < shape[0] / 3).reshape(*shape, *[1] * len(channels))
    slope = (60 + 120 * columns / shape[1]).reshape(*shape, *[1] * len(channels))
    return slope + is_textured * 15 * noise / noise.std()


def noisy(sigma, *, n_images=3, channels=(), shape=SHAPE):
    generator = np.random.default_rng(9)
    images = [scene(shape, channels=channels) + generator.normal(0, sigma, (*shape, *channels)) for _ in range(n_images)]
    return [image.astype(np.float32) for image in images]


# --- measuring ---


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("sigma", [2.0, 5.0, 12.0, 30.0])
def test_noise_of_a_known_deviation_is_measured_within_15_percent(sigma, channels):
    assert measure_noise(noisy(sigma, channels=channels), RANGE) == pytest.approx(sigma, rel=0.15)


@pytest.mark.parametrize("images", [[np.full(SHAPE, 80, np.uint8)] * 2, [np.zeros((*SHAPE, 3), np.float32)] * 2])
def test_plain_images_have_none(images):
    assert measure_noise(images, RANGE) == 0


def test_clean_images_have_less_than_smoothing_begins_at():
    images = [scene(), ndimage.gaussian_filter(scene(), 2)]

    assert measure_noise(images, RANGE) < 0.5
    assert measure_noise([np.rint(image).astype(np.uint8) for image in images], RANGE) < 1 < CLEAN_LEVEL


def test_texture_is_not_taken_for_noise():
    noise = np.random.default_rng(0).normal(size=SHAPE)
    textured = 128 + 40 * ndimage.gaussian_filter(noise, 1.5) / 0.19

    assert measure_noise([textured.astype(np.float32)] * 2, RANGE) < CLEAN_LEVEL


def test_noise_of_light_grows_as_light_falls():
    generator = np.random.default_rng(4)
    levels = []
    for photons in (2000, 200, 50, 12):
        images = [generator.poisson(scene() / 255 * photons) * (255 / photons) for _ in range(3)]
        levels.append(measure_noise([image.astype(np.float32) for image in images], RANGE))

    assert levels == sorted(levels)
    # at the middle brightness, 120 of 255: sqrt(120 / 255 * photons) photons
    for photons, level in zip((2000, 200, 50, 12), levels, strict=True):
        assert level == pytest.approx(np.sqrt(120 / 255 * photons) * 255 / photons, rel=0.25)


def test_noise_is_told_on_the_scale_of_decisions():
    images = noisy(10.0)

    whole = measure_noise(images, RANGE)

    assert measure_noise([100 * image - 7 for image in images], FocusRange(-7.0, 25493.0)) == pytest.approx(whole, rel=1e-3)
    assert measure_noise(images, FocusRange(0.0, 2550.0)) == pytest.approx(whole / 10, rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (15, 15), (15, 400), (16, 16), (20, 40)])
def test_pictures_too_small_for_a_square_have_none_and_others_a_figure(shape):
    level = measure_noise([np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)], RANGE)

    assert (level == 0) == (min(shape) < 16)


def test_hot_pixels_are_no_noise():
    images = [np.rint(image).astype(np.uint8) for image in noisy(1.0)]
    for number, image in enumerate(images):
        image[np.random.default_rng(number).random(SHAPE) < 0.0005] = 255

    assert measure_noise(images, RANGE) < CLEAN_LEVEL


# --- adapting ---


@pytest.mark.parametrize("level", [0.0, 1.0, CLEAN_LEVEL])
def test_clean_stacks_are_not_smoothed(level):
    adaptation = adapt_to_noise(level, FusionConfig(), n_images=10)

    assert replace(adaptation, faint_level=0.0) == NoiseAdaptation(level)
    assert adaptation.remaining_level == level


def test_noise_beyond_rounding_is_no_evidence_in_the_finest_window():
    faint = [adapt_to_noise(level, FusionConfig(), n_images=10).faint_level for level in (0.0, ROUNDING_NOISE, 0.6, 1.0, 20.0)]

    assert faint[:2] == [0, 0]
    assert 0 < faint[2] < faint[3] == faint[4]


def test_nothing_is_adapted_where_the_setting_says_so():
    config = FusionConfig().replaced({"adapts_to_noise": False})

    assert adapt_to_noise(40.0, config, n_images=10) == NoiseAdaptation(40.0)


@pytest.mark.parametrize("n_images", [2, 3, 10, 50])
@pytest.mark.parametrize("order", StackOrder)
def test_more_noise_never_makes_for_less_smoothing(n_images, order):
    config = FusionConfig().replaced({"order": order})
    steps = [adapt_to_noise(level, config, n_images=n_images) for level in np.linspace(0, 80, 200)]

    for name in ("level", "blur_px", "stack_blur", "window_growth_px", "reach_px"):
        figures = [getattr(step, name) for step in steps]
        assert figures == sorted(figures), name
    solved = [step.decomposition(DecompositionConfig()) for step in steps]
    sparsities = [config.detail_sparsity for config in solved]
    assert sparsities == sorted(sparsities, reverse=True)
    assert sparsities[-1] == 0
    assert min(config.base_smoothness for config in solved) == DecompositionConfig().base_smoothness
    assert steps[-1].blur_px == WIDEST_BLUR_PX
    assert steps[-1].stack_blur <= WIDEST_STACK_BLUR
    assert steps[-1].reach_px < LONGEST_BLUR_REACH_PX
    assert all(step.window_growth_px % 2 == 0 for step in steps)


@pytest.mark.parametrize(("n_images", "order"), [(2, StackOrder.ORDERED), (2, StackOrder.NONE), (20, StackOrder.NONE)])
def test_levels_are_not_smoothed_along_a_pair_or_images_without_an_order(n_images, order):
    config = FusionConfig().replaced({"order": order})

    assert adapt_to_noise(40.0, config, n_images=n_images).stack_blur == 0
    assert adapt_to_noise(40.0, FusionConfig(), n_images=20).stack_blur > 0


def test_the_level_that_remains_is_that_of_blurred_white_noise():
    adaptation = adapt_to_noise(30.0, FusionConfig(), n_images=2)
    noise = np.random.default_rng(0).normal(0, 30, (3, 200, 200)).astype(np.float32)

    remaining = ndimage.gaussian_filter(noise, (0, adaptation.blur_px, adaptation.blur_px), truncate=3).std()

    assert adaptation.remaining_level == pytest.approx(remaining, rel=0.1)
    assert NO_NOISE.remaining_level == 0


def test_settings_of_the_solve_stay_where_nothing_is_blurred():
    config = DecompositionConfig()

    assert NO_NOISE.decomposition(config) is config


# --- smoothing images ---


def test_a_clean_stack_only_loses_its_outliers():
    block = np.random.default_rng(0).uniform(90, 110, (3, 20, 30)).astype(np.float32)
    hot = block.copy()
    hot[1, 8, 9] = 255

    smoothed = NO_NOISE.smooth(hot)

    np.testing.assert_array_equal(NO_NOISE.smooth(block), block)
    assert smoothed[1, 8, 9] <= 110
    smoothed[1, 8, 9] = block[1, 8, 9]
    np.testing.assert_array_equal(smoothed, block)
    assert hot[1, 8, 9] == 255  # the image itself stays


def test_a_noisy_stack_is_blurred_by_a_gaussian():
    block = np.random.default_rng(0).uniform(0, OUTLIER_EXCESS, (3, 40, 50)).astype(np.float32)

    smoothed = NoiseAdaptation(level=20.0, blur_px=1.4).smooth(block)

    np.testing.assert_allclose(smoothed, ndimage.gaussian_filter(block, (0, 1.4, 1.4), truncate=3.0), rtol=1e-5)


# --- smoothing levels along the stack ---


def levels(n_images=7, shape=(4, 5)):
    return list(np.random.default_rng(1).random((n_images, *shape)).astype(np.float32))


@pytest.mark.parametrize("deviation", [0.3, 1.0, 1.5])
@pytest.mark.parametrize("n_images", [3, 7, 12])
def test_levels_are_averaged_over_neighboring_images_and_the_ends_repeat(n_images, deviation):
    plain = levels(n_images)

    smoothed = LevelsAlongStack(plain, deviation)

    assert len(smoothed) == n_images
    expected = ndimage.gaussian_filter1d(np.array(plain), deviation, axis=0, mode="nearest", truncate=3.0)
    np.testing.assert_allclose(np.array(smoothed), expected, rtol=0, atol=1e-6)
    assert smoothed[0].dtype == np.float32


def test_smoothed_levels_are_a_sequence():
    smoothed = LevelsAlongStack(levels(), 1.0)

    np.testing.assert_array_equal(smoothed[2:6:2], [smoothed[2], smoothed[4]])
    for number in (-1, 7):
        with pytest.raises(IndexError):
            smoothed[number]


def test_a_reversed_stack_has_the_smoothed_levels_reversed():
    plain = levels()

    np.testing.assert_allclose(np.array(LevelsAlongStack(plain[::-1], 1.2)), np.array(LevelsAlongStack(plain, 1.2))[::-1], atol=1e-6)


def test_levels_of_a_clean_stack_are_passed_on():
    plain = levels()

    assert smooth_along_stack(plain, NO_NOISE) is plain
    assert isinstance(smooth_along_stack(plain, NoiseAdaptation(stack_blur=1.0)), LevelsAlongStack)
