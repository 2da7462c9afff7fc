import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.run.memory import check_whole_images, choose_tiles_at_once, estimate_tile_bytes, share_spare_bytes
from qmcif_engine.stack.stack import Stack, number_images
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.window_images import SAMPLES_IN_MEMORY_BYTES


def claim_stack(n_images, image_shape, dtype=np.uint8):
    """A stack that is only described."""
    return Stack(names=number_images(n_images), image_shape=image_shape, dtype=np.dtype(dtype), read=None)


def tile_bytes(shape=(30000, 40000, 3), n_images=2, **changes):
    config = FusionConfig().replaced(changes)
    return estimate_tile_bytes(plan_tiles(shape[:2], config), config, stack=claim_stack(n_images, shape))


def test_a_tile_takes_the_same_memory_whatever_the_size_and_hardly_more_for_more_images():
    assert tile_bytes() == pytest.approx(tile_bytes((8000, 9000, 3)), rel=0.1)
    # windows of deep stacks wait on disk; a level for each cell and image stays
    assert tile_bytes(n_images=300) - tile_bytes(n_images=2) < 2**30
    assert tile_bytes(n_images=300) - tile_bytes(n_images=100) < 2**29


def test_the_settings_count():
    assert tile_bytes(rule="paper", is_low_rank=True) > tile_bytes(rule="paper", is_low_rank=False)
    assert tile_bytes(rule="paper", precision="float64") > tile_bytes(rule="paper")
    assert tile_bytes(tile_px=512) < tile_bytes() / 2


def test_the_budget_decides_how_many_tiles_are_in_flight():
    assert choose_tiles_at_once(10, budget_bytes=35, n_workers=8) == 3
    assert choose_tiles_at_once(10, budget_bytes=1000, n_workers=2) == 2
    assert choose_tiles_at_once(10, budget_bytes=None, n_workers=2) == 2
    assert choose_tiles_at_once(2**60, budget_bytes=None, n_workers=2) == 1


def test_a_budget_below_one_tile_is_refused_with_what_would_do():
    with pytest.raises(InvalidConfigError, match="the memory budget is 100 MB; one tile needs 251 MB: raise it to 251MB"):
        choose_tiles_at_once(250_100_000, budget_bytes=10**8, n_workers=2)


def test_what_the_budget_leaves_is_shared_by_the_windows_of_the_tiles_in_flight():
    def spare(**changes):
        given = {"whole_bytes": 0, "budget_bytes": 1000, "tiles_at_once": 2, "n_stacks": 1} | changes
        return share_spare_bytes(400, **given) - SAMPLES_IN_MEMORY_BYTES

    assert spare() == 100
    assert spare(n_stacks=2) == 50  # the images and a guide
    assert spare(whole_bytes=200) == spare(budget_bytes=800) == 0  # images that are decoded as a whole come first
    assert spare(budget_bytes=600) == 0  # never less than the least


def test_images_that_must_be_decoded_as_a_whole_count_against_the_budget():
    check_whole_images(900, tile_bytes=100, budget_bytes=1000, name="a.jpg")
    check_whole_images(10**12, tile_bytes=100, budget_bytes=None, name="a.jpg")
    check_whole_images(0, tile_bytes=100, budget_bytes=50, name="a.tif")  # that not even a tile fits is said elsewhere

    with pytest.raises(InvalidConfigError, match=r"a.jpg can only be decoded as a whole, which needs 3 MB: raise it to 3MB"):
        check_whole_images(2 * 10**6, tile_bytes=10**6, budget_bytes=10**6, name="a.jpg")
