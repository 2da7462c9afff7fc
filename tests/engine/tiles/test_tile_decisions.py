"""Decisions on a tile do not depend on what else is asked for, nor on the parts they are drawn in."""

import numpy as np
import pytest

from qmcif_engine import FusionConfig, fuse, make_focus_stack
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.method.focus import WHOLE_IMAGE
from qmcif_engine.stack.noise import adapt_to_noise
from qmcif_engine.stack.samples import settle_focus_range
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.stages import plan_geometry
from qmcif_engine.tiles.tile_decisions import TileDecisions
from qmcif_engine.tiles.window_images import WindowImages

SHAPE = (104, 136)
QUESTIONS = [
    {"with_maps": True},
    {"keep_layers": True},
    {"with_position": True},
    {"with_maps": True, "keep_layers": True, "with_position": True},
]


@pytest.fixture(scope="module", params=[(2, True), (2, False), (5, True)], ids=["color pair", "gray pair", "color stack"])
def images(request):
    n_images, is_color = request.param
    return make_focus_stack(n_images=n_images, shape=SHAPE, is_color=is_color).images


@pytest.fixture(scope="module")
def plain_result(images):
    return fuse(images)


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_picture_does_not_depend_on_what_else_is_asked_for(images, plain_result, question):
    result = fuse(images, **question)

    np.testing.assert_array_equal(result.fused, plain_result.fused)
    np.testing.assert_array_equal(result.source_index, plain_result.source_index)
    np.testing.assert_array_equal(result.confidence, plain_result.confidence)
    assert (result.base_map is not None) == (result.detail_map is not None) == ("with_maps" in question)
    assert bool(result.layers) == ("keep_layers" in question)
    assert (result.position is not None) == ("with_position" in question)


def test_nothing_is_given_that_was_not_asked_for(plain_result):
    assert plain_result.base_map is plain_result.detail_map is plain_result.position is None
    assert plain_result.layers == ()


def test_maps_and_layers_that_were_asked_for_are_whole(images):
    result = fuse(images, with_maps=True, keep_layers=True)

    for index in (result.base_map, result.detail_map):
        assert index.shape == SHAPE
        assert index.dtype == np.uint16
        assert index.max() < len(images)
    assert [layers.detail.shape for layers in result.layers] == [(3, *SHAPE)] * len(images)


def test_paper_preset_gives_the_same_picture_with_and_without_maps(images):
    config = PRESETS["paper"].replaced({"is_low_rank": False, "iterations": 3, "tolerance": 0.0})

    plain, with_maps = fuse(images, config), fuse(images, config, with_maps=True)

    np.testing.assert_array_equal(plain.fused, with_maps.fused)
    np.testing.assert_array_equal(plain.source_index, with_maps.source_index)
    assert plain.base_map is None
    assert with_maps.base_map is not None


@pytest.mark.parametrize("n_images", [2, 5])
def test_same_stack_gives_the_same_bytes_again_whatever_the_number_of_workers(n_images):
    images = make_focus_stack(n_images=n_images, shape=(200, 264)).images
    config = FusionConfig().replaced({"tile_px": 128})

    first, second = fuse(images, config, workers=1), fuse(images, config, workers=2)

    for name in ("fused", "source_index", "confidence"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def decisions_on(images, config, **changes):
    stack = ArrayStack(list(images))
    shape = images[0].shape[:2]
    options = {
        "config": config,
        "images": WindowImages(stack, Window.whole(shape)),
        "focus_range": settle_focus_range(list(images)),
        "borders": WHOLE_IMAGE,
        "adaptation": adapt_to_noise(0.0, config, n_images=len(images)),
        "geometry": plan_geometry(shape, config),
        "with_position": False,
        "check_cancelled": lambda: None,
        "report_image": lambda: None,
    }
    return TileDecisions(**(options | changes))


@pytest.mark.parametrize("core", [Window(0, 0, 200, 264), Window(16, 24, 184, 240)])
def test_parts_cover_the_core_once_and_see_more_than_themselves(core):
    images = make_focus_stack(shape=(200, 264)).images
    times = np.zeros((200, 264), int)

    for part in decisions_on(images, FusionConfig().replaced({"tile_px": 128}), with_position=True).decide(core, None):
        times[part.window.slices] += 1
        assert part.blend.source_index.shape == part.confidence.shape == part.position.shape == part.window.shape
        assert part.seen.common(part.window) == part.window

    assert (times[core.slices] == 1).all()
    assert times.sum() == core.shape[0] * core.shape[1]


LEAST_AGREEMENT = 0.999
"""Share of pixels: what lies farther from a part than it sees matters to its edges by rare chains only."""


def test_parts_are_decided_like_the_whole():
    shape = (200, 264)
    images = make_focus_stack(shape=shape).images
    config = FusionConfig()
    index = np.empty(shape, int)

    whole = next(iter(decisions_on(images, config).decide(Window.whole(shape), None)))
    cut = FusionConfig().replaced({"tile_px": 128})
    for part in decisions_on(images, cut, geometry=plan_geometry(shape, config)).decide(Window.whole(shape), None):
        index[part.window.slices] = part.blend.source_index

    assert whole.window == Window.whole(shape)
    assert np.mean(index == whole.blend.source_index) >= LEAST_AGREEMENT


def test_position_lies_between_the_neighbors_of_the_image_chosen():
    images = make_focus_stack(n_images=5, shape=SHAPE).images

    result = fuse(images, with_position=True)

    assert 0 <= result.position.min() <= result.position.max() <= 4
    assert np.median(np.abs(result.position - result.source_index)) <= 0.5


def test_decisions_are_cancelled_between_parts():
    images = make_focus_stack(shape=(200, 264)).images
    calls = []

    def cancel_late():
        calls.append(1)
        if len(calls) > 6:
            raise InterruptedError

    config = FusionConfig().replaced({"tile_px": 128})
    decisions = decisions_on(images, config, check_cancelled=cancel_late)

    with pytest.raises(InterruptedError):
        list(decisions.decide(Window.whole((200, 264)), None))
