"""Decisions cell by cell: near those made pixel by pixel, and with no image where it has no pixel."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import FusionConfig, fuse, make_focus_stack
from qmcif_engine.config.fusion_config import Representation, ResultScale
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import cell_grid, spread_cells
from qmcif_engine.method.focus_measures.decomposition_measure import average_detail
from qmcif_engine.method.focus_measures.focus_measure import MeasuringTask
from qmcif_engine.stack.noise import NoiseAdaptation
from qmcif_engine.stack.samples import PlaneStack, settle_focus_range
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.cell_stages import NEVER_CHOSEN, decide_cells, measure_cells
from qmcif_engine.tiles.stages import decide, draw_cells, measure_focus, plan_geometry
from qmcif_engine.tiles.tile_parts import cut_parts, decides_on_cells, in_cells, part_margin

LEAST_AGREEMENT = 0.97
"""Share of pixels that cells and pixels decide alike on a clean pair."""


def planes_of(images):
    return PlaneStack(images, settle_focus_range(images), representation=Representation.QUATERNION)


def measured(images, config, **options):
    shape = images[0].shape[:2]
    return measure_cells(planes_of(images), shape, config, detail_patch_px=plan_geometry(shape, config).detail_patch_px, **options)


def decided(images, levels, config):
    shape = images[0].shape[:2]
    side = plan_geometry(shape, config).detail_patch_px
    return decide_cells(planes_of(images), shape, levels, detail_patch_px=side, config=config)


@pytest.mark.parametrize("is_color", [True, False])
@pytest.mark.parametrize("shape", [(160, 200), (157, 203)])
def test_pixels_are_decided_as_they_are_pixel_by_pixel(shape, is_color):
    stack, config = make_focus_stack(shape=shape, is_color=is_color), FusionConfig()
    planes, geometry = planes_of(stack.images), plan_geometry(shape, config)

    levels = measured(stack.images, config)
    by_cell = draw_cells(planes, decided(stack.images, levels, config), levels, config=config)

    by_pixel = decide(planes, measure_focus(planes, config, geometry=geometry), geometry=geometry, config=config)
    assert by_cell.blend.source_index.shape == by_cell.confidence.shape == shape
    assert np.mean(by_cell.blend.source_index == by_pixel.blend.source_index) >= LEAST_AGREEMENT


@pytest.mark.parametrize("result", ResultScale)
def test_result_of_every_scale_is_near_the_truth(result):
    stack = make_focus_stack(shape=(128, 160))
    config = FusionConfig().replaced({"result": result.value})

    index = spread_cells(decided(stack.images, measured(stack.images, config), config).index, (128, 160))

    # truth and picture do not coincide next to edges of depth, where both images are blurred
    assert np.mean(index == stack.depth_index) >= 0.9


@pytest.mark.parametrize("n_images", [2, 5])
def test_levels_and_decisions_lie_on_the_grid(n_images):
    images, config = make_focus_stack(n_images=n_images, shape=(61, 75)).images, FusionConfig()

    levels = measured(images, config)
    decision = decided(images, levels, config)

    grid = cell_grid((61, 75))
    for base, detail, fine in zip(levels.base, levels.detail, levels.fine, strict=True):
        assert base.shape == (8, 10)  # base patches of 8 pixels
        assert detail.shape == fine.shape == grid
        assert min(base.min(), detail.min(), fine.min()) >= 0
    assert decision.index.shape == decision.confidence.shape == grid
    assert decision.index.dtype == np.uint16
    assert decision.index.max() < n_images
    assert 0 <= decision.confidence.min() <= decision.confidence.max() <= 1


def test_every_image_is_reported_once_it_is_measured():
    reports = []

    measured(make_focus_stack(n_images=6, shape=(64, 64)).images, FusionConfig(), report_image=lambda: reports.append(1))

    assert len(reports) == 6


@pytest.mark.parametrize("n_images", [2, 6])
def test_measuring_can_be_cancelled(n_images):
    def cancel():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        measured(make_focus_stack(n_images=n_images, shape=(64, 64)).images, FusionConfig(), check_cancelled=cancel)


@pytest.mark.parametrize("shape", [(5, 7), (300, 500), (333, 1111)])
def test_parts_cover_a_window_once_and_start_on_base_patches(shape):
    config = FusionConfig().replaced({"tile_px": 256})
    window = Window(8, 16, 8 + shape[0], 16 + shape[1])
    times = np.zeros((window.bottom, window.right), int)

    for part in cut_parts(window, config):
        times[part.slices] += 1
        assert (part.top - window.top) % 8 == (part.left - window.left) % 8 == 0

    assert (times[window.slices] == 1).all()
    assert times.sum() == shape[0] * shape[1]


def test_cells_of_a_window_hold_all_its_pixels():
    assert in_cells(Window(8, 16, 19, 21)) == Window(2, 4, 5, 6)


def test_measuring_part_by_part_is_measuring_the_whole():
    images = make_focus_stack(shape=(200, 260)).images
    whole, cut = FusionConfig(), FusionConfig().replaced({"tile_px": 128})
    assert len(cut_parts(Window(0, 0, 200, 260), whole)) == 1 < len(cut_parts(Window(0, 0, 200, 260), cut))

    levels, of_parts = measured(images, whole), measured(images, cut)

    for name in ("detail", "fine"):
        for level, other in zip(getattr(levels, name), getattr(of_parts, name), strict=True):
            # the solve forgets what lies beyond the margin of a part
            np.testing.assert_allclose(other, level, rtol=0, atol=1e-3 * level.max())


def test_cells_that_an_image_does_not_have_whole_have_no_level_and_are_never_chosen():
    images, config = make_focus_stack(n_images=3, shape=(64, 96)).images, FusionConfig()
    is_valid = np.ones((3, 64, 96), bool)
    is_valid[0, :, :30] = is_valid[2, 41:] = False

    levels = measured(images, config, validity=is_valid.__getitem__)
    index = decided(images, levels.without(is_valid.__getitem__), config).index

    assert (levels.detail[0][:, :8] == 0).all()  # the eighth cell is cut by the end of the frame
    assert (levels.fine[0][:, :8] == 0).all()
    assert (levels.base[0][:, :4] == NEVER_CHOSEN).all()
    assert (levels.detail[2][10:] == 0).all()
    assert levels.detail[0][:, 8:].min() >= 0
    assert (index[:, :7] != 0).all()
    assert (index[11:] != 2).all()


def test_levels_of_a_window_are_those_of_its_cells():
    images, config = make_focus_stack(n_images=2, shape=(64, 96)).images, FusionConfig()
    levels = measured(images, config).without(lambda number: np.full((64, 96), number == 1))

    cropped = levels.cropped(Window(2, 3, 9, 20))

    for name in ("detail", "fine", "is_whole"):
        for plane, other in zip(getattr(levels, name), getattr(cropped, name), strict=True):
            np.testing.assert_array_equal(other, plane[2:9, 3:20])


def test_spread_levels_have_no_steps_between_cells():
    images, config = make_focus_stack(shape=(62, 75)).images, FusionConfig()
    levels = measured(images, config)

    for level, spread in zip(levels.detail, levels.spread_detail((62, 75)), strict=True):
        assert spread.shape == (62, 75)
        step = np.abs(np.diff(level, axis=1)).max()
        assert np.abs(np.diff(spread, axis=1)).max() <= step / 2


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (FusionConfig(), True),
        (PRESETS["paper"], False),
        (FusionConfig().replaced({"consistency": 0.0}), False),
        (FusionConfig().replaced({"base_patch_px": 5}), False),
    ],
    ids=["default", "paper", "no consistency", "patches that are no cells"],
)
def test_cells_decide_where_decisions_fit_together_and_patches_consist_of_cells(config, expected):
    assert decides_on_cells(config) is expected


class CutStack(ArrayStack):
    """A stack whose images do not have all pixels, as aligned ones do not."""

    def __init__(self, images, is_valid):
        super().__init__(images)
        self.has_validity, self._is_valid = True, is_valid

    def valid(self, number, window):
        return self._is_valid[number][window.slices]


def continued(image, is_valid):
    """What warping leaves where an image ends at the right: the nearest sample, whose streaks have curvature."""
    n_columns = int(is_valid.any(axis=0).sum())
    return np.concatenate(
        [image[:, :n_columns], np.repeat(image[:, n_columns - 1 : n_columns], image.shape[1] - n_columns, axis=1)], axis=1
    )


@pytest.mark.parametrize("n_images", [2, 3, 9])
@pytest.mark.parametrize("is_blended", [True, False])
def test_no_image_is_chosen_where_it_has_no_pixel(n_images, is_blended):
    shape = (120, 168)
    images = make_focus_stack(n_images=n_images, shape=shape).images
    is_valid = np.ones((n_images, *shape), bool)
    for number in range(n_images - 1):  # the last image has all
        is_valid[number, :, shape[1] - 7 - 5 * number :] = False
    stack = CutStack([continued(image, valid) for image, valid in zip(images, is_valid, strict=True)], is_valid)
    config = FusionConfig() if is_blended else FusionConfig().replaced({"blend_radius_px": 0, "feather_px": 0})

    index = fuse(stack, config).source_index

    assert np.take_along_axis(is_valid, index[None].astype(int), axis=0).all()


@pytest.mark.parametrize("order", ["ordered", "none"])
def test_sharpest_of_those_that_have_the_pixels_is_chosen_however_sharp_others_are_beside_them(order):
    """Of a deep stack, images far from the sharpest are not measured; one without these pixels is not the sharpest here."""
    shape, n_images, n_cut, end = (160, 200), 10, 3, 160
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(*shape, 3)), (0.8, 0.8, 0))
    sharp = np.clip(128 + 45 * noise / noise.std(), 0, 255)
    is_valid = np.ones((n_images, *shape), bool)
    is_valid[:n_cut, :, end:] = False
    blurred = [ndimage.gaussian_filter(sharp, (0.7 * number, 0.7 * number, 0)).astype(np.uint8) for number in range(n_images)]
    stack = CutStack([continued(image, valid) for image, valid in zip(blurred, is_valid, strict=True)], is_valid)

    index = fuse(stack, FusionConfig().replaced({"order": order})).source_index

    assert (index[:, : end - 5 * CELL_PX] == 0).all()
    assert (index[:, end + CELL_PX :] == n_cut).all()


@pytest.mark.parametrize("preset", ["default", "fast"])
@pytest.mark.parametrize("blur_px", [0.0, 0.8, 3.0])
def test_the_margin_of_a_part_holds_all_that_its_cells_depend_on(preset, blur_px):
    shape, config = (200, 240), PRESETS[preset]
    task = MeasuringTask(detail_patch_px=11, adaptation=NoiseAdaptation(blur_px=blur_px))
    block = planes_of(make_focus_stack(shape=shape, seed=5).images)[0]
    part = Window(80, 96, 120, 136)
    near = part.grown(part_margin(config, task.adaptation), shape)

    whole = average_detail(task.adaptation.smooth(block), config, task)
    cut = average_detail(task.adaptation.smooth(np.ascontiguousarray(block[(slice(None), *near.slices)])), config, task)

    assert near.shape != shape
    for expected, found in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(found[in_cells(part.relative_to(near)).slices], expected[in_cells(part).slices])


def test_the_margin_of_a_part_is_no_larger_than_needed():
    assert part_margin(FusionConfig(), NoiseAdaptation()) == 24
    assert part_margin(FusionConfig(), NoiseAdaptation(blur_px=3.0)) == 32
