"""Depth edges drawn to the pixel: the labels beyond them, messages between pixels, and edges whose place is known."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.decision import edges
from qmcif_engine.decision.evidence import CELL_PX
from qmcif_engine.decision.filters import average_cells, repeat_cells, smooth
from qmcif_engine.decision.propagation import BORDER
from qmcif_engine.decision.reblur import NOISE_FLOOR, trust_of
from tests.scenes import reach_of_change, texture

BAND, RING = edges.BAND_PX // CELL_PX, (edges.BAND_PX + edges.ANCHOR_PX) // CELL_PX


def halves(shape, left, right, *, column=None):
    column = shape[1] // 2 if column is None else column
    return np.broadcast_to(np.where(np.arange(shape[1]) < column, left, right), shape).astype(np.uint16)


# --- rivals ---


def test_beside_an_edge_the_rival_is_the_label_beyond_it_and_the_band_lies_within_a_ring_of_those():
    index = halves((9, 30), 3, 8)

    rivals, band = edges.find_rivals(index, np.ones_like(index, np.bool_), 2.0)

    columns = np.arange(30)
    distance = np.where(columns < 15, 14 - columns, columns - 15)
    np.testing.assert_array_equal(rivals, np.where(distance <= RING, np.where(columns < 15, 8, 3), index))
    np.testing.assert_array_equal(band, np.broadcast_to(distance <= BAND, index.shape))


@pytest.mark.parametrize(("shape", "far"), [((1, 1), 1), ((1, 7), 1), ((6, 1), 1), ((40, 48), 3)])
def test_every_rival_is_a_label_nearby_that_is_far_from_its_own(shape, far):
    index = np.random.default_rng(1).integers(0, 9, shape).astype(np.uint16)
    index = index if min(shape) == 1 else ndimage.zoom(index[:5, :6], 8, order=0)
    rivals, band = edges.find_rivals(index, np.ones_like(index, np.bool_), far)

    assert rivals.dtype == np.uint16
    assert (rivals != index)[band].all()
    assert band.any() == (index.max() > index.min())
    for y, x in np.argwhere(rivals != index):
        around = index[max(y - RING - 1, 0) : y + RING + 2, max(x - RING - 1, 0) : x + RING + 2]
        assert abs(int(rivals[y, x]) - int(index[y, x])) >= far
        assert rivals[y, x] in around


# --- drawing ---


def no_belief(label):
    return np.zeros(label.shape, np.float32)


def blurs_of(images):
    """What `draw_edges` asks for: each image as it is and by all blurs that are tried."""

    def blurs(number):
        planes = images[number]
        cells = average_cells(planes, edges.WIDE_CELL_PX)
        return edges.blur_series(planes, cells, tuple(slice(0, length) for length in cells.shape[1:]))

    return blurs


@pytest.mark.parametrize("shape", [(64, 96), (80, 61)])
def test_blurs_have_the_stated_widths(shape):
    """Wide ones on cells: the variances of the mean over a cell and of the interpolation are taken off."""
    planes = texture((2, *shape))

    series = blurs_of([planes])(0)

    np.testing.assert_array_equal(series[0], planes)
    for blurred, sigma in zip(series[1:], (*edges.FINE_BLURS_PX, *edges.WIDE_BLURS_PX), strict=True):
        expected = ndimage.gaussian_filter(planes, (0, sigma, sigma), mode="reflect")
        assert np.abs(blurred - expected).mean() < 0.05 * planes.std()


def pass_written_out(gain, pair, border):
    """Messages between neighbors of which both choose between the same two labels."""
    messages = np.zeros((4, *gain.shape))
    for turn in range(edges.ROUNDS):
        for y, x in np.ndindex(gain.shape):
            if (y + x) % 2 != turn % 2:
                continue
            total = gain[y, x] + messages[:, y, x].sum()
            for d, (v, u) in enumerate(((y, x + 1), (y, x - 1), (y + 1, x), (y - 1, x))):
                if 0 <= v < gain.shape[0] and 0 <= u < gain.shape[1] and (pair[:, v, u] == pair[:, y, x]).all():
                    messages[d, v, u] = np.clip(total - messages[d ^ 1, y, x], -border, border)
    return gain + messages.sum(axis=0)


def drawn_written_out(index, rival, band, belief, images, *, shape):
    """The formula of the docstring for two labels, 0 and 1, pixel by pixel: labels, trust, and by how much the second one is better."""
    own, other, in_band = (repeat_cells(cells, CELL_PX, shape) for cells in (index, rival, band))
    series = [blurs_of(images)(number) for number in (0, 1)]
    side = np.exp(-0.5 * (np.arange(-1, 2) / edges.WINDOW_PX) ** 2)
    window = np.outer(side, side) / side.sum() ** 2
    is_compared = own != other
    # what blurs of one leave of the other, in the band; pixels outside the band leave nothing
    of_a, of_b = (
        in_band
        * np.min(
            [ndimage.correlate(in_band * ((one[0] - blurred) ** 2).mean(axis=0), window, mode="nearest") for blurred in two[1:]], axis=0
        )
        for one, two in (series, series[::-1])
    )
    larger, smaller = (smooth(choose(of_a, of_b), edges.TRUST_WINDOW_PX) for choose in (np.maximum, np.minimum))
    trust, floor = in_band * trust_of(larger, smaller), NOISE_FLOOR + edges.BLUR_ERROR * larger
    gain = repeat_cells(belief[0] - belief[1], CELL_PX, shape) + trust * np.log((of_b + floor) / (of_a + floor))
    gain = np.where(in_band, gain, np.where(own <= other, -edges.CLOSED, edges.CLOSED)).astype(np.float64)
    total = pass_written_out(gain, np.sort([own, other], axis=0), BORDER)
    return np.where(is_compared, total > 0, own), trust, total


@pytest.mark.parametrize(
    ("shape", "n_planes", "contrast", "spread"),
    # where images are alike, beliefs and messages decide
    [((16, 20), 1, 0.5, 3), ((13, 17), 3, 0.5, 3), ((5, 7), 1, 0.5, 3), ((24, 24), 3, 0, 0.3), ((17, 20), 1, 0, 0.3)],
)
def test_edges_are_those_of_the_formula(shape, n_planes, contrast, spread):
    generator = np.random.default_rng(sum(shape))
    sharp = contrast * texture((n_planes, *shape), seed=2)
    images = [sharp, ndimage.gaussian_filter(sharp, (0, 2, 2)) + contrast * generator.normal(size=sharp.shape).astype(np.float32)]
    cells = tuple(-(-length // CELL_PX) for length in shape)
    index = generator.integers(0, 2, cells).astype(np.uint16)
    rival = np.where(generator.random(cells) < 0.8, 1 - index, index).astype(np.uint16)
    band = (rival != index) & (generator.random(cells) < 0.8)
    belief = generator.uniform(0, spread, (2, *cells)).astype(np.float32)

    def beliefs(label):
        return np.where(label == 0, belief[0], belief[1])

    drawn, trust = edges.draw_edges(index, rival, band, beliefs, blurs_of(images), shape=shape, smoothness=1.0)

    expected, expected_trust, total = drawn_written_out(index, rival, band, belief, images, shape=shape)
    is_clear = np.abs(total) > 1e-3
    assert is_clear.mean() > 0.9
    np.testing.assert_array_equal(drawn[is_clear], expected[is_clear])
    np.testing.assert_allclose(trust, expected_trust, atol=1e-3)


def sheet(shape, column):
    """A bright sheet on the left, over a dark ground: in focus, and out of focus so that it shines over the ground."""
    ground, front = texture(shape, seed=3, contrast=6, level=20), texture(shape, seed=4, contrast=10, level=170)
    cover = np.broadcast_to((np.arange(shape[1]) < column).astype(np.float32), shape)
    soft = ndimage.gaussian_filter(cover, 6)
    of_sheet = cover * front + (1 - cover) * ndimage.gaussian_filter(ground, 6)
    of_ground = ndimage.gaussian_filter(cover * front, 6) + (1 - soft) * ground
    return np.stack([of_sheet, of_ground])[:, None].astype(np.float32), cover


@pytest.mark.parametrize("offset", [-6, 5])
def test_within_the_band_the_sheet_keeps_its_outline_and_its_halo_is_not_taken(offset):
    shape, column = (48, 96), 47
    images, cover = sheet(shape, column)
    index = halves((24, 48), 0, 1, column=(column + offset) // CELL_PX)
    rivals, cells = edges.find_rivals(index, np.ones_like(index, np.bool_), 1.0)

    drawn, trust = edges.draw_edges(index, rivals, cells, no_belief, blurs_of(images), shape=shape, smoothness=1.0)

    band = repeat_cells(cells, CELL_PX, shape)
    # beside the image of the sheet, which shows its ground blurred, that of the ground is lighter by what spills
    halo = (images[1, 0] > images[0, 0] + 25) & (cover == 0) & band
    assert halo.sum() > 100
    assert np.mean(drawn[halo] == 1) < 0.06
    assert np.mean(drawn[band & (cover > 0)] == 1) < 0.06
    assert trust[halo].mean() > 0.5
    np.testing.assert_array_equal(drawn[~band], repeat_cells(index, CELL_PX, shape)[~band])


def test_drawing_reaches_as_far_as_is_stated():
    shape = (200, 200)
    images, _ = sheet(shape, 100)
    index = halves((100, 100), 0, 1)
    rivals, band = edges.find_rivals(index, np.ones_like(index, np.bool_), 1.0)

    def trusted(planes):
        found = edges.draw_edges(index, rivals, band, no_belief, blurs_of((planes, images[1])), shape=shape, smoothness=1.0)
        return np.stack([found[0], found[1]])

    assert edges.BAND_PX < reach_of_change(trusted, images[0], (100, 104)) <= edges.EDGE_REACH_PX
