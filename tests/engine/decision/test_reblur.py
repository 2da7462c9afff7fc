"""The reblur test: against its formula written out, and on scenes where it is known what spills into what."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision import reblur
from qmcif_engine.decision.filters import average_cells, interpolate_cells, smooth
from tests.scenes import reach_of_change, texture


def costs_written_out(cells, detail, label):
    """``H`` of the docstring, in float64 and with one line for each of its parts."""
    side = np.exp(-0.5 * (np.arange(-1, 2) / reblur.WINDOW_SIGMA) ** 2)
    window = np.outer(side, side) / side.sum() ** 2
    n = len(cells)
    series = [[image, *(smooth(image, sigma) for sigma in reblur.BLURS)] for image in cells]
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
            pedestal = reblur.NOISE_FLOOR + reblur.DETAIL_PRICE**2 * detail[a, y, x]
            if of_b > of_a:
                trust = np.clip(2 - 2 * of_a / (of_b + 0.05 * reblur.NOISE_FLOOR) / reblur.UNTRUSTED_SHARE, 0, 1)
                costs[y, x, i] = max(costs[y, x, i], trust * np.log((of_b + pedestal) / (of_a + pedestal)))
    return reblur.HALO_WEIGHT * costs


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

    costs = reblur.halo_costs(cells, detail, label)

    expected = costs_written_out(cells, detail, label)
    assert costs.shape == label.shape
    np.testing.assert_allclose(costs, expected, rtol=1e-3, atol=1e-3)
    assert min(shape) == 1 or expected.max() > 0.5


def test_trust_falls_from_one_to_zero_while_the_residuals_become_alike():
    of_sharper = np.full(4, 1e4, np.float32)
    of_other = of_sharper * np.array([0, 0.5, 1, 2], np.float32) * reblur.UNTRUSTED_SHARE

    np.testing.assert_allclose(reblur.trust_of(of_sharper, of_other), [1, 1, 0, 0], atol=1e-3)
    assert not reblur.trust_of(np.zeros(1, np.float32), np.full(1, reblur.NOISE_FLOOR, np.float32)).any()


# --- fine detail ---


@pytest.mark.parametrize("shape", [(40, 48), (5, 7), (1, 1), (19, 33)])
def test_fine_energy_is_the_largest_mean_of_two_by_two_cells(shape):
    planes = texture((3, *shape))
    # what the interpolated means of 8 px leave, and its power on cells of 4 px
    rest = planes - interpolate_cells(average_cells(planes, reblur.FINE_PX), reblur.FINE_PX, shape)
    power = np.pad(average_cells((rest**2).mean(axis=0), reblur.CELL_PX), 1, mode="edge")
    rows, columns = (length - 2 for length in power.shape)
    expected = [
        [max(power[y + v : y + v + 2, x + u : x + u + 2].mean() for v in (0, 1) for u in (0, 1)) for x in range(columns)]
        for y in range(rows)
    ]

    np.testing.assert_allclose(reblur.fine_energy(planes), expected, rtol=1e-4)


@pytest.mark.parametrize("place", [(64, 64), (71, 71)])
def test_halo_costs_reach_as_far_as_is_stated(place):
    """From a pixel to the costs of pixels, by the means of cells and by fine detail."""
    other = smooth(texture((1, 128, 128), contrast=60), 4.0)

    def costs(planes):
        images = np.stack([planes, other])
        cells = np.stack([average_cells(image, reblur.CELL_PX) for image in images])
        label = np.broadcast_to(np.arange(2, dtype=np.int32), (*cells.shape[2:], 2)).copy()
        found = reblur.halo_costs(cells, np.stack([reblur.fine_energy(image) for image in images]), label)
        return np.repeat(np.repeat(np.moveaxis(found, -1, 0), reblur.CELL_PX, axis=1), reblur.CELL_PX, axis=2)

    assert reblur.CELL_PX * reblur.BLURS[-1] < reach_of_change(costs, texture((1, 128, 128), contrast=60), place) <= reblur.HALO_REACH_PX


def costs_of_two(cells, *, rich=(0, 0)):
    label = np.broadcast_to(np.arange(len(cells), dtype=np.int32), (*cells.shape[2:], len(cells))).copy()
    return reblur.halo_costs(cells, np.stack([np.full(cells.shape[2:], level, np.float32) for level in rich]), label)


def test_an_image_into_which_something_spills_costs_unless_its_fine_detail_would_be_lost():
    """A bright thing in focus, and the same thing out of focus over dark ground; neither shows anything else."""
    sharp = np.full((1, 24, 24), 20, np.float32)
    sharp[:, :, 12:] = 200
    cells = np.stack([sharp, smooth(sharp, reblur.BLURS[-1])])

    costs = costs_of_two(cells)

    assert (costs[:, 8:12, 1] > 1).all()
    assert not costs[:, 8:12, 0].any()
    assert (costs_of_two(cells, rich=(0, 100)) < 0.5 * costs + 1e-6).all()


def test_equal_images_and_inverted_contrast_are_no_halo():
    waves = np.float32(40) * np.sin(np.indices((24, 24))[1] / 2, dtype=np.float32)[None]

    assert costs_of_two(np.stack([waves, -waves]))[2:-2, 2:-2].max() < 0.1
    assert not costs_of_two(np.stack([waves, waves])).any()
