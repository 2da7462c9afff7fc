"""Lone outliers, and light that is cut off at the end of the range."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision.cleaning import (
    CLEANING_REACH_PX,
    CLIPPED,
    LARGEST_LIFT,
    LEAST_SHARE,
    LIGHT_CELL_PX,
    LIGHT_PX,
    LIGHT_REACH_PX,
    add_light,
    clip_outliers,
    find_clipped,
    measure_light,
    raise_clipped,
)
from tests.scenes import reach_of_change, texture

HIGHEST = 255.0
SHAPE = (96, 96)


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (7, 1), (2, 2), (9, 13), (5, 7)])
def test_a_sample_is_clipped_to_the_range_of_its_eight_neighbors(shape):
    planes = np.random.default_rng(0).integers(0, 9, (3, *shape)).astype(np.float32)

    # beyond the border the outermost samples are repeated, the sample itself with them where it is one of these
    around = np.pad(planes, ((0, 0), (1, 1), (1, 1)), mode="edge")
    h, w = shape
    neighbors = [around[:, dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3) if (dy, dx) != (1, 1)]

    expected = np.clip(planes, np.min(neighbors, axis=0), np.max(neighbors, axis=0))
    np.testing.assert_array_equal(clip_outliers(planes), expected)


@pytest.mark.parametrize("value", [0, 255])
def test_a_hot_or_dead_pixel_is_gone_and_all_else_is_as_it_was(value):
    planes = ndimage.gaussian_filter(texture((1, 20, 20)), (0, 2, 2))
    hot = planes.copy()
    hot[0, 9, 11] = value

    cleaned = clip_outliers(hot)

    assert abs(cleaned[0, 9, 11] - planes[0, 9, 11]) < 20
    # where the lone sample was the range of its neighbors, they keep their own values
    np.testing.assert_allclose(cleaned, clip_outliers(planes), atol=20)


def test_two_samples_side_by_side_are_no_outliers():
    planes = np.zeros((1, 8, 8), np.float32)
    planes[0, 3, 3:5] = 200

    np.testing.assert_array_equal(clip_outliers(planes), planes)


def test_cleaning_reaches_as_far_as_is_stated():
    assert reach_of_change(clip_outliers, texture((1, 15, 15)), (7, 7)) <= CLEANING_REACH_PX


def test_samples_next_to_the_largest_one_count_as_clipped():
    planes = np.array([[[253, 253.9, 254, 255]]], np.float32)

    np.testing.assert_array_equal(find_clipped(planes, HIGHEST), [[[False, False, True, True]]])
    np.testing.assert_array_equal(find_clipped(planes / 9, HIGHEST / 9)[..., [0, 3]], [[[False, True]]])
    assert CLIPPED < 1


def test_light_is_a_gaussian_mean_of_the_stated_width():
    """Beside the same thing at full resolution: means over cells blur about as much as is taken off the filter."""
    planes = texture((3, *SHAPE), seed=1)
    planes[:, 40:50, 40:50] = HIGHEST

    light = measure_light(planes, HIGHEST)
    wide = ndimage.gaussian_filter(planes, (0, LIGHT_PX, LIGHT_PX), mode="reflect")
    expected = wide.reshape(3, SHAPE[0] // LIGHT_CELL_PX, LIGHT_CELL_PX, -1, LIGHT_CELL_PX).mean(axis=(2, 4))

    assert light.shape == (4, SHAPE[0] // LIGHT_CELL_PX, SHAPE[1] // LIGHT_CELL_PX)
    np.testing.assert_allclose(light[:3], expected, atol=0.05 * np.ptp(expected))
    assert 0.05 < light[3].max() < 0.3
    assert light[3].min() >= 0


def glint(radius):
    """A reflection of the same light, spread over a disk, and cut off at the end of the range."""
    y, x = np.indices(SHAPE) - 48
    disk = np.clip(radius + 0.5 - np.hypot(y, x), 0, 1)
    return np.minimum(40 + 60000 * disk / disk.sum(), HIGHEST).astype(np.float32)[None]


def largest_light(images):
    most = np.zeros_like(measure_light(images[0], HIGHEST)[:-1])
    for image in images:
        add_light(most, measure_light(image, HIGHEST))
    return most


def raise_all(images):
    most = largest_light(images)
    return [raise_clipped(image, most, HIGHEST) for image in images]


def test_a_clipped_reflection_gets_back_the_light_that_an_image_out_of_focus_has():
    sharp, spread = glint(2), glint(12)
    assert not find_clipped(spread, HIGHEST).any()

    raised, same = raise_all([sharp, spread])

    clipped = find_clipped(sharp, HIGHEST)
    assert same is spread
    np.testing.assert_array_equal(raised[~clipped], sharp[~clipped])
    assert (raised[clipped] > 2 * HIGHEST).all()
    # what was cut off is back, within the blur of the window
    assert 0.5 < (raised - 40).sum() / (spread - 40).sum() < 2


def test_nothing_is_raised_without_an_image_that_is_not_clipped_there():
    for image in raise_all([glint(2), glint(3)]):
        assert image.max() <= HIGHEST * 1.01


def test_lone_clipped_samples_are_not_raised():
    lone = np.full((1, *SHAPE), 40, np.float32)
    lone[0, 48, 48] = HIGHEST
    assert measure_light(lone, HIGHEST)[-1].max() < LEAST_SHARE

    raised, _ = raise_all([lone, np.full((1, *SHAPE), 200, np.float32)])

    np.testing.assert_array_equal(raised, lone)


def test_light_is_raised_to_a_bounded_multiple():
    speck = np.zeros((1, *SHAPE), np.float32)
    speck[0, 40:52, 40:52] = HIGHEST
    bright = np.full((1, *SHAPE), 0.98 * HIGHEST, np.float32)

    raised, _ = raise_all([speck, bright])

    assert np.isfinite(raised).all()
    assert raised.max() <= (1 + LARGEST_LIFT) * HIGHEST


def test_light_reaches_as_far_as_is_stated():
    """From the sample to what is raised: the mean, and the interpolation of the lift."""
    clipped = np.zeros((1, 160, 160), np.float32)
    clipped[:, ::2] = HIGHEST

    def raised(spread):
        return raise_clipped(clipped, largest_light([clipped, spread]), HIGHEST)

    reach = max(reach_of_change(raised, texture((1, 160, 160), level=180, contrast=5), place) for place in ((80, 80), (79, 83)))
    assert LIGHT_PX < reach <= LIGHT_REACH_PX
