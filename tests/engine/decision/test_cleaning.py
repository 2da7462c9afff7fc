"""Lone outliers, and light that is cut off at the end of the range."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision import cleaning
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
    np.testing.assert_array_equal(cleaning.clip_outliers(planes), expected)


def test_samples_next_to_the_largest_one_count_as_clipped():
    planes = np.array([[[253, 253.9, 254, 255]]], np.float32)

    np.testing.assert_array_equal(cleaning.find_clipped(planes, HIGHEST), [[[False, False, True, True]]])
    np.testing.assert_array_equal(cleaning.find_clipped(planes / 9, HIGHEST / 9)[..., [0, 3]], [[[False, True]]])
    assert cleaning.CLIPPED < 1


def test_light_is_a_gaussian_mean_of_the_stated_width():
    """Beside the same thing at full resolution: means over cells blur about as much as is taken off the filter."""
    planes = texture((3, *SHAPE), seed=1)
    planes[:, 40:50, 40:50] = HIGHEST

    light = cleaning.measure_light(planes, HIGHEST)
    wide = ndimage.gaussian_filter(planes, (0, cleaning.LIGHT_PX, cleaning.LIGHT_PX), mode="reflect")
    expected = wide.reshape(3, SHAPE[0] // cleaning.LIGHT_CELL_PX, cleaning.LIGHT_CELL_PX, -1, cleaning.LIGHT_CELL_PX).mean(axis=(2, 4))

    assert light.shape == (4, SHAPE[0] // cleaning.LIGHT_CELL_PX, SHAPE[1] // cleaning.LIGHT_CELL_PX)
    np.testing.assert_allclose(light[:3], expected, atol=0.05 * np.ptp(expected))
    assert 0.05 < light[3].max() < 0.3
    assert light[3].min() >= 0


def glint(radius):
    """A reflection of the same light, spread over a disk, and cut off at the end of the range."""
    y, x = np.indices(SHAPE) - 48
    disk = np.clip(radius + 0.5 - np.hypot(y, x), 0, 1)
    return np.minimum(40 + 60000 * disk / disk.sum(), HIGHEST).astype(np.float32)[None]


def largest_light(images):
    most = np.zeros_like(cleaning.measure_light(images[0], HIGHEST)[:-1])
    for image in images:
        cleaning.add_light(most, cleaning.measure_light(image, HIGHEST))
    return most


def test_a_clipped_reflection_gets_back_the_light_that_an_image_out_of_focus_has():
    sharp, spread = glint(2), glint(12)
    clipped, most = cleaning.find_clipped(sharp, HIGHEST), largest_light([sharp, spread])
    assert not cleaning.find_clipped(spread, HIGHEST).any()

    raised = cleaning.raise_clipped(sharp, most, HIGHEST)

    assert cleaning.raise_clipped(spread, most, HIGHEST) is spread
    np.testing.assert_array_equal(raised[~clipped], sharp[~clipped])
    assert (raised[clipped] > 2 * HIGHEST).all()
    # what was cut off is back, within the blur of the window
    assert 0.5 < (raised - 40).sum() / (spread - 40).sum() < 2


def square(side, *, on=0.0, of=HIGHEST):
    plane = np.full((1, *SHAPE), on, np.float32)
    plane[0, 40 : 40 + side, 40 : 40 + side] = of
    return plane


@pytest.mark.parametrize(
    ("clipped", "beside", "largest_lift"),
    # no other image is free of clipping; a lone sample is noise; what a small one lacks is bounded
    [
        (glint(2), glint(3), 0.01),
        (square(1, on=40), square(0, on=200), 0),
        (square(12), square(0, on=0.98 * HIGHEST), cleaning.LARGEST_LIFT),
    ],
)
def test_light_is_raised_only_where_an_image_proves_it_and_to_a_bounded_multiple(clipped, beside, largest_lift):
    raised = cleaning.raise_clipped(clipped, largest_light([clipped, beside]), HIGHEST)

    assert (raised - clipped).min() >= 0
    assert (raised - clipped).max() <= largest_lift * HIGHEST


def test_cleaning_and_light_reach_as_far_as_is_stated():
    """Light from the sample to what is raised: the mean, and the interpolation of the lift."""
    clipped = np.zeros((1, 160, 160), np.float32)
    clipped[:, ::2] = HIGHEST

    def raised(spread):
        return cleaning.raise_clipped(clipped, largest_light([clipped, spread]), HIGHEST)

    random = np.random.default_rng(0).uniform(0, 99, (1, 15, 15))
    planes = texture((1, 160, 160), level=180, contrast=5)
    assert reach_of_change(cleaning.clip_outliers, random, (7, 7)) == cleaning.CLEANING_REACH_PX
    assert cleaning.LIGHT_PX < max(reach_of_change(raised, planes, place) for place in ((80, 80), (79, 83))) <= cleaning.LIGHT_REACH_PX
