"""Borders that fade to black in some of the images only, and how they are kept out of the fused image."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import fuse, read_image
from qmcif_engine.cleanup.dark_border import (
    DARK_LOSS,
    FADING_LOSS,
    LARGEST_DIFFERENCE,
    PEDESTAL_LEVEL,
    REACH_PX,
    REFERENCE_PX,
    SMALLEST_MULTIPLE,
    border_brightness,
    exclude_dark_borders,
    find_dark_borders,
    seen_from,
    sight_across,
)
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.method.focus import WHOLE_IMAGE, Borders
from qmcif_engine.stack.exposure import CorrectedStack, ExposureCorrection
from qmcif_engine.stack.samples import PlaneStack, settle_focus_range
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.tiles.stages import decide, measure_focus, plan_geometry

SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"
SHAPE = (96, 120)
DEPTH = 4
SIDES = Borders._fields


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


class CountedBlocks(Sequence):
    """Blocks made when they are asked for, which is counted."""

    def __init__(self, make, n_images):
        self.asked_for, self._make, self._n_images = [], make, n_images

    def __len__(self):
        return self._n_images

    def __getitem__(self, number):
        if not 0 <= number < self._n_images:
            raise IndexError(number)
        self.asked_for.append(number)
        return self._make(number)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("shares", [(0.0,), (0.5, 0.8), (0.2, 0.4, 0.6), (0.1, 0.3, 0.5, 0.7)])
def test_a_dark_border_in_one_of_two_images_is_found_with_exactly_its_depth(side, shares):
    scene = texture()

    found = find_dark_borders([darkened(scene, side, shares), blurred(scene)], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels(side, len(shares)))
    assert found.validity(1).all()


def test_borders_on_several_sides_are_found_together():
    scene = texture()
    first = darkened(darkened(scene, "top", (0.1, 0.5)), "right", (0.3,))

    found = find_dark_borders([first, darkened(scene, "left", (0.2, 0.2, 0.2))], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("top", 2) | border_pixels("right", 1))
    np.testing.assert_array_equal(~found.validity(1), border_pixels("left", 3))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("depth", [1, 2, DEPTH])
def test_a_border_as_deep_as_is_looked_for_is_found_and_a_deeper_one_is_a_dark_part_of_the_scene(side, depth):
    scene = texture()

    found = find_dark_borders([darkened(scene, side, [0.1] * depth), scene], depth_px=depth)

    np.testing.assert_array_equal(~found.validity(0), border_pixels(side, depth))
    for deeper in (depth + 1, depth + REFERENCE_PX // 2):
        assert find_dark_borders([darkened(scene, side, [0.1] * deeper), scene], depth_px=depth) is None


@pytest.mark.parametrize("side", SIDES)
def test_an_image_that_is_brighter_at_its_border_makes_no_border_of_the_others(side):
    scene = texture() / 2
    brighter = darkened(scene, side, (1.8, 1.6, 1.4))
    profile, _ = border_brightness(brighter, side, depth_px=DEPTH)
    assert profile[0].min() > 1 / (1 - DARK_LOSS)

    assert find_dark_borders([scene, brighter], depth_px=DEPTH) is None
    found = find_dark_borders([scene, brighter, darkened(scene, side, (0.3,))], depth_px=DEPTH)
    assert found.validity(0).all()
    np.testing.assert_array_equal(~found.validity(2), border_pixels(side, 1))


def test_a_border_is_found_only_where_enough_brightness_is_lost():
    flat = np.full((3, *SHAPE), 200, np.float32)
    pedestal_share = 208 / 200  # what is added before the division takes its part of the loss
    just_enough, too_little = (1 - (DARK_LOSS + more) * pedestal_share for more in (0.01, -0.01))

    assert find_dark_borders([darkened(flat, "top", (too_little,)), flat], depth_px=DEPTH) is None
    assert find_dark_borders([darkened(flat, "top", (just_enough,)), flat], depth_px=DEPTH) is not None


def test_a_border_ends_where_little_brightness_is_lost_even_if_more_is_lost_further_in():
    flat = np.full((3, *SHAPE), 200, np.float32)
    faint = 1 - FADING_LOSS + 0.02

    found = find_dark_borders([darkened(flat, "left", (0.2, faint, 0.5)), flat], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("left", 1))


def test_a_thin_border_before_a_dark_contour_of_the_scene_is_found_without_the_contour():
    scene = 180 + texture() / 8

    thin = find_dark_borders([darkened(scene, "top", (0.1, 0.1, 0.75, 0.75, 0.75, 0.85)), scene], depth_px=DEPTH)
    thick = find_dark_borders([darkened(scene, "top", (0.1, 0.1, 0.1, 0.75, 0.75, 0.85)), scene], depth_px=DEPTH)

    np.testing.assert_array_equal(~thin.validity(0), border_pixels("top", 2))
    assert thick is None  # too deep to be told from a dark part of the scene


def test_a_border_along_a_part_of_a_side_is_found_there_only():
    shape = (96, 400)
    scene = texture(shape)
    first = np.where(np.arange(400) < 200, darkened(scene, "bottom", (0.0, 0.2)), scene)

    is_missing = ~find_dark_borders([first, scene], depth_px=DEPTH).validity(0)

    np.testing.assert_array_equal(is_missing[:, : 200 - REACH_PX], border_pixels("bottom", 2, shape)[:, : 200 - REACH_PX])
    assert not is_missing[:, 200 + REACH_PX :].any()


@pytest.mark.parametrize("side", SIDES)
def test_a_border_in_all_images_alike_is_nobodys(side):
    scene = texture()
    shares = (0.2, 0.5, 0.7)

    assert find_dark_borders([darkened(scene, side, shares), darkened(blurred(scene), side, shares)], depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
def test_a_dark_line_of_the_scene_that_both_images_show_is_kept(side):
    scene = darkened(texture(), side, (0.3, 0.3, 0.3))

    assert find_dark_borders([scene, blurred(scene, 1.0)], depth_px=DEPTH) is None


@pytest.mark.parametrize("seed", range(5))
def test_textured_borders_of_ordinary_pictures_are_untouched(seed):
    scene = texture(seed=seed)
    noise = np.random.default_rng(seed).normal(scale=10, size=(2, *scene.shape)).astype(np.float32)

    assert find_dark_borders([scene + noise[0], blurred(scene, 3.0) + noise[1]], depth_px=DEPTH) is None


def test_noise_on_a_dark_background_decides_nothing():
    images = [np.random.default_rng(seed).exponential(1, (3, *SHAPE)).astype(np.float32) for seed in range(2)]
    images[0][:, 0] = 0

    assert find_dark_borders(images, depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("level", [0.0, 20.0, 255.0])
def test_a_blank_image_of_another_brightness_takes_nothing_from_the_dark_edges_of_the_others(side, level):
    scene = darkened(texture(), side, (0.3, 0.5, 0.8))
    blank = np.full((3, *SHAPE), level, np.float32)

    assert find_dark_borders([scene, blank, blurred(scene, 1.0)], depth_px=DEPTH) is None


def test_a_blank_image_hides_no_border_that_another_image_proves():
    scene = texture()

    found = find_dark_borders([darkened(scene, "top", (0.1, 0.5)), np.full_like(scene, 255), scene], depth_px=DEPTH)

    np.testing.assert_array_equal(~found.validity(0), border_pixels("top", 2))
    assert found.validity(1).all()
    assert found.validity(2).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_an_image_proves_a_border_only_if_it_is_about_as_bright_as_most(sign):
    flat = np.full((3, *SHAPE), 150, np.float32)
    bordered = darkened(flat, "left", (0.2,))

    def borders_beside(difference):
        brightness = (1 + sign * difference) * (150 + PEDESTAL_LEVEL) - PEDESTAL_LEVEL
        return find_dark_borders([bordered, bordered, np.full_like(flat, brightness)], depth_px=DEPTH)

    found = borders_beside(LARGEST_DIFFERENCE - 0.01)
    np.testing.assert_array_equal(~found.validity(0), border_pixels("left", 1))
    assert found.validity(2).all()
    assert borders_beside(LARGEST_DIFFERENCE + 0.01) is None


def test_what_is_usual_is_settled_place_by_place_along_the_border():
    shape = (96, 400)
    scene = np.full((3, *shape), 150, np.float32)
    bordered = darkened(scene, "top", (0.2,))
    half_blank = np.where(np.arange(400) < 200, scene, np.float32(30))

    is_missing = ~find_dark_borders([bordered, bordered, half_blank], depth_px=DEPTH).validity(0)

    np.testing.assert_array_equal(is_missing[:, : 200 - REACH_PX], border_pixels("top", 1, shape)[:, : 200 - REACH_PX])
    assert not is_missing[:, 200 + REACH_PX :].any()


def test_images_of_different_exposure_are_compared_fairly():
    scene = texture() * np.float32(0.8)

    assert find_dark_borders([scene, scene * np.float32(0.5)], depth_px=DEPTH) is None


@pytest.mark.parametrize("level", [-(2.0**16), -8.0, 0.0, 2.0**16])
def test_samples_far_off_the_scale_are_no_trouble(level):
    images = [texture(), np.full((3, *SHAPE), level, np.float32)]

    assert find_dark_borders(images, depth_px=DEPTH) is None


def test_one_glaring_pixel_does_not_make_the_other_image_look_dark():
    scene = texture()
    glaring = scene.copy()
    glaring[:, 0, 60] = 2.0**16

    assert find_dark_borders([glaring, scene], depth_px=DEPTH) is None


@pytest.mark.parametrize("side", SIDES)
def test_a_side_of_the_block_that_is_no_border_of_the_image_is_not_looked_at(side):
    scene = texture()
    blocks = [darkened(scene, side, (0.0, 0.3)), scene]

    assert find_dark_borders(blocks, depth_px=DEPTH, borders=WHOLE_IMAGE._replace(**{side: False})) is None
    assert find_dark_borders(blocks, depth_px=DEPTH, borders=Borders(*(name == side for name in SIDES))) is not None


ENOUGH_ACROSS = sight_across(DEPTH)
ENOUGH_ALONG = 2 * REACH_PX + 1


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
    assert SMALLEST_MULTIPLE * (DEPTH + REFERENCE_PX) == ENOUGH_ACROSS < ENOUGH_ALONG
    scene = texture(shape)

    found = find_dark_borders([darkened(darkened(scene, "top", (0.0,)), "left", (0.0,)), scene], depth_px=DEPTH)

    assert (set() if found is None else found.strips[0].keys()) == sides


def test_a_tiny_block_has_no_borders():
    assert find_dark_borders([np.zeros((3, 1, 1), np.float32), np.full((3, 1, 1), 255, np.float32)], depth_px=DEPTH) is None


def test_a_depth_of_zero_looks_at_no_image():
    blocks = CountedBlocks(lambda _: texture(), 2)

    assert find_dark_borders(blocks, depth_px=0) is None
    assert blocks.asked_for == []


def test_several_images_are_each_compared_with_the_brightest():
    scene = texture()
    blocks = [darkened(scene, "top", (0.1,)), blurred(scene), darkened(scene, "top", (0.3, 0.6)), darkened(scene, "left", (0.2,))]

    found = find_dark_borders(blocks, depth_px=DEPTH)

    for number, expected in enumerate([("top", 1), ("top", 0), ("top", 2), ("left", 1)]):
        np.testing.assert_array_equal(~found.validity(number), border_pixels(*expected))


def test_one_image_without_a_border_is_enough_among_many_with_one():
    scene = texture()

    found = find_dark_borders([darkened(scene, "top", (0.0,))] * 5 + [scene], depth_px=DEPTH)

    assert [found.validity(number)[0].any() for number in range(6)] == [False] * 5 + [True]


@pytest.mark.parametrize("seed", range(4))
def test_along_a_side_every_pixel_is_left_to_one_image_at_least(seed):
    generator = np.random.default_rng(seed)
    blocks = [darkened(texture(seed=number), "top", generator.random(DEPTH)) for number in range(3)]

    found = find_dark_borders(blocks, depth_px=DEPTH, borders=Borders(top=True, left=False, bottom=False, right=False))

    assert found is not None
    assert np.any([found.validity(number) for number in range(3)], axis=0).all()


def test_a_deep_stack_is_gone_through_once_and_only_strips_are_kept():
    scene = texture()
    n_images = 40
    blocks = CountedBlocks(lambda number: scene if number % 2 else darkened(scene, "left", (0.1, 0.3)), n_images)

    found = find_dark_borders(blocks, depth_px=DEPTH)

    assert blocks.asked_for == list(range(n_images))
    assert [{side: strip.shape for side, strip in strips.items()} for strips in found.strips] == [{"left": (DEPTH, SHAPE[0])}, {}] * 20
    assert all(strip.base is None for strips in found.strips for strip in strips.values())  # no view that keeps more alive


def test_the_same_blocks_give_the_same_borders_and_stay_as_they_are():
    blocks = [darkened(texture(), "right", (0.4, 0.62)), blurred(texture())]
    before = [block.copy() for block in blocks]

    first, second = (find_dark_borders(blocks, depth_px=DEPTH) for _ in range(2))

    np.testing.assert_array_equal(first.validity(0), second.validity(0))
    np.testing.assert_array_equal(blocks, before)


def test_a_tile_finds_what_the_whole_image_has_as_far_as_the_reach_goes():
    scene = texture((96, 300))
    blocks = [darkened(scene, "top", (0.5, 0.7, 0.9)), np.where(np.arange(300) < 140, blurred(scene), scene / 2)]
    blocks[1] = np.where(np.arange(300) > 220, darkened(blocks[1], "top", (0.5,)), blocks[1])
    whole = find_dark_borders(blocks, depth_px=DEPTH)

    tile = find_dark_borders([block[:, :, 70:260] for block in blocks], depth_px=DEPTH, borders=Borders(left=False, right=False))

    inner = slice(REACH_PX, 190 - REACH_PX)
    assert 0 < np.count_nonzero(~whole.validity(0)[0]) < 300
    for number in range(2):
        np.testing.assert_array_equal(tile.validity(number)[:, inner], whole.validity(number)[:, 70:260][:, inner])


@pytest.mark.parametrize("depth", [1, 2, DEPTH])
def test_the_profile_is_the_brightness_over_that_of_the_rows_further_in_and_goes_one_row_farther_than_a_border(depth):
    block = texture((60, 70))

    profile, reference = border_brightness(block, "bottom", depth_px=depth)

    assert (profile.shape, reference.shape) == ((depth + 1, 70), (70,))
    assert profile.dtype == reference.dtype == np.float32
    rows = np.pad(block.mean(axis=0, dtype=float)[::-1][: depth + REFERENCE_PX], ((0, 0), (REACH_PX, REACH_PX)), mode="symmetric")
    for column in (0, 35, 69):
        level = rows[:, column : column + 2 * REACH_PX + 1].mean(axis=1) + PEDESTAL_LEVEL
        np.testing.assert_allclose(profile[:, column], level[: depth + 1] / level[depth:].mean(), rtol=1e-6)
        np.testing.assert_allclose(reference[column], level[depth:].mean(), rtol=1e-6)


def test_images_that_were_aligned_keep_what_is_known_of_their_pixels():
    scene = texture()
    blocks = CountedBlocks(lambda number: scene if number else darkened(scene, "top", (0.0,)), 2)

    def known(_):
        return np.ones(SHAPE, bool)

    assert exclude_dark_borders(known, blocks, depth_px=DEPTH) is known
    assert blocks.asked_for == []


def test_where_nothing_is_found_every_image_has_all_pixels():
    scene = texture()

    assert exclude_dark_borders(None, [scene, blurred(scene)], depth_px=DEPTH) is None


def test_the_fused_picture_takes_nothing_from_a_border():
    scene = texture()
    is_left = np.arange(SHAPE[1]) < SHAPE[1] // 2
    first = darkened(np.where(is_left, scene, blurred(scene)), "left", (0.2, 0.5, 0.7))
    blocks, config = [first, np.where(is_left, blurred(scene), scene)], FusionConfig()
    geometry = plan_geometry(SHAPE, config)

    validity = exclude_dark_borders(None, blocks, depth_px=DEPTH)
    levels = measure_focus(blocks, config, geometry=geometry, validity=validity)
    index = decide(blocks, levels, geometry=geometry, config=config, validity=validity).blend.source_index

    assert (index[:, :3] == 1).all()
    assert np.mean(index[:, 20:50] == 0) > 0.95


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared pictures are not beside this checkout")
def test_the_dark_left_columns_of_a_published_picture_are_found():
    images = [read_image(SHARED_DATA / "mffw" / f"06_{letter}.png").samples for letter in "ab"]
    blocks = PlaneStack(images, settle_focus_range(images), representation=FusionConfig().focus.representation)

    found = find_dark_borders(blocks, depth_px=DEPTH)

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
    images = [np.rint(np.moveaxis(planes, 0, -1)).astype(np.uint8) for planes in (0.5 * blurred(sharp), bordered)]
    correction = ExposureCorrection(gains=((2.0,) * 3, (1.0,) * 3), offsets=((0.0,) * 3,) * 2, reference=1)

    result = fuse(CorrectedStack(ArrayStack(images), correction))

    assert (result.source_index[:, :3] == 0).all()
    assert (result.source_index == 1).mean() > 0.9
