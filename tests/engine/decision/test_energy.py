"""The rule of one energy as a whole: what changes no decision, how far a tile looks, masks, and scenes whose truth is known."""

from dataclasses import replace

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
    StackOrder,
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


def decide_on(images, config=None, *, masks=None, core=None, with_position=False):
    """The decision of the rule on images of shape (N, h, w) or (N, c, h, w) on the 0-255 scale."""
    config = config or FusionConfig()
    images = np.asarray(images, np.float32)
    planes = ArrayPlanes(images if images.ndim == 4 else images[:, None], masks=masks)
    statistics = measure_statistics([planes.block(number) for number in range(len(images))], config, n_images=len(images), step=1.0)
    core = core or planes.window
    return decide(planes, core, statistics, config, with_position=with_position, steps=TileSteps())


# --- what changes no decision ---


@pytest.mark.parametrize("n_images", [2, 3, 12])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "bool"])
def test_equal_images_are_returned_unchanged(n_images, dtype):
    picture = texture((*SHAPE, 3))
    image = picture > 120 if dtype == "bool" else quantized(picture, dtype)

    result = fuse([image] * n_images)

    assert result.fused.dtype == image.dtype
    np.testing.assert_array_equal(result.fused, image)


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("n_images", [2, 5])
def test_constant_images_give_one_of_them(n_images, level):
    result = fuse([np.full(SHAPE, level, np.uint8)] * n_images)

    assert (result.fused == level).all()
    assert np.isfinite(result.confidence).all()


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (1, 40), (8, 3), (17, 15), (33, 9)])
@pytest.mark.parametrize("n_images", [2, 5])
@pytest.mark.parametrize("effort", list(Effort))
def test_images_smaller_than_a_block_are_fused(n_images, shape, effort):
    images = quantized([texture((*shape, 3), seed=seed) for seed in range(n_images)])

    result = fuse(images, settings(effort=effort), with_position=True, with_maps=True)

    assert result.fused.shape == (*shape, 3)
    assert result.source_index.max() < n_images
    assert ((result.confidence >= 0) & (result.confidence <= 1 + 1e-6)).all()


@pytest.mark.parametrize("n_images", [3, 5])
def test_permuting_images_without_an_order_permutes_the_index(n_images):
    images, _ = stack_of_bands(n_images, SHAPE, noise=1.0)
    order = np.random.default_rng(0).permutation(n_images)
    config = settings(order=StackOrder.NONE)

    one, other = fuse(quantized(images), config), fuse(quantized(images[order]), config)

    is_alike = order[other.source_index] == one.source_index
    assert is_alike.mean() >= SAME_DECISIONS


@pytest.mark.parametrize("n_images", [2, 4, 9])
def test_reversing_a_stack_reverses_the_index(n_images):
    images, _ = stack_of_bands(n_images, SHAPE, noise=1.0)

    one, other = fuse(quantized(images)), fuse(quantized(images[::-1]))

    assert np.mean(n_images - 1 - other.source_index == one.source_index) >= SAME_DECISIONS


def test_reversing_a_deep_stack_of_noise_reverses_most_of_the_index():
    """More images than candidates, none of which is sharp: no end of the stack is preferred."""
    images = 100 + 3 * np.random.default_rng(0).normal(size=(40, *SHAPE))

    one, other = fuse(quantized(images)), fuse(quantized(images[::-1]))

    assert np.mean(39 - other.source_index == one.source_index) > 0.8
    assert 12 < one.source_index.mean() < 27


def test_gray_images_are_decided_as_their_replicated_colors():
    images, _ = stack_of_bands(3, SHAPE, noise=1.0)
    gray = quantized(images)

    color = fuse(np.repeat(gray[..., None], 3, axis=-1))

    assert np.mean(color.source_index == fuse(gray).source_index) >= SAME_DECISIONS


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float64"])
def test_types_of_samples_decide_alike(dtype):
    images, _ = stack_of_bands(3, SHAPE, noise=2.0)
    whole = np.rint(images).clip(0, 255)

    one, other = fuse(quantized(whole)), fuse(quantized(whole, dtype))

    assert np.mean(one.source_index == other.source_index) >= 0.97


def test_asking_for_maps_and_positions_changes_no_byte():
    images = quantized(stack_of_bands(4, SHAPE, noise=1.0)[0])

    plain, mapped = fuse(images), fuse(images, with_maps=True, with_position=True)

    for name in ("fused", "source_index", "confidence"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(mapped, name))


def test_base_and_detail_map_are_the_winners_of_the_evidence():
    images, depth = stack_of_bands(3, SHAPE, noise=1.0)

    result = fuse(quantized(images), with_maps=True)

    for found in (result.base_map, result.detail_map):
        assert np.mean(found == depth) > 0.75
    # the decision is smoother than the evidence at the fine scale
    borders = [np.count_nonzero(np.diff(found.astype(int), axis=0)) for found in (result.source_index, result.detail_map)]
    assert borders[0] <= borders[1]
    assert (result.base_map[::CELL_PX] == result.base_map[1::CELL_PX]).all()


