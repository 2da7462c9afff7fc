from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.frame_ends import LARGEST_REACH_PX, FrameEnds, reach_of_ends
from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.fusing.in_memory import fuse
from qmcif_engine.retouching import retouch
from qmcif_engine.stack.alignment.aligned_stack import AlignedStack
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
from qmcif_engine.stack.stack import ArrayStack, StackView
from qmcif_engine.stack.window import Window

SHAPE = (120, 160)
WHOLE = Window.whole(SHAPE)
SHIFT_PX = 30
BRIGHTER = 24
REACH = reach_of_ends(DecisionConfig())


class PartlyValid(StackView):
    """Images that have some of their pixels only."""

    def __init__(self, images, has):
        super().__init__(ArrayStack(list(images)))
        self._has = has
        self.has_validity = True

    def valid(self, number, window):
        return self._has[number][window.slices]


def paint(*, contrast):
    """A blurred image of the whole picture, and a sharp and brighter one that ends at column 30 of it."""
    sharp = 110 + contrast * ndimage.gaussian_filter(np.random.default_rng(3).normal(0, 1, SHAPE), 0.8)
    blurred = ndimage.gaussian_filter(sharp, 3)
    return [np.rint(picture).astype(np.uint8) for picture in (blurred, sharp + BRIGHTER)]


def shift(images):
    matrices = (((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 0, -SHIFT_PX), (0, 1, 0), (0, 0, 1)))
    moved = [images[0], np.roll(images[1], -SHIFT_PX, axis=1)]
    transforms = Transforms(model=TransformModel.TRANSLATION, reference=0, image_shape=SHAPE, matrices=matrices)
    return AlignedStack(ArrayStack(moved), transforms)


def measure_steps(fused):
    """What the brightness of columns, averaged along them, changes by from one to the next."""
    return np.abs(np.diff(fused.astype(float).mean(axis=0)))


@pytest.mark.parametrize("contrast", [40, 6])
def test_a_frame_that_ends_shows_no_line(contrast):
    images = paint(contrast=contrast)
    stack = shift(images)
    np.testing.assert_array_equal(stack.read(1, WHOLE)[:, SHIFT_PX:], images[1][:, SHIFT_PX:])

    result = fuse(stack, FusionConfig())

    assert np.mean(result.source_index[:, SHIFT_PX + 2 * REACH :] == 1) > 0.9
    assert np.mean(result.source_index[:, :SHIFT_PX] == 0) == 1
    own = measure_steps(images[1])[SHIFT_PX - 5 : SHIFT_PX + 3 * REACH].max()
    assert measure_steps(result.fused)[SHIFT_PX - 5 : SHIFT_PX + 3 * REACH].max() < own + BRIGHTER / 6


def test_every_sample_lies_between_those_of_the_images_that_have_the_pixel():
    stack = shift(paint(contrast=40))
    images = np.stack([stack.read(number, WHOLE) for number in range(2)])
    has = np.stack([stack.valid(number, WHOLE) for number in range(2)])

    fused = fuse(stack, FusionConfig()).fused

    assert (fused >= np.where(has, images, 255).min(axis=0)).all()
    assert (fused <= np.where(has, images, 0).max(axis=0)).all()
    np.testing.assert_array_equal(fused[:, :SHIFT_PX], images[0][:, :SHIFT_PX])


def test_images_that_have_all_pixels_are_fused_as_if_nobody_had_asked():
    images = paint(contrast=40)
    images[1][:, :80] = ndimage.gaussian_filter(images[1][:, :80], 3)

    asked = fuse(PartlyValid(images, np.ones((2, *SHAPE), bool)), FusionConfig())
    not_asked = fuse(ArrayStack(images), FusionConfig())

    np.testing.assert_array_equal(asked.fused, not_asked.fused)
    np.testing.assert_array_equal(asked.source_index, not_asked.source_index)


def ends_of(has, window=WHOLE, *, reach_px=REACH):
    return FrameEnds(lambda number, part: has[number][part.slices], window, n_images=len(has), shape=SHAPE, reach_px=reach_px)


def scatter_frames():
    """Frames of three images, none of which covers the image, and which all lack one corner."""
    has = np.zeros((3, *SHAPE), bool)
    has[0, 10:100, :90], has[1, :, 60:150], has[2, 30:, 5:] = True, True, True
    has[:, :20, 140:] = False
    return has


def test_an_image_is_chosen_as_far_from_its_end_as_the_reach_and_fades_out_up_to_it():
    has = scatter_frames()
    far = [ndimage.minimum_filter(plane, 2 * REACH + 1, mode="nearest") for plane in has]

    ends = ends_of(has)

    is_covered = np.logical_or.reduce(far)
    assert 0.5 < is_covered.mean() < 1
    for number in range(3):
        np.testing.assert_array_equal(ends.choosable(number), np.where(is_covered, far[number], has[number]))
        np.testing.assert_array_equal(ends.fade(number) > 0, has[number])
        np.testing.assert_array_equal(ends.fade(number) == 1, far[number])
    np.testing.assert_allclose(ends.fade(1)[60, 59 : 61 + REACH], np.arange(REACH + 2) / (REACH + 1), rtol=1e-6)


def test_a_pixel_is_the_same_in_every_window():
    has = scatter_frames()
    whole = ends_of(has)
    for window in (Window(0, 0, 60, 70), Window(33, 57, 41, 99), Window(95, 110, 120, 160), Window(19, 139, 20, 140)):
        part = ends_of(has, window)
        for number in range(3):
            np.testing.assert_array_equal(part.choosable(number), whole.choosable(number)[window.slices])
            np.testing.assert_array_equal(part.fade(number), whole.fade(number)[window.slices])


def test_only_edges_at_the_end_of_what_may_be_chosen_are_found():
    has = np.ones((2, *SHAPE), bool)
    has[1, :, :SHIFT_PX] = False
    index = np.ones(SHAPE, np.uint16)
    index[:, : SHIFT_PX + REACH] = 0  # where image 1 may be chosen no further
    index[:, 120:] = 0  # a decision

    found = ends_of(has).find(index)

    expected = np.zeros(SHAPE, bool)
    expected[:, SHIFT_PX : SHIFT_PX + 2 * REACH + 1] = True
    np.testing.assert_array_equal(found, expected)


def test_ends_reach_no_farther_than_blends_and_a_hard_cut_has_none():
    assert reach_of_ends(DecisionConfig()) == LARGEST_REACH_PX
    assert reach_of_ends(DecisionConfig(feather_px=0)) == 2
    assert reach_of_ends(PRESETS["paper"].decision) == 0
    images = paint(contrast=40)
    has = np.ones((2, *SHAPE), bool)
    has[1, :, :SHIFT_PX] = False

    hard = fuse(PartlyValid(images, has), FusionConfig().replaced({"blend_radius_px": 0}))

    assert np.mean(hard.source_index[:, SHIFT_PX : SHIFT_PX + REACH] == 1) > 0.9


def test_retouching_keeps_a_faded_end():
    stack = shift(paint(contrast=40))
    result = fuse(stack, FusionConfig())
    labels = np.zeros(SHAPE, np.uint16)
    labels[40:80, : SHIFT_PX + REACH] = 1  # what was chosen there

    answer = retouch(stack, labels, fused=result.fused, source_index=result.source_index, focus_range=result.focus_range)

    assert np.abs(answer.fused.astype(int) - result.fused).max() <= BRIGHTER / 6
