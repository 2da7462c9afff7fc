"""The reblur test: against its formula written out, and on scenes where it is known what spills into what."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision.filters import average_cells, interpolate_cells, smooth
from qmcif_engine.decision.reblur import (
    BLURS,
    CELL_PX,
    DETAIL_PRICE,
    FINE_PX,
    HALO_REACH_PX,
    HALO_WEIGHT,
    NOISE_FLOOR,
    UNTRUSTED_SHARE,
    WINDOW_SIGMA,
    fine_energy,
    halo_costs,
    trust_of,
)
from tests.scenes import reach_of_change, texture


def costs_written_out(cells, detail, label):
    """``H`` of the docstring, in float64 and with one line for each of its parts."""
    side = np.exp(-0.5 * (np.arange(-1, 2) / WINDOW_SIGMA) ** 2)
    window = np.outer(side, side) / side.sum() ** 2
    n = len(cells)
    series = [[image, *(smooth(image, sigma) for sigma in BLURS)] for image in cells]
    left = np.zeros((n, n, *cells.shape[2:]))
    for a, b in np.ndindex(n, n):
        powers = [((cells[b].astype(np.float64) - blurred) ** 2).mean(axis=0) for blurred in series[a]]
        left[a, b] = np.min([ndimage.correlate(power, window, mode="nearest") for power in powers], axis=0)
    costs = np.zeros(label.shape)
    for y, x, i in np.ndindex(label.shape):
        a = label[y, x, i]
        for b in label[y, x]:
            if a < 0 or b < 0 or a == b:
                continue
            of_b, of_a = left[a, b, y, x], left[b, a, y, x]
            pedestal = NOISE_FLOOR + DETAIL_PRICE**2 * detail[a, y, x]
            if of_b > of_a:
                trust = np.clip(2 - 2 * of_a / (of_b + 0.05 * NOISE_FLOOR) / UNTRUSTED_SHARE, 0, 1)
                costs[y, x, i] = max(costs[y, x, i], trust * np.log((of_b + pedestal) / (of_a + pedestal)))
    return HALO_WEIGHT * costs


@pytest.mark.parametrize(
    ("n_images", "n_planes", "shape", "count"),
    [(2, 1, (6, 9), 2), (5, 3, (7, 4), 3), (3, 3, (1, 1), 3), (3, 1, (2, 3), 2), (12, 1, (140, 3), 4), (20, 1, (130, 4), 4)],
)
def test_costs_are_those_of_the_formula(n_images, n_planes, shape, count):
    generator = np.random.default_rng(n_images)
    sharp = 40 * generator.normal(size=(n_planes, *shape))
    cells = np.stack(
        [ndimage.gaussian_filter(sharp, (0, 0.7 * k, 0.7 * k)) + 0.3 * generator.normal(size=sharp.shape) for k in range(n_images)]
    )
    cells, detail = cells.astype(np.float32), generator.uniform(0, 3, (n_images, *shape)).astype(np.float32)
    label = np.sort([[generator.permutation(n_images)[:count] for _ in range(shape[1])] for _ in range(shape[0])]).astype(np.int32)
    label[generator.random(shape) < 0.3, -1] = -1

    costs = halo_costs(cells, detail, label)

    expected = costs_written_out(cells, detail, label)
    assert costs.shape == label.shape
    np.testing.assert_allclose(costs, expected, rtol=1e-3, atol=1e-3)
    assert min(shape) == 1 or expected.max() > 0.5


def test_costs_are_not_negative_and_those_of_no_candidate_are_zero():
    cells = texture((3, 1, 10, 10), contrast=60)
    label = np.broadcast_to(np.array([0, 2, -1], np.int32), (10, 10, 3)).copy()

    costs = halo_costs(cells, np.zeros((3, 10, 10), np.float32), label)

    assert (costs >= 0).all()
    assert not costs[..., 2].any()


def spilled():
    """Cells of a bright thing in focus, and of the same thing out of focus over dark ground; neither shows anything else."""
    sharp = np.full((1, 24, 24), 20, np.float32)
    sharp[:, :, 12:] = 200
    return np.stack([sharp, smooth(sharp, BLURS[-1])])


def test_an_image_into_which_something_spills_costs_and_the_one_in_which_it_is_sharp_does_not():
    cells = spilled()
    label = np.broadcast_to(np.arange(2, dtype=np.int32), (24, 24, 2)).copy()

    costs = halo_costs(cells, np.zeros((2, 24, 24), np.float32), label)

    beside = np.s_[:, 8:12]
    assert (costs[*beside, 1] > 1).all()
    assert not costs[*beside, 0].any()


def test_fine_detail_that_would_be_lost_outweighs_a_faint_halo():
    cells = spilled()
    label = np.broadcast_to(np.arange(2, dtype=np.int32), (24, 24, 2)).copy()
    rich = np.stack([np.zeros((24, 24)), np.full((24, 24), 100.0)]).astype(np.float32)

    poor = halo_costs(cells, np.zeros((2, 24, 24), np.float32), label)

    assert (halo_costs(cells, rich, label) < 0.5 * poor + 1e-6).all()


def test_contrast_that_inverts_is_no_halo():
    waves = 40 * np.sin(np.indices((24, 24))[1] / 2)[None]
    cells = np.stack([waves, -waves]).astype(np.float32)
    label = np.broadcast_to(np.arange(2, dtype=np.int32), (24, 24, 2)).copy()

    assert halo_costs(cells, np.zeros((2, 24, 24), np.float32), label)[2:-2, 2:-2].max() < 0.1


def test_equal_images_cost_nothing():
    cells = np.repeat(texture((1, 3, 9, 9)), 4, axis=0)
    label = np.broadcast_to(np.arange(4, dtype=np.int32), (9, 9, 4)).copy()

    assert not halo_costs(cells, np.ones((4, 9, 9), np.float32), label).any()


def test_trust_falls_from_one_to_zero_while_the_residuals_become_alike():
    of_sharper = np.full(4, 1e4, np.float32)
    of_other = of_sharper * np.array([0, 0.5, 1, 2], np.float32) * UNTRUSTED_SHARE

    np.testing.assert_allclose(trust_of(of_sharper, of_other), [1, 1, 0, 0], atol=1e-3)
    assert not trust_of(np.zeros(1, np.float32), np.full(1, NOISE_FLOOR, np.float32)).any()


# --- fine detail ---


@pytest.mark.parametrize("shape", [(40, 48), (5, 7), (1, 1), (19, 33)])
def test_fine_energy_is_the_largest_mean_of_two_by_two_cells(shape):
    planes = texture((3, *shape))
    # what the interpolated means of 8 px leave, and its power on cells of 4 px
    rest = planes - interpolate_cells(average_cells(planes, FINE_PX), FINE_PX, shape)
    power = np.pad(average_cells((rest**2).mean(axis=0), CELL_PX), 1, mode="edge")
    rows, columns = (length - 2 for length in power.shape)
    expected = [
        [max(power[y + v : y + v + 2, x + u : x + u + 2].mean() for v in (0, 1) for u in (0, 1)) for x in range(columns)]
        for y in range(rows)
    ]

    np.testing.assert_allclose(fine_energy(planes), expected, rtol=1e-4)


def test_a_smooth_slope_has_no_fine_energy():
    slope = np.broadcast_to(np.arange(64, dtype=np.float32), (1, 64, 64))

    assert fine_energy(slope)[2:-2, 2:-2].max() < 1e-4


@pytest.mark.parametrize("place", [(64, 64), (71, 71)])
def test_halo_costs_reach_as_far_as_is_stated(place):
    """From a pixel to the costs of pixels, by the means of cells and by fine detail."""
    other = smooth(texture((1, 128, 128), contrast=60), 4.0)

    def costs(planes):
        images = np.stack([planes, other])
        cells = np.stack([average_cells(image, CELL_PX) for image in images])
        label = np.broadcast_to(np.arange(2, dtype=np.int32), (*cells.shape[2:], 2)).copy()
        found = halo_costs(cells, np.stack([fine_energy(image) for image in images]), label)
        return np.repeat(np.repeat(np.moveaxis(found, -1, 0), CELL_PX, axis=1), CELL_PX, axis=2)

    assert CELL_PX * BLURS[-1] < reach_of_change(costs, texture((1, 128, 128), contrast=60), place) <= HALO_REACH_PX
