"""Evidence of focus: its energies, the statistics of noise in them, and the candidates, against the formulas written out."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import Evidence
from qmcif_engine.decision.evidence import (
    BLOCK_PX,
    CELL_PX,
    COLOR_FREEDOM,
    ENERGY_STEP,
    EVIDENCE_REACH_PX,
    EXCLUDED,
    FINE_PX,
    FREEDOM,
    MISSING,
    N_CANDIDATES,
    WIDE_PX,
    find_candidates,
    scale_energies,
    store_evidence,
)
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.method.detail_layer import detail_layer
from tests.scenes import SINGLE_EPS, reach_of_change, texture

CELLS = BLOCK_PX // CELL_PX
TOLERANCE = 1e-4
"""Of costs in nats, which are sums of a few float32 exponentials."""


# --- energies ---


@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("shape", [(24, 30), (5, 7), (1, 1), (33, 18)])
def test_the_fine_energy_is_that_of_the_formula(shape, n_planes):
    planes = texture((n_planes, *shape))

    layer = smooth(detail_layer(planes), FINE_PX).astype(np.float64)
    down, right = np.diff(layer, axis=1, append=layer[:, -1:]), np.diff(layer, axis=2, append=layer[:, :, -1:])
    energy = ((down**2).sum(axis=0) + (right**2).sum(axis=0)) / n_planes
    expected = smooth(average_cells(energy.astype(np.float32), CELL_PX), (FINE_PX**2 - (CELL_PX**2 - 1) / 12) ** 0.5 / CELL_PX)

    (fine,) = scale_energies(planes, Evidence.DECOMPOSITION, n_scales=1)
    np.testing.assert_allclose(fine, expected, rtol=1e-4, atol=64 * SINGLE_EPS * max(float(expected.max()), 1))


@pytest.mark.parametrize("measure", list(Evidence))
def test_each_scale_sees_texture_of_its_own_width_and_the_first_is_the_same_alone(measure):
    planes = texture((1, 40, 50))
    both = scale_energies(planes, measure, n_scales=len(FREEDOM))

    assert both.shape == (len(FREEDOM), 20, 25)
    assert both.dtype == np.float32
    np.testing.assert_array_equal(both[0], scale_energies(planes, measure, n_scales=1)[0])
    fine, wide = (
        scale_energies(texture((1, 64, 64), sigma=sigma), measure, n_scales=len(FREEDOM)).mean(axis=(1, 2)) for sigma in (0.7, 3.0)
    )
    assert fine[0] / fine[1] > 2 * wide[0] / wide[1]


@pytest.mark.parametrize("measure", list(Evidence))
def test_blur_and_only_blur_lowers_the_energy(measure):
    planes = texture((1, 48, 48))
    sharp = scale_energies(planes, measure, n_scales=len(FREEDOM))

    assert (scale_energies(smooth(planes, 1.5), measure, n_scales=len(FREEDOM)) < sharp).mean() > 0.95
    np.testing.assert_allclose(scale_energies(planes + 32, measure, n_scales=len(FREEDOM)), sharp, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("measure", list(Evidence))
def test_a_constant_image_has_no_energy(measure):
    assert not scale_energies(np.full((3, 11, 13), 77, np.float32), measure, n_scales=len(FREEDOM)).any()


def test_a_gray_image_has_the_energy_of_three_equal_planes():
    gray = texture((1, 30, 26))

    color = scale_energies(np.repeat(gray, 3, axis=0), Evidence.DECOMPOSITION, n_scales=len(FREEDOM))

    np.testing.assert_allclose(color, scale_energies(gray, Evidence.DECOMPOSITION, n_scales=len(FREEDOM)), rtol=1e-4)


@pytest.mark.parametrize("measure", list(Evidence))
@pytest.mark.parametrize("place", [(40, 40), (41, 41)])
def test_energies_reach_as_far_as_is_stated(measure, place):
    def pixels(planes):
        return np.repeat(np.repeat(scale_energies(planes, measure, n_scales=len(FREEDOM)), CELL_PX, axis=1), CELL_PX, axis=2)

    assert WIDE_PX < reach_of_change(pixels, texture((1, 81, 81)), place) <= EVIDENCE_REACH_PX


# --- statistics of noise ---


def fields_of_noise(sigma, cell):
    """Fourier transforms of the gradient of a Gaussian, on pixels or on cells of 2 px."""
    point = np.zeros((64, 64), np.float32)
    point[32, 32] = 1
    layer = smooth(point, (sigma**2 - (cell**2 - 1) / 12) ** 0.5 / cell).astype(np.float64)
    return [np.fft.fft2(np.diff(layer, axis=axis, append=layer[-1:] if axis == 0 else layer[:, -1:])) for axis in (0, 1)]


@pytest.mark.parametrize(("scale", "sigma", "cell"), [(0, FINE_PX, 1), (1, WIDE_PX, CELL_PX), (2, 2 * WIDE_PX, 2 * CELL_PX)])
def test_degrees_of_freedom_follow_from_the_filters(scale, sigma, cell):
    """Squared power over the squared covariance summed over all lags: the samples per pixel that a mean of noise is worth."""
    fields = fields_of_noise(sigma, cell)
    power = sum((np.abs(field) ** 2).mean() for field in fields)
    covariance = sum((np.abs(np.fft.ifft2(a * b.conj())) ** 2).sum() for a in fields for b in fields)

    assert power**2 / covariance / cell**2 == pytest.approx(FREEDOM[scale], rel=0.1)


def test_the_cost_is_the_likelihood_of_a_gamma_distribution():
    """With `k` degrees of freedom the mean energy of noise is gamma distributed, shape k/2; `d` is how far it lies below the other one."""
    shape = FREEDOM[0] * COLOR_FREEDOM / 2
    d = np.linspace(0, 6, 30)
    energy = np.exp(-d)  # in units of the mean
    log_density = shape * np.log(energy) - shape * energy  # of ln(energy), but for a constant

    evidence = np.zeros((1, 2, CELLS, 30 * CELLS), np.uint16)
    evidence[0, 0] = np.rint(7 / ENERGY_STEP)
    evidence[0, 1] = np.repeat(np.rint((7 - d) / ENERGY_STEP), CELLS)[None]
    costs = find_candidates(evidence, np.zeros(2, np.float32)).cost[0, ::CELLS, 1]

    np.testing.assert_allclose(costs, log_density[0] - log_density, atol=2 * FREEDOM[0] * ENERGY_STEP + TOLERANCE)


# --- storage ---


def test_evidence_is_stored_in_steps_and_never_taken_for_missing():
    energies = np.array([[[0, 1, 1e4]], [[0, 2, 1e30]]], np.float32)

    stored = store_evidence(energies, (0.5, 2.0))

    expected = np.log1p(np.minimum(energies, 3e38).astype(np.float64) / np.array([0.5, 2.0])[:, None, None])
    assert stored.dtype == np.uint16
    assert stored.max() < MISSING
    inside = expected < (MISSING - 1) * ENERGY_STEP
    np.testing.assert_allclose(stored[inside] * ENERGY_STEP, expected[inside], atol=0.51 * ENERGY_STEP)


def test_one_scale_takes_the_first_floor():
    np.testing.assert_array_equal(store_evidence(np.ones((1, 2, 2), np.float32), (1.0, 9.0)), np.rint(np.log(2) / ENERGY_STEP))


# --- candidates ---


def candidates_written_out(evidence, prior):
    """Labels, costs, winners and the best log energy, block by block in plain NumPy."""
    n_scales, n_images, rows, columns = evidence.shape
    is_missing = evidence == MISSING
    energy = np.where(is_missing, -np.inf, evidence * ENERGY_STEP + prior[:, None, None])
    top = energy.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        d = top - energy
        freedom = np.array(FREEDOM[:n_scales])[:, None, None, None] * COLOR_FREEDOM
        each = np.where(is_missing, EXCLUDED, freedom / 2 * (d - 1 + np.exp(-d)))
    total = np.minimum(each.sum(axis=0), EXCLUDED)
    count = min(N_CANDIDATES, n_images)
    label = np.full((-(-rows // CELLS), -(-columns // CELLS), count), -1)
    cost = np.full((rows, columns, count), EXCLUDED)
    for by, bx in np.ndindex(label.shape[:2]):
        block = np.s_[by * CELLS : (by + 1) * CELLS, bx * CELLS : (bx + 1) * CELLS]
        least = total[:, *block].min(axis=(1, 2))
        chosen = sorted(number for number in np.argsort(least, kind="stable")[:count] if least[number] < EXCLUDED)
        label[by, bx, : len(chosen)] = chosen
        cost[*block, : len(chosen)] = np.moveaxis(total[chosen][:, *block], 0, -1)
    return label, cost, np.where(is_missing.all(axis=1), 0, energy.argmax(axis=1)), np.maximum(top[-1, 0], 0)


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(
    ("n_scales", "n_images", "shape"),
    [(2, 2, (8, 12)), (2, 5, (3, 5)), (1, 20, (9, 6)), (2, 40, (4, 4)), (1, 2, (1, 1)), (2, N_CANDIDATES, (7, 10))],
)
def test_candidates_are_those_of_the_formula(n_scales, n_images, shape, missing):
    generator = np.random.default_rng(n_images)
    evidence = generator.integers(0, 9 * 1024, (n_scales, n_images, *shape)).astype(np.uint16)
    # an image lacks a cell at all scales
    evidence[:, generator.random((n_images, *shape)) < missing] = MISSING
    prior = generator.uniform(0, 0.5, n_images).astype(np.float32)

    found = find_candidates(evidence, prior)

    label, cost, winner, best = candidates_written_out(evidence, prior.astype(np.float64))
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_allclose(found.cost, cost, rtol=1e-5, atol=TOLERANCE)
    np.testing.assert_array_equal(found.winner, winner)
    np.testing.assert_allclose(found.best, best, rtol=1e-5)


def test_of_equal_images_the_first_ones_are_candidates_and_win():
    found = find_candidates(np.full((2, 20, 4, 4), 700, np.uint16), np.zeros(20, np.float32))

    np.testing.assert_array_equal(found.label[0, 0], np.arange(N_CANDIDATES))
    assert not found.winner.any()
    assert not found.cost.any()


def test_a_block_that_few_images_have_has_fewer_candidates():
    evidence = np.full((2, 4, 4, 4), MISSING, np.uint16)
    evidence[:, 2] = 100

    found = find_candidates(evidence, np.zeros(4, np.float32))

    np.testing.assert_array_equal(found.label[0, 0], [2, -1, -1, -1])
    assert (found.cost[..., 1:] == EXCLUDED).all()


def test_a_prior_is_a_head_start():
    evidence = np.full((1, 2, 4, 4), 1000, np.uint16)
    evidence[0, 1] += int(0.5 / ENERGY_STEP)

    assert find_candidates(evidence, np.zeros(2, np.float32)).winner.all()
    assert not find_candidates(evidence, np.array([0.6, 0], np.float32)).winner.any()