# --- settings ---


@pytest.mark.parametrize("n_images", [2, 7, 40])
@pytest.mark.parametrize("decision", [{}, {"noise": NoiseHandling.OFF}, {"effort": Effort.FAST}, {"measure": Evidence.LAPLACIAN}])
def test_the_sharp_image_is_found_whatever_the_settings(n_images, decision):
    images, depth = stack_of_bands(n_images, (64, 40 * n_images if n_images < 10 else 640), noise=0.7, blur=3.0)

    result = fuse(quantized(images), settings(**decision))

    tolerance = 0 if n_images == 2 else 1
    assert np.mean(np.abs(result.source_index.astype(int) - depth) <= tolerance) > 0.93


@pytest.mark.parametrize(("preference", "expected"), [(Preference.FRONT, 0), (Preference.BACK, 3)])
def test_the_preferred_end_wins_where_all_are_equally_sharp(preference, expected):
    image = texture(SHAPE)
    noise = np.random.default_rng(0).normal(0, 0.7, (4, *SHAPE))

    result = fuse(quantized(image + noise), settings(preference=preference))

    assert np.mean(result.source_index == expected) > 0.99


def test_a_preference_does_not_override_what_is_sharper_by_more_than_the_ratio():
    images, depth = stack_of_bands(2, SHAPE, blur=3.0)

    result = fuse(quantized(images), settings(preference=Preference.BACK, preference_ratio=1.2))

    assert np.mean(result.source_index == depth) > 0.9


# --- tiles ---


def long_scene(kind):
    """A strip of many tiles, color or gray, with halos, or with clipped reflections."""
    shape = (80, 700)
    if kind == "bands":
        return quantized(stack_of_bands(5, shape, noise=1.0)[0])
    images = np.concatenate([spilling_scene(seed, glints=kind == "glints")[0] for seed in range(5)], axis=2)
    return quantized(images)[:, : shape[0], : shape[1]]


@pytest.mark.parametrize("kind", ["bands", "halos", "glints"])
@pytest.mark.parametrize("effort", list(Effort))
def test_tiles_decide_as_the_whole_image_does(kind, effort):
    images = long_scene(kind)
    config = settings(effort=effort)
    tiled = replace(config, tiling=TilingConfig(tile_px=64, chunk_px=64))

    whole, cut = fuse(images, config, with_position=True, with_maps=True), fuse(images, tiled, with_position=True, with_maps=True)

    for name in ("source_index", "confidence", "fused", "position", "base_map", "detail_map"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))


@pytest.mark.parametrize("widths", [{"feather_px": 32.0}, {"blend_px": 16.0}, {"feather_px": 0.0}])
def test_tiles_blend_as_the_whole_image_does_however_wide(widths):
    images = long_scene("halos")
    config = settings(**widths)

    whole, cut = fuse(images, config), fuse(images, replace(config, tiling=TilingConfig(tile_px=64, chunk_px=64)))

    np.testing.assert_array_equal(cut.fused, whole.fused)


def test_the_number_of_workers_changes_no_byte():
    images = long_scene("halos")
    config = replace(FusionConfig(), tiling=TilingConfig(tile_px=64, chunk_px=64))

    one, two = (fuse(images, config, workers=workers) for workers in (1, 2))

    for name in ("source_index", "confidence", "fused"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("effort", list(Effort))
def test_a_sample_beyond_the_stated_reach_decides_nothing(effort):
    images, _ = stack_of_bands(2, (48, 480), noise=1.0)
    images = np.stack([images[0], ndimage.gaussian_filter(images[1], (0, 2))]).astype(np.float32)
    config = settings(effort=effort)
    reach = RULE.reach_px(config, (48, 480))
    core = Window(0, 0, 48, 480 - 16 - reach)
    changed = images.copy()
    changed[:, :, core.right + reach :] = texture((2, 48, 480 - core.right - reach), seed=8, contrast=80)

    statistics = measure_statistics(list(images[:, None]), config, n_images=2, step=1.0)
    one, other = (
        decide(ArrayPlanes(each[:, None]), core, statistics, config, with_position=True, steps=TileSteps()) for each in (images, changed)
    )

    inner = core.relative_to(one.window).slices
    for name in ("index", "confidence", "position"):
        np.testing.assert_array_equal(getattr(one, name)[inner], getattr(other, name)[inner])


def test_a_tile_reaches_no_more_than_160_px():
    assert max(RULE.reach_px(settings(effort=effort), (4000, 4000)) for effort in Effort) <= 160


# --- masks ---


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("effort", list(Effort))
def test_every_pixel_comes_from_an_image_that_may_give_it(seed, effort):
    n_images = 4
    images, _ = stack_of_bands(n_images, SHAPE, seed=seed, noise=1.0)
    masks = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(n_images, *SHAPE)), (0, 5, 5)) > 0
    masks[0, :3, :5] = masks[1, 40:, 90] = True  # some pixels belong to one image for sure

    decision = decide_on(images, settings(effort=effort), masks=masks)

    is_open = masks.any(axis=0)
    assert not is_open.all()
    allowed = np.take_along_axis(masks, decision.index[None], 0)[0]
    assert allowed[is_open].all()
    assert decision.index.max() < n_images


