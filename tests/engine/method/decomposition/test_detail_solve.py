"""The detail layer by relaxation: near that of the exact solve, nearer with more half-sweeps, the same for gray as for equal planes."""

import itertools

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import DecompositionConfig, Precision
from qmcif_engine.method.decomposition import decompose, detail_solve
from qmcif_engine.method.decomposition.detail_solve import solve_detail

FULL_SCALE = 255
EXACT_SWEEPS = 24
"""Half-sweeps after which the base layer is exact: `operators.relax_screened` does as many or fewer."""

EXACT_TOLERANCE = 200 * float(np.finfo(np.float32).eps) * FULL_SCALE
"""In gray levels: rounding, and what both solves leave by stopping."""

SINGLE_TOLERANCE = 50 * float(np.finfo(np.float32).eps) * FULL_SCALE


@pytest.fixture
def exact_sweeps(monkeypatch):
    monkeypatch.setattr(detail_solve, "FIRST_SWEEPS", EXACT_SWEEPS)
    monkeypatch.setattr(detail_solve, "SWEEPS", EXACT_SWEEPS)


@pytest.mark.parametrize("changes", [{}, {"iterations": 1}, {"penalty_growth": 2.0}, {"noise_weight": 0.0}, {"detail_sparsity": 4.0}])
@pytest.mark.parametrize("shape", [(40, 65), (90, 31), (5, 5), (1, 20)])
@pytest.mark.usefixtures("exact_sweeps")
def test_detail_is_that_of_the_exact_solve_when_there_are_many_half_sweeps(textured_image, shape, changes):
    image, config = textured_image(shape).astype(np.float32), DecompositionConfig(**changes)

    detail = solve_detail(image, config)

    np.testing.assert_allclose(detail, decompose(image, config).detail, rtol=0, atol=EXACT_TOLERANCE)


def test_more_half_sweeps_lead_nearer_to_the_exact_solve(textured_image, monkeypatch):
    image, config = textured_image((60, 70)), DecompositionConfig(precision=Precision.DOUBLE)
    exact = decompose(image, config).detail
    misses = []
    for n_sweeps in (2, 4, 8, 16):
        monkeypatch.setattr(detail_solve, "FIRST_SWEEPS", 2 * n_sweeps)
        monkeypatch.setattr(detail_solve, "SWEEPS", n_sweeps)
        misses.append(np.abs(solve_detail(image, config) - exact).mean())

    assert all(later < 0.5 * earlier for earlier, later in itertools.pairwise(misses))


def test_few_half_sweeps_miss_less_than_a_gray_level_on_average(textured_image):
    image, config = textured_image((60, 70)).astype(np.float32), DecompositionConfig()

    miss = np.abs(solve_detail(image, config) - decompose(image, config).detail)

    assert miss.mean() < 1


@pytest.mark.parametrize("shape", [(40, 65), (7, 4)])
def test_gray_image_given_as_one_plane_has_the_detail_of_three_equal_planes(textured_image, shape):
    gray, config = textured_image(shape)[:1].astype(np.float32), DecompositionConfig()

    detail = solve_detail(gray, config, n_equal=3)

    assert detail.shape == (1, *shape)
    for plane in solve_detail(np.repeat(gray, 3, axis=0), config):
        np.testing.assert_allclose(detail[0], plane, rtol=0, atol=SINGLE_TOLERANCE)


@pytest.mark.parametrize("precision", Precision)
def test_detail_has_the_precision_of_the_settings(textured_image, precision):
    detail = solve_detail(textured_image((12, 9)), DecompositionConfig(precision=precision))

    assert detail.dtype == precision.value


def test_same_image_gives_the_same_bytes_however_it_lies_in_memory(textured_image):
    image, config = textured_image((33, 40)).astype(np.float32), DecompositionConfig()
    first = solve_detail(image, config)
    kept = image.copy()

    interleaved = np.ascontiguousarray(np.moveaxis(image, 0, -1))
    for other in (image, np.moveaxis(interleaved, -1, 0), np.asfortranarray(image)):
        np.testing.assert_array_equal(solve_detail(other, config), first)
    np.testing.assert_array_equal(image, kept)


def test_penalty_stops_growing_at_its_cap(textured_image):
    image = textured_image((20, 25)).astype(np.float32)

    capped = solve_detail(image, DecompositionConfig(penalty=1.0, penalty_growth=3.0, penalty_cap=1.0))
    constant = solve_detail(image, DecompositionConfig(penalty=1.0, penalty_growth=1.0))

    np.testing.assert_array_equal(capped, constant)
