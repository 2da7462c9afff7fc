import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import align_stack, find_shared_area
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window

SHAPE = (60, 80)
TURNED = ((1.02, 0.05, 2.3), (-0.05, 1.02, 1.6), IDENTITY[2])
TILTED = ((1.0, 0.02, -3.4), (-0.03, 1.0, 2.2), (4e-4, -3e-4, 1.0))
WHOLE_SHIFT = ((1.0, 0.0, -7.0), (0.0, 1.0, 12.0), IDENTITY[2])
LOST_PX = 3  # on each side, to the reach of the kernels and to rounding


def make_transforms(*matrices, shape=SHAPE):
    return Transforms(matrices=(IDENTITY, *matrices), model=TransformModel.HOMOGRAPHY, image_shape=shape, reference=0)


def find_largest_by_brute_force(is_valid):
    """The largest area of a rectangle of valid pixels, from the heights of the columns above each row."""
    heights, largest = np.zeros(is_valid.shape[1], int), 0
    for row in is_valid:
        heights = np.where(row, heights + 1, 0)
        for left in range(len(heights)):
            lowest = np.minimum.accumulate(heights[left:])
            largest = max(largest, int((lowest * np.arange(1, len(lowest) + 1)).max()))
    return largest


@pytest.mark.parametrize("matrices", [(TURNED,), (TILTED,), (TURNED, TILTED, WHOLE_SHIFT)])
def test_the_shared_area_is_valid_everywhere_and_hardly_smaller_than_the_largest(matrices):
    transforms = make_transforms(*matrices)
    stack = align_stack(stack_arrays([np.zeros(SHAPE, np.uint8)] * transforms.n_images), transforms)
    area = find_shared_area(transforms)

    assert all(stack.valid(number, area).all() for number in range(stack.n_images))
    is_valid = np.logical_and.reduce([stack.valid(number, Window.whole(SHAPE)) for number in range(stack.n_images)])
    height, width = area.shape
    assert find_largest_by_brute_force(is_valid) <= (height + 2 * LOST_PX) * (width + 2 * LOST_PX)


def test_shifts_by_whole_pixels_cost_what_they_shift_and_no_more():
    assert find_shared_area(make_transforms(WHOLE_SHIFT)) == Window(0, 7, 48, 80)
    assert find_shared_area(make_transforms(IDENTITY)) == Window.whole(SHAPE)


def test_the_search_from_coarse_to_fine_loses_nothing_on_tall_frames():
    shape = (3000, 400)
    shear = ((1.0, 0.05, -70.0), (0.0, 1.0, 0.0), IDENTITY[2])
    area = find_shared_area(make_transforms(shear, shape=shape))
    lefts = lambda row: max(0.0, 3 + 70 - 0.05 * row)  # noqa: E731 - the frame's own edges, written down by hand
    rights = lambda row: min(400.0, 397 - 1 + 70 - 0.05 * row)  # noqa: E731
    best = max(
        (bottom - top) * (min(rights(top), rights(bottom)) - max(lefts(top), lefts(bottom)))
        for top in range(0, 3000, 20)
        for bottom in range(top + 20, 3000, 20)
    )

    assert area.shape[0] * area.shape[1] >= 0.97 * best


def test_images_that_lie_apart_cannot_be_cropped():
    far = ((1.0, 0.0, 100.0), IDENTITY[1], IDENTITY[2])

    with pytest.raises(InvalidConfigError, match=r"the 2 aligned images have no pixel in common; .*: leave out --crop"):
        find_shared_area(make_transforms(far))