def test_masks_that_allow_all_change_no_decision():
    images, _ = stack_of_bands(3, SHAPE, noise=1.0)

    one, other = (decide_on(images, masks=masks) for masks in (None, np.ones((3, *SHAPE), bool)))

    np.testing.assert_array_equal(one.index, other.index)


def test_an_image_without_a_pixel_is_never_chosen():
    images, _ = stack_of_bands(3, SHAPE, noise=1.0)
    masks = np.ones((3, *SHAPE), bool)
    masks[1] = False

    assert set(np.unique(decide_on(images, masks=masks).index)) <= {0, 2}


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


@pytest.mark.parametrize("seed", range(2))
def test_a_wide_halo_is_not_taken(seed):
    images, truth, cover, _ = spilling_scene(seed)

    fused = fuse(quantized(images)).fused.astype(float)

    band = (ndimage.distance_transform_edt(cover < 0.5) < 24) & (cover < 0.01)
    best = np.abs(images - truth).min(axis=0)
    assert np.mean(np.abs(fused - truth)[band] > best[band] + 12) < 0.03


def test_a_clipped_reflection_keeps_its_size():
    images, truth, _, points = spilling_scene(glints=True)

    fused = fuse(quantized(images)).fused.astype(float)

    around = ndimage.maximum_filter(points, 21) > 0
    size, expected = (np.count_nonzero((each > 150) & around) for each in (fused, truth))
    blurred = np.count_nonzero((images[1] > 150) & around)
    assert expected > 10
    assert blurred > 2 * expected
    assert size < 1.3 * expected + 4


@pytest.mark.parametrize("drift", [-0.2, 0.2])
def test_a_slow_drift_of_exposure_is_not_taken_for_spill(drift):
    """Each image as it is, and the stack with a gain that goes from 1 to 1 +- .2 over it: the decisions are nearly the same."""
    images, depth = stack_of_bands(9, (72, 360), blur=3.0, noise=0.7)
    gains = np.linspace(1 - max(drift, 0), 1 - max(-drift, 0), 9)[:, None, None]

    plain, drifting = (fuse(quantized(each)).source_index.astype(int) for each in (images, images * gains))

    assert np.mean(np.abs(drifting - depth) <= 1) > np.mean(np.abs(plain - depth) <= 1) - 0.01


@pytest.mark.parametrize("drift", [-0.2, 0.2])
def test_a_drift_of_exposure_brings_no_halos(drift):
    images, truth, cover, _ = spilling_scene(n_images=9, width=1.5)
    gains = np.linspace(1 - max(drift, 0), 1 - max(-drift, 0), 9)[:, None, None]

    result = fuse(quantized(images * gains))

    evened = result.fused / gains[result.source_index.astype(int), 0, 0]
    band = (ndimage.distance_transform_edt(cover < 0.5) < 24) & (cover < 0.01)
    best = np.abs(images - truth).min(axis=0)
    assert np.mean(np.abs(evened - truth)[band] > best[band] + 12) < 0.03


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
def test_a_hot_pixel_decides_nothing(value):
    images, _ = stack_of_bands(2, SHAPE, noise=1.0)
    hot = quantized(images)
    hot[1, 30, 20] = hot[0, 10, 80] = value

    one, other = fuse(quantized(images)).source_index, fuse(hot).source_index

    assert np.mean(one == other) >= SAME_DECISIONS
    assert other[30, 20] == one[30, 20] == 0
    assert other[10, 80] == one[10, 80] == 1


def test_confidence_is_high_inside_and_low_at_the_border():
    images, _ = stack_of_bands(2, SHAPE, noise=1.0)

    confidence = fuse(quantized(images)).confidence

    assert confidence[:, 10:30].mean() > 0.95
    assert confidence[:, 46:50].mean() < confidence[:, 10:30].mean()


def test_a_cancelled_decision_ends():
    class EndedError(Exception):
        pass

    def end():
        raise EndedError

    images, _ = stack_of_bands(2, SHAPE)
    planes = ArrayPlanes(images[:, None])
    statistics = measure_statistics([planes.block(0)], FusionConfig(), n_images=2, step=1.0)

    with pytest.raises(EndedError):
        decide(planes, planes.window, statistics, FusionConfig(), with_position=False, steps=TileSteps(check_cancelled=end))


def test_each_image_is_reported_once():
    seen = []
    images, _ = stack_of_bands(6, SHAPE)
    planes = ArrayPlanes(images[:, None])
    statistics = measure_statistics([planes.block(0)], FusionConfig(), n_images=6, step=1.0)

    decide(planes, planes.window, statistics, FusionConfig(), with_position=False, steps=TileSteps(report_image=lambda: seen.append(1)))

    assert len(seen) == 6
