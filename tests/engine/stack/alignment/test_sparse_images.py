"""Alignment of images that are dark but for a few bright spots."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.alignment.estimation import estimate_transforms
from qmcif_engine.stack.alignment.transforms import TransformModel

TOLERANCE_PX = 0.1


@pytest.mark.parametrize("n_beads", [3, 8])
@pytest.mark.parametrize("model", [TransformModel.TRANSLATION, TransformModel.SIMILARITY])
def test_beads_on_zero_ground_are_aligned(n_beads, model):
    beads = np.zeros((400, 500))
    generator = np.random.default_rng(n_beads)
    beads[generator.integers(40, 360, n_beads), generator.integers(40, 460, n_beads)] = 1
    beads = np.rint(40000 * ndimage.gaussian_filter(beads, 1.2) / 0.11).astype(np.uint16)
    assert np.percentile(beads, 99.5) == 0
    stack = open_stack([beads, np.roll(beads, (-5, 7), axis=(0, 1))])

    found = estimate_transforms(stack, model, reference=0)

    np.testing.assert_allclose(np.array(found.matrices[1])[:2, 2], (7, -5), atol=TOLERANCE_PX)
    assert not found.warnings


def test_images_without_any_detail_are_named():
    stack = open_stack([np.zeros((200, 220), np.uint8), np.full((200, 220), 7, np.uint8)])

    found = estimate_transforms(stack, TransformModel.SIMILARITY, reference=0)

    assert [(warning.number, warning.message.split(" against ")[0]) for warning in found.warnings] == [(1, "image 2")]


def test_images_too_small_for_a_window_are_named():
    pictures = np.random.default_rng(0).integers(0, 255, (2, 60, 200)).astype(np.uint8)

    found = estimate_transforms(open_stack(list(pictures)), TransformModel.TRANSLATION, reference=0)

    assert [warning.number for warning in found.warnings] == [1]
