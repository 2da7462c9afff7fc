"""Which pixels an image may give: ends of frames, and borders that fade to black in some of the images only."""

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import fuse, read_image
from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig, Representation
from qmcif_engine.decision.validity import (
    ALONG_PX,
    DARK_LOSS,
    FADING_LOSS,
    FRAME_END_PX,
    LARGEST_DIFFERENCE,
    PEDESTAL_LEVEL,
    REFERENCE_PX,
    SIDES,
    SMALLEST_MULTIPLE,
    FrameEnds,
    border_brightness,
    find_dark_borders,
    frame_end_px,
    seen_from,
)
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.exposure import ExposureCorrection, correct_stack
from qmcif_engine.stack.samples import measure_focus_range, to_planes
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window

SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"
SHAPE = (96, 120)
DEPTH = 4
ALL_SIDES = (True,) * 4


def texture(shape=SHAPE, *, seed=0):
    """Ordinary color texture on the 0-255 scale, no row of it like the next."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(3, *shape)), (0, 0.8, 0.8))
    return np.clip(128 + 40 * noise / noise.std(), 0, 255).astype(np.float32)


def blurred(planes, deviation=2.0):
    return ndimage.gaussian_filter(planes, (0, deviation, deviation), mode="reflect")


def darkened(planes, side, shares):
    """A copy whose outermost rows keep these shares of their brightness."""
    result = planes.copy()
    seen_from(result, side)[:, : len(shares)] *= np.asarray(shares, planes.dtype)[:, np.newaxis]
    return result


def border_pixels(side, depth, shape=SHAPE):
    """True in the outermost rows of one side."""
    pixels = np.zeros(shape, bool)
    seen_from(pixels, side)[:depth] = True
    return pixels


class Found:
    """Dark borders of whole blocks."""

    def __init__(self, borders):
        self.strips, self._borders = borders.strips, borders

    def validity(self, number):
        return self._borders(number, Window.whole(self._borders.shape))


def look(blocks, *, depth_px=4, ends=ALL_SIDES):
    found = find_dark_borders(
        lambda number, window: blocks[number][:, *window.slices],
        blocks[0].shape[1:],
        n_images=len(blocks),
        depth_px=depth_px,
        ends=ends,
    )
    return None if found is None else Found(found)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("shares", [(0.0,), (0.5, 0.8), (0.2, 0.4, 0.6), (0.1, 0.3, 0.5, 0.7)])
def test_a_dark_border_in_one_of_two_images_is_found_with_exactly_its_depth(side, shares):
    scene = texture()

    found = look([darkened(scene, side, shares), blurred(scene)], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels(side, len(shares)))
    assert found.validity(1).all()


def test_borders_on_several_sides_are_found_together():
    scene = texture()
    first = darkened(darkened(scene, "top", (0.1, 0.5)), "right", (0.3,))

    found = look([first, darkened(scene, "left", (0.2, 0.2, 0.2))], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("top", 2) | border_pixels("right", 1))
    np.testing.assert_array_equal(~found.validity(1), border_pixels("left", 3))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("depth", [1, 2, DEPTH])
def test_a_border_as_deep_as_is_looked_for_is_found_and_a_deeper_one_is_a_dark_part_of_the_scene(side, depth):
    scene = texture()

    found = look([darkened(scene, side, [0.1] * depth), scene], depth_px=depth)

    np.testing.assert_array_equal(~found.validity(0), border_pixels(side, depth))
    for deeper in (depth + 1, depth + REFERENCE_PX // 2):
        assert look([darkened(scene, side, [0.1] * deeper), scene], depth_px=depth) is None


@pytest.mark.parametrize("side", SIDES)
def test_an_image_that_is_brighter_at_its_border_makes_no_border_of_the_others(side):
    scene = texture() / 2
    brighter = darkened(scene, side, (1.8, 1.6, 1.4))
    profile, _ = border_brightness(brighter, side, depth_px=DEPTH)
    assert profile[0].min() > 1 / (1 - DARK_LOSS)

    assert look([scene, brighter], depth_px=DEPTH) is None
    found = look([scene, brighter, darkened(scene, side, (0.3,))], depth_px=DEPTH)
    assert found.validity(0).all()
    np.testing.assert_array_equal(~found.validity(2), border_pixels(side, 1))


def test_a_border_is_found_only_where_enough_brightness_is_lost():
    flat = np.full((3, *SHAPE), 200, np.float32)
    pedestal_share = 208 / 200  # what is added before the division takes its part of the loss
    just_enough, too_little = (1 - (DARK_LOSS + more) * pedestal_share for more in (0.01, -0.01))

    assert look([darkened(flat, "top", (too_little,)), flat], depth_px=DEPTH) is None
    assert look([darkened(flat, "top", (just_enough,)), flat], depth_px=DEPTH) is not None


def test_a_border_ends_where_little_brightness_is_lost_even_if_more_is_lost_further_in():
    flat = np.full((3, *SHAPE), 200, np.float32)
    faint = 1 - FADING_LOSS + 0.02

    found = look([darkened(flat, "left", (0.2, faint, 0.5)), flat], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("left", 1))


def test_a_thin_border_before_a_dark_contour_of_the_scene_is_found_without_the_contour():
    scene = 180 + texture() / 8

    thin = look([darkened(scene, "top", (0.1, 0.1, 0.75, 0.75, 0.75, 0.85)), scene], depth_px=DEPTH)
    thick = look([darkened(scene, "top", (0.1, 0.1, 0.1, 0.75, 0.75, 0.85)), scene], depth_px=DEPTH)

    np.testing.assert_array_equal(~thin.validity(0), border_pixels("top", 2))
    assert thick is None  # too deep to be told from a dark part of the scene


def test_a_border_along_a_part_of_a_side_is_found_there_only():
    shape = (96, 400)
    scene = texture(shape)
    first = np.where(np.arange(400) < 200, darkened(scene, "bottom", (0.0, 0.2)), scene)

    is_missing = ~look([first, scene], depth_px=DEPTH).validity(0)

    np.testing.assert_array_equal(is_missing[:, : 200 - ALONG_PX], border_pixels("bottom", 2, shape)[:, : 200 - ALONG_PX])
    assert not is_missing[:, 200 + ALONG_PX :].any()


@pytest.mark.parametrize("side", SIDES)
def test_a_border_in_all_images_alike_is_nobodys(side):
    scene = texture()
    shares = (0.2, 0.5, 0.7)

    assert look([darkened(scene, side, shares), darkened(blurred(scene), side, shares)], depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
def test_a_dark_line_of_the_scene_that_both_images_show_is_kept(side):
    scene = darkened(texture(), side, (0.3, 0.3, 0.3))

    assert look([scene, blurred(scene, 1.0)], depth_px=DEPTH) is None


@pytest.mark.parametrize("seed", range(5))
def test_textured_borders_of_ordinary_pictures_are_untouched(seed):
    scene = texture(seed=seed)
    noise = np.random.default_rng(seed).normal(scale=10, size=(2, *scene.shape)).astype(np.float32)

    assert look([scene + noise[0], blurred(scene, 3.0) + noise[1]], depth_px=DEPTH) is None


def test_noise_on_a_dark_background_decides_nothing():
    images = [np.random.default_rng(seed).exponential(1, (3, *SHAPE)).astype(np.float32) for seed in range(2)]
    images[0][:, 0] = 0

    assert look(images, depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("level", [0.0, 20.0, 255.0])
def test_a_blank_image_of_another_brightness_takes_nothing_from_the_dark_edges_of_the_others(side, level):
    scene = darkened(texture(), side, (0.3, 0.5, 0.8))
    blank = np.full((3, *SHAPE), level, np.float32)

    assert look([scene, blank, blurred(scene, 1.0)], depth_px=DEPTH) is None


def test_a_blank_image_hides_no_border_that_another_image_proves():
    scene = texture()

    found = look([darkened(scene, "top", (0.1, 0.5)), np.full_like(scene, 255), scene], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("top", 2))
    assert found.validity(1).all()
    assert found.validity(2).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_image_proves_a_border_only_if_it_is_about_as_bright_as_most(sign):
    flat = np.full((3, *SHAPE), 150, np.float32)
    bordered = darkened(flat, "left", (0.2,))

    def borders_beside(difference):
        brightness = (1 + sign * difference) * (150 + PEDESTAL_LEVEL) - PEDESTAL_LEVEL
        return look([bordered, bordered, np.full_like(flat, brightness)], depth_px=DEPTH)

    found = borders_beside(LARGEST_DIFFERENCE - 0.01)
    np.testing.assert_array_equal(~found.validity(0), border_pixels("left", 1))
    assert found.validity(2).all()
    assert borders_beside(LARGEST_DIFFERENCE + 0.01) is None


def test_what_is_usual_is_settled_place_by_place_along_the_border():
    shape = (96, 400)
    scene = np.full((3, *shape), 150, np.float32)
    bordered = darkened(scene, "top", (0.2,))
    half_blank = np.where(np.arange(400) < 200, scene, np.float32(30))

    is_missing = ~look([bordered, bordered, half_blank], depth_px=DEPTH).validity(0)

    np.testing.assert_array_equal(is_missing[:, : 200 - ALONG_PX], border_pixels("top", 1, shape)[:, : 200 - ALONG_PX])
    assert not is_missing[:, 200 + ALONG_PX :].any()


def test_images_of_different_exposure_are_compared_fairly():
    scene = texture() * np.float32(0.8)

    assert look([scene, scene * np.float32(0.5)], depth_px=DEPTH) is None


@pytest.mark.parametrize("level", [-(2.0**16), -8.0, 0.0, 2.0**16])
def test_samples_far_off_the_scale_are_no_trouble(level):
    images = [texture(), np.full((3, *SHAPE), level, np.float32)]

    assert look(images, depth_px=DEPTH) is None


def test_one_glaring_pixel_does_not_make_the_other_image_look_dark():
    scene = texture()
    glaring = scene.copy()
    glaring[:, 0, 60] = 2.0**16

    assert look([glaring, scene], depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
def test_a_side_of_the_block_that_is_no_border_of_the_image_is_not_looked_at(side):
    scene = texture()
    blocks = [darkened(scene, side, (0.0, 0.3)), scene]

    assert look(blocks, depth_px=DEPTH, ends=[name != side for name in SIDES]) is None
    assert look(blocks, depth_px=DEPTH, ends=[name == side for name in SIDES]) is not None


ENOUGH_ACROSS = SMALLEST_MULTIPLE * (DEPTH + REFERENCE_PX)
ENOUGH_ALONG = 2 * ALONG_PX + 1


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((ENOUGH_ALONG, ENOUGH_ALONG), {"top", "left"}),
        ((ENOUGH_ALONG, ENOUGH_ACROSS), {"left"}),
        ((ENOUGH_ALONG, ENOUGH_ALONG - 1), {"left"}),
        ((ENOUGH_ALONG - 1, ENOUGH_ALONG), {"top"}),
        ((ENOUGH_ACROSS, ENOUGH_ALONG), {"top"}),
        ((ENOUGH_ACROSS - 1, ENOUGH_ALONG), set()),
        ((ENOUGH_ALONG - 1, ENOUGH_ALONG - 1), set()),
    ],
)
def test_sides_that_are_short_or_have_little_picture_behind_them_are_not_looked_at(shape, sides):
    assert ENOUGH_ACROSS < ENOUGH_ALONG
    scene = texture(shape)

    found = look([darkened(darkened(scene, "top", (0.0,)), "left", (0.0,)), scene], depth_px=DEPTH)

    assert (set() if found is None else found.strips[0].keys()) == sides


def test_a_tiny_block_has_no_borders():
    assert look([np.zeros((3, 1, 1), np.float32), np.full((3, 1, 1), 255, np.float32)], depth_px=DEPTH) is None


def test_a_depth_of_zero_looks_at_no_image():
    assert look([texture(), None], depth_px=0) is None


def test_several_images_are_each_compared_with_the_brightest():
    scene = texture()
    blocks = [darkened(scene, "top", (0.1,)), blurred(scene), darkened(scene, "top", (0.3, 0.6)), darkened(scene, "left", (0.2,))]

    found = look(blocks, depth_px=DEPTH)

    for number, expected in enumerate([("top", 1), ("top", 0), ("top", 2), ("left", 1)]):
        np.testing.assert_array_equal(~found.validity(number), border_pixels(*expected))


def test_one_image_without_a_border_is_enough_among_many_with_one():
    scene = texture()

    found = look([darkened(scene, "top", (0.0,))] * 5 + [scene], depth_px=DEPTH)

    assert [found.validity(number)[0].any() for number in range(6)] == [False] * 5 + [True]


@pytest.mark.parametrize("seed", range(4))
def test_along_a_side_every_pixel_is_left_to_one_image_at_least(seed):
    generator = np.random.default_rng(seed)
    blocks = [darkened(texture(seed=number), "top", generator.random(DEPTH)) for number in range(3)]

    found = look(blocks, depth_px=DEPTH, ends=(True, False, False, False))

    assert found is not None
    assert np.any([found.validity(number) for number in range(3)], axis=0).all()


def test_of_a_deep_stack_only_strips_are_kept():
    scene = texture()

    found = look([scene if number % 2 else darkened(scene, "left", (0.1, 0.3)) for number in range(40)])

    assert [{side: strip.shape for side, strip in strips.items()} for strips in found.strips] == [{"left": (DEPTH, SHAPE[0])}, {}] * 20
    assert all(strip.base is None for strips in found.strips for strip in strips.values())  # no view that keeps more alive


def test_the_same_blocks_give_the_same_borders_and_stay_as_they_are():
    blocks = [darkened(texture(), "right", (0.4, 0.62)), blurred(texture())]
    before = [block.copy() for block in blocks]

    first, second = (look(blocks, depth_px=DEPTH) for _ in range(2))

    np.testing.assert_array_equal(first.validity(0), second.validity(0))
    np.testing.assert_array_equal(blocks, before)


def test_a_tile_finds_what_the_whole_image_has_as_far_as_the_reach_goes():
    scene = texture((96, 300))
    blocks = [darkened(scene, "top", (0.5, 0.7, 0.9)), np.where(np.arange(300) < 140, blurred(scene), scene / 2)]
    blocks[1] = np.where(np.arange(300) > 220, darkened(blocks[1], "top", (0.5,)), blocks[1])
    whole = look(blocks, depth_px=DEPTH)

    tile = look([block[:, :, 70:260] for block in blocks], depth_px=DEPTH, ends=(True, False, True, False))

    inner = slice(ALONG_PX, 190 - ALONG_PX)
    assert 0 < np.count_nonzero(~whole.validity(0)[0]) < 300
    for number in range(2):
        np.testing.assert_array_equal(tile.validity(number)[:, inner], whole.validity(number)[:, 70:260][:, inner])


@pytest.mark.parametrize("depth", [1, 2, DEPTH])
def test_the_profile_is_the_brightness_over_that_of_the_rows_further_in_and_goes_one_row_farther_than_a_border(depth):
    block = texture((60, 70))

    profile, reference = border_brightness(block, "bottom", depth_px=depth)

    assert (profile.shape, reference.shape) == ((depth + 1, 70), (70,))
    assert profile.dtype == reference.dtype == np.float32
    rows = np.pad(block.mean(axis=0, dtype=float)[::-1][: depth + REFERENCE_PX], ((0, 0), (ALONG_PX, ALONG_PX)), mode="symmetric")
    for column in (0, 35, 69):
        level = rows[:, column : column + 2 * ALONG_PX + 1].mean(axis=1) + PEDESTAL_LEVEL
        np.testing.assert_allclose(profile[:, column], level[: depth + 1] / level[depth:].mean(), rtol=1e-6)
        np.testing.assert_allclose(reference[column], level[depth:].mean(), rtol=1e-6)


def as_samples(planes):
    return np.rint(np.moveaxis(planes, 0, -1)).astype(np.uint8)


def test_the_fused_picture_takes_nothing_from_a_border():
    scene = texture()
    is_left = np.arange(SHAPE[1]) < SHAPE[1] // 2
    first = darkened(np.where(is_left, scene, blurred(scene)), "left", (0.2, 0.5, 0.7))

    index = fuse([as_samples(first), as_samples(np.where(is_left, blurred(scene), scene))]).source_index

    assert (index[:, :3] == 1).all()
    assert np.mean(index[:, 20:50] == 0) > 0.95


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared pictures are not beside this checkout")
def test_the_dark_left_columns_of_a_published_picture_are_found():
    images = [read_image(SHARED_DATA / "mffw" / f"06_{letter}.png").samples for letter in "ab"]
    bounds = measure_focus_range(images)
    blocks = [to_planes(image, bounds, representation=Representation.QUATERNION) for image in images]

    found = look(blocks, depth_px=DEPTH)

    assert [set(strips) for strips in found.strips] == [{"left"}, set()]
    depth = np.count_nonzero(found.strips[0]["left"], axis=0)
    assert not depth[:483].any()  # the background is dark there
    assert (depth[483:] > 0).all()
    # contours of the scene, blurred in the other image, make the border look deeper in a few rows
    assert set(np.flatnonzero(depth > 1)) == {*range(579, 584), *range(777, 868)}
    assert set(np.flatnonzero(depth > 2)) == {*range(580, 584), *range(830, 836)}
    assert found.validity(1).all()


def test_a_border_is_left_out_of_a_stack_that_was_evened_out_too():
    sharp = texture()
    bordered = darkened(sharp, "left", [0, 0, 0.2])
    images = [as_samples(planes) for planes in (0.5 * blurred(sharp), bordered)]
    correction = ExposureCorrection(gains=((2.0,) * 3, (1.0,) * 3), offsets=((0.0,) * 3,) * 2, reference=1)

    result = fuse(correct_stack(stack_arrays(images), correction))

    assert (result.source_index[:, :3] == 0).all()
    assert (result.source_index == 1).mean() > 0.9


# --- ends of frames ---

FRAME = (120, 160)
WHOLE = Window.whole(FRAME)
SHIFT_PX = 30
BRIGHTER = 24
REACH = FRAME_END_PX


def partly_valid(images, has):
    """Images that have some of their pixels only."""
    return stack_arrays(list(images)).replaced(find_valid=lambda number, window: has[number][window.slices])


def paint(*, contrast):
    """A blurred image of the whole picture, and a sharp and brighter one that ends at column 30 of it."""
    sharp = 110 + contrast * ndimage.gaussian_filter(np.random.default_rng(3).normal(0, 1, FRAME), 0.8)
    blurred = ndimage.gaussian_filter(sharp, 3)
    return [np.rint(picture).astype(np.uint8) for picture in (blurred, sharp + BRIGHTER)]


def shift(images):
    matrices = (((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 0, -SHIFT_PX), (0, 1, 0), (0, 0, 1)))
    moved = [images[0], np.roll(images[1], -SHIFT_PX, axis=1)]
    transforms = Transforms(model=TransformModel.TRANSLATION, reference=0, image_shape=FRAME, matrices=matrices)
    return align_stack(stack_arrays(moved), transforms)


def measure_steps(fused):
    """What the brightness of columns, averaged along them, changes by from one to the next."""
    return np.abs(np.diff(fused.astype(float).mean(axis=0)))


@pytest.mark.parametrize("contrast", [40, 6])
def test_a_frame_that_ends_shows_no_line(contrast):
    images = paint(contrast=contrast)
    stack = shift(images)
    np.testing.assert_array_equal(stack.read(1, WHOLE)[:, SHIFT_PX:], images[1][:, SHIFT_PX:])

    result = fuse(stack, FusionConfig())

    assert np.mean(result.source_index[:, SHIFT_PX + 2 * REACH :] == 1) > 0.9
    assert np.mean(result.source_index[:, :SHIFT_PX] == 0) == 1
    own = measure_steps(images[1])[SHIFT_PX - 5 : SHIFT_PX + 3 * REACH].max()
    assert measure_steps(result.fused)[SHIFT_PX - 5 : SHIFT_PX + 3 * REACH].max() < own + BRIGHTER / 6


def test_samples_leave_the_range_of_the_images_that_have_the_pixel_by_a_part_of_a_step_of_brightness_at_most():
    """Detail is copied, and brightness that would jump is spread: a dark detail can get darker than in either image, but not by much."""
    stack = shift(paint(contrast=40))
    images = np.stack([stack.read(number, WHOLE) for number in range(2)])
    has = np.stack([stack.valid(number, WHOLE) for number in range(2)])

    fused = fuse(stack, FusionConfig()).fused

    low, high = np.where(has, images, 255).min(axis=0).astype(int), np.where(has, images, 0).max(axis=0).astype(int)
    beyond = np.maximum(low - fused, fused - high)
    assert beyond.max() < BRIGHTER / 2
    assert np.mean(beyond > 0) < 0.01
    np.testing.assert_array_equal(fused[:, :SHIFT_PX], images[0][:, :SHIFT_PX])


@pytest.mark.parametrize("value", [0, 255])
def test_samples_that_an_image_lacks_decide_nothing(value):
    """Nor are they copied. A wide blend shows a trace of them unless they repeat the edge of the frame, as in aligned images."""
    images, has = np.stack(paint(contrast=40)), np.ones((2, *FRAME), bool)
    has[1, :, :SHIFT_PX] = False
    other, repeated = images.copy(), images.copy()
    other[1, :, :SHIFT_PX] = value
    repeated[1, :, :SHIFT_PX] = images[1, :, SHIFT_PX : SHIFT_PX + 1]

    cut = FusionConfig().replaced({"blend_px": 0, "feather_px": 0})
    one, two = (fuse(partly_valid(each, has), cut) for each in (images, other))
    blended, close, far = (fuse(partly_valid(each, has)) for each in (images, repeated, other))

    np.testing.assert_array_equal(two.source_index, one.source_index)
    np.testing.assert_array_equal(two.fused, one.fused)
    np.testing.assert_array_equal(far.source_index, blended.source_index)
    assert np.abs(close.fused.astype(int) - blended.fused).max() <= 1


def test_images_that_have_all_pixels_are_fused_as_if_nobody_had_asked():
    images = paint(contrast=40)
    images[1][:, :80] = ndimage.gaussian_filter(images[1][:, :80], 3)

    asked = fuse(partly_valid(images, np.ones((2, *FRAME), bool)), FusionConfig())
    not_asked = fuse(stack_arrays(images), FusionConfig())

    np.testing.assert_array_equal(asked.fused, not_asked.fused)
    np.testing.assert_array_equal(asked.source_index, not_asked.source_index)


def ends_of(has, window=WHOLE, *, reach_px=REACH):
    return FrameEnds(lambda number, part: has[number][part.slices], window, n_images=len(has), shape=FRAME, reach_px=reach_px)


def scatter_frames():
    """Frames of three images, none of which covers the image, and which all lack one corner."""
    has = np.zeros((3, *FRAME), bool)
    has[0, 10:100, :90], has[1, :, 60:150], has[2, 30:, 5:] = True, True, True
    has[:, :20, 140:] = False
    return has


def test_an_image_is_chosen_as_far_from_its_end_as_the_reach():
    has = scatter_frames()
    far = [ndimage.minimum_filter(plane, 2 * REACH + 1, mode="nearest") for plane in has]

    ends = ends_of(has)

    is_covered = np.logical_or.reduce(far)
    assert 0.5 < is_covered.mean() < 1
    for number in range(3):
        np.testing.assert_array_equal(ends(number, WHOLE), np.where(is_covered, far[number], has[number]))


def test_a_pixel_is_the_same_in_every_window():
    has = scatter_frames()
    whole = ends_of(has)
    for window in (Window(0, 0, 60, 70), Window(33, 57, 41, 99), Window(95, 110, 120, 160), Window(19, 139, 20, 140)):
        part = ends_of(has, window)
        for number in range(3):
            np.testing.assert_array_equal(part(number, Window.whole(window.shape)), whole(number, WHOLE)[window.slices])


def test_a_part_of_a_window_is_that_of_the_whole():
    has, window = scatter_frames(), Window(10, 20, 110, 150)
    ends, part = ends_of(has, window), Window(30, 40, 61, 93)

    for number in range(3):
        np.testing.assert_array_equal(ends(number, part), ends(number, Window.whole(window.shape))[part.slices])


def test_hard_cuts_have_no_ends():
    assert frame_end_px(DecisionConfig()) == FRAME_END_PX
    assert frame_end_px(DecisionConfig(blend_px=0, feather_px=0)) == 0
    images = paint(contrast=40)
    has = np.ones((2, *FRAME), bool)
    has[1, :, :SHIFT_PX] = False

    hard = fuse(partly_valid(images, has), FusionConfig().replaced({"blend_px": 0, "feather_px": 0}))

    assert np.mean(hard.source_index[:, SHIFT_PX : SHIFT_PX + REACH] == 1) > 0.9
