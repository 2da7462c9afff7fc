"""Pure geometry: cores that cover the image once, overlaps that end at its border, nothing that depends on the machine."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import PRESETS, FusionConfig
from qmcif_engine.decision.composition import composition_reach_px
from qmcif_engine.stack.window import Window, cut_side
from qmcif_engine.tiles.plan import GRID_PX, chunk_side, find_rule, plan_tiles

PAPER = PRESETS["paper"]


@pytest.mark.parametrize("shape", [(1, 1), (1024, 1024), (2**20, 1), (64, 16384)])
def test_an_image_of_no_more_pixels_than_a_tile_is_one_block_with_nothing_around_it(shape):
    (tile,) = plan_tiles(shape, FusionConfig())

    assert tile.core == tile.padded == Window.whole(shape)


@pytest.mark.parametrize(
    ("config", "grid"),
    [*((PAPER.replaced({"base_patch_px": patch}), patch) for patch in (5, 8, 10)), (FusionConfig(), GRID_PX)],
)
@pytest.mark.parametrize("shape", [(1025, 1024), (520, 520), (40, 70000)])
def test_cores_cover_the_image_once_and_start_on_the_grid_of_decisions(shape, config, grid):
    config = config.replaced({"tile_px": 208})
    plan = plan_tiles(shape, config)
    assert plan == plan_tiles(shape, config)
    assert plan != plan_tiles(shape, config.replaced({"tile_px": 104}))

    n_covers = np.zeros(shape, np.uint8)
    for tile in plan:
        n_covers[tile.core.slices] += 1
        assert {side % grid for side in (*tile.core[:2], *tile.padded[:2])} == {0}
        assert max(tile.core.shape) <= 208 + grid
        assert tile.padded == tile.core.grown(plan.overlap_px, shape)
    assert (n_covers == 1).all()
    assert [tile.number for tile in plan] == list(range(len(plan.rows) * len(plan.columns)))
    assert 0 <= plan.overlap_px - find_rule(config).reach_px(config, shape) < grid
    assert plan.largest_padded_px == max(np.prod(tile.padded.shape) for tile in plan)


@pytest.mark.parametrize("patch", [5, 8, 10])
@pytest.mark.parametrize(("tile_px", "chunk_px"), [(1024, 512), (700, 512), (208, 512), (64, 64), (1000, 4096)])
def test_every_chunk_lies_in_one_core_that_is_no_longer_than_a_tile(tile_px, chunk_px, patch):
    config = PAPER.replaced({"tile_px": tile_px, "chunk_px": chunk_px, "base_patch_px": patch})
    plan = plan_tiles((3000, 4001), config)
    chunk = chunk_side(config)

    assert chunk % patch == 0
    assert min(chunk_px, tile_px) <= chunk < min(chunk_px, tile_px) + patch
    for spans in (plan.rows, plan.columns):
        assert all(start % chunk == 0 for start, _ in spans)
        assert max(stop - start for start, stop in spans) <= max(tile_px, chunk)
    assert cut_side(1100, shape=(1100, 1100), tile_px=1024, multiple_of=8) == [(0, 552), (552, 1100)]


@pytest.mark.parametrize(
    "changes",
    # wider blends add what they reach
    [
        {},
        {"blend_px": 0},
        {"effort": "fast"},
        {"dark_border_px": 64},
        {"order": "none"},
        {"feather_px": 32},
        {"feather_px": 32, "blend_px": 16},
    ],
)
def test_a_tile_of_the_default_looks_at_most_160_px_beyond_its_core_but_for_wide_blends(changes):
    config = FusionConfig().replaced(changes)
    added = max(composition_reach_px(config.decision) - composition_reach_px(FusionConfig().decision), 0)

    overlap_px = plan_tiles((6000, 8000), config).overlap_px

    assert (overlap_px > 160) is (added > 0)
    assert overlap_px <= 160 + -(-added // GRID_PX) * GRID_PX
