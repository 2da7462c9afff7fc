"""The pyramid loses nothing, and its largest coefficients are taken."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.comparison.baselines.laplacian_pyramid import fuse_gray


def go_on():
    """Nobody ends the work."""


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 17), (33, 40)])
def test_one_image_comes_back_from_its_pyramid(shape):
    plane = np.random.default_rng(1).random((1, *shape))

    np.testing.assert_allclose(fuse_gray(plane, go_on), plane[0], atol=1e-12)


def test_detail_comes_from_the_image_that_has_it_and_brightness_from_both():
    detailed = np.random.default_rng(2).random((48, 48))
    fused = fuse_gray(np.stack([detailed, np.full((48, 48), detailed.mean())]), go_on)

    assert np.corrcoef(fused.ravel(), detailed.ravel())[0, 1] > 0.95
    assert abs(fused.mean() - detailed.mean()) < 0.02
