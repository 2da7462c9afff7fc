import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.pipeline import pipeline
from qmcif_engine.pipeline.pipeline import plan_memory
from qmcif_engine.stack.stack import Stack, number_images
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.planes import SAMPLES_IN_MEMORY_BYTES


@pytest.fixture(autouse=True)
def full_machine(monkeypatch):
    """Without a budget every tile then takes the least."""
    monkeypatch.setattr(pipeline, "_free_bytes", lambda: 0)


def plan(shape=(30000, 40000, 3), n_images=2, *, budget_bytes=None, n_workers=8, guide=False, whole_bytes=0, **changes):
    """Of stacks that are only described."""
    config = FusionConfig().replaced(changes)
    stack = Stack(names=number_images(n_images), image_shape=shape, dtype=np.dtype(np.uint8), read=None, whole_bytes=whole_bytes)
    stacks = (stack, stack) if guide else (stack,)
    return plan_memory(plan_tiles(shape[:2], config), config, stacks, budget_bytes=budget_bytes, n_workers=n_workers)


def tile_bytes(*arguments, **changes):
    return plan(*arguments, **changes).tile_bytes


def test_a_tile_takes_the_same_memory_whatever_the_size_and_hardly_more_for_more_images():
    assert tile_bytes() == pytest.approx(tile_bytes((8000, 9000, 3)), rel=0.1)
    # windows of deep stacks wait on disk; a level for each cell and image stays
    assert tile_bytes(n_images=300) - tile_bytes(n_images=2) < 2**30
    assert tile_bytes(n_images=300) - tile_bytes(n_images=100) < 2**29


def test_the_settings_count():
    assert tile_bytes(rule="paper", is_low_rank=True) > tile_bytes(rule="paper", is_low_rank=False)
    assert tile_bytes(rule="paper", precision="float64") > tile_bytes(rule="paper")
    assert tile_bytes(tile_px=512) < tile_bytes() / 2


@pytest.mark.parametrize(("n_tiles", "n_workers", "expected"), [(3.5, 8, 3), (100, 2, 2)])
def test_the_budget_decides_how_many_tiles_are_in_flight(n_tiles, n_workers, expected):
    assert plan(budget_bytes=int(n_tiles * tile_bytes()), n_workers=n_workers).tiles_at_once == expected


@pytest.mark.parametrize(("free_bytes", "expected"), [(2**50, 2), (0, 1)])
def test_without_a_budget_there_is_a_tile_at_least(monkeypatch, free_bytes, expected):
    monkeypatch.setattr(pipeline, "_free_bytes", lambda: free_bytes)

    assert plan(n_workers=2).tiles_at_once == expected


def test_what_the_budget_leaves_is_shared_by_the_windows_of_the_tiles_in_flight():
    least, guided = tile_bytes(), tile_bytes(guide=True)

    def spare(budget_bytes, **changes):
        return plan(budget_bytes=budget_bytes, n_workers=2, **changes).samples_bytes - SAMPLES_IN_MEMORY_BYTES

    assert spare(2 * least + 1000) == 500
    assert spare(2 * guided + 1000, guide=True) == 250  # the images and a guide
    assert spare(2 * least + 1000, whole_bytes=1000) == spare(2 * least) == 0  # images that are decoded as a whole come first
    assert plan(budget_bytes=2 * least + 1000).tile_bytes <= least + 500


def test_a_budget_below_one_tile_is_refused_with_what_would_do():
    needed = -(-tile_bytes() // 10**6)

    with pytest.raises(InvalidConfigError, match=f"the memory budget is 100 MB; one tile needs {needed} MB: raise it to {needed}MB"):
        plan(budget_bytes=10**8)


def test_images_that_must_be_decoded_as_a_whole_count_against_the_budget():
    least = tile_bytes()
    plan(budget_bytes=least + 900, whole_bytes=900)
    plan(whole_bytes=10**15)
    needed = -(-(least + 2 * 10**6) // 10**6)

    with pytest.raises(InvalidConfigError, match=f"image 1 can only be decoded as a whole, which needs {needed} MB: raise it"):
        plan(budget_bytes=least + 10**6, whole_bytes=2 * 10**6)
