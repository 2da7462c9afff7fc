"""The rule `paper` on whole windows: maps, scales, preferences, pixels that images lack, memory, and the contract."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.method import paper
from qmcif_engine.method.paper import RULE
from qmcif_engine.method.patches import detail_patch_side
from qmcif_engine.rules import StackStatistics, TileSteps
from qmcif_engine.stack.window import Window

SHAPE = (72, 90)
CONFIG = FusionConfig().replaced({"n_groups": 3, "detail_patch_px": 7})


@dataclass
class WholePlanes:
    """The `qmcif_engine.rules.Planes` of a stack that is one tile."""

    images: list
    masks: list | None = None
    highest: float | None = 255.0

    def __post_init__(self):
        self.n_images, self.image_shape = len(self.images), self.images[0].shape[:2]
        self.n_planes = 1 if self.images[0].ndim == 2 else 3
        self.window = Window.whole(self.image_shape)

    def block(self, image, part=None):
        planes = self.images[image][None] if self.n_planes == 1 else np.moveaxis(self.images[image], -1, 0)
        return planes[:, *(part or self.window).slices].astype(np.float32)

    def choosable(self, image, part=None):
        return None if self.masks is None else self.masks[image][(part or self.window).slices]


def stack(n_images, shape=SHAPE, *, channels=(3,), seed=0):
    """Images of a texture, each sharp in its own columns and blurred elsewhere; and which one is sharp in each column."""
    sharp = np.random.default_rng(seed).uniform(0, 255, (*shape, *channels))
    blurred = ndimage.gaussian_filter(sharp, (2.5, 2.5, *(0 for _ in channels)))
    owner = np.arange(shape[1]) * n_images // shape[1]
    images = [np.where((owner == number).reshape(-1, *(1 for _ in channels)), sharp, blurred) for number in range(n_images)]
    return [np.rint(image).astype(np.uint8) for image in images], np.broadcast_to(owner, shape)


def decide(images, config=CONFIG, *, core=None, masks=None, steps=None, with_position=False):
    planes = WholePlanes(images, masks)
    statistics = StackStatistics(n_images=len(images), is_ordered=True)
    return RULE.decide(planes, core or planes.window, statistics, config, with_position=with_position, steps=steps or TileSteps())


def compose(images, decision, config=CONFIG, *, inner=None):
    window = decision.window
    parts = [image[window.slices] for image in images]
    return RULE.compose(parts, decision, inner=inner or Window.whole(window.shape), noise=0.0, config=config)


def inside(owner, *, px=8):
    """Pixels that lie so far from a change of owner that no patch reaches across."""
    return ndimage.maximum_filter(owner, 2 * px + 1) == ndimage.minimum_filter(owner, 2 * px + 1)


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("n_images", [2, 3])
def test_each_pixel_away_from_edges_is_copied_from_its_sharp_image(n_images, channels):
    images, owner = stack(n_images, channels=channels)
    decision = decide(images)
    is_inside = inside(owner, px=12)
    fused = compose(images, decision)

    for index in (decision.index, *decision.maps.values()):
        np.testing.assert_array_equal(index[is_inside], owner[is_inside])
        assert index.dtype == np.uint16
    rows, columns = np.nonzero(is_inside)
    np.testing.assert_array_equal(fused[is_inside], np.stack(images)[owner[is_inside], rows, columns])
    assert decision.confidence[is_inside].min() > 0.5
    assert set(decision.maps) == {"base_map", "detail_map"}


def test_gray_images_are_decided_on_as_color_images_of_equal_channels():
    images, _ = stack(2, channels=())
    gray, color = decide(images), decide([np.repeat(image[..., None], 3, axis=-1) for image in images])

    np.testing.assert_array_equal(gray.index, color.index)
    np.testing.assert_array_equal(gray.confidence, color.confidence)


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


def test_core_of_a_window_has_the_decisions_of_the_whole_one():
    images, _ = stack(3)
    core = Window(10, 17, 60, 70)
    whole, part = (decide(images, core=window, with_position=True) for window in (None, core))

    assert part.window == core
    for one, other in ((whole.index, part.index), (whole.confidence, part.confidence), (whole.position, part.position)):
        np.testing.assert_array_equal(one[core.slices], other)
    np.testing.assert_array_equal(compose(images, whole)[core.slices], compose(images, part))
    inner = Window(3, 4, 30, 31)
    np.testing.assert_array_equal(compose(images, part)[inner.slices], compose(images, part, inner=inner))


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
    assert not somebody.all()


@pytest.mark.parametrize(("preference", "winner"), [("front", 0), ("back", 2)])
def test_preferred_end_wins_where_images_are_about_equally_sharp(preference, winner):
    image = stack(1)[0][0]
    images = [image, image.copy(), image.copy()]

    assert (decide(images).index == 2).all()  # a tie goes to the last
    assert (decide(images, CONFIG.replaced({"preference": preference})).index == winner).all()


def test_identical_images_fuse_to_themselves_and_constant_ones_are_finite():
    image = stack(1)[0][0]
    flat = np.full((9, 5, 3), 77, np.uint8)

    for same in (image, flat):
        decision = decide([same, same.copy()], with_position=True)
        np.testing.assert_array_equal(compose([same, same], decision), same)
        np.testing.assert_allclose(decision.confidence, 0.5, rtol=0, atol=1e-6)
        assert np.isfinite(decision.position).all()


def test_position_lies_within_half_an_image_of_the_index_and_is_left_out_unless_asked_for():
    images, _ = stack(3)
    decision = decide(images, with_position=True)

    assert np.abs(decision.position - decision.index).max() <= 0.5
    assert decide(images).position is None


@pytest.mark.parametrize("changes", [{"weights": "equal"}, {"similarity": "scalar"}, {"base_patch_px": 5}, {"is_low_rank": False}])
def test_ablations_still_find_the_sharp_images(changes):
    images, owner = stack(2)
    decision = decide(images, CONFIG.replaced(changes))

    np.testing.assert_array_equal(decision.index[inside(owner, px=12)], owner[inside(owner, px=12)])


def test_levels_in_a_file_change_nothing(monkeypatch):
    images, _ = stack(3)
    expected = decide(images, with_position=True)
    monkeypatch.setattr(paper, "LEVELS_IN_MEMORY_BYTES", 1)
    decision = decide(images, with_position=True)

    np.testing.assert_array_equal(decision.index, expected.index)
    np.testing.assert_array_equal(decision.position, expected.position)


def test_steps_are_reported_image_by_image_and_can_end_the_work():
    class StoppedError(Exception):
        pass

    counted, checks = [], []

    def stop_later():
        checks.append(None)
        if len(checks) > 8:
            raise StoppedError

    images, _ = stack(2, (24, 24))
    decide(images, steps=TileSteps(report_image=lambda: counted.append(None)))
    with pytest.raises(StoppedError):
        decide(images, steps=TileSteps(check_cancelled=stop_later))

    assert len(counted) == 2


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
    first, second = (decide(one).index[:: flip[0], :: flip[1]][core.slices] for one in (images, changed))

    assert (first != second).mean() < 1e-3


def test_reach_is_that_of_all_stages_in_a_row():
    assert detail_patch_side(SHAPE, CONFIG.method) == 7
    assert RULE.reach_px(CONFIG, SHAPE) == 24 + 3 + 1 + 4 * 3
    assert not RULE.has_statistics
