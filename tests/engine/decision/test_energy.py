"""The rule of one energy as a whole: what changes no decision, how far a tile looks, masks, and scenes whose truth is known."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from scipy import ndimage
from scipy.signal import fftconvolve

from qmcif_engine import FusionConfig, fuse
from qmcif_engine.config.fusion_config import (
    DecisionConfig,
    Effort,
    Evidence,
    NoiseHandling,
    Preference,
    TilingConfig,
)
from qmcif_engine.decision.energy import RULE, decide
from qmcif_engine.decision.evidence import CELL_PX
from qmcif_engine.decision.statistics import measure_statistics
from qmcif_engine.rules import TileSteps
from qmcif_engine.stack.window import Window
from tests.scenes import ArrayPlanes, quantized, stack_of_bands, texture

SHAPE = (64, 96)
SAME_DECISIONS = 0.995
"""Share of pixels that must be decided alike where the samples are the same but for rounding; the rest are ties."""


def settings(**decision):
    return FusionConfig(decision=DecisionConfig(**decision))


def statistics_of(planes, config):
    blocks = [planes.block(number) for number in range(planes.n_images)]
    return measure_statistics(blocks, config, n_images=planes.n_images, step=1.0)


def decide_on(images, config, *, masks=None, core=None, statistics=None, with_position=False, steps=None):
    """The decision of the rule on images of shape (N, h, w) on the 0-255 scale."""
    planes = ArrayPlanes(images[:, None], masks=masks)
    statistics = statistics or statistics_of(planes, config)
    return decide(planes, core or planes.window, statistics, config, with_position=with_position, steps=steps or TileSteps())


# --- what changes no decision ---


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (1, 40), (33, 9)])
@pytest.mark.parametrize("n_images", [2, 5])
@pytest.mark.parametrize("effort", list(Effort))
def test_images_smaller_than_a_block_are_fused_and_constant_ones_give_one_of_them(n_images, shape, effort):
    images = quantized([texture((*shape, 3), seed=seed) for seed in range(n_images)])
    config = settings(effort=effort)

    result = fuse(images, config, with_position=True, with_maps=True)

    assert result.fused.shape == (*shape, 3)
    assert result.source_index.max() < n_images
    assert ((result.confidence >= 0) & (result.confidence <= 1 + 1e-6)).all()
    assert (fuse(np.full_like(images, 77), config).fused == 77).all()


def test_reversing_a_deep_stack_of_noise_reverses_most_of_the_index():
    """More images than candidates, none of which is sharp: no end of the stack is preferred."""
    images = 100 + 3 * np.random.default_rng(0).normal(size=(40, *SHAPE))

    one, other = fuse(quantized(images)), fuse(quantized(images[::-1]))

    assert np.mean(39 - other.source_index == one.source_index) > 0.8
    assert 12 < one.source_index.mean() < 27


def test_maps_are_the_winners_of_the_evidence_and_asking_for_them_changes_no_byte():
    images, depth = stack_of_bands(3, SHAPE, noise=1.0)

    plain, result = fuse(quantized(images)), fuse(quantized(images), with_maps=True, with_position=True)

    for name in ("fused", "source_index", "confidence"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(result, name))
    for found in (result.base_map, result.detail_map):
        assert np.mean(found == depth) > 0.75
    # the decision is smoother than the evidence at the fine scale
    borders = [np.count_nonzero(np.diff(found.astype(int), axis=0)) for found in (result.source_index, result.detail_map)]
    assert borders[0] <= borders[1]
    assert (result.base_map[::CELL_PX] == result.base_map[1::CELL_PX]).all()


# --- settings ---


@pytest.mark.parametrize(
    ("n_images", "decision"),
    [
        (2, {}),
        (40, {}),
        (7, {"noise": NoiseHandling.OFF}),
        (2, {"effort": Effort.FAST}),
        (40, {"effort": Effort.FAST}),
        (7, {"measure": Evidence.LAPLACIAN}),
        # what is sharper by more than the ratio is not overridden
        (2, {"preference": Preference.BACK, "preference_ratio": 1.2}),
    ],
)
def test_the_sharp_image_is_found_whatever_the_settings(n_images, decision):
    images, depth = stack_of_bands(n_images, (64, 40 * n_images if n_images < 10 else 640), noise=0.7, blur=3.0)

    result = fuse(quantized(images), settings(**decision))

    tolerance = 0 if n_images == 2 else 1
    assert np.mean(np.abs(result.source_index.astype(int) - depth) <= tolerance) > 0.93


@pytest.mark.parametrize(("preference", "expected"), [(Preference.FRONT, 0), (Preference.BACK, 3)])
def test_the_preferred_end_wins_where_all_are_equally_sharp(preference, expected):
    noise = np.random.default_rng(0).normal(0, 0.7, (4, *SHAPE))

    result = fuse(quantized(texture(SHAPE) + noise), settings(preference=preference))

    assert np.mean(result.source_index == expected) > 0.99


# --- tiles ---


def long_scene(kind):
    """A strip of many tiles, color or gray, with halos, or with clipped reflections."""
    shape = (80, 500)
    if kind == "bands":
        return quantized(stack_of_bands(5, shape, noise=1.0)[0])
    images = np.concatenate([spilling_scene(seed, glints=kind == "glints")[0] for seed in range(4)], axis=2)
    return quantized(images)[:, : shape[0], : shape[1]]


@pytest.mark.parametrize(
    ("kind", "decision"),
    [
        *((kind, {"effort": effort}) for kind in ("bands", "halos", "glints") for effort in Effort),
        *(("halos", widths) for widths in ({"feather_px": 32.0}, {"blend_px": 16.0}, {"feather_px": 0.0})),
    ],
)
def test_tiles_decide_and_blend_as_the_whole_image_does(kind, decision):
    images, config = long_scene(kind), settings(**decision)
    tiled = replace(config, tiling=TilingConfig(tile_px=64, chunk_px=64))

    whole, cut = (fuse(images, each, with_position=True, with_maps=True) for each in (config, tiled))

    for name in ("source_index", "confidence", "fused", "position", "base_map", "detail_map"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))


@pytest.mark.parametrize("effort", list(Effort))
def test_a_sample_beyond_the_stated_reach_decides_nothing(effort):
    images, _ = stack_of_bands(2, (48, 480), noise=1.0)
    images[1] = ndimage.gaussian_filter(images[1], (0, 2))
    config = settings(effort=effort)
    reach = RULE.reach_px(config, (48, 480))
    core = Window(0, 0, 48, 480 - 16 - reach)
    changed = images.copy()
    changed[:, :, core.right + reach :] = texture((2, 48, 480 - core.right - reach), seed=8, contrast=80)
    statistics = statistics_of(ArrayPlanes(images[:, None]), config)

    one, other = (decide_on(each, config, core=core, statistics=statistics, with_position=True) for each in (images, changed))

    inner = core.relative_to(one.window).slices
    for name in ("index", "confidence", "position"):
        np.testing.assert_array_equal(getattr(one, name)[inner], getattr(other, name)[inner])


# --- masks ---


@pytest.mark.parametrize("effort", list(Effort))
def test_every_pixel_comes_from_an_image_that_may_give_it(effort):
    images, _ = stack_of_bands(4, SHAPE, noise=1.0)
    masks = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=images.shape), (0, 5, 5)) > 0
    masks[0, :3, :5] = masks[1, 40:, 90] = True  # some pixels belong to one image for sure
    masks[2] = False

    index, plain, unmasked = (decide_on(images, settings(effort=effort), masks=each).index for each in (masks, np.ones_like(masks), None))

    is_open = masks.any(axis=0)
    assert not is_open.all()
    assert np.take_along_axis(masks, index[None], 0)[0][is_open].all()
    assert set(np.unique(index[is_open])) == {0, 1, 3}
    np.testing.assert_array_equal(plain, unmasked)


def test_an_image_decides_nothing_where_it_lacks_the_pixels():
    images, depth = stack_of_bands(2, SHAPE, noise=1.0)
    masks = np.ones((3, *SHAPE), bool)
    masks[2, 8:] = False

    index = decide_on(np.stack([*images, texture(SHAPE, seed=5, contrast=80)]), FusionConfig(), masks=masks).index

    assert np.mean(index[32:] == depth[32:]) > 0.95


# --- scenes ---


def disk(radius):
    y, x = np.mgrid[-np.ceil(radius) - 1 : radius + 2, -np.ceil(radius) - 1 : radius + 2]
    inside = np.clip(radius + 0.5 - np.hypot(y, x), 0, 1)
    return inside / inside.sum()


def out_of_focus(plane, radius):
    if radius < 0.5:
        return plane
    reach = disk(radius).shape[0] // 2
    return fftconvolve(np.pad(plane, reach, mode="reflect"), disk(radius), mode="same")[reach:-reach, reach:-reach]


def spilling_scene(seed=0, *, shape=(96, 160), glints=False, n_images=4, width=4.0):
    """A bright sheet before a dark, textured ground: images on the 0-255 scale, the truth, where the sheet is, and its reflections."""
    generator = np.random.default_rng(seed)
    cover = ndimage.gaussian_filter((np.abs(np.indices(shape)[1] - 0.5 * shape[1]) < 0.17 * shape[1]).astype(float), 0.6)
    ground = texture(shape, seed=seed + 10, contrast=5, level=50).astype(float)
    front = texture(shape, seed=seed + 20, contrast=9, level=90 if glints else 200).astype(float)
    points = np.zeros(shape)
    if glints:
        for y in range(16, shape[0] - 8, 24):
            points[y, shape[1] // 2] = 1
        front += 12000 * ndimage.gaussian_filter(points, 0.7)
    images = []
    for number in range(n_images):
        near, far = width * number, width * (n_images - 1 - number)
        spread = out_of_focus(cover * front, near) + (1 - out_of_focus(cover, near)) * out_of_focus(ground, far)
        images.append(spread + 0.7 * generator.normal(size=shape))
    truth = np.clip(cover * front + (1 - cover) * ground, 0, 255)
    return np.clip(images, 0, 255), truth, cover, points


def test_a_clipped_reflection_keeps_its_size():
    images, truth, _, points = spilling_scene(glints=True)

    fused = fuse(quantized(images)).fused.astype(float)

    around = ndimage.maximum_filter(points, 21) > 0
    size, expected = (np.count_nonzero((each > 150) & around) for each in (fused, truth))
    blurred = np.count_nonzero((images[1] > 150) & around)
    assert expected > 10
    assert blurred > 2 * expected
    assert size < 1.3 * expected + 4


@pytest.mark.parametrize("drift", [-0.2, 0, 0.2])
def test_wide_halos_are_not_taken_nor_does_a_drift_of_exposure_bring_any(drift):
    """The gain goes from 1 to 1 +- drift over the stack; without halos in the energy more than 2 % of the band would be wrong."""
    images, truth, cover, _ = spilling_scene(n_images=5, width=5)
    gains = np.linspace(1 - max(drift, 0), 1 - max(-drift, 0), 5)[:, None, None]

    result = fuse(quantized(images * gains))

    evened = result.fused / gains[result.source_index.astype(int), 0, 0]
    band = (ndimage.distance_transform_edt(cover < 0.5) < 24) & (cover < 0.01)
    best = np.abs(images - truth).min(axis=0)
    assert np.mean(np.abs(evened - truth)[band] > best[band] + 12) < 0.01


def test_a_small_bright_object_is_kept():
    images, _ = stack_of_bands(5, SHAPE, contrast=1.0, noise=0.7)
    images += 30 - images.mean()
    blob = np.zeros(SHAPE)
    blob[32, 30] = blob[20, 70] = 1
    for number in range(5):
        images[number] += 2500 * ndimage.gaussian_filter(blob, 1.0 + 1.2 * abs(number - 1))

    result = fuse(quantized(images))

    for y, x in ((32, 30), (20, 70)):
        assert result.source_index[y, x] == 1
        assert result.fused[y, x] >= 0.95 * quantized(images)[1, y, x]


@pytest.mark.parametrize("value", [0, 255])
def test_a_hot_pixel_decides_nothing_and_confidence_is_lower_at_the_border(value):
    images, _ = stack_of_bands(2, SHAPE, noise=1.0)
    hot = quantized(images)
    hot[1, 30, 20] = hot[0, 10, 80] = value

    one, other = fuse(quantized(images)), fuse(hot)

    assert np.mean(one.source_index == other.source_index) >= SAME_DECISIONS
    assert (other.source_index[30, 20], other.source_index[10, 80]) == (0, 1)
    assert one.confidence[:, 10:30].mean() > max(0.95, one.confidence[:, 46:50].mean())


def test_each_image_is_reported_once_and_a_cancelled_decision_ends():
    images, seen = stack_of_bands(6, SHAPE)[0], []

    decide_on(images, FusionConfig(), steps=TileSteps(report_image=lambda: seen.append(1)))

    assert len(seen) == 6
    with pytest.raises(InterruptedError):
        decide_on(images, FusionConfig(), steps=TileSteps(check_cancelled=mock.Mock(side_effect=[None] * 3 + [InterruptedError])))
