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


@pytest.mark.parametrize("dtype", [*DTYPES, "uint32", "bool", "int8"])
def test_equal_images_and_one_label_give_copies_everywhere(dtype):
    image = texture((*SHAPE, 3)) > 120 if dtype == "bool" else quantized(texture((*SHAPE, 3)), dtype)
    index = np.random.default_rng(0).integers(0, 4, SHAPE).astype(np.uint16)

    result, alone = compose([image] * 4, index), compose([image], np.zeros_like(index))

    # floats are means of equal samples, with their rounding
    tolerance = 8 * np.finfo(dtype).eps if np.dtype(dtype).kind == "f" else 0
    assert result.dtype == dtype
    np.testing.assert_allclose(result.astype(float), image.astype(float), atol=tolerance)
    np.testing.assert_array_equal(alone, image)
    assert not np.shares_memory(alone, image)


@pytest.mark.parametrize(
    ("dtype", "factor", "other_factor", "offset"),
    # black pixels of the brighter one would be negative on the brightness of the darker one, and white ones above all samples
    [("f4", 1000, 100, 0), ("f8", 1000, -100, 1000), ("f4", 1e30, 0, 0), ("f8", 1e200, 0, 0), ("?", 1, 0, 0), ("i1", 1, -1, 1)],
)
def test_detail_on_the_brightness_of_another_image_stays_in_the_range_of_both(dtype, factor, other_factor, offset):
    dots = np.random.default_rng(0).integers(0, 2, SHAPE).astype(float)
    first, second = (factor * dots).astype(dtype), (other_factor * dots + offset).astype(dtype)

    result = compose([first, second], halves())

    assert result.dtype == first.dtype
    assert min(first.min(), second.min()) <= result.min()
    assert result.max() <= max(first.max(), second.max())
    assert (result != pick([first, second], halves())).any() or first.itemsize == 1
    np.testing.assert_array_equal(compose([first, second], halves(), feather_px=0, wide_feather_px=0), pick([first, second], halves()))


def test_a_step_of_brightness_becomes_a_ramp_and_one_below_the_noise_is_cut_narrowly():
    middle = SHAPE[1] // 2
    profile, faint = (
        compose(quantized([np.full(SHAPE, 100.0), np.full(SHAPE, 100.0 + step)]), halves(), **options).mean(axis=0)
        for step, options in ((24, {"trust": 1.0}), (6, {"noise": 6 / VISIBLE}))
    )

    assert (np.diff(profile) >= 0).all()
    assert np.diff(profile).max() < 24 / 3
    assert (profile[0], profile[-1]) == (100, 124)
    assert (faint[: middle - 2] == 100).all()
    assert (faint[middle + 2 :] == 106).all()


@pytest.mark.parametrize("what", ["image", "index", "trust"])
def test_composition_reaches_as_far_as_is_stated(what):
    shape = (81, 81)
    given = {"image": texture(shape) / 255, "index": np.zeros(shape), "trust": np.zeros(shape)}
    index = np.broadcast_to(np.arange(81) // 4 % 2, shape)
    other = texture(shape, seed=1, level=80) / 255

    def composed(changed):
        taken = {**given, what: changed}
        labels = np.where(taken["index"] > 0, 2, index).astype(np.uint16)
        return compose([taken["image"], other, 1 - other], labels, trust=(taken["trust"] / 40).astype(np.float32))

    assert 0 < reach_of_change(composed, given[what], (40, 42)) <= composition_reach_px(FusionConfig().decision)
