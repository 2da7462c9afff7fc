import numpy as np
import pytest

from qmcif_engine.stack.alignment.pairs import TRUSTED_PX, is_plausible, link_images
from qmcif_engine.stack.alignment.pyramids import read_pyramid
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix, frame_corners
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window


def link(stack, model=TransformModel.SIMILARITY):
    pyramids = [read_pyramid(stack, number) for number in (0, 1)]
    return link_images(*pyramids, model, image_shape=stack.image_shape)


@pytest.mark.parametrize("shift", [(4.3, -7.6), (45.0, 30.0)])
def test_near_and_far_shifts_are_found_although_the_focus_differs(shift, move_stack, similarity):
    matrix = similarity(shift=shift)
    found = link(move_stack([np.eye(3), matrix]), TransformModel.TRANSLATION)

    np.testing.assert_allclose(found.matrix, matrix, atol=0.15)
    np.testing.assert_array_equal(found.matrix[:2, :2], np.eye(2))
    assert found.uncertainty_px < TRUSTED_PX


def test_images_without_texture_cannot_be_linked():
    found = link(stack_arrays([np.full((200, 260), value, np.uint8) for value in (100, 100)]))

    assert found.model is TransformModel.NONE
    assert found.uncertainty_px == np.inf
    np.testing.assert_array_equal(found.matrix, np.eye(3))


def test_unrelated_images_are_not_trusted(move_stack):
    whole = Window(0, 0, 240, 320)
    images = [move_stack([np.eye(3)] * 2, seed=seed).read(0, whole) for seed in (0, 1)]

    assert link(stack_arrays(images)).uncertainty_px > TRUSTED_PX


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


def test_the_link_back_is_the_inverse(move_stack, similarity):
    stack = move_stack([np.eye(3), similarity(growth=1.01, turn=0.004, shift=(3.0, -2.0))])
    pyramids = [read_pyramid(stack, number) for number in (0, 1)]
    there, back = (link_images(*pair, TransformModel.SIMILARITY, image_shape=stack.image_shape) for pair in (pyramids, pyramids[::-1]))
    corners = frame_corners(stack.image_shape)

    np.testing.assert_allclose(apply_matrix(back.matrix @ there.matrix, corners), corners, atol=0.3)
