"""Pure geometry: cores that cover the image once, overlaps that end at its border, nothing that depends on the machine."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import PRESETS, FusionConfig
from qmcif_engine.decision.composition import composition_reach_px
from qmcif_engine.stack.window import Window, cut_side
from qmcif_engine.tiles.plan import GRID_PX, chunk_side, find_rule, plan_tiles

SMALL_TILES = FusionConfig().replaced({"tile_px": 208})
PAPER = PRESETS["paper"]


@pytest.mark.parametrize("shape", [(1, 1), (520, 520), (1024, 1024), (2**20, 1), (64, 16384)])
def test_an_image_of_no_more_pixels_than_a_tile_is_one_block_with_nothing_around_it(shape):
    plan = plan_tiles(shape, FusionConfig())

    (tile,) = plan
    assert tile.core == tile.padded == Window.whole(shape)


@pytest.mark.parametrize("patch", [5, 8, 10])
@pytest.mark.parametrize("shape", [(1025, 1024), (520, 520), (3000, 4001), (40, 70000)])
def test_cores_cover_the_image_once_and_start_on_base_patches(shape, patch):
    plan = plan_tiles(shape, PAPER.replaced({"tile_px": 208, "base_patch_px": patch}))

    n_covers = np.zeros(shape, np.uint8)
    for tile in plan:
        n_covers[tile.core.slices] += 1
        assert tile.core.top % patch == tile.core.left % patch == 0
        assert tile.padded.top % patch == tile.padded.left % patch == 0
        assert max(tile.core.shape) <= 208 + patch
    assert (n_covers == 1).all()
    assert [tile.number for tile in plan] == list(range(len(plan.rows) * len(plan.columns)))


@pytest.mark.parametrize("patch", [5, 8, 10])
@pytest.mark.parametrize(("tile_px", "chunk_px"), [(1024, 512), (1024, 256), (700, 512), (208, 512), (64, 64), (1000, 4096)])
def test_every_chunk_lies_in_one_core_that_is_no_longer_than_a_tile(tile_px, chunk_px, patch):
    config = PAPER.replaced({"tile_px": tile_px, "chunk_px": chunk_px, "base_patch_px": patch})
    plan = plan_tiles((3000, 4001), config)
    chunk = chunk_side(config)

    assert chunk % patch == 0
    assert min(chunk_px, tile_px) <= chunk < min(chunk_px, tile_px) + patch
    for spans in (plan.rows, plan.columns):
        assert all(start % chunk == 0 for start, _ in spans)
        assert max(stop - start for start, stop in spans) <= max(tile_px, chunk)


def test_overlaps_reach_as_far_as_derived_and_end_at_the_image_border():
    plan = plan_tiles((3000, 4000), FusionConfig())

    for tile in plan:
        assert tile.padded == tile.core.grown(plan.overlap_px, plan.shape)
    assert 0 <= plan.overlap_px - find_rule(FusionConfig()).reach_px(FusionConfig(), plan.shape) < GRID_PX
    assert plan.largest_padded_px == max(np.prod(tile.padded.shape) for tile in plan)


def test_cores_are_as_equal_as_the_patch_grid_allows():
    assert cut_side(1100, shape=(1100, 1100), tile_px=1024, multiple_of=8) == [(0, 552), (552, 1100)]


@pytest.mark.parametrize("tile_px", [64, 200, 1024])
def test_tiles_of_the_default_start_on_the_grid_of_decisions(tile_px):
    plan = plan_tiles((1000, 1300), FusionConfig().replaced({"tile_px": tile_px}))

    assert {side % GRID_PX for tile in plan for side in (*tile.core[:2], *tile.padded[:2])} == {0}


def test_a_tile_of_the_default_looks_at_most_160_px_beyond_its_core():
    for changes in ({}, {"feather_px": 0}, {"blend_px": 0}, {"effort": "fast"}, {"dark_border_px": 64}, {"order": "none"}):
        assert plan_tiles((6000, 8000), FusionConfig().replaced(changes)).overlap_px <= 160


@pytest.mark.parametrize("changes", [{"feather_px": 32}, {"feather_px": 32, "blend_px": 16}, {"blend_px": 16}])
def test_wider_blends_add_what_they_reach_to_the_overlap_and_no_more(changes):
    plain, wide = FusionConfig(), FusionConfig().replaced(changes)
    added = composition_reach_px(wide.decision) - composition_reach_px(plain.decision)

    overlap_px = plan_tiles((6000, 8000), wide).overlap_px

    assert added > 0
    assert overlap_px > 160
    assert overlap_px <= 160 + -(-added // GRID_PX) * GRID_PX


def test_the_plan_depends_on_shape_and_settings_alone():
    assert plan_tiles((2000, 3000), FusionConfig()) == plan_tiles((2000, 3000), FusionConfig())
    assert plan_tiles((2000, 3000), FusionConfig()) != plan_tiles((2000, 3000), FusionConfig().replaced({"tile_px": 512}))
