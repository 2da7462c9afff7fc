"""The stages in their order on one block: levels in, decisions out."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.blending import blend_along_edges
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import sample_cells
from qmcif_engine.method.decomposition import decompose
from qmcif_engine.method.focus import NEGLIGIBLE_LEVEL, base_focus, detail_focus, fine_focus
from qmcif_engine.method.focus_measures.decomposition_measure import SOLVE_MARGIN_PX
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, compose, without_invalid
from qmcif_engine.method.patches import detail_patch_side
from qmcif_engine.stack.noise import NO_NOISE, adapt_to_noise
from qmcif_engine.tiles.stages import FocusLevels, Geometry, decide, find_focus_maps, measure_focus, plan_geometry

SHAPE = (48, 64)
RAW = PRESETS["paper"].replaced({"is_low_rank": False, "iterations": 3, "aggregation": "vote"})
"""No clean-up, no blend: what the published maps say."""


def blocks_of(n_images, shape=SHAPE):
    """Vertical bands, each sharp in one image, on the 0-255 scale."""
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(3, *shape)), (0, 0.8, 0.8))
    sharp = (128 + 40 * noise / noise.std()).astype(np.float32)
    blurred = ndimage.gaussian_filter(sharp, (0, 2, 2))
    depth = np.arange(shape[1]) * n_images // shape[1]
    return [np.where(depth == number, sharp, blurred) for number in range(n_images)], np.broadcast_to(depth, shape)


def measured(blocks, config, **overrides):
    options = {"keep_layers": False, "check_cancelled": lambda: None, "report_image": lambda: None} | overrides
    return measure_focus(blocks, config, geometry=plan_geometry(blocks[0].shape[-2:], config), **options)


def decided(blocks, levels, config):
    """Decisions with the sizes that belong to the blocks."""
    geometry = plan_geometry(blocks[0].shape[-2:], config)
    result = decide(blocks, levels, geometry=geometry, config=config)
    maps = find_focus_maps(blocks, levels, geometry=geometry, config=config)
    return SimpleNamespace(blend=result.blend, confidence=result.confidence, base_map=maps.base, detail_map=maps.detail)


def levels_of(detail, *, base=None, base_patch_px=8):
    """Levels made by hand."""
    detail = [np.asarray(level, np.float32) for level in detail]
    grid = tuple(-(-side // base_patch_px) for side in detail[0].shape)
    fine = tuple(sample_cells(level) for level in detail)
    return FocusLevels(tuple([np.zeros(grid)] * len(detail) if base is None else base), tuple(detail), fine, ())


@pytest.mark.parametrize(("shape", "side"), [((520, 520), 13), ((100, 100), 9), ((6000, 4000), 17)])
def test_sizes_follow_from_the_shape_of_the_image_and_the_settings(shape, side):
    assert plan_geometry(shape, FusionConfig()) == Geometry(side)


def test_sizes_are_taken_from_the_plan_and_not_from_the_block():
    blocks, _ = blocks_of(2)
    config = FusionConfig()
    levels = measure_focus(blocks, config, geometry=Geometry(5), keep_layers=False, check_cancelled=lambda: None, report_image=lambda: None)

    parts = decompose(NO_NOISE.smooth(blocks[0]), config.decomposition)
    np.testing.assert_array_equal(levels.detail[0], detail_focus(parts.detail, detail_patch_px=5, config=config.focus))


def test_levels_are_those_of_each_image_by_itself():
    blocks, _ = blocks_of(3)
    config = FusionConfig()
    side = detail_patch_side(SHAPE, config.focus)

    levels = measured(blocks, config)

    assert levels.layers == ()
    for number, block in enumerate(blocks):
        parts = decompose(NO_NOISE.smooth(block), config.decomposition)
        np.testing.assert_array_equal(levels.base[number], base_focus(parts, base_patch_px=8, config=config.focus))
        np.testing.assert_array_equal(levels.detail[number], detail_focus(parts.detail, detail_patch_px=side, config=config.focus))
        np.testing.assert_array_equal(levels.fine[number], sample_cells(fine_focus(parts.detail, growth_px=0, config=config.focus)))


def test_levels_of_a_noisy_stack_are_those_of_smoothed_images_and_smoothed_along_the_stack():
    blocks, _ = blocks_of(5)
    config = FusionConfig()
    adaptation = adapt_to_noise(20.0, config, n_images=5)
    assert adaptation.stack_blur > 0
    solved = adaptation.decomposition(config.decomposition)
    assert solved != config.decomposition
    side = detail_patch_side(SHAPE, config.focus)

    levels = measured(blocks, config, adaptation=adaptation)

    layers = [decompose(adaptation.smooth(block), solved).detail for block in blocks]
    detail = [detail_focus(layer, detail_patch_px=side, config=config.focus) for layer in layers]
    sizes = {"growth_px": adaptation.window_growth_px, "faint_level": adaptation.faint_level}
    fine = [sample_cells(fine_focus(layer, **sizes, config=config.focus)) for layer in layers]
    for measured_levels, plain in ((levels.detail, detail), (levels.fine, fine)):
        smoothed = ndimage.gaussian_filter1d(np.array(plain), adaptation.stack_blur, axis=0, truncate=3.0, mode="nearest")
        np.testing.assert_allclose(np.array(measured_levels), smoothed, rtol=1e-5, atol=1e-6)


def test_the_published_method_looks_at_the_images_as_they_are():
    blocks, _ = blocks_of(2)
    blocks[0][:, 20, 50] = 255  # a hot pixel where the image is blurred
    config = RAW.replaced({"detail_patch_px": 9})

    levels = measured(blocks, config)

    parts = decompose(blocks[0], config.decomposition)
    np.testing.assert_array_equal(levels.detail[0], detail_focus(parts.detail, detail_patch_px=9, config=config.focus))
    smoothed = decompose(NO_NOISE.smooth(blocks[0]), config.decomposition)
    assert (levels.detail[0] != detail_focus(smoothed.detail, detail_patch_px=9, config=config.focus)).any()


def test_layers_are_kept_on_request_only():
    blocks, _ = blocks_of(2)

    layers = measured(blocks, FusionConfig(), keep_layers=True).layers

    assert [parts.detail.shape for parts in layers] == [(3, *SHAPE)] * 2


def test_each_image_is_reported_once_and_cancellation_is_asked_before_every_iteration():
    blocks, _ = blocks_of(2)
    events = []

    measured(
        blocks,
        FusionConfig().replaced({"iterations": 3}),
        check_cancelled=lambda: events.append("asked"),
        report_image=lambda: events.append("reported"),
    )

    assert events == ["asked", "asked", "asked", "reported"] * 2


@pytest.mark.parametrize("n_images", [2, 3])
@pytest.mark.parametrize("config", [FusionConfig(), RAW], ids=["default", "raw"])
def test_sharp_bands_are_found_by_all_maps(n_images, config):
    blocks, depth = blocks_of(n_images)

    result = decided(blocks, measured(blocks, config), config)

    is_far = ndimage.maximum_filter(depth, (1, 17)) == ndimage.minimum_filter(depth, (1, 17))
    for index in (result.blend.source_index, result.detail_map, result.base_map):
        assert index.dtype == np.uint16
        assert np.mean(index[is_far] == depth[is_far]) >= 0.99


def test_confidence_is_a_probability_that_grows_with_the_lead_of_the_sharpest_image():
    blocks, _ = blocks_of(2)
    detail = np.full((2, *SHAPE), 0.2, np.float32)
    confidences = []
    for lead in (0.0, 0.05, 0.2, 0.4):
        detail[0] = 0.2 + lead
        confidences.append(decided(blocks, levels_of(detail), RAW).confidence)

    for confidence in confidences:
        assert confidence.dtype == np.float32
        assert confidence.shape == SHAPE
        assert confidence.min() >= 0
        assert confidence.max() <= 1
    # without a lead the tie rule gives the other image, and the refinement's own choice counts
    for lesser, larger in itertools.pairwise(confidences[1:]):
        assert (larger > lesser).all()


def test_base_map_takes_the_best_image_of_each_base_patch():
    blocks, _ = blocks_of(3)
    generator = np.random.default_rng(1)
    base = [generator.random((6, 8)) for _ in range(3)]
    levels = levels_of(generator.random((3, *SHAPE)), base=base)

    result = decided(blocks, levels, RAW)

    expected = np.argmax(base, axis=0)
    for row, column in np.ndindex(SHAPE):
        assert result.base_map[row, column] == expected[row // 8, column // 8]


def test_base_map_of_an_image_that_is_no_multiple_of_a_patch_is_cut_to_it():
    shape = (13, 19)
    blocks, _ = blocks_of(2, shape)
    base = [np.array([[0.0, 1, 0], [1, 0, 1]]), np.array([[1.0, 0, 1], [0, 1, 0]])]

    result = decided(blocks, levels_of(np.random.default_rng(2).random((2, *shape)), base=base), RAW)

    np.testing.assert_array_equal(result.base_map[8:, 16:], 0)
    np.testing.assert_array_equal(result.base_map[:8, 16:], 1)
    assert result.base_map.shape == shape


def test_detail_map_is_the_majority_of_the_patches_around_a_pixel():
    blocks, _ = blocks_of(2)
    levels = levels_of(np.random.default_rng(3).random((2, *SHAPE)))
    side = detail_patch_side(SHAPE, RAW.focus)
    assert side >= 3
    preferred = np.pad(levels.detail[1] >= levels.detail[0], side // 2, mode="symmetric")
    ballots = np.lib.stride_tricks.sliding_window_view(preferred, (side, side))

    result = decided(blocks, levels, RAW)

    np.testing.assert_array_equal(result.detail_map, ballots.sum(axis=(2, 3)) > side**2 / 2)


def test_equal_levels_go_to_the_last_image_in_the_published_method():
    blocks, _ = blocks_of(3)

    result = decided(blocks, levels_of(np.ones((3, *SHAPE))), RAW)

    np.testing.assert_array_equal(result.detail_map, 2)
    np.testing.assert_array_equal(result.base_map, 2)
    assert np.ptp(result.confidence) == 0  # the same for all: nothing tells them apart


def test_pixels_without_level_follow_the_decided_ones_at_both_scales():
    shape = (64, 96)
    blocks, _ = blocks_of(2, shape)
    detail = np.zeros((2, *shape), np.float32)
    detail[0, :, :24] = 0.2
    detail[1, :, 72:] = 0.2

    result = decided(blocks, levels_of(detail), FusionConfig())

    np.testing.assert_array_equal(result.detail_map[:, :44], 0)
    np.testing.assert_array_equal(result.detail_map[:, 52:], 1)
    np.testing.assert_array_equal(result.base_map[:, 28:68], result.detail_map[:, 28:68])


@pytest.mark.parametrize("n_images", [2, 3])
def test_pixels_beyond_the_reach_of_any_decided_one_go_to_the_last_image(n_images):
    shape, reach_px, side = (40, 160), 20, 9
    blocks, _ = blocks_of(n_images, shape)
    config = FusionConfig().replaced({"follow_reach_px": reach_px, "evidence_scales": 1, "detail_patch_px": side})
    # levels that differ by less than is negligible: rounding prefers the first image everywhere
    detail = np.full((n_images, *shape), 0.1, np.float32)
    detail[0] += NEGLIGIBLE_LEVEL / 2
    detail[0, :, :10] = 0.5
    assert (detail[0] > detail[-1]).all()

    result = decided(blocks, levels_of(detail), config)

    followed = 10 + reach_px
    np.testing.assert_array_equal(result.detail_map[:, :followed], 0)
    np.testing.assert_array_equal(result.detail_map[:, followed:], n_images - 1)
    np.testing.assert_array_equal(result.base_map[:, 10:], result.detail_map[:, 10:])


def test_nothing_to_decide_anywhere_goes_to_the_last_image():
    blocks, _ = blocks_of(3)
    detail = np.full((3, *SHAPE), 0.1, np.float32)
    detail[0] += NEGLIGIBLE_LEVEL / 2

    result = decided(blocks, levels_of(detail), FusionConfig())

    np.testing.assert_array_equal(result.blend.source_index, 2)


@pytest.mark.parametrize(("rival_level", "is_kept"), [(0.55, False), (5.0, True)])
def test_weak_islands_of_the_chosen_map_give_way_and_strong_ones_stay(rival_level, is_kept):
    shape = (120, 160)
    blocks, _ = blocks_of(2, shape)
    detail = np.stack([np.full(shape, 0.5), np.full(shape, 0.4)]).astype(np.float32)
    detail[1, 60:69, 80:89] = rival_level
    settings = {"result": "detail", "detail_patch_px": 9, "blend_radius_px": 0, "evidence_scales": 1, "edge_band_px": 0}
    config = FusionConfig().replaced(settings)

    fitting = decided(blocks, levels_of(detail), config)
    alone = decided(blocks, levels_of(detail), config.replaced({"consistency": 0.0}))

    np.testing.assert_array_equal(alone.blend.source_index, alone.detail_map)
    assert (alone.blend.source_index == 1).any()
    assert (fitting.blend.source_index == 1).any() == is_kept
    np.testing.assert_array_equal(fitting.detail_map, alone.detail_map)


def test_decisions_that_fit_together_are_whole_cells_before_their_edges_are_drawn():
    shape = (50, 61)
    blocks, _ = blocks_of(3, shape)
    config = FusionConfig().replaced({"edge_band_px": 0, "blend_radius_px": 0, "dark_border_px": 0})

    index = decided(blocks, levels_of(np.random.default_rng(4).random((3, *shape))), config).blend.source_index

    for top in range(0, shape[0], CELL_PX):
        for left in range(0, shape[1], CELL_PX):
            assert np.ptp(index[top : top + CELL_PX, left : left + CELL_PX].astype(int)) == 0
    assert len(np.unique(index)) > 1


def test_result_scale_chooses_the_map():
    blocks, _ = blocks_of(2)
    levels = levels_of(np.stack([np.full(SHAPE, 0.9), np.full(SHAPE, 0.1)]), base=[np.zeros((6, 8)), np.ones((6, 8))])

    base = decided(blocks, levels, RAW.replaced({"result": "base"}))
    detail = decided(blocks, levels, RAW.replaced({"result": "detail"}))

    np.testing.assert_array_equal(base.blend.source_index, 1)
    np.testing.assert_array_equal(detail.blend.source_index, 0)


def test_refinement_prefers_the_scale_that_looks_like_the_focused_source():
    blocks, _ = blocks_of(1)
    sharp = blocks[0]
    blurred = ndimage.gaussian_filter(sharp, (0, 2, 2))
    # the base scale says the second image, the detail scale the first, which is in focus
    levels = levels_of(np.stack([np.full(SHAPE, 0.9), np.full(SHAPE, 0.1)]), base=[np.zeros((6, 8)), np.ones((6, 8))])

    result = decided([sharp, blurred], levels, RAW)

    np.testing.assert_array_equal(result.blend.source_index, 0)


def test_deciding_leaves_blocks_and_levels_alone():
    blocks, _ = blocks_of(2)
    levels = measured(blocks, FusionConfig())
    kept = [array.copy() for array in (*blocks, *levels.base, *levels.detail, *levels.fine)]

    decided(blocks, levels, FusionConfig())

    for array, copy in zip((*blocks, *levels.base, *levels.detail, *levels.fine), kept, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- parts and tiles ---


@pytest.mark.parametrize("iterations", [5, 20])
def test_the_solve_forgets_what_is_a_margin_away(iterations):
    config = FusionConfig().replaced({"iterations": iterations}).decomposition
    noise = ndimage.gaussian_filter(np.random.default_rng(2).normal(size=(3, 160, 160)), (0, 0.7, 0.7))
    image = (128 + 50 * noise / noise.std()).astype(np.float32)
    margin, inner = SOLVE_MARGIN_PX, (slice(60, 100), slice(60, 100))
    part = image[:, 60 - margin : 100 + margin, 60 - margin : 100 + margin]

    difference = decompose(part, config).detail[:, margin:-margin, margin:-margin] - decompose(image, config).detail[:, *inner]

    assert np.abs(difference).max() < 0.01


@pytest.mark.parametrize("patch", [5, 8])
@pytest.mark.parametrize("is_low_rank", [False, True])
def test_a_block_solved_in_parts_has_nearly_the_levels_of_one_piece(patch, is_low_rank):
    blocks, _ = blocks_of(2, shape=(132, 157))
    config = FusionConfig().replaced({"base_patch_px": patch, "is_low_rank": is_low_rank, "coefficient_weight": 0.0, "iterations": 3})
    geometry = plan_geometry((132, 157), config)
    whole = measure_focus(blocks, config, geometry=geometry)
    parts = measure_focus(blocks, config.replaced({"tile_px": 64}), geometry=geometry)

    tolerance = 0.03 if is_low_rank else 1e-4  # groups of similar patches differ from part to part
    for number in range(2):
        assert parts.base[number].shape == whole.base[number].shape
        np.testing.assert_allclose(parts.base[number], whole.base[number], atol=tolerance * whole.base[number].max())
        np.testing.assert_allclose(parts.detail[number], whole.detail[number], atol=tolerance * whole.detail[number].max())


def test_layers_of_a_block_solved_in_parts_are_not_kept():
    blocks, _ = blocks_of(2, shape=(132, 157))

    assert measured(blocks, RAW.replaced({"tile_px": 64}), keep_layers=True).layers == ()


def test_pixels_that_an_image_does_not_have_are_never_taken_from_it():
    blocks, depth = blocks_of(3, shape=(96, 120))
    config = FusionConfig()
    geometry = plan_geometry((96, 120), config)
    has = np.ones((3, 96, 120), bool)
    has[0, :, :25] = False  # image 0 is the sharp one there
    has[1, 40:60, 30:90] = False
    levels = measure_focus(blocks, config, geometry=geometry, validity=lambda number: has[number])

    result = decide(blocks, levels, geometry=geometry, config=config, validity=lambda number: has[number])

    index = result.blend.source_index
    for number in range(3):
        assert not (index[~has[number]] == number).any()
    for row, source in zip(result.blend.weights.toarray(), result.blend.sources, strict=True):
        assert (row[~has[source][result.blend.band]] == 0).all()
    np.testing.assert_allclose(result.blend.weights.toarray().sum(axis=0), 1, rtol=1e-5)
    assert np.mean(index[has[0]][depth[has[0]] == 0] == 0) > 0.8  # votes round the corners of what is missing


def test_a_pixel_that_no_image_has_still_comes_from_one_of_them():
    blocks, _ = blocks_of(2)
    has = np.zeros(SHAPE, bool)
    geometry = plan_geometry(SHAPE, FusionConfig())
    levels = measure_focus(blocks, FusionConfig(), geometry=geometry, validity=lambda _: has)

    result = decide(blocks, levels, geometry=geometry, config=FusionConfig(), validity=lambda _: has)

    assert set(np.unique(result.blend.source_index)) <= {0, 1}
    assert np.isfinite(result.confidence).all()


# --- pixels that an image does not have ---


def seamed_images(shape=(60, 120)):
    """Two images textured alike, the second brighter, and the border between them in the middle."""
    grain = np.random.default_rng(1).uniform(0, 10, (*shape, 3)).astype(np.float32)
    images = [60 + grain, 110 + grain]
    index = np.broadcast_to(np.arange(shape[1]) >= shape[1] // 2, shape).astype(np.uint16)
    blocks = [np.ascontiguousarray(np.moveaxis(image, -1, 0)) for image in images]
    return images, blend_along_edges(index, blocks, np.full(shape, 0.5, np.float32), FusionConfig().decision)


def is_shifted(blend):
    """Where brightness is blended more widely than detail, shape (h, w)."""
    found = np.zeros(blend.band.shape, bool)
    found[blend.band] = np.diff(blend.brightness.tocsc().indptr) > 0
    return found


def test_where_all_images_have_their_pixels_a_blend_stays_as_it_is():
    _, blend = seamed_images()

    kept = without_invalid(blend, lambda _: np.ones((60, 120), bool))

    assert blend.brightness.nnz
    np.testing.assert_array_equal(kept.brightness.toarray(), blend.brightness.toarray())
    np.testing.assert_allclose(kept.weights.toarray(), blend.weights.toarray(), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(kept.source_index, blend.source_index)


@pytest.mark.parametrize("lacking", [0, 1])
def test_brightness_is_blended_only_where_the_low_pass_misses_no_pixel(lacking):
    """One pixel, far enough from the border to have no share in it."""
    _, blend = seamed_images()
    is_valid = np.ones((2, 60, 120), bool)
    is_valid[lacking, 30, 62] = False
    before = blend.brightness.toarray()

    kept = without_invalid(blend, lambda number: is_valid[number])

    is_touched = np.zeros((60, 120), bool)
    is_touched[30 - LOW_PASS_REACH_PX : 31 + LOW_PASS_REACH_PX, 62 - LOW_PASS_REACH_PX : 63 + LOW_PASS_REACH_PX] = True
    assert (is_shifted(blend) & is_touched).any()
    after = kept.brightness.toarray()
    np.testing.assert_array_equal(after[:, is_touched[blend.band]], 0)
    np.testing.assert_array_equal(after[:, ~is_touched[blend.band]], before[:, ~is_touched[blend.band]])
    np.testing.assert_array_equal(blend.brightness.toarray(), before)  # the blend given is left alone


def test_what_a_missing_pixel_is_filled_with_shows_nowhere():
    images, blend = seamed_images()
    is_valid = np.ones((2, 60, 120), bool)
    is_valid[1, :, :64] = False
    kept = without_invalid(blend, lambda number: is_valid[number])

    pictures = []
    for filling in (0, 1e4):
        filled = images[1].copy()
        filled[~is_valid[1]] = filling
        pictures.append(compose([images[0], filled], kept))

    is_given = kept.source_index == 0  # where no other image contributes, the one that was decided keeps the pixel
    assert is_given.any()
    np.testing.assert_array_equal(pictures[0][is_given], pictures[1][is_given])
    is_seen = is_valid[1] | is_given
    np.testing.assert_array_equal(pictures[0][is_seen], pictures[1][is_seen])


def test_a_pixel_missing_in_an_image_that_does_not_contribute_there_takes_no_brightness_away():
    _, blend = seamed_images()
    is_far = ~is_shifted(blend)
    is_far[:, 30:90] = False
    is_valid = np.stack([np.ones((60, 120), bool), ~is_far])

    kept = without_invalid(blend, lambda number: is_valid[number])

    np.testing.assert_array_equal(kept.brightness.toarray(), blend.brightness.toarray())
