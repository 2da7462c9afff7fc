"""All iterations in one pass over the rows, against the plain updates on whole arrays with as many half-sweeps."""

from itertools import pairwise

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import DecompositionConfig
from qmcif_engine.kernels.row_solve import solve_rows
from qmcif_engine.method.decomposition.image_solve import weigh_iteration
from qmcif_engine.method.decomposition.operators import gradients, gradients_adjoint, list_over_relaxations

FULL_SCALE = 255
PENALTIES = (0.2, 0.3, 0.9)
SHAPES = [(1, 1), (1, 2), (2, 1), (1, 17), (17, 1), (2, 2), (2, 3), (3, 2), (5, 5), (8, 8), (7, 10), (10, 7), (75, 6), (61, 34)]
"""Of the last two, the rows go around the ring of rows in work, which has 26 of them, more than once."""


def tolerance(dtype):
    """Rounding in gray levels: three iterations of a few dozen operations each, none of which makes an error larger."""
    return 50 * np.finfo(dtype).eps * FULL_SCALE


def random_planes(n_planes, shape, dtype=np.float64):
    """Noise that grows from the left to the right, so that shrinkage sets some pixels to zero and others not."""
    noise = np.random.default_rng(shape).uniform(0, 160, (n_planes, *shape))
    return (90 + noise * np.linspace(0, 1, shape[1]) ** 2).astype(dtype)


def solved(planes, config, *, n_first, n_later, penalties=PENALTIES, modulus_scale=1.0):
    """Detail layer of the kernel."""
    steps = [0.0, *penalties, penalties[-1]]
    weights = tuple(
        weigh_iteration(config, penalty, previous=previous, dtype=planes.dtype, modulus_scale=modulus_scale)
        for previous, penalty in pairwise(steps)
    )
    detail = np.full_like(planes, np.nan)
    solve_rows(planes, np.array(weights), (list_over_relaxations(1.0, n_first), list_over_relaxations(1.0, n_later)), detail)
    return detail


def relaxed(base, target, n_sweeps):
    """The base layer after half-sweeps of the chessboard: the pixels of one color move to where their equation holds, and beyond."""
    rows, columns = np.indices(base.shape[1:])
    neighbors = np.pad(np.ones(base.shape[1:]), 1)
    n_neighbors = neighbors[:-2, 1:-1] + neighbors[2:, 1:-1] + neighbors[1:-1, :-2] + neighbors[1:-1, 2:]
    for number, omega in enumerate(list_over_relaxations(1.0, n_sweeps)):
        around = np.pad(base, ((0, 0), (1, 1), (1, 1)))
        total = around[:, :-2, 1:-1] + around[:, 2:, 1:-1] + around[:, 1:-1, :-2] + around[:, 1:-1, 2:]
        moved = (1 - omega) * base + omega * (total + target) / (1 + n_neighbors)
        base = np.where((rows + columns + number) % 2 == 0, moved, base)
    return base


def shrunk(planes, threshold):
    """Moduli over the axis of planes, shortened by a threshold."""
    length = np.sqrt((planes**2).sum(axis=-3, keepdims=True))
    return planes * np.maximum(length - threshold, 0) / np.where(length == 0, 1, length)


def solved_plainly(image, config, *, n_first, n_later, penalties=PENALTIES, modulus_scale=1.0):
    """Detail layer by the updates of Algorithm 1 with all its variables, in float64."""
    image = image.astype(np.float64)
    base = relaxed(image, image, n_first)
    detail, noise, sum_multiplier = image - base, np.zeros_like(image), np.zeros_like(image)
    multipliers = np.zeros((2, *image.shape))
    for penalty in penalties:
        fields = shrunk(gradients(base) - multipliers / penalty, config.base_smoothness / penalty / modulus_scale)
        known = image + sum_multiplier / penalty
        base = relaxed(base, known - detail - noise + gradients_adjoint(fields + multipliers / penalty), n_later)
        detail = shrunk(known - base - noise, config.detail_sparsity / penalty / modulus_scale)
        noise = (known - base - detail) * penalty / (2 * config.noise_weight + penalty)
        sum_multiplier = sum_multiplier + penalty * (image - base - detail - noise)
        multipliers = multipliers + penalty * (fields - gradients(base))
    return detail


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_detail_is_that_of_plain_iterations(shape, n_planes, dtype):
    planes, config = random_planes(n_planes, shape, dtype), DecompositionConfig()

    detail = solved(planes, config, n_first=8, n_later=4)

    np.testing.assert_allclose(detail, solved_plainly(planes, config, n_first=8, n_later=4), rtol=0, atol=tolerance(dtype))


@pytest.mark.parametrize("penalties", [PENALTIES[:1], PENALTIES])
@pytest.mark.parametrize(("n_first", "n_later"), [(1, 1), (1, 6), (2, 3), (7, 2)])
def test_detail_is_that_of_plain_iterations_with_any_number_of_half_sweeps(n_first, n_later, penalties):
    planes, config = random_planes(3, (41, 23)), DecompositionConfig()
    options = {"n_first": n_first, "n_later": n_later, "penalties": penalties}

    detail = solved(planes, config, **options)

    np.testing.assert_allclose(detail, solved_plainly(planes, config, **options), rtol=0, atol=tolerance(np.float64))


@pytest.mark.parametrize("changes", [{"noise_weight": 0.0}, {"base_smoothness": 0.0}, {"detail_sparsity": 0.0}, {"detail_sparsity": 20.0}])
def test_detail_is_that_of_plain_iterations_with_other_settings(changes):
    planes, config = random_planes(3, (41, 23)), DecompositionConfig(**changes)

    detail = solved(planes, config, n_first=4, n_later=3)

    np.testing.assert_allclose(detail, solved_plainly(planes, config, n_first=4, n_later=3), rtol=0, atol=tolerance(np.float64))


def test_thresholds_divided_by_the_modulus_scale_make_one_plane_stand_for_several():
    plane, config = random_planes(1, (23, 30)), DecompositionConfig()
    options = {"n_first": 8, "n_later": 4}

    detail = solved(plane, config, modulus_scale=np.sqrt(3), **options)

    np.testing.assert_allclose(
        detail, solved_plainly(plane, config, modulus_scale=np.sqrt(3), **options), rtol=0, atol=tolerance(np.float64)
    )
    assert np.abs(detail - solved(plane, config, **options)).max() > 1


def test_shrinkage_leaves_some_detail_and_none_elsewhere():
    """The comparisons above would show little if it were all or nothing."""
    detail = solved(random_planes(3, (61, 34)), DecompositionConfig(), n_first=8, n_later=4)

    is_zero = (detail == 0).all(axis=0)
    assert 0.1 < is_zero.mean() < 0.9


def test_even_image_has_no_detail():
    planes = np.full((3, 40, 30), 200.0)

    detail = solved(planes, DecompositionConfig(), n_first=8, n_later=4)

    np.testing.assert_array_equal(detail, 0)


def test_image_is_left_alone():
    planes = random_planes(3, (40, 30))
    kept = planes.copy()

    solved(planes, DecompositionConfig(), n_first=8, n_later=4)

    np.testing.assert_array_equal(planes, kept)
