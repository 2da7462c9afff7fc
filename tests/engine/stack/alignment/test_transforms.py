import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import (
    IDENTITY,
    TransformModel,
    Transforms,
    apply_matrix,
    as_matrix,
    frame_corners,
    identity_transforms,
    lift_matrix,
    linearize,
    lower_matrix,
)


def make_transforms(**changes):
    values = {"matrices": (IDENTITY, IDENTITY), "model": TransformModel.AFFINE, "image_shape": (20, 30), "reference": 0}
    return Transforms(**(values | changes))


def shifted(right, down=0.0):
    return ((1.0, 0.0, right), (0.0, 1.0, down), IDENTITY[2])


def test_identity_transforms_move_nothing():
    transforms = identity_transforms(3, (20, 30, 3), reference=1)

    assert transforms.is_identity
    assert (transforms.n_images, transforms.image_shape, transforms.reference) == (3, (20, 30), 1)
    assert transforms.largest_movement_px() == 0


def test_the_largest_movement_is_that_of_the_farthest_corner():
    transforms = make_transforms(matrices=(IDENTITY, shifted(3.0, 4.0)))

    assert not transforms.is_identity
    assert transforms.largest_movement_px() == 5


def test_transforms_can_be_compared_and_hashed():
    assert make_transforms() == make_transforms()
    assert len({make_transforms(), make_transforms(), make_transforms(reference=1)}) == 2


@pytest.mark.parametrize(
    "matrix",
    [
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 2.0)),
        ((1.0, 0.0, np.nan), (0.0, 1.0, 0.0), IDENTITY[2]),
        ((np.inf, 0.0, 0.0), (0.0, 1.0, 0.0), IDENTITY[2]),
        ((1.0, 1.0, 0.0), (1.0, 1.0, 0.0), IDENTITY[2]),
        ((1e200, 0.0, 0.0), (0.0, 1e200, 0.0), IDENTITY[2]),
        ((0.1, 0.0, 0.0), (0.0, 0.1, 0.0), IDENTITY[2]),
        shifted(1000.0),
        ((1.0, 0.0), (0.0, 1.0)),
    ],
)
def test_a_matrix_that_no_stack_can_have_is_refused(matrix):
    with pytest.raises(
        InvalidConfigError, match=r"the transform of image 2 is .*; an invertible 3 x 3 matrix .* is needed: estimate it again"
    ):
        make_transforms(matrices=(IDENTITY, matrix))


@pytest.mark.parametrize("last_row", [(0.005, 0.0, 2.0), (-0.05, 0.0, 1.0), (0.04, 0.0, 1.0), (1e300, 0.0, 1.0), (np.nan, 0.0, 1.0)])
def test_a_perspective_that_no_stack_can_have_is_refused(last_row):
    with pytest.raises(InvalidConfigError, match=r"the transform of image 2 is .*; an invertible 3 x 3 matrix with last entry 1, a persp"):
        make_transforms(matrices=(IDENTITY, (*IDENTITY[:2], last_row)), model=TransformModel.HOMOGRAPHY)


def test_perspective_belongs_to_homographies_alone():
    matrices = (IDENTITY, (*IDENTITY[:2], (0.001, -0.002, 1.0)))

    assert make_transforms(matrices=matrices, model=TransformModel.HOMOGRAPHY).largest_movement_px() > 0.5
    with pytest.raises(InvalidConfigError, match=r"last row \(0, 0, 1\)"):
        make_transforms(matrices=matrices, model=TransformModel.AFFINE)


def test_a_homography_is_scaled_to_the_last_entry_one():
    rows = np.array(((1.01, 0.02, 3.0), (-0.02, 0.99, -4.0), (1e-4, 2e-4, 1.0)))
    points = np.array([(3.0, 8.0), (25.0, 1.0)])

    assert as_matrix(2 * rows)[2][2] == 1
    np.testing.assert_allclose(as_matrix(2 * rows), rows, rtol=1e-15)
    np.testing.assert_allclose(apply_matrix(2 * rows, points), apply_matrix(rows, points), rtol=1e-15)


def test_the_derivative_of_a_homography_is_that_of_small_differences():
    matrix = np.array(((1.01, 0.02, 3.0), (-0.02, 0.99, -4.0), (1e-3, 2e-3, 1.0)))
    points, step = np.array([(3.0, 8.0), (25.0, 1.0)]), 1e-5
    differences = [(apply_matrix(matrix, points + side) - apply_matrix(matrix, points - side)) / (2 * step) for side in np.eye(2) * step]

    np.testing.assert_allclose(linearize(matrix, points), np.stack(differences, axis=-1), atol=1e-8)


@pytest.mark.parametrize("shape", [(0, 5), (5, 2**25)])
def test_a_frame_of_impossible_size_is_refused(shape):
    with pytest.raises(InvalidConfigError, match="height and width of 1 to 16777216 px are needed"):
        make_transforms(image_shape=shape)


@pytest.mark.parametrize("reference", [-1, 2])
def test_a_reference_outside_the_stack_is_refused(reference):
    with pytest.raises(InvalidConfigError, match=f"the reference of the transforms is image {reference} of 2, counted from 0"):
        make_transforms(reference=reference)


def test_no_images_are_refused():
    with pytest.raises(InvalidConfigError, match="the reference of the transforms is image 0 of 0, counted from 0"):
        make_transforms(matrices=())


@pytest.mark.parametrize("perspective", [(0.0, 0.0), (1e-3, -2e-3)])
def test_reduced_coordinates_keep_the_centers_of_squares(perspective):
    matrix = np.array(as_matrix([[1.01, 0.02, 3.0], [-0.02, 0.99, -4.0], [0, 0, 1]]))
    matrix[2, :2] = perspective
    lowered = lower_matrix(matrix, 4)

    # the center of the reduced pixel (5, 7) is that of the pixels 20 to 23 and 28 to 31
    moved = apply_matrix(lowered, np.array([[5.0, 7.0]])) * 4 + 1.5
    np.testing.assert_allclose(moved, apply_matrix(matrix, np.array([[21.5, 29.5]])), atol=1e-12)
    np.testing.assert_allclose(lift_matrix(lowered, 4), matrix, atol=1e-12)


def test_corners_are_pixel_centers():
    np.testing.assert_array_equal(frame_corners((20, 30, 3)), [(0, 0), (29, 0), (0, 19), (29, 19)])
