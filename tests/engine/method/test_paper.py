"""The rule `paper` on whole windows: maps, scales, preferences, pixels that images lack, memory, and the contract."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.method import paper
from qmcif_engine.method.paper import RULE
from qmcif_engine.method.patches import pad_to_grid, spread_patches, sum_patches
from qmcif_engine.rules import StackStatistics, TileSteps
from qmcif_engine.stack.window import Window
from tests.scenes import ArrayPlanes

SHAPE = (72, 90)
CONFIG = FusionConfig().replaced({"n_groups": 3, "detail_patch_px": 7})


def stack(n_images, shape=SHAPE, *, channels=(3,), seed=0):
    """Images of a texture, each sharp in its own columns and blurred elsewhere; and which one is sharp in each column."""
    sharp = np.random.default_rng(seed).uniform(0, 255, (*shape, *channels))
    blurred = ndimage.gaussian_filter(sharp, (2.5, 2.5, *(0 for _ in channels)))
    owner = np.arange(shape[1]) * n_images // shape[1]
    images = [np.where((owner == number).reshape(-1, *(1 for _ in channels)), sharp, blurred) for number in range(n_images)]
    return [np.rint(image).astype(np.uint8) for image in images], np.broadcast_to(owner, shape)


def decide(images, config=CONFIG, *, core=None, masks=None, steps=None, with_position=False):
    planes = ArrayPlanes(np.moveaxis(np.array(images).reshape(len(images), *images[0].shape[:2], -1), -1, 1), masks=masks)
    statistics = StackStatistics(n_images=len(images), is_ordered=True)
    return RULE.decide(planes, core or planes.window, statistics, config, with_position=with_position, steps=steps or TileSteps())


def compose(images, decision, config=CONFIG, *, inner=None):
    window = decision.window
    parts = [image[window.slices] for image in images]
    return RULE.compose(parts, decision, inner=inner or Window.whole(window.shape), noise=0.0, config=config)


@pytest.mark.parametrize("result", ["base", "detail", "refined"])
def test_result_is_that_of_the_scale_asked_for(result):
    images, _ = stack(2, seed=2)
    images = [np.rint(image * 0.1 + 100).astype(np.uint8) for image in images]  # faint, so that the scales differ
    decision = decide(images, CONFIG.replaced({"result": result}))
    is_base, is_detail = (decision.index == decision.maps[name] for name in ("base_map", "detail_map"))

    assert (is_base | is_detail).all()
    if result != "refined":
        assert (is_base if result == "base" else is_detail).all()
    assert (len(decision.blend.band) == 0) == (result == "base")


def test_image_gives_no_pixel_that_it_may_not_give_while_another_may():
    images, _ = stack(3)
    generator = np.random.default_rng(5)
    masks = [ndimage.zoom(generator.random((8, 10)), 9, order=0) < 0.6 for _ in images]
    decision = decide(images, masks=masks)
    somebody = np.any(masks, axis=0)
    # marked samples are seen in a mean, however small their share
    marked = [np.where(mask[..., None], 0, 1e6) * np.ones(3) for mask in masks]

    for index in (decision.index, decision.maps["base_map"]):
        assert np.take_along_axis(np.stack(masks), index[None].astype(int), axis=0)[0][somebody].all()
    assert compose(marked, decision)[somebody].max() == 0
    # a base patch gives all its pixels
    lacking = [sum_patches(pad_to_grid((~mask).astype(np.float32), patch_px=8), patch_px=8) for mask in masks]
    has_patch = np.stack([spread_patches(number == 0, shape=SHAPE, patch_px=8) for number in lacking])
    from_whole = np.take_along_axis(has_patch, decision.maps["base_map"][None].astype(int), axis=0)[0]
    assert from_whole[has_patch.any(axis=0)].all()
    assert not somebody.all()


@pytest.mark.parametrize("is_low_rank", [False, True])
def test_memory_stays_below_what_the_rule_states(is_low_rank, monkeypatch):
    """Of an image in several parts, and of levels of which most wait in the file."""
    images, _ = stack(3, (150, 160))
    config = CONFIG.replaced({"is_low_rank": is_low_rank, "tile_px": 192})
    monkeypatch.setattr(paper, "LEVELS_IN_MEMORY_BYTES", 150 * 160 * 4)
    decide(images, config)  # what is loaded once
    tracemalloc.start()
    decide(images, config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < RULE.working_bytes(config, 150 * 160, 3) < 4 * peak


@pytest.mark.parametrize("flip", [(1, 1), (-1, 1), (1, -1)])
def test_pixels_beyond_the_reach_do_not_matter(flip):
    """But for the solve, which forgets what is `SOLVE_MARGIN_PX` away and has its own margin here: the low-rank term is off."""
    images, _ = stack(2, (130, 140), seed=3)
    config = CONFIG.replaced({"is_low_rank": False, "iterations": 1})
    reach = RULE.reach_px(config, (130, 140))
    core = Window(*(0, 0), 130 - reach - 8, 140 - reach - 8)
    changed = [image.copy() for image in images]
    for image in changed:
        image[core.bottom + reach :, :], image[:, core.right + reach :] = 0, 255
    images, changed = ([np.ascontiguousarray(image[:: flip[0], :: flip[1]]) for image in one] for one in (images, changed))
    first, second = (decide(one, config).index[:: flip[0], :: flip[1]][core.slices] for one in (images, changed))

    assert reach == 24 + 3 + 1 + 4 * 3  # all stages in a row

    assert (first != second).mean() < 1e-3


@pytest.mark.parametrize(
    ("n_images", "channels", "changes"),
    [
        *(
            (2, (3,), changes)
            for changes in ({}, {"weights": "equal"}, {"similarity": "scalar"}, {"base_patch_px": 5}, {"is_low_rank": False})
        ),
        (3, (), {}),
        (3, (3,), {}),
    ],
)
def test_each_pixel_away_from_edges_is_copied_from_its_sharp_image(n_images, channels, changes):
    images, owner = stack(n_images, channels=channels)
    config, counted = CONFIG.replaced(changes), []

    decision = decide(images, config, with_position=True, steps=TileSteps(report_image=lambda: counted.append(None)))
    fused = compose(images, decision, config)

    is_inside = ndimage.maximum_filter(owner, 25) == ndimage.minimum_filter(owner, 25)  # no patch reaches across
    for index in (decision.index, *decision.maps.values()):
        np.testing.assert_array_equal(index[is_inside], owner[is_inside])
        assert index.dtype == np.uint16
    np.testing.assert_array_equal(fused[is_inside], np.stack(images)[owner, *np.indices(SHAPE)][is_inside])
    assert decision.confidence[is_inside].min() > 0.5
    assert set(decision.maps) == {"base_map", "detail_map"}
    assert np.abs(decision.position - decision.index).max() <= 0.5
    assert len(counted) == n_images


def test_core_of_a_window_has_the_decisions_of_the_whole_one_and_levels_in_a_file_change_nothing(monkeypatch):
    images, _ = stack(3)
    core, inner = Window(10, 17, 60, 70), Window(3, 4, 30, 31)
    whole = decide(images, with_position=True)
    monkeypatch.setattr(paper, "LEVELS_IN_MEMORY_BYTES", 1)
    part = decide(images, core=core, with_position=True)

    assert part.window == core
    for one, other in ((whole.index, part.index), (whole.confidence, part.confidence), (whole.position, part.position)):
        np.testing.assert_array_equal(one[core.slices], other)
    np.testing.assert_array_equal(compose(images, whole)[core.slices], compose(images, part))
    np.testing.assert_array_equal(compose(images, part)[inner.slices], compose(images, part, inner=inner))


@pytest.mark.parametrize(("preference", "winner"), [("none", 2), ("front", 0), ("back", 2)])  # a tie goes to the last
@pytest.mark.parametrize("is_flat", [False, True])
def test_identical_images_fuse_to_themselves_and_the_preferred_end_wins(preference, winner, is_flat):
    image = np.full((9, 5, 3), 77, np.uint8) if is_flat else stack(1)[0][0]
    decision = decide([image] * 3, CONFIG.replaced({"preference": preference}), with_position=True)

    np.testing.assert_array_equal(compose([image] * 3, decision), image)
    assert np.isfinite(decision.position).all()
    assert is_flat or (decision.index == winner).all()
    assert preference != "none" or np.allclose(decision.confidence, 0.5, rtol=0, atol=1e-6)


def test_work_ends_where_it_is_cancelled():
    with pytest.raises(InterruptedError):
        decide(stack(2, (24, 24))[0], steps=TileSteps(check_cancelled=mock.Mock(side_effect=[None] * 8 + [InterruptedError])))
