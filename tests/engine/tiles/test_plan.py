"""Pure geometry: cores that cover the image once, overlaps that end at its border, nothing that depends on the machine."""

import numpy as np
import pytest
from qmcif_engine.cleanup.blend_reach import reach_of_blend
from qmcif_engine.cleanup.regularization import REACH_PX
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX
from qmcif_engine.stack.noise import LONGEST_BLUR_REACH_PX
from qmcif_engine.tiles.stage_list import derive_overlap

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.method.focus import EVIDENCE
from qmcif_engine.method.focus_measures.decomposition_measure import SOLVE_MARGIN_PX
from qmcif_engine.method.patches import detail_patch_side
from qmcif_engine.stack.window import Window, cut_side
from qmcif_engine.tiles.plan import chunk_side, plan_tiles

SMALL_TILES = FusionConfig().replaced({"tile_px": 208})


@pytest.mark.parametrize("shape", [(1, 1), (520, 520), (1024, 1024), (2**20, 1), (64, 16384)])
def test_an_image_of_no_more_pixels_than_a_tile_is_one_block_with_nothing_around_it(shape):
    plan = plan_tiles(shape, FusionConfig())

    (tile,) = plan.tiles
    assert tile.core == tile.padded == Window.whole(shape)
    assert plan.grid == (1, 1)


@pytest.mark.parametrize("patch", [5, 8, 10])
@pytest.mark.parametrize("shape", [(1025, 1024), (520, 520), (3000, 4001), (40, 70000)])
def test_cores_cover_the_image_once_and_start_on_base_patches(shape, patch):
    plan = plan_tiles(shape, SMALL_TILES.replaced({"base_patch_px": patch}))

    n_covers = np.zeros(shape, np.uint8)
    for tile in plan.tiles:
        n_covers[tile.core.slices] += 1
        assert tile.core.top % patch == tile.core.left % patch == 0
        assert tile.padded.top % patch == tile.padded.left % patch == 0
        assert max(tile.core.shape) <= 208 + patch
    assert (n_covers == 1).all()
    assert [tile.number for tile in plan.tiles] == list(range(plan.grid[0] * plan.grid[1]))


@pytest.mark.parametrize("patch", [5, 8, 10])
@pytest.mark.parametrize(("tile_px", "chunk_px"), [(1024, 512), (1024, 256), (700, 512), (208, 512), (64, 64), (1000, 4096)])
def test_every_chunk_lies_in_one_core_that_is_no_longer_than_a_tile(tile_px, chunk_px, patch):
    config = FusionConfig().replaced({"tile_px": tile_px, "chunk_px": chunk_px, "base_patch_px": patch})
    plan = plan_tiles((3000, 4001), config)
    chunk = chunk_side(config)

    assert chunk % patch == 0
    assert min(chunk_px, tile_px) <= chunk < min(chunk_px, tile_px) + patch
    for spans in (plan.tiles.rows, plan.tiles.columns):
        assert all(start % chunk == 0 for start, _ in spans)
        assert max(stop - start for start, stop in spans) <= max(tile_px, chunk)


def test_overlaps_reach_as_far_as_derived_and_end_at_the_image_border():
    plan = plan_tiles((3000, 4000), FusionConfig())

    for tile in plan.tiles:
        assert tile.padded == tile.core.grown(plan.overlap_px, plan.shape)
    assert plan.overlap_px >= derive_overlap(FusionConfig(), detail_patch_px=17)
    assert plan.largest_padded_px == max(np.prod(tile.padded.shape) for tile in plan.tiles)


def test_cores_are_as_equal_as_the_patch_grid_allows():
    assert cut_side(1100, shape=(1100, 1100), tile_px=1024, multiple_of=8) == [(0, 552), (552, 1100)]


def test_the_overlap_grows_with_what_the_stages_reach():
    def overlap(**changes):
        return derive_overlap(FusionConfig().replaced(changes), detail_patch_px=17)

    assert overlap(evidence_scales=1, follow_reach_px=0, consistency=0.0) < overlap(evidence_scales=1, follow_reach_px=0) <= overlap()
    assert overlap(evidence_scales=6) - overlap(evidence_scales=6, consistency=0.0, follow_reach_px=0) == 0
    assert overlap(evidence_scales=1, follow_reach_px=0) - overlap(evidence_scales=1, follow_reach_px=0, consistency=0.0) == REACH_PX
    assert overlap() - overlap(adapts_to_noise=False) == LONGEST_BLUR_REACH_PX
    assert overlap(follow_reach_px=500) - overlap(follow_reach_px=400) == 100
    assert overlap(edge_band_px=16) - overlap(edge_band_px=6) == 10
    assert overlap(amplification_radius_px=5) - overlap() == 2
    assert derive_overlap(PRESETS["paper"], detail_patch_px=13) == SOLVE_MARGIN_PX + 3 + 1 + 6 + 6 + 12


@pytest.mark.parametrize(
    ("blend_radius_px", "feather_px", "reach_px"),
    [
        (1, 16, 16),
        (1, 17, 17),
        (8, 16, 16),
        (9, 16, 18),
        (1, 4, SEAM_REACH_PX),
        (3, 0, 6),
        (1, 0, 2),
        (1, 1, 2),
        (0, 16, 0),
        (0, 0, 0),
    ],
)
def test_a_blend_reaches_as_far_as_the_wider_of_both_kinds_or_a_seam_and_a_hard_cut_nowhere(blend_radius_px, feather_px, reach_px):
    config = FusionConfig().replaced({"blend_radius_px": blend_radius_px, "feather_px": feather_px})
    hard_cut = config.replaced({"blend_radius_px": 0})

    assert reach_of_blend(config.decision) == reach_px
    assert derive_overlap(config, detail_patch_px=17) - derive_overlap(hard_cut, detail_patch_px=17) == reach_px


def test_evidence_reaches_half_its_largest_window_but_one():
    side = detail_patch_side((520, 520), FusionConfig().focus)
    largest_but_one = side
    for _ in range(1, FusionConfig().focus.evidence_scales - 1):
        largest_but_one = 2 * largest_but_one + 1

    assert EVIDENCE.overlap_px(FusionConfig(), side) == largest_but_one // 2
    assert EVIDENCE.overlap_px(PRESETS["paper"], side) == 0


def test_the_tiles_of_a_window_are_those_it_touches():
    plan = plan_tiles((520, 520), SMALL_TILES)
    core = plan.tiles[4].core

    assert plan.tiles_in(core) == (plan.tiles[4],)
    assert [tile.number for tile in plan.tiles_in(Window(core.top - 1, core.left, core.bottom, core.right))] == [1, 4]
    assert plan.tiles_in(Window.whole((520, 520))) == plan.tiles


def test_the_plan_depends_on_shape_and_settings_alone():
    assert plan_tiles((2000, 3000), FusionConfig()) == plan_tiles((2000, 3000), FusionConfig())
    assert plan_tiles((2000, 3000), FusionConfig()) != plan_tiles((2000, 3000), FusionConfig().replaced({"tile_px": 512}))
