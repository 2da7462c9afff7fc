"""Noise and floors of a stack: the noise that was put in, rounding as the least, and what clipped blocks do not say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import DecisionConfig, Evidence, FusionConfig, NoiseHandling, StackOrder
from qmcif_engine.decision.evidence import CELL_PX, FINE_PX, WIDE_PX, scale_energies
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.decision.statistics import (
    BLOCK_PX,
    LEAST_STEP,
    ROUNDING,
    SMOOTH_QUANTILE,
    block_medians,
    measure_gains,
    measure_noise,
    measure_statistics,
)
from qmcif_engine.rules import StackStatistics
from tests.scenes import texture

SHAPE = (160, 192)


def config(**settings):
    return replace(FusionConfig(), decision=DecisionConfig(**settings))


def noisy(sigma, *, n_planes=1, n_images=3, seed=0):
    """Smooth images with noise."""
    generator = np.random.default_rng(seed)
    smooth_one = ndimage.gaussian_filter(texture((n_planes, *SHAPE)), (0, 6, 6))
    return [(smooth_one + sigma * generator.normal(size=smooth_one.shape)).astype(np.float32) for _ in range(n_images)]


@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("sigma", [1.0, 5.0, 20.0])
def test_the_noise_that_was_put_in_is_found(sigma, n_planes):
    # the quantile over blocks lies somewhat below their mean
    assert 0.75 * sigma < measure_noise(noisy(sigma, n_planes=n_planes), step=1.0) < 1.05 * sigma


def test_texture_in_most_blocks_is_not_taken_for_noise():
    images = noisy(2.0)
    for image in images:
        image[:, : SHAPE[0] * 3 // 4] += texture((SHAPE[0] * 3 // 4, SHAPE[1]), seed=5, contrast=40)

    assert measure_noise(images, step=1.0) < 2.5


@pytest.mark.parametrize("step", [1.0, 255 / 65535, 0.0])
def test_without_noise_rounding_is_the_least(step):
    assert measure_noise([np.zeros((1, *SHAPE), np.float32)], step=step) == step * ROUNDING
    assert measure_noise([], step=step) == step * ROUNDING


def test_clipped_and_empty_blocks_do_not_count():
    images = noisy(4.0)
    for image in images:
        image[:, :, SHAPE[1] // 2 :] = 255

    assert measure_noise(images, step=1.0) == pytest.approx(
        measure_noise([image[:, :, : SHAPE[1] // 2 - 4] for image in images], step=1.0), rel=0.2
    )


def test_medians_are_those_of_whole_blocks():
    plane = texture((BLOCK_PX * 2 + 5, BLOCK_PX * 3 + 1))

    medians = block_medians(plane)

    expected = [np.median(plane[y : y + BLOCK_PX, x : x + BLOCK_PX]) for y in (0, BLOCK_PX) for x in (0, BLOCK_PX, 2 * BLOCK_PX)]
    np.testing.assert_array_equal(medians, expected)
    assert block_medians(plane[:5]).size == 0


def white_noise_power(sigma, cell):
    """Energy of the gradient of white noise of deviation 1, smoothed by a Gaussian."""
    generator = np.random.default_rng(7)
    plane = generator.normal(size=(512, 512)).astype(np.float32)
    layer = smooth(plane if cell == 1 else average_cells(plane, cell), (sigma**2 - (cell**2 - 1) / 12) ** 0.5 / cell)
    return (np.diff(layer, axis=0) ** 2).mean() + (np.diff(layer, axis=1) ** 2).mean()


def test_the_least_floor_is_a_twentieth_of_the_energy_of_undecomposed_noise():
    statistics = measure_statistics([np.full((1, *SHAPE), 9, np.float32)], FusionConfig(), n_images=2, step=1.0)

    wide = white_noise_power(WIDE_PX, CELL_PX) / 20
    expected = [white_noise_power(FINE_PX, 1) / 20, wide, wide / CELL_PX**2]
    assert statistics.noise == ROUNDING
    np.testing.assert_allclose(statistics.floors, expected, rtol=0.1)


def test_floors_are_the_energy_that_the_noise_of_a_stack_has():
    images = noisy(5.0)

    statistics = measure_statistics(images, FusionConfig(), n_images=3, step=1.0)

    for scale, floor in enumerate(statistics.floors):
        medians = [
            np.median(scale_energies(image / np.float32(statistics.noise), Evidence.DECOMPOSITION, n_scales=len(statistics.floors))[scale])
            for image in images
        ]
        assert 0.3 * np.mean(medians) < floor < 1.1 * np.mean(medians)
    assert 0 < SMOOTH_QUANTILE < 0.5


@pytest.mark.parametrize(("sigma", "factor"), [(3.0, 0.25), (3.0, 4.0)])
def test_statistics_follow_the_scale_of_the_samples(sigma, factor):
    one = measure_statistics(noisy(sigma), FusionConfig(), n_images=3, step=0.1)
    other = measure_statistics([factor * image for image in noisy(sigma)], FusionConfig(), n_images=3, step=0.1 * factor)

    assert other.noise == pytest.approx(factor * one.noise, rel=1e-4)
    np.testing.assert_allclose(other.floors, one.floors, rtol=1e-3)


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_without_noise_handling_only_rounding_counts(step):
    statistics = measure_statistics(noisy(9.0), config(noise=NoiseHandling.OFF), n_images=3, step=step)

    assert statistics.noise == max(step, LEAST_STEP) * ROUNDING


def test_a_hot_pixel_in_every_block_changes_little():
    images = noisy(3.0)
    hot = [image.copy() for image in images]
    for image in hot:
        image[:, 8::16, 8::16] = 255

    one, other = (measure_statistics(each, FusionConfig(), n_images=3, step=1.0) for each in (images, hot))

    assert other.noise == pytest.approx(one.noise, rel=0.2)
    np.testing.assert_allclose(other.floors, one.floors, rtol=0.4)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (16, 16)])
@pytest.mark.parametrize("measure", list(Evidence))
def test_small_images_have_positive_statistics(shape, measure):
    statistics = measure_statistics([texture((3, *shape))] * 2, config(measure=measure), n_images=2, step=1.0)

    assert statistics.noise > 0
    assert min(statistics.floors) > 0
    assert statistics.n_images == 2


@pytest.mark.parametrize("order", list(StackOrder))
def test_the_order_is_that_of_the_settings(order):
    assert measure_statistics(noisy(1.0), config(order=order), n_images=3, step=1.0).is_ordered is (order is StackOrder.ORDERED)


# --- brightness of whole images ---


def images_of_exposure(gains, *, blur=1.5):
    """Windows of one texture, blurred more in each image, times a gain."""
    generator = np.random.default_rng(4)
    sharp = [smooth(generator.uniform(20, 200, (128, 128)).astype(np.float32), 3.0) for _ in range(2)]
    return [[smooth(window, blur * number + 0.1) * np.float32(gain) for window in sharp] for number, gain in enumerate(gains)]


def pairs_of(images):
    return [list(zip(one, other, strict=True)) for one, other in pairwise(images)]


@pytest.mark.parametrize("gains", [(1.0, 1.1), (1.0, 0.97, 1.05, 0.9), (0.8, 0.85, 0.9, 0.95, 1.0)])
def test_gains_of_exposure_are_found_beside_focus(gains):
    found = measure_gains(pairs_of(images_of_exposure(gains)))

    np.testing.assert_allclose(np.array(found) / found[0], np.array(gains) / gains[0], rtol=0.015)


def test_images_of_about_one_brightness_count_as_equally_bright():
    assert measure_gains(pairs_of(images_of_exposure((1.0, 1.01, 0.995)))) == ()


def test_light_that_comes_and_goes_by_place_is_no_exposure():
    places = np.random.default_rng(5).uniform(20, 200, (2, 8, 8)).astype(np.float32)
    one, other = (np.kron(plane, np.ones((16, 16), np.float32)) for plane in places)

    assert measure_gains([[(one, other)]]) == ()


@pytest.mark.parametrize(("one", "other"), [(2.0, 1.0), (250.0, np.nan)])
def test_dark_and_missing_cells_say_nothing_of_exposure(one, other):
    assert measure_gains([[(np.full((160, 160), one, np.float32), np.full((160, 160), other, np.float32))]]) == ()


def test_brightness_that_noise_explains_is_no_exposure():
    generator = np.random.default_rng(6)

    assert measure_gains(pairs_of([[generator.normal(100, 30, (64, 64)).astype(np.float32)] for _ in range(40)])) == ()


def test_images_of_differing_exposure_are_evened_out():
    statistics = StackStatistics(n_images=2, is_ordered=False, noise=3.0, gains=(0.5, 1.5), pedestal=6.0)

    np.testing.assert_allclose(statistics.even(np.float32([0, 9]), 0), [4, 10])
    np.testing.assert_allclose(statistics.even(np.float32([12, 39]), 1), [4, 10])
    np.testing.assert_array_equal(StackStatistics(n_images=3, is_ordered=True, noise=2.0).even(np.float32([8]), 1), [4])
