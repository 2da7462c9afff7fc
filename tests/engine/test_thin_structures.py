"""Long and thin islands come back, compact ones stay away."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config import FusionConfig
from qmcif_engine.decisions import remove_islands
from qmcif_engine.pipeline import fuse
from qmcif_engine.thin_structures import restore_thin_islands


@pytest.fixture
def islands():
    """A diagonal line, a square and a bar on ground of another image."""
    index = np.zeros((60, 80), np.uint16)
    for step in range(20):
        index[5 + step, 5 + step : 7 + step] = 1
    index[40:45, 10:15] = 2
    index[50:52, 40:60] = 3
    return index


def cleaned(index):
    without = remove_islands(index, largest_area_px=60, longest_side_px=30)
    assert not without.any()
    return without


def test_long_and_thin_islands_are_put_back_and_compact_ones_are_not(islands):
    restored = restore_thin_islands(islands, cleaned(islands), elongation=4)

    np.testing.assert_array_equal(restored, np.where(islands == 2, 0, islands))


def test_the_limit_is_the_squared_length_in_areas(islands):
    after = cleaned(islands)

    assert (restore_thin_islands(islands, after, elongation=10)[50:52, 40:60] == 3).all()
    assert not restore_thin_islands(islands, after, elongation=10.1)[50:52, 40:60].any()


def test_nothing_is_put_back_unless_asked(islands):
    np.testing.assert_array_equal(restore_thin_islands(islands, cleaned(islands), elongation=0), 0)


def test_no_argument_is_written_into(islands):
    after = cleaned(islands)
    before = after.copy()

    restore_thin_islands(islands, after, elongation=4)

    np.testing.assert_array_equal(after, before)


def hair_before_texture(length_px):
    """A pair, one image with focus on a dark hair, one with focus on the texture behind it, and which pixels are hair."""
    shape = (120, 160)
    background = 128 + 30 * ndimage.gaussian_filter(np.random.default_rng(0).normal(size=shape), 0.7)
    hair = np.zeros(shape)
    hair[66 - length_px // 2 : 66 + length_px // 2, 80] = 1
    spread = ndimage.gaussian_filter(hair, 4)
    front = ndimage.gaussian_filter(background, 4) * (1 - hair) + 20 * hair
    back = background * (1 - spread) + 20 * spread
    return [np.rint(np.clip(image, 0, 255)).astype(np.uint8) for image in (front, back)], hair > 0


def test_a_short_hair_is_lost_by_default_and_kept_when_asked():
    pair, is_hair = hair_before_texture(24)

    default, asked = (fuse(pair, FusionConfig().replaced({"thin_elongation": limit})).source_index for limit in (0.0, 3.0))

    assert (default[is_hair] == 0).mean() < 0.1
    assert (asked[is_hair] == 0).mean() > 0.9
    assert (asked[~is_hair] == 1).mean() > 0.99  # and not much of its surroundings with it


def test_a_longer_hair_is_kept_by_default():
    pair, is_hair = hair_before_texture(32)

    index = fuse(pair).source_index

    assert (index[is_hair] == 0).mean() > 0.9
    assert (index[~is_hair] == 1).mean() > 0.99
