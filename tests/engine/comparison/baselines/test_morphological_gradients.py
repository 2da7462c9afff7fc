"""The focus of a region is its texture, and small regions go to what surrounds them."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from qmcif_engine.comparison.baselines.morphological_gradients import measure_focus, segment


def test_texture_has_more_focus_than_its_blur_and_none_is_none():
    texture = np.random.default_rng(1).random((40, 40))

    assert (measure_focus(texture) > measure_focus(ndimage.gaussian_filter(texture, 2))).all()
    assert not measure_focus(np.full((20, 20), 0.4)).any()


def test_small_regions_are_given_away_and_large_ones_kept():
    focus = np.zeros((2, 100, 100))
    focus[1, :, 50:] = 1
    focus[1, 20:23, 20:23] = 1
    regions = segment(focus)

    np.testing.assert_array_equal(regions[1], np.broadcast_to(np.arange(100) >= 50, (100, 100)))
    np.testing.assert_array_equal(regions.sum(axis=0), 1)
