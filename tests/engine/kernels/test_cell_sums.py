"""Sums over cells against plain NumPy on whole arrays."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import SimilarityPart
from qmcif_engine.kernels.cell_sums import CELL_PX, compare_moments, sum_amplified_gradients, sum_curvatures, sum_gradients
from qmcif_engine.method.similarity import STABILIZER, moments_of_cells, moments_of_pair, quaternion_similarity, similarity_of_cells

FULL_SCALE = 255.0
SHAPES = [(1, 1), (1, 9), (9, 1), (2, 3), (4, 4), (8, 12), (5, 6), (7, 7), (16, 30), (23, 17), (30, 33)]


def tolerance(dtype, *, gain=1.0):
    """Rounding of a sum over a cell of differences of the full scale, each amplified by `gain`."""
    return 8 * CELL_PX**2 * np.finfo(dtype).eps * FULL_SCALE * gain


def random_planes(shape, dtype, n_planes=3):
    return np.random.default_rng((*shape, n_planes)).uniform(0, FULL_SCALE, (n_planes, *shape)).astype(dtype)


def summed_plainly(level):
    """Sum of each cell; those at the end may be smaller."""
    rows, columns = (range(0, side, CELL_PX) for side in level.shape)
    return np.array([[level[y : y + CELL_PX, x : x + CELL_PX].sum() for x in columns] for y in rows])


def empty_cells(planes):
    return np.full([-(-side // CELL_PX) for side in planes.shape[1:]], np.nan, planes.dtype)


def modulus(planes):
    return np.sqrt((planes**2).sum(axis=0))


def gradient_moduli(planes):
    """Moduli of the differences to the next row and to the next column; the last ones are zero."""
    down, right = np.zeros_like(planes), np.zeros_like(planes)
    down[:, :-1], right[:, :, :-1] = np.diff(planes, axis=1), np.diff(planes, axis=2)
    return modulus(down) + modulus(right)


parametrized = pytest.mark.parametrize("shape", SHAPES)
of_each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
of_gray_and_color = pytest.mark.parametrize("n_planes", [1, 3])


@parametrized
@of_each_dtype
@of_gray_and_color
def test_gradients_are_summed_over_each_cell(shape, dtype, n_planes):
    planes = random_planes(shape, dtype, n_planes)
    sums = empty_cells(planes)

    sum_gradients(planes, sums)

    expected = summed_plainly(gradient_moduli(planes.astype(np.float64)))
    np.testing.assert_allclose(sums, expected, rtol=0, atol=tolerance(dtype))


@parametrized
@of_each_dtype
@of_gray_and_color
@pytest.mark.parametrize("radius", [1, 2, 5])
def test_amplified_gradients_are_those_of_window_sums_in_every_other_row(shape, dtype, n_planes, radius):
    planes = random_planes(shape, dtype, n_planes)
    sums = empty_cells(planes)

    sum_amplified_gradients(planes, radius, sums)

    side = 2 * radius + 1
    # one row and one column more, since here the differences at the end are those to the reflection
    continued = np.pad(planes.astype(np.float64), ((0, 0), (0, radius + 1), (0, radius + 1)), mode="symmetric")
    amplified = ndimage.uniform_filter(continued, (0, side, side), mode="reflect") * side**2
    level = gradient_moduli(amplified)[: shape[0], : shape[1]]
    level[1::2] = 0
    np.testing.assert_allclose(sums, summed_plainly(level), rtol=0, atol=tolerance(dtype, gain=2 * side))


@parametrized
@of_each_dtype
@of_gray_and_color
def test_curvatures_are_second_differences_of_the_brightness(shape, dtype, n_planes):
    planes = random_planes(shape, dtype, n_planes)
    sums = empty_cells(planes)

    sum_curvatures(planes, sums)

    brightness = planes.astype(np.float64).sum(axis=0)
    level = np.zeros(shape)
    level[1:-1] += np.abs(np.diff(brightness, n=2, axis=0))
    level[:, 1:-1] += np.abs(np.diff(brightness, n=2, axis=1))
    np.testing.assert_allclose(sums, summed_plainly(level), rtol=0, atol=tolerance(dtype, gain=4 * n_planes))


@pytest.mark.parametrize("kernel", ["gradients", "amplified", "curvatures"])
def test_even_planes_have_none(kernel):
    planes = np.full((3, 19, 22), 77, np.float32)
    sums = empty_cells(planes)
    arguments = {"gradients": (), "amplified": (2,), "curvatures": ()}[kernel]

    {"gradients": sum_gradients, "amplified": sum_amplified_gradients, "curvatures": sum_curvatures}[kernel](planes, *arguments, sums)

    np.testing.assert_array_equal(sums, 0)


def quaternion_products(first, second):
    """``conj(x) y`` of pure quaternions, components first."""
    return np.concatenate([(first * second).sum(axis=0)[None], -np.cross(first, second, axis=0)])


def compared_plainly(first, second, *, side, is_scalar):
    """``conj(a) b`` of Definition 5, window by window."""
    rows, columns = (length // CELL_PX - side + 1 for length in first.shape[1:])
    one, result = np.array([1.0, 0, 0, 0]), np.empty((rows, columns))
    for y in range(rows):
        for x in range(columns):
            window = np.s_[:, CELL_PX * y : CELL_PX * (y + side), CELL_PX * x : CELL_PX * (x + side)]
            p, q = (image[window].reshape(3, -1).astype(np.float64) for image in (first, second))
            mean_p, mean_q = p.mean(axis=1, keepdims=True), q.mean(axis=1, keepdims=True)
            cross = quaternion_products(p - mean_p, q - mean_q).mean(axis=1)
            spread = ((p - mean_p) ** 2 + (q - mean_q) ** 2).mean(axis=1).sum()
            a = (2 * quaternion_products(mean_p, mean_q)[:, 0] + STABILIZER * one) / ((mean_p**2 + mean_q**2).sum() + STABILIZER)
            b = (2 * cross + STABILIZER * one) / (spread + STABILIZER)
            result[y, x] = a @ b if is_scalar else np.sqrt((a @ a) * (b @ b))
    return result


SIMILARITY_TOLERANCE = 1e4 * float(np.finfo(np.float64).eps)
"""The sums are float64 whatever the planes are. Squares of the full scale cancel to the variance of the noise, about a twelfth of it."""


@pytest.mark.parametrize("is_scalar", [True, False])
@of_each_dtype
@pytest.mark.parametrize(("shape", "side"), [((4, 4), 1), ((4, 20), 1), ((12, 12), 3), ((20, 28), 3), ((36, 16), 2), ((28, 40), 5)])
def test_similarity_of_cells_is_that_of_the_definition(shape, side, dtype, is_scalar):
    first, second = (image.astype(dtype) for image in np.random.default_rng(side).uniform(0, FULL_SCALE, (2, 3, *shape)))
    second += first
    result = np.full([length // CELL_PX - side + 1 for length in shape], np.nan)

    compare_moments(moments_of_cells(first, second), side, STABILIZER, is_scalar, result)

    expected = compared_plainly(first, second, side=side, is_scalar=is_scalar)
    np.testing.assert_allclose(result, expected, rtol=0, atol=SIMILARITY_TOLERANCE)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize(("shape", "side_cells"), [((20, 28), 3), ((24, 16), 1), ((36, 44), 5)])
def test_similarity_of_cells_is_that_of_windows_of_as_many_pixels_which_start_on_a_cell(shape, side_cells, part):
    first, second = np.random.default_rng(0).uniform(0, FULL_SCALE, (2, 3, *shape)).astype(np.float32)

    result = similarity_of_cells(moments_of_cells(first, second), side_cells=side_cells, part=part)

    everywhere = quaternion_similarity(first, second, side_px=CELL_PX * side_cells, part=part)
    np.testing.assert_allclose(result, everywhere[::CELL_PX, ::CELL_PX], rtol=0, atol=SIMILARITY_TOLERANCE)


@pytest.mark.parametrize("part", SimilarityPart)
def test_image_is_like_itself_in_every_cell(part):
    image = random_planes((24, 32), np.float32)

    similarity = similarity_of_cells(moments_of_cells(image, image), side_cells=3, part=part)

    np.testing.assert_allclose(similarity, 1, rtol=0, atol=SIMILARITY_TOLERANCE)


def test_sums_of_two_images_give_those_of_each_beside_each():
    images = np.random.default_rng(1).uniform(0, FULL_SCALE, (2, 3, 24, 32)).astype(np.float32)

    of_pair = moments_of_pair(moments_of_cells(*images))

    for first in range(2):
        for second in range(2):
            expected = moments_of_cells(images[first], images[second])
            rounding = CELL_PX**2 * np.finfo(np.float64).eps * expected.max()
            np.testing.assert_allclose(of_pair[first][second], expected, rtol=0, atol=rounding)
