"""Averaging the chosen patches, pixel by pixel, is what the shares say."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import RefinementConfig, SimilarityPart
from qmcif_engine.method.averaging import average_patches, share_patches
from qmcif_engine.method.fusion import compose

SIDE = 5
RNG = np.random.default_rng(7)
CHOICES = np.repeat(np.repeat(RNG.integers(0, 3, (5, 6)), 4, axis=0), 4, axis=1).astype(np.uint16)
BLOCKS = RNG.uniform(0, 255, (3, 3, *CHOICES.shape)).astype(np.float32)
EVEN = [np.full(CHOICES.shape, 1 / 3)] * 3


def average(**changes):
    config = RefinementConfig(similarity=SimilarityPart.MODULUS, **changes)
    base_map = np.ones(CHOICES.shape, np.uint16)
    return average_patches(BLOCKS, CHOICES, base_map, weights=EVEN, detail_patch_px=SIDE, config=config)


def composed(blend):
    return compose([np.moveaxis(block, 0, -1) for block in BLOCKS], blend)


def test_every_pixel_is_the_mean_of_the_patches_over_it():
    fused = composed(average(result="detail"))
    reach = SIDE // 2
    for row, column in [(9, 9), (2, 12), (17, 20)]:  # whole patches only: at the border the choices are mirrored
        near = CHOICES[row - reach : row + reach + 1, column - reach : column + reach + 1]
        expected = np.mean([BLOCKS[number, :, row, column] for number in near.ravel()], axis=0)
        np.testing.assert_allclose(fused[row, column], expected, rtol=1e-5)


def test_shares_add_up_to_one_and_the_largest_leads():
    shares = np.stack([share_patches(CHOICES, number, side_px=SIDE) for number in range(3)])
    blend = average(result="detail")

    np.testing.assert_allclose(shares.sum(axis=0), 1, atol=1e-6)
    assert (np.take_along_axis(shares, blend.source_index[None].astype(int), axis=0)[0] == shares.max(axis=0)).all()
    np.testing.assert_array_equal(blend.band, shares.max(axis=0) < 1 - 1e-4)


def test_the_refinement_takes_pixels_of_the_base_map_whole_or_averaged_ones():
    refined, detail = average(), average(result="detail")
    fused, averaged = composed(refined), composed(detail)
    is_base = (fused == np.moveaxis(BLOCKS[1], 0, -1)).all(axis=-1)
    is_averaged = (fused == averaged).all(axis=-1)

    assert (is_base | is_averaged).all()
    assert is_averaged.any()


@pytest.mark.parametrize("number", [0, 2])
def test_one_choice_everywhere_copies_that_image(number):
    config = RefinementConfig(result="detail")
    choices = np.full(CHOICES.shape, number, np.uint16)
    blend = average_patches(BLOCKS, choices, choices, weights=EVEN, detail_patch_px=SIDE, config=config)

    assert not blend.band.any()
    np.testing.assert_array_equal(composed(blend), np.moveaxis(BLOCKS[number], 0, -1))
