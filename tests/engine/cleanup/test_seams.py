"""Seams: detail of a composition that none of its images shows, and what is none."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.seams import BAND_PX, BAND_REACH_PX, FAINT_POWER, REACH_PX, SEAM_RATIOS, WINDOW_PX, measure_seams
from qmcif_engine.kernels.gaussians import WINDOW_REACH_PX
from qmcif_engine.method.patches import CELL_PX, edge_band

SHAPE = (60, 120)
EDGE = 60
ROUNDINGS = 1e-4
"""Single precision powers of gray levels, of which the excess over a threshold counts."""


def halves(shape=SHAPE, *, edge=EDGE):
    return np.broadcast_to(np.arange(shape[1]) >= edge, shape).astype(np.uint16)


def grain(shape=SHAPE, *, seed=0, depth=30):
    return (100 + depth * np.random.default_rng(seed).uniform(-1, 1, (3, *shape))).astype(np.float32)


def blurred(block, *, sigma_px=3.0):
    return ndimage.gaussian_filter(block, (0, sigma_px, sigma_px))


def seams_of(index, blocks, *, reach_px=16):
    return measure_seams(index, blocks, edge_band(index, reach_px=reach_px))


def regions(shape, n_images=4, *, seed=2):
    """Regions of several images, textured alike, of which each is brighter and softer than the one before."""
    generator = np.random.default_rng(seed)
    index = np.kron(generator.integers(0, n_images, (8, 7)), np.ones((-(-shape[0] // 8), -(-shape[1] // 7)), int))
    fade = np.linspace(0, 1, shape[1])
    scene = fade * grain(shape, seed=seed) + (1 - fade) * 100
    blocks = [(blurred(scene, sigma_px=0.1 + 0.4 * number) + 12 * number).astype(np.float32) for number in range(n_images)]
    return index[: shape[0], : shape[1]].astype(np.uint16), blocks


# --- what is a seam ---


@pytest.mark.parametrize("depth", [0, 2, 10])
def test_a_step_of_brightness_between_images_textured_alike_is_a_seam(depth):
    block = grain(depth=depth)

    seams = seams_of(halves(), [block, block + 60])

    assert (seams[:, EDGE - 3 : EDGE + 3] == 1).all()
    assert not seams[:, : EDGE - REACH_PX].any()
    assert not seams[:, EDGE + REACH_PX :].any()


def test_a_seam_fades_away_on_both_sides_of_the_border():
    flat = np.full((3, *SHAPE), 100, np.float32)

    seams = seams_of(halves(), [flat, flat + 9])

    np.testing.assert_allclose(seams, seams[:, ::-1], rtol=0, atol=ROUNDINGS)
    assert (np.diff(seams[:, :EDGE], axis=1) >= 0).all()
    assert ((seams > 0) & (seams < 1)).any()


def test_the_larger_the_step_over_the_texture_the_more_of_a_seam():
    block = grain()

    strengths = [float(seams_of(halves(), [block, block + step])[:, EDGE].mean()) for step in (0, 20, 30, 40, 300)]

    assert strengths == sorted(strengths)
    assert strengths[0] == 0
    assert 0 < strengths[2] < 1
    assert strengths[-1] == 1


# --- what is none ---


def test_equal_images_have_no_seam():
    block = grain()

    np.testing.assert_array_equal(seams_of(halves(), [block, block.copy()]), 0)


def test_a_step_that_nobody_sees_is_no_seam():
    flat = np.full((3, *SHAPE), 100, np.float32)

    np.testing.assert_array_equal(seams_of(halves(), [flat, flat + 1]), 0)


@pytest.mark.parametrize("sharp", [0, 1])
def test_a_border_along_an_edge_that_one_image_has_is_no_seam(sharp):
    """An object before a dark ground: sharp in one image, soft in the other."""
    edge = np.broadcast_to(np.where(np.arange(SHAPE[1]) < EDGE, 40, 200), (3, *SHAPE)).astype(np.float32)
    images = [blurred(edge), blurred(edge)]
    images[sharp] = edge
    flat = np.full_like(edge, 40)
    assert seams_of(halves(), [flat, flat + 160])[:, EDGE].all()  # the same step is one where no image has it

    np.testing.assert_array_equal(seams_of(halves(), images), 0)


def test_a_border_between_two_halves_each_sharp_in_one_image_is_no_seam():
    sharp = grain(depth=60)
    soft = blurred(sharp)
    index = halves()
    images = [np.where(index == number, sharp, soft) for number in range(2)]

    np.testing.assert_array_equal(seams_of(index, images), 0)


def test_without_a_border_there_is_no_seam():
    index = np.zeros(SHAPE, np.uint16)

    seams = measure_seams(index, [grain(), grain(seed=1)], np.ones(SHAPE, bool))

    assert seams.dtype == np.float32
    assert not seams.any()


# --- where it is looked for, and from what ---


def test_outside_the_band_is_nothing_and_inside_it_the_band_does_not_matter():
    index, blocks = regions((200, 180))
    band = np.random.default_rng(1).random(index.shape) < 0.3

    everywhere, seams = measure_seams(index, blocks, np.ones(index.shape, bool)), measure_seams(index, blocks, band)

    assert everywhere[~band].any()
    np.testing.assert_array_equal(seams, np.where(band, everywhere, 0))


def ratio_over_the_whole_picture(index, blocks):
    """The definition, without cells, in double precision: detail of the composition over what the images near a pixel account for."""

    def weights(sigma, reach):
        kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
        return kernel / kernel.sum()

    def filtered(plane, kernel):
        reach = len(kernel) // 2
        for axis in range(2):
            widths = [(reach, reach) if number == axis else (0, 0) for number in range(2)]
            windows = np.lib.stride_tricks.sliding_window_view(np.pad(plane, widths, mode="symmetric"), len(kernel), axis=axis)
            plane = windows @ kernel
        return plane

    def power(plane):
        fine, coarse = (filtered(plane, weights(*each)) for each in zip(BAND_PX, BAND_REACH_PX, strict=True))
        return (fine - coarse) ** 2

    def mean(plane):
        return filtered(plane, weights(WINDOW_PX, WINDOW_REACH_PX))

    planes = [block.astype(np.float64).mean(axis=0) for block in blocks]
    cut, own, sharpest = (np.zeros(index.shape) for _ in range(3))
    for number, plane in enumerate(planes):
        cut[index == number], own[index == number] = plane[index == number], power(plane)[index == number]
        is_near = ndimage.maximum_filter(index == number, 2 * REACH_PX + 1)
        sharpest = np.where(is_near, np.maximum(sharpest, mean(power(plane))), sharpest)
    return np.sqrt(mean(power(cut)) / (np.maximum(sharpest, mean(own)) + FAINT_POWER))


@pytest.mark.parametrize("shape", [(90, 100), (CELL_PX + 30, 2 * CELL_PX + 10)])
def test_seams_agree_with_a_computation_over_the_whole_picture(shape):
    index, blocks = regions(shape)
    least, most = SEAM_RATIOS

    seams = measure_seams(index, blocks, np.ones(shape, bool))

    expected = np.clip((ratio_over_the_whole_picture(index, blocks) - least) / (most - least), 0, 1)
    assert (np.histogram(expected, [-1, 0.01, 0.5, 0.99, 2])[0] > 20).all()  # every kind of border occurs
    np.testing.assert_allclose(seams, expected, rtol=0, atol=ROUNDINGS)


@pytest.mark.parametrize("corner", [(0, 0), (1, 7), (17, 33), (100, 128)])
def test_a_part_of_a_picture_has_the_bytes_of_the_whole_away_from_its_border(corner):
    index, blocks = regions((300, 290))
    part = tuple(slice(start, start + 160) for start in corner)
    inner = tuple(slice(start and REACH_PX, 160 - REACH_PX) for start in corner)  # a border of the picture itself stays one
    band = edge_band(index, reach_px=16)

    whole, cut = measure_seams(index, blocks, band), measure_seams(index[part], [block[:, *part] for block in blocks], band[part])

    assert whole[part][inner].any()
    np.testing.assert_array_equal(cut[inner], whole[part][inner])


def test_an_image_farther_away_than_the_reach_accounts_for_nothing():
    """However sharp it is, and even where both borders lie in one cell."""
    index = halves((60, 100), edge=20)
    index[:, 60:] = 2
    flat = np.full((3, 60, 100), 100, np.float32)
    sharp = grain((60, 100), depth=90)

    alone, beside = (measure_seams(index, [flat, flat + 20, third], np.ones(index.shape, bool)) for third in (flat + 20, sharp))

    assert alone[:, 20].all()
    np.testing.assert_array_equal(beside[:, : 60 - REACH_PX], alone[:, : 60 - REACH_PX])


def test_the_arguments_are_left_alone():
    index, blocks = regions((60, 70))
    band = np.ones(index.shape, bool)
    kept = [array.copy() for array in (index, band, *blocks)]

    measure_seams(index, blocks, band)

    for array, copy in zip((index, band, *blocks), kept, strict=True):
        np.testing.assert_array_equal(array, copy)
