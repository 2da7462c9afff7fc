"""Stacks that moved in a known way."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack

SHAPE = (240, 320)
_MARGIN_PX = 48


def _make_similarity(*, growth=1.0, turn=0.0, shift=(0.0, 0.0), shape=SHAPE):
    """Return the matrix of a movement about the center of the frame."""
    center = np.array([(shape[1] - 1) / 2, (shape[0] - 1) / 2])
    matrix = np.eye(3)
    matrix[:2, :2] = growth * np.array([(np.cos(turn), -np.sin(turn)), (np.sin(turn), np.cos(turn))])
    matrix[:2, 2] = center + shift - matrix[:2, :2] @ center
    return matrix


def _make_tilt(right, down, *, shape=SHAPE):
    """Return the homography about the center of the frame that brings its right and lower end nearer by a share."""
    to_center = np.array([(1, 0, -(shape[1] - 1) / 2), (0, 1, -(shape[0] - 1) / 2), (0, 0, 1)])
    matrix = np.eye(3)
    matrix[2, :2] = -right / shape[1], -down / shape[0]
    matrix = np.linalg.inv(to_center) @ matrix @ to_center
    return matrix / matrix[2, 2]


def _move_stack(matrices, *, shape=SHAPE, seed=0, dtype=np.uint8):
    """Return a focus stack whose image k is the scene moved by matrix k, resampled by splines."""
    canvas = tuple(side + 2 * _MARGIN_PX for side in shape)
    scene = make_focus_stack(n_images=len(matrices), shape=canvas, seed=seed, dtype=np.float32, is_color=False, blur_px=3.0).images
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    images = []
    for plane, matrix in zip(scene, matrices, strict=True):
        inverse = np.linalg.inv(matrix)
        distance, *places = (row[0] * x + row[1] * y + row[2] for row in inverse[::-1])
        places = [place / distance + _MARGIN_PX for place in places]
        values = np.clip(ndimage.map_coordinates(plane, places, order=3, mode="reflect"), 0, 1)
        images.append(values.astype(dtype) if np.dtype(dtype).kind == "f" else np.rint(values * np.iinfo(dtype).max).astype(dtype))
    return stack_arrays(images)


@pytest.fixture(scope="session")
def similarity():
    return _make_similarity


@pytest.fixture(scope="session")
def tilt():
    return _make_tilt


@pytest.fixture(scope="session")
def move_stack():
    return _move_stack
