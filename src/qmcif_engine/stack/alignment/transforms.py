"""Where each image of a stack must be sampled so that all of them coincide with a reference image."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qmcif_engine.errors import InvalidConfigError

Matrix = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]
"""Rows of a 3 x 3 matrix: plain numbers, so that transforms can be compared, hashed and written down exactly."""

LARGEST_STRETCH = 4.0
"""Images of one stack never differ more in size; larger factors are mistakes and would make a small window read a whole image."""

LARGEST_SHIFT = 4.0
"""Times the longer side of the image; frames that lie farther apart share nothing."""

LARGEST_PERSPECTIVE = 2.0
"""How much nearer one corner of the frame may appear than its origin; more would turn a part of the frame to the horizon."""

LARGEST_SIDE_PX = 2**24


class TransformModel(StrEnum):
    """How images may move against each other."""

    NONE = "none"
    TRANSLATION = "translation"
    SIMILARITY = "similarity"
    AFFINE = "affine"
    HOMOGRAPHY = "homography"


@dataclass(frozen=True, slots=True)
class AlignmentWarning:
    """What could not be estimated as asked for one image, and what was taken instead.

    Attributes
    ----------
    number : int
        Which image, 0-based.
    message : str
        For the user, in words.
    """

    number: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transforms:
    """One transform per image, all of them from the reference image's coordinates.

    Attributes
    ----------
    matrices : tuple of Matrix
        Matrix k maps (x, y, 1) of a pixel center in the reference image to a multiple of (x, y, 1) in image k. The last row is
        (0, 0, 1), save in homographies, where its last entry is 1.
    model : TransformModel
        What the matrices were restricted to when they were estimated.
    image_shape : tuple of int
        Height and width of the images.
    reference : int
        The image that stays as it is, 0-based.
    warnings : tuple of AlignmentWarning
        Where the estimate fell short.

    Raises
    ------
    InvalidConfigError
        For matrices that cannot be those of a stack: wrong form, not finite, not invertible, or implausibly large.
    """

    matrices: tuple[Matrix, ...]
    model: TransformModel
    image_shape: tuple[int, int]
    reference: int
    warnings: tuple[AlignmentWarning, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no stack can have."""
        _check_frame(self)
        for number, matrix in enumerate(self.matrices):
            _check_matrix(matrix, number=number, model=self.model, image_shape=self.image_shape)

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.matrices)

    @property
    def is_identity(self) -> bool:
        """Whether every image stays as it is."""
        return all(matrix == IDENTITY for matrix in self.matrices)

    def matrix(self, number: int) -> NDArray[np.float64]:
        """Return the matrix of one image as an array, shape (3, 3)."""
        return np.array(self.matrices[number])

    def largest_movement_px(self) -> float:
        """Return how far a corner of the frame moves at most in any image."""
        return max(measure_movement(self.matrix(number), self.image_shape) for number in range(self.n_images))


IDENTITY: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def as_matrix(rows: ArrayLike) -> Matrix:
    """Return an array of shape (3, 3) as plain numbers, scaled so that the last entry is exactly 1."""
    scaled = np.array(rows, np.float64)
    scaled /= scaled[2, 2]
    first, second, last = ((float(row[0]), float(row[1]), float(row[2])) for row in scaled)
    return first, second, last


def is_affine(matrix: NDArray[np.float64]) -> bool:
    """Return whether a matrix keeps parallels parallel: its last row is (0, 0, 1)."""
    # exactly: estimates write this row
    return tuple(matrix[2]) == IDENTITY[2]


def identity_transforms(n_images: int, image_shape: tuple[int, ...], *, reference: int = 0) -> Transforms:
    """Return the transforms that leave every image as it is."""
    shape = (image_shape[0], image_shape[1])
    return Transforms(matrices=(IDENTITY,) * n_images, model=TransformModel.NONE, image_shape=shape, reference=reference)


