import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.stack.alignment.matching import read_pyramid
from qmcif_engine.stack.alignment.pairs import Link, is_plausible, link_images, look_again, refine_link
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix, frame_corners
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window

WHOLE = Window(0, 0, 240, 320)
LINK_ERROR_PX = 0.15
BACK_ERROR_PX = 0.3  # twice as many


def link(stack, model=TransformModel.SIMILARITY, *, is_second_look=False):
    pyramids = [read_pyramid(stack, number) for number in (0, 1)]
    found = link_images(*pyramids, model)
    return look_again(*pyramids, model, known=found) if is_second_look else found


@pytest.mark.parametrize("shift", [(4.3, -7.6), (45.0, 30.0)])
def test_near_and_far_shifts_are_found_although_the_focus_differs(shift, move_stack, similarity):
    matrix = similarity(shift=shift)
    found = link(move_stack([np.eye(3), matrix]), TransformModel.TRANSLATION)

    np.testing.assert_allclose(found.matrix, matrix, atol=LINK_ERROR_PX)
    np.testing.assert_array_equal(found.matrix[:2, :2], np.eye(2))
    assert found.is_sure
    assert abs(found.movement_px - np.hypot(*shift)) < LINK_ERROR_PX


@pytest.mark.parametrize("is_second_look", [False, True])
def test_images_without_texture_cannot_be_linked(is_second_look):
    found = link(stack_arrays([np.full((200, 260), value, np.uint8) for value in (100, 100)]), is_second_look=is_second_look)

    assert (found.model, found.error_px, found.is_usable) == (TransformModel.NONE, np.inf, False)
    np.testing.assert_array_equal(found.matrix, np.eye(3))


@pytest.mark.parametrize("is_second_look", [False, True])
def test_unrelated_images_are_not_linked(move_stack, is_second_look):
    images = [move_stack([np.eye(3)] * 2, seed=seed).read(0, WHOLE) for seed in (0, 1)]

    assert not link(stack_arrays(images), is_second_look=is_second_look).is_usable


def test_a_pair_of_which_one_image_is_all_blurred_is_not_sure(move_stack, similarity):
    stack = move_stack([similarity(), similarity(growth=1.01, shift=(5.0, -4.0))])
    blurred = ndimage.uniform_filter(ndimage.uniform_filter(stack.read(1, WHOLE).astype(float), 21), 9).astype(np.uint8)

    assert not link(stack_arrays([stack.read(0, WHOLE), blurred]), is_second_look=True).is_sure


def test_sharp_windows_outvote_blurred_ones_that_moved_together(move_stack):
    still = move_stack([np.eye(3)] * 2, shape=(400, 400)).read(0, Window(0, 0, 400, 400))
    blurs = [np.roll(ndimage.gaussian_filter(still.astype(float), sigma), shift, axis=0) for sigma, shift in ((4, 0), (8, 5))]
    first, second = (np.where(np.arange(400) < 150, still, blurred) for blurred in blurs)

    found = link(stack_arrays([first.astype(np.uint8), second.astype(np.uint8)]), TransformModel.TRANSLATION, is_second_look=True)

    assert found.is_sure
    assert found.movement_px < LINK_ERROR_PX


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        ((0.1, 0.5, 0.0, 0.9), (True, True)),
        ((0.1, 0.5, 0.0, 0.4), (False, False)),
        ((1.5, 5.0, 12.0, 0.9), (False, True)),
        ((1.5, 5.0, 7.0, 0.9), (False, False)),
        ((9.0, 5.0, 30.0, 0.9), (False, False)),
    ],
    ids=["sure", "disputed", "movement beyond its error", "movement within its error", "too uncertain"],
)
def test_what_a_link_is_good_for_follows_from_its_errors(measures, expected):
    found = Link(np.eye(3), TransformModel.SIMILARITY, *measures)

    assert (found.is_sure, found.is_usable) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"growth": 1.1, "turn": 0.1, "shift": (50.0, 0.0)}, True),
        ({"growth": 1.4}, False),
        ({"growth": 0.7}, False),
        ({"turn": 0.3}, False),
        ({"shift": (0.0, 140.0)}, False),
    ],
)
def test_only_movements_of_one_stack_are_plausible(change, expected, similarity):
    assert is_plausible(similarity(**change), (240, 320)) is expected


def test_a_frame_that_reaches_the_horizon_is_not_plausible(tilt):
    assert is_plausible(tilt(0.05, -0.05), (240, 320))
    assert not is_plausible(tilt(0.8, 0.0), (240, 320))
    assert not is_plausible(tilt(3.0, 0.0), (240, 320))


def test_the_link_back_is_the_inverse_and_a_known_movement_is_refined(move_stack, similarity):
    matrix = similarity(growth=1.01, turn=0.004, shift=(3.0, -2.0))
    stack = move_stack([np.eye(3), matrix])
    pyramids = [read_pyramid(stack, number) for number in (0, 1)]
    there, back = (link_images(*pair, TransformModel.SIMILARITY) for pair in (pyramids, pyramids[::-1]))
    refined = refine_link(*pyramids, TransformModel.SIMILARITY, start=similarity(shift=(2.0, -1.0)) @ matrix)
    corners = frame_corners(stack.image_shape)

    np.testing.assert_allclose(apply_matrix(back.matrix @ there.matrix, corners), corners, atol=BACK_ERROR_PX)
    np.testing.assert_allclose(apply_matrix(refined.matrix, corners), apply_matrix(there.matrix, corners), atol=LINK_ERROR_PX)
