"""Noise and floors of a stack: the noise that was put in, rounding as the least, and what clipped blocks do not say."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import Evidence, FusionConfig
from qmcif_engine.decision import statistics
from qmcif_engine.decision.evidence import CELL_PX, FINE_PX, WIDE_PX, scale_energies
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.rules import StackStatistics
from tests.scenes import texture

SHAPE = (160, 192)
ROUNDING = statistics.ROUNDING


def measure(images, *, step=1.0, **settings):
    return statistics.measure_statistics(images, FusionConfig().replaced(settings), n_images=len(images), step=step)


def noisy(sigma, *, n_planes=1, n_images=3):
    """Smooth images with noise."""
    smooth_one = ndimage.gaussian_filter(texture((n_planes, *SHAPE)), (0, 6, 6))
    noise = np.random.default_rng(0).normal(0, sigma, (n_images, *smooth_one.shape))
    return list((smooth_one + noise).astype(np.float32))


@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("sigma", [1.0, 5.0, 20.0])
def test_the_noise_that_was_put_in_is_found(sigma, n_planes):
    # the quantile over blocks lies somewhat below their mean
    assert 0.75 * sigma < statistics.measure_noise(noisy(sigma, n_planes=n_planes), step=1.0) < 1.05 * sigma


@pytest.mark.parametrize(
    ("place", "value", "floors"),
    # texture in most blocks, a hot pixel in every block, and clipped blocks, whose floors are those of rounding
    [(np.s_[:, :120], texture((120, SHAPE[1]), seed=5, contrast=40), 0.5), (np.s_[:, 8::16, 8::16], 255, 0.5), (np.s_[:, :, 96:], 255, 1)],
    ids=["textured", "hot", "clipped"],
)
def test_blocks_that_show_something_else_change_the_noise_little(place, value, floors):
    images = noisy(3.0)
    one = measure(images)
    for image in images:
        image[place] = value

    other = measure(images)

    assert other.noise == pytest.approx(one.noise, rel=0.2)
    np.testing.assert_allclose(other.floors, one.floors, rtol=floors)


def test_medians_are_those_of_whole_blocks():
    side = statistics.BLOCK_PX
    plane = texture((side * 2 + 5, side * 3 + 1))

    expected = [np.median(plane[y : y + side, x : x + side]) for y in (0, side) for x in (0, side, 2 * side)]
    np.testing.assert_array_equal(statistics.block_medians(plane), expected)
    assert statistics.block_medians(plane[:5]).size == 0


def white_noise_power(sigma, cell):
    """Energy of the gradient of white noise of deviation 1, smoothed by a Gaussian."""
    plane = np.random.default_rng(7).normal(size=(512, 512)).astype(np.float32)
    layer = smooth(plane if cell == 1 else average_cells(plane, cell), (sigma**2 - (cell**2 - 1) / 12) ** 0.5 / cell)
    return (np.diff(layer, axis=0) ** 2).mean() + (np.diff(layer, axis=1) ** 2).mean()


@pytest.mark.parametrize("step", [1.0, 255 / 65535, 0.0])
def test_without_noise_rounding_is_the_least_and_floors_a_twentieth_of_its_undecomposed_energy(step):
    flat = [np.full((1, *SHAPE), 9, np.float32)]
    wide = white_noise_power(WIDE_PX, CELL_PX) / 20

    found, off = measure(flat, step=step), measure(noisy(9.0), step=step, noise="off")

    assert statistics.measure_noise(flat, step=step) == statistics.measure_noise([], step=step) == step * ROUNDING
    assert found.noise == off.noise == max(step, statistics.LEAST_STEP) * ROUNDING
    np.testing.assert_allclose(found.floors, [white_noise_power(FINE_PX, 1) / 20, wide, wide / CELL_PX**2], rtol=0.1)


def test_floors_are_the_energy_that_the_noise_of_a_stack_has():
    images = noisy(5.0)
    found = measure(images)

    energies = [scale_energies(image / np.float32(found.noise), Evidence.DECOMPOSITION, n_scales=len(found.floors)) for image in images]
    medians = np.mean([np.median(energy, axis=(1, 2)) for energy in energies], axis=0)

    assert (found.floors > 0.3 * medians).all()
    assert (found.floors < 1.1 * medians).all()


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_statistics_follow_the_scale_of_the_samples(factor):
    one, other = measure(noisy(3.0), step=0.1), measure([factor * image for image in noisy(3.0)], step=0.1 * factor)

    assert other.noise == pytest.approx(factor * one.noise, rel=1e-4)
    np.testing.assert_allclose(other.floors, one.floors, rtol=1e-3)


@pytest.mark.parametrize(("shape", "order"), [((5, 7), "ordered"), ((1, 1), "none"), ((16, 16), "none")])
@pytest.mark.parametrize("evidence", list(Evidence))
def test_small_images_have_positive_statistics_and_the_order_of_the_settings(shape, order, evidence):
    found = measure([texture((3, *shape))] * 2, measure=evidence, order=order)

    assert min(found.noise, *found.floors) > 0
    assert (found.n_images, found.is_ordered) == (2, order == "ordered")


# --- brightness of whole images ---


def pairs_of(images):
    return [list(zip(one, other, strict=True)) for one, other in pairwise(images)]


def images_of_exposure(*gains):
    """Windows of one texture, blurred more in each image, times a gain."""
    generator = np.random.default_rng(4)
    sharp = [smooth(generator.uniform(20, 200, (128, 128)).astype(np.float32), 3.0) for _ in range(2)]
    return pairs_of([[smooth(window, 1.5 * number + 0.1) * np.float32(gain) for window in sharp] for number, gain in enumerate(gains)])


@pytest.mark.parametrize("gains", [(1.0, 1.1), (1.0, 0.97, 1.05, 0.9), (0.8, 0.85, 0.9, 0.95, 1.0)])
def test_gains_of_exposure_are_found_beside_focus(gains):
    found = statistics.measure_gains(images_of_exposure(*gains))

    np.testing.assert_allclose(np.array(found) / found[0], np.array(gains) / gains[0], rtol=0.015)


def plane_of(level):
    return np.full((160, 160), level, np.float32)


def normal_images(n_images):
    return np.random.default_rng(6).normal(100, 30, (n_images, 1, 64, 64)).astype(np.float32)


@pytest.mark.parametrize(
    "pairs",
    [
        images_of_exposure(1.0, 1.01, 0.995),
        pairs_of(np.random.default_rng(5).uniform(20, 200, (2, 1, 8, 8)).astype(np.float32).repeat(16, axis=2).repeat(16, axis=3)),
        [[(plane_of(2), plane_of(1))]],
        [[(plane_of(250), plane_of(np.nan))]],
        pairs_of(normal_images(40)),
    ],
    ids=["about one brightness", "light that comes and goes by place", "dark", "missing", "explained by noise"],
)
def test_what_is_no_exposure_gives_no_gains(pairs):
    assert statistics.measure_gains(pairs) == ()


def test_images_of_differing_exposure_are_evened_out():
    found = StackStatistics(n_images=2, is_ordered=False, noise=3.0, gains=(0.5, 1.5), pedestal=6.0)

    np.testing.assert_allclose([found.even(np.float32([0, 9]), 0), found.even(np.float32([12, 39]), 1)], [[4, 10]] * 2)
    np.testing.assert_array_equal(StackStatistics(n_images=3, is_ordered=True, noise=2.0).even(np.float32([8]), 1), [4])