def frame_corners(image_shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return x and y of the four corner pixels, shape (4, 2)."""
    bottom, right = image_shape[0] - 1, image_shape[1] - 1
    return np.array([(0, 0), (right, 0), (0, bottom), (right, bottom)], np.float64)


def apply_matrix(matrix: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points (n, 2), given as x and y, moved by a matrix."""
    moved = np.asarray(points @ matrix[:2, :2].T + matrix[:2, 2])
    return moved if is_affine(matrix) else moved / (points @ matrix[2, :2] + matrix[2, 2])[:, np.newaxis]


def measure_movement(matrix: NDArray[np.float64], image_shape: tuple[int, ...]) -> float:
    """Return how far a corner of the frame moves at most."""
    corners = frame_corners(image_shape)
    return float(np.hypot(*(apply_matrix(matrix, corners) - corners).T).max())


def linearize(matrix: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how a matrix turns and stretches the surroundings of points (n, 2), shape (n, 2, 2): its derivative there."""
    distance = points @ matrix[2, :2] + matrix[2, 2]
    moved = apply_matrix(matrix, points)
    return np.asarray((matrix[:2, :2] - moved[:, :, np.newaxis] * matrix[2, :2]) / distance[:, np.newaxis, np.newaxis])


def lower_matrix(matrix: NDArray[np.float64], factor: int) -> NDArray[np.float64]:
    """Return the same movement in the coordinates of previews reduced by a factor."""
    return np.asarray(np.linalg.inv(_enlargement(factor)) @ matrix @ _enlargement(factor))


def lift_matrix(matrix: NDArray[np.float64], factor: int) -> NDArray[np.float64]:
    """Return the movement of reduced previews in the coordinates of the images."""
    return np.asarray(_enlargement(factor) @ matrix @ np.linalg.inv(_enlargement(factor)))


def _enlargement(factor: int) -> NDArray[np.float64]:
    """Return what maps a pixel center of a preview to the center of the square it stands for."""
    # centers of pixels are whole numbers, so that of a square of `factor` lies between them
    middle = (factor - 1) / 2
    return np.array([(factor, 0, middle), (0, factor, middle), (0, 0, 1)], np.float64)


def _check_frame(transforms: Transforms) -> None:
    if not all(1 <= side <= LARGEST_SIDE_PX for side in transforms.image_shape):
        msg = (
            f"the transforms are for images of shape {transforms.image_shape}; height and width of 1 to {LARGEST_SIDE_PX} px are needed: "
            "estimate them anew"
        )
        raise InvalidConfigError(msg)
    if not 0 <= transforms.reference < len(transforms.matrices):
        msg = (
            f"the reference of the transforms is image {transforms.reference} of {len(transforms.matrices)}, counted from 0; "
            "one of the images is needed: estimate them again"
        )
        raise InvalidConfigError(msg)


def _check_matrix(matrix: Any, *, number: int, model: TransformModel, image_shape: tuple[int, int]) -> None:  # noqa: ANN401 - checks it
    rows = np.array(matrix, np.float64)
    if rows.shape == (3, 3) and np.isfinite(rows).all() and _has_last_row(rows, model) and _is_bounded(rows, image_shape):
        return
    is_projective = model is TransformModel.HOMOGRAPHY
    last_row = f"last entry 1, a perspective of at most {LARGEST_PERSPECTIVE:g}" if is_projective else "last row (0, 0, 1)"
    msg = (
        f"the transform of image {number + 1} is {matrix}; an invertible 3 x 3 matrix with {last_row}, a stretch of "
        f"1/{LARGEST_STRETCH:g} to {LARGEST_STRETCH:g} and a shift of at most {LARGEST_SHIFT:g} frame sides is needed: estimate it again"
    )
    raise InvalidConfigError(msg)


def _has_last_row(rows: NDArray[np.float64], model: TransformModel) -> bool:
    return bool(rows[2, 2] == 1) if model is TransformModel.HOMOGRAPHY else is_affine(rows)


def _is_bounded(rows: NDArray[np.float64], image_shape: tuple[int, int]) -> bool:
    """Return whether perspective, shift and stretch are small at the corners of the frame, and so all over it."""
    corners = frame_corners(image_shape)
    # bounds first: distances, positions and singular values of huge numbers overflow
    if np.abs(rows[:2, :2]).max() > LARGEST_PERSPECTIVE * LARGEST_STRETCH or np.abs(rows[2, :2]).max() > LARGEST_PERSPECTIVE:
        return False
    distance = corners @ rows[2, :2] + 1
    is_near = (distance >= 1 / LARGEST_PERSPECTIVE) & (distance <= LARGEST_PERSPECTIVE)
    if not is_near.all() or np.abs(rows[:2, 2]).max() > LARGEST_SHIFT * max(image_shape):
        return False
    stretches = np.linalg.svd(linearize(rows, corners), compute_uv=False)
    return bool(stretches.max() <= LARGEST_STRETCH and stretches.min() >= 1 / LARGEST_STRETCH)
