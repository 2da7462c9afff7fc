"""Evidence of focus: its energies, the statistics of noise in them, and the candidates, against the formulas written out."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import Evidence
from qmcif_engine.decision import evidence as measured
from qmcif_engine.decision.evidence import BLOCK_PX, CELL_PX, COLOR_FREEDOM, ENERGY_STEP, EXCLUDED, FREEDOM, MISSING, N_CANDIDATES
from qmcif_engine.decision.filters import average_cells, smooth
from qmcif_engine.method.detail_layer import detail_layer
from tests.scenes import SINGLE_EPS, reach_of_change, texture

CELLS = BLOCK_PX // CELL_PX
TOLERANCE = 1e-4
"""Of costs in nats, which are sums of a few float32 exponentials."""


def energies_of(planes, measure=Evidence.DECOMPOSITION):
    return measured.scale_energies(planes, measure, n_scales=len(FREEDOM))


# --- energies ---


@pytest.mark.parametrize("n_planes", [1, 3])
@pytest.mark.parametrize("shape", [(24, 30), (1, 1), (33, 18)])
def test_the_fine_energy_is_that_of_the_formula(shape, n_planes):
    planes = texture((n_planes, *shape))

    layer = smooth(detail_layer(planes), measured.FINE_PX).astype(np.float64)
    down, right = np.diff(layer, axis=1, append=layer[:, -1:]), np.diff(layer, axis=2, append=layer[:, :, -1:])
    energy = ((down**2).sum(axis=0) + (right**2).sum(axis=0)) / n_planes
    expected = smooth(average_cells(energy.astype(np.float32), CELL_PX), (measured.FINE_PX**2 - (CELL_PX**2 - 1) / 12) ** 0.5 / CELL_PX)

    (fine,) = measured.scale_energies(planes, Evidence.DECOMPOSITION, n_scales=1)
    np.testing.assert_allclose(fine, expected, rtol=1e-4, atol=64 * SINGLE_EPS * max(float(expected.max()), 1))
    np.testing.assert_array_equal(energies_of(planes)[0], fine)


@pytest.mark.parametrize("measure", list(Evidence))
def test_energies_see_texture_of_their_own_width_that_blur_lowers_and_brightness_does_not_change(measure):
    planes = texture((1, 48, 48))
    sharp = energies_of(planes, measure)
    fine, wide = (energies_of(texture((1, 64, 64), sigma=sigma), measure).mean(axis=(1, 2)) for sigma in (0.7, 3.0))

    assert (sharp.shape, sharp.dtype) == ((len(FREEDOM), 24, 24), np.float32)
    assert fine[0] / fine[1] > 2 * wide[0] / wide[1]
    assert (energies_of(smooth(planes, 1.5), measure) < sharp).mean() > 0.95
    np.testing.assert_allclose(energies_of(planes + 32, measure), sharp, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(energies_of(np.repeat(planes, 3, axis=0), measure), sharp, rtol=1e-4)
    assert not energies_of(np.full((3, 11, 13), 77, np.float32), measure).any()


@pytest.mark.parametrize("measure", list(Evidence))
@pytest.mark.parametrize("place", [(40, 40), (41, 41)])
def test_energies_reach_as_far_as_is_stated(measure, place):
    def pixels(planes):
        return energies_of(planes, measure).repeat(CELL_PX, axis=1).repeat(CELL_PX, axis=2)

    assert measured.WIDE_PX < reach_of_change(pixels, texture((1, 81, 81)), place) <= measured.EVIDENCE_REACH_PX


# --- statistics of noise ---


@pytest.mark.parametrize(
    ("scale", "sigma", "cell"), [(0, measured.FINE_PX, 1), (1, measured.WIDE_PX, CELL_PX), (2, 2 * measured.WIDE_PX, 2 * CELL_PX)]
)
def test_degrees_of_freedom_follow_from_the_filters(scale, sigma, cell):
    """Squared power over the squared covariance summed over all lags: the samples per pixel that a mean of noise is worth."""
    point = np.zeros((64, 64), np.float32)
    point[32, 32] = 1
    layer = smooth(point, (sigma**2 - (cell**2 - 1) / 12) ** 0.5 / cell).astype(np.float64)
    fields = [np.fft.fft2(layer - np.roll(layer, -1, axis=axis)) for axis in (0, 1)]

    power = sum((np.abs(field) ** 2).mean() for field in fields)
    covariance = sum((np.abs(np.fft.ifft2(a * b.conj())) ** 2).sum() for a in fields for b in fields)

    assert power**2 / covariance / cell**2 == pytest.approx(FREEDOM[scale], rel=0.1)


def test_the_cost_is_the_likelihood_of_a_gamma_distribution():
    """With `k` degrees of freedom the mean energy of noise is gamma distributed, shape k/2; `d` is how far it lies below the other one."""
    shape = FREEDOM[0] * COLOR_FREEDOM / 2
    d = np.linspace(0, 6, 30)
    log_density = -shape * d - shape * np.exp(-d)  # of the log of the energy in units of the mean, but for a constant

    evidence = np.full((1, 2, CELLS, 30 * CELLS), np.rint(7 / ENERGY_STEP), np.uint16)
    evidence[0, 1] = np.rint((7 - d) / ENERGY_STEP).repeat(CELLS)
    costs = measured.find_candidates(evidence, np.zeros(2, np.float32)).cost[0, ::CELLS, 1]

    np.testing.assert_allclose(costs, log_density[0] - log_density, atol=2 * FREEDOM[0] * ENERGY_STEP + TOLERANCE)


def test_evidence_is_stored_in_steps_and_never_taken_for_missing():
    energies = np.array([[[0, 1, 1e4]], [[0, 2, 1e30]]], np.float32)

    stored = measured.store_evidence(energies, (0.5, 2.0))

    expected = np.log1p(energies.astype(np.float64) / np.array([0.5, 2.0])[:, None, None])
    assert stored.dtype == np.uint16
    assert stored.max() < MISSING
    inside = expected < (MISSING - 1) * ENERGY_STEP
    np.testing.assert_allclose(stored[inside] * ENERGY_STEP, expected[inside], atol=0.51 * ENERGY_STEP)
    np.testing.assert_array_equal(measured.store_evidence(energies[:1], (0.5, 9.0)), stored[:1])


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
    ("n_scales", "n_images", "shape", "n_levels"),
    # of few levels many images are equal: the first ones are candidates
    [(2, 5, (3, 5), 9216), (1, 20, (9, 6), 3), (2, 40, (4, 4), 9216), (1, 2, (1, 1), 2), (2, N_CANDIDATES, (7, 10), 9216)],
)
def test_candidates_are_those_of_the_formula(n_scales, n_images, shape, n_levels, missing):
    generator = np.random.default_rng(n_images)
    evidence = generator.integers(0, n_levels, (n_scales, n_images, *shape)).astype(np.uint16)
    # an image lacks a cell at all scales
    evidence[:, generator.random((n_images, *shape)) < missing] = MISSING
    prior = (generator.uniform(0, 0.5, n_images) * (n_levels > 9)).astype(np.float32)

    found = measured.find_candidates(evidence, prior)

    label, cost, winner, best = candidates_written_out(evidence, prior.astype(np.float64))
    np.testing.assert_array_equal(found.label, label)
    np.testing.assert_allclose(found.cost, cost, rtol=1e-5, atol=TOLERANCE)
    np.testing.assert_array_equal(found.winner, winner)
    np.testing.assert_allclose(found.best, best, rtol=1e-5)
