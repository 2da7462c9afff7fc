"""Composition: copies away from borders, blends along depth edges, and brightness that does not jump."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.decision.composition import FEATHER_SHARE, VISIBLE, compose_samples, composition_reach_px
from qmcif_engine.decision.filters import smooth
from tests.scenes import quantized, reach_of_change, texture

SHAPE = (60, 80)
FEATHER_PX, WIDE_PX = 0.5, 3.0
DTYPES = ("uint8", "uint16", "float32", "float64")


def compose(images, index, *, trust=0.0, noise=0.0, far=1.0, feather_px=FEATHER_PX, wide_feather_px=WIDE_PX):
    trust = np.full(index.shape, trust, np.float32) if np.isscalar(trust) else trust
    images = dict(enumerate(images))
    return compose_samples(images, index, trust, noise=noise, far=far, feather_px=feather_px, wide_feather_px=wide_feather_px)


def halves(shape=SHAPE, *, labels=(0, 1)):
    return np.broadcast_to(np.where(np.arange(shape[1]) < shape[1] // 2, *labels), shape).astype(np.uint16)


def distance_to_border(index):
    """Rows or columns to the nearest pixel beside another label, 0 there."""
    is_border = ndimage.maximum_filter(index, 3) != ndimage.minimum_filter(index, 3)
    return ndimage.distance_transform_cdt(~is_border, metric="chessboard")


def pick(images, index):
    return np.take_along_axis(np.asarray(images), index[None] if images[0].ndim == 2 else index[None, ..., None], 0)[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("color", [False, True])
def test_samples_away_from_borders_are_copies(dtype, color):
    shape = (*SHAPE, 3) if color else SHAPE
    images = quantized([texture(shape, seed=seed, level=90 + 40 * seed) for seed in range(3)], dtype)
    index = np.digitize(texture(SHAPE, seed=9, sigma=14), (100, 140)).astype(np.uint16)

    result = compose(images, index)

    far_away = distance_to_border(index) > np.ceil(FEATHER_SHARE * WIDE_PX)
    assert result.dtype == dtype
    assert result.shape == shape
    assert 0.01 < far_away.mean() < 1
    np.testing.assert_array_equal(result[far_away], pick(images, index)[far_away])
    assert (result != pick(images, index)).any()


@pytest.mark.parametrize("dtype", [*DTYPES, "uint32"])
def test_equal_images_give_copies_everywhere(dtype):
    image = quantized(texture((*SHAPE, 3)), dtype)
    index = np.random.default_rng(0).integers(0, 4, SHAPE).astype(np.uint16)

    result = compose([image] * 4, index)

    # floats are means of equal samples, with their rounding
    tolerance = 8 * np.finfo(dtype).eps if np.dtype(dtype).kind == "f" else 0
    np.testing.assert_allclose(result.astype(float), image.astype(float), atol=tolerance)


def test_detail_on_the_brightness_of_another_image_stays_in_the_range_of_both():
    """Black pixels of the brighter image would be negative on the brightness of the darker one, and white ones above all samples."""
    dots = np.random.default_rng(0).integers(0, 2, SHAPE).astype(np.float32)
    images = [1000 * dots, 100 * dots, np.float32(1000) - 100 * dots]

    for pair in ((0, 1), (0, 2)):
        result = compose([images[number] for number in pair], halves())

        assert result.min() >= 0
        assert result.max() <= 1000
        assert (result != pick([images[number] for number in pair], halves())).any()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16"])
def test_other_types_stay_in_their_range(dtype):
    images = [np.where(texture(SHAPE, seed=seed) > 120, 1, 0).astype(dtype) for seed in range(2)]
    index = halves()

    result = compose(images, index)

    assert result.dtype == dtype
    assert set(np.unique(result)) <= {0, 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extreme_samples_of_floats_give_no_warning_and_stay_finite(dtype):
    images = [np.full(SHAPE, 1e30, dtype), np.zeros(SHAPE, dtype)]

    assert np.isfinite(compose(images, halves())).all()


def test_one_label_is_a_copy_that_may_be_written_to():
    image = quantized(texture(SHAPE))

    result = compose([image, image], np.ones(SHAPE, np.uint16))

    result[:] = 0
    assert image.any()


def test_without_widths_samples_are_cut():
    images = quantized([texture(SHAPE, seed=seed) for seed in range(2)])
    index = halves()

    np.testing.assert_array_equal(compose(images, index, feather_px=0, wide_feather_px=0), pick(images, index))


@pytest.mark.parametrize("shape", [(5, 7), (1, 2), (2, 1), (9, 3)])
def test_small_images_are_composed(shape):
    images = quantized([texture(shape, seed=seed) for seed in range(2)])
    index = (np.indices(shape).sum(axis=0) % 2).astype(np.uint16)

    assert compose(images, index).shape == shape


def flat_pair(step):
    return quantized([np.full(SHAPE, 100.0), np.full(SHAPE, 100.0 + step)])


def test_a_step_of_brightness_without_detail_becomes_a_ramp():
    profile = compose(flat_pair(24), halves(), trust=1.0).mean(axis=0)

    assert (np.diff(profile) >= 0).all()
    assert np.diff(profile).max() < 24 / 3
    assert profile[0] == 100
    assert profile[-1] == 124


def test_a_step_below_the_noise_is_only_cut_narrowly():
    profile = compose(flat_pair(6), halves(), noise=6 / VISIBLE).mean(axis=0)

    middle = SHAPE[1] // 2
    assert (profile[: middle - 2] == 100).all()
    assert (profile[middle + 2 :] == 106).all()


def test_a_trusted_edge_in_detail_keeps_its_step_and_an_untrusted_one_does_not():
    detail = texture(SHAPE, contrast=25) - 120
    images = quantized([80 + detail, 120 + detail])
    columns = slice(SHAPE[1] // 2 - 6, SHAPE[1] // 2 + 6)

    kept, spread = (compose(images, halves(), trust=trust)[:, columns].astype(float) for trust in (1.0, 0.0))
    cut = pick(images, halves())[:, columns]

    assert np.abs(kept - cut).mean() < 0.6 * np.abs(spread - cut).mean()


def test_slopes_keep_their_detail_unblended_and_depth_edges_are_blended_narrowly():
    """Where brightness is alike; the narrow blend is for labels far apart."""
    images = quantized(
        [texture(SHAPE, seed=seed, contrast=20) - smooth(texture(SHAPE, seed=seed, contrast=20), 2.0) + 120 for seed in range(2)]
    )
    index = halves()
    at_border = distance_to_border(index) == 0

    near, far_apart = (compose(images, index, far=far, wide_feather_px=0) for far in (2.0, 1.0))

    np.testing.assert_array_equal(near, pick(images, index))
    assert (far_apart[at_border] != near[at_border]).mean() > 0.5
    np.testing.assert_array_equal(far_apart[~at_border], near[~at_border])


@pytest.mark.parametrize("what", ["image", "index", "trust"])
def test_composition_reaches_as_far_as_is_stated(what):
    shape, place = (81, 81), (40, 42)
    given = {
        "image": texture(shape) / 255,
        "index": np.zeros(shape),
        "trust": np.zeros(shape),
    }
    index = np.broadcast_to(np.arange(81) // 4 % 2, shape).astype(np.uint16)
    other = texture(shape, seed=1, level=80) / 255

    def composed(changed):
        taken = {**given, what: changed}
        labels = np.where(taken["index"] > 0, 2, index).astype(np.uint16)
        return compose([taken["image"], other, 1 - other], labels, trust=(taken["trust"] / 40).astype(np.float32))

    reach = reach_of_change(composed, given[what], place)
    assert 0 < reach <= composition_reach_px(FusionConfig().decision)


def test_no_image_is_read_but_those_that_give_pixels():
    image = quantized(texture(SHAPE))

    result = compose_samples(
        {3: image, 7: image}, halves(labels=(3, 7)), np.zeros(SHAPE, np.float32), noise=0.0, far=1.0, feather_px=0.5, wide_feather_px=3.0
    )

    np.testing.assert_array_equal(result, image)
