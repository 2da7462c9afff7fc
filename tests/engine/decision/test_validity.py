"""Which pixels an image may give: ends of frames, and borders that fade to black in some of the images only."""

from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import fuse, read_image
from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig, Representation
from qmcif_engine.decision import validity
from qmcif_engine.decision.validity import ALONG_PX, FRAME_END_PX, PEDESTAL_LEVEL, REFERENCE_PX, SIDES, FrameEnds, seen_from
from qmcif_engine.stack.alignment.transforms import TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.exposure import ExposureCorrection, correct_stack
from qmcif_engine.stack.samples import measure_focus_range, to_planes
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.window import Window
from tests import scenes

SHARED_DATA = Path(__file__).parents[4] / "shared" / "data"
SHAPE = (96, 120)
LONG = (96, 400)
DEPTH = 4
each_side = pytest.mark.parametrize("side", SIDES)


def texture(shape=SHAPE, *, seed=0):
    return np.stack([scenes.texture(shape, seed=3 * seed + channel, contrast=40, level=128) for channel in range(3)])


def flat(level, shape=SHAPE):
    return np.full((3, *shape), level, np.float32)


def blurred(planes, deviation=2.0):
    return ndimage.gaussian_filter(planes, (0, deviation, deviation), mode="reflect")


def darkened(planes, *borders):
    """A copy in which the outermost rows of some sides keep shares of their brightness."""
    result = planes.copy()
    for side, shares in borders:
        seen_from(result, side)[:, : len(shares)] *= np.asarray(shares, planes.dtype)[:, np.newaxis]
    return result


def border_pixels(*borders, shape=SHAPE):
    """True in so many outermost rows of some sides."""
    pixels = np.zeros(shape, bool)
    for side, depth in borders:
        seen_from(pixels, side)[:depth] = True
    return pixels


def look(blocks, *, depth_px=DEPTH, ends=(True,) * 4):
    """Dark borders of whole blocks."""

    def read(number, window):
        return blocks[number][:, *window.slices]

    return validity.find_dark_borders(read, blocks[0].shape[1:], n_images=len(blocks), depth_px=depth_px, ends=ends)


def missing(found, number):
    return ~found(number, Window.whole(found.shape))


@each_side
@pytest.mark.parametrize("shares", [(0.0,), (0.5, 0.8), (0.2, 0.4, 0.6), (0.1, 0.3, 0.5, 0.7)])
def test_a_dark_border_in_one_of_two_images_is_found_with_exactly_its_depth(side, shares):
    blocks = [darkened(texture(), (side, shares)), blurred(texture())]
    before = [block.copy() for block in blocks]

    found = look(blocks)

    np.testing.assert_array_equal(missing(found, 0), border_pixels((side, len(shares))))
    assert not missing(found, 1).any()
    np.testing.assert_array_equal(blocks, before)
    # strips only, and no view that keeps more alive
    assert [[strip.base for strip in strips.values()] for strips in found.strips] == [[None], []]
    for is_this in (True, False):
        assert (look(blocks, ends=[(name == side) is is_this for name in SIDES]) is not None) is is_this


SCENE = texture()
BRIGHTER = darkened(SCENE, ("top", (1.3, 1.3, 1.2)))


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (
            [darkened(SCENE, ("top", (0.1, 0.5)), ("right", (0.3,))), darkened(SCENE, ("left", (0.2,) * 3))],
            [[("top", 2), ("right", 1)], [("left", 3)]],
        ),
        (
            [darkened(SCENE, ("top", (0.1,))), blurred(SCENE), darkened(SCENE, ("top", (0.3, 0.6))), darkened(SCENE, ("left", (0.2,)))],
            [[("top", 1)], [], [("top", 2)], [("left", 1)]],
        ),
        ([darkened(SCENE, ("top", (0.0,)))] * 5 + [SCENE], [[("top", 1)]] * 5 + [[]]),
        # a blank image hides no border that another one proves, and one with a brighter border makes none of the others
        ([darkened(SCENE, ("top", (0.1, 0.5))), flat(255), SCENE], [[("top", 2)], [], []]),
        ([SCENE, BRIGHTER, darkened(SCENE, ("left", (0.3,)))], [[], [], [("left", 1)]]),
        # a thin border before a dark contour of the scene
        ([darkened(180 + SCENE / 8, ("top", (0.1, 0.1, 0.75, 0.75, 0.75, 0.85))), 180 + SCENE / 8], [[("top", 2)], []]),
        # it ends where little is lost, even if more is lost further in
        ([darkened(flat(200), ("left", (0.2, 1.02 - validity.FADING_LOSS, 0.5))), flat(200)], [[("left", 1)], []]),
    ],
)
def test_dark_borders_of_several_images_are_found_by_comparison(blocks, expected):
    found = look(blocks)

    for number, borders in enumerate(expected):
        np.testing.assert_array_equal(missing(found, number), border_pixels(*borders))


DARK_EDGE = darkened(SCENE, ("top", (0.3, 0.5, 0.8)))
GLARING = SCENE.copy()
GLARING[:, 0, 60] = 2.0**16


def noise(seed, scale=10.0, shape=(3, *SHAPE)):
    return np.random.default_rng(seed).normal(scale=scale, size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([DARK_EDGE, darkened(blurred(SCENE), ("top", (0.3, 0.5, 0.8)))], id="in all images alike"),
        pytest.param(
            [darkened(SCENE, ("left", (0.3,) * 3)), blurred(darkened(SCENE, ("left", (0.3,) * 3)), 1.0)], id="a line of the scene"
        ),
        pytest.param([darkened(SCENE, ("top", (0.1,) * (DEPTH + 1))), SCENE], id="deeper than is looked for"),
        pytest.param([darkened(SCENE, ("top", (0.1,) * (DEPTH + 4))), SCENE], id="a dark part of the scene"),
        pytest.param([darkened(180 + SCENE / 8, ("top", (0.1, 0.1, 0.1, 0.75, 0.75, 0.85))), 180 + SCENE / 8], id="a thick contour"),
        pytest.param([SCENE + noise(0), blurred(SCENE, 3.0) + noise(1)], id="noisy texture"),
        pytest.param([SCENE, BRIGHTER], id="a brighter border"),
        *(pytest.param([DARK_EDGE, flat(level), blurred(DARK_EDGE, 1.0)], id=f"blank {level}") for level in (0, 20, 255)),
        *(pytest.param([SCENE, flat(level)], id=f"far off the scale {level}") for level in (-(2.0**16), -8.0, 2.0**16)),
        pytest.param([0.8 * SCENE, 0.4 * SCENE], id="another exposure"),
        pytest.param([GLARING, SCENE], id="one glaring pixel"),
        pytest.param([np.maximum(noise(0, 1), 0) * border_pixels(("bottom", 95)), np.maximum(noise(1, 1), 0)], id="a dark background"),
        pytest.param([flat(0, (1, 1)), flat(255, (1, 1))], id="tiny"),
    ],
)
def test_what_is_dark_for_another_reason_is_no_border(blocks):
    assert look(blocks) is None
    assert look([darkened(SCENE, ("top", (0.1,))), None], depth_px=0) is None


@pytest.mark.parametrize("more", [-0.01, 0.01])
def test_a_border_needs_enough_loss_and_an_image_that_proves_it_must_be_about_as_bright_as_most(more):
    loss = (validity.DARK_LOSS + more) * (200 + PEDESTAL_LEVEL) / 200
    assert (look([darkened(flat(200), ("top", (1 - loss,))), flat(200)]) is not None) is (more > 0)
    bordered = darkened(flat(150), ("left", (0.2,)))
    for sign in (-1, 1):
        level = (1 + sign * (validity.LARGEST_DIFFERENCE + more)) * (150 + PEDESTAL_LEVEL) - PEDESTAL_LEVEL
        assert (look([bordered, bordered, flat(level)]) is not None) is (more < 0)


IS_LEFT = np.arange(400) < 200
EDGED = darkened(flat(150, LONG), ("top", (0.2,)))


@pytest.mark.parametrize(
    "blocks",
    # a border in a part of a side; a border that only a part of the side proves
    [[np.where(IS_LEFT, EDGED, flat(150, LONG)), flat(150, LONG)], [EDGED, EDGED, np.where(IS_LEFT, flat(150, LONG), flat(30, LONG))]],
)
def test_a_border_is_found_place_by_place_along_a_side(blocks):
    is_missing = missing(look(blocks), 0)

    np.testing.assert_array_equal(is_missing[:, : 200 - ALONG_PX], border_pixels(("top", 1), shape=LONG)[:, : 200 - ALONG_PX])
    assert not is_missing[:, 200 + ALONG_PX :].any()


ENOUGH_ACROSS, ENOUGH_ALONG = validity.SMALLEST_MULTIPLE * (DEPTH + REFERENCE_PX), 2 * ALONG_PX + 1


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((ENOUGH_ALONG, ENOUGH_ALONG), {"top", "left"}),
        ((ENOUGH_ALONG, ENOUGH_ACROSS), {"left"}),
        ((ENOUGH_ALONG - 1, ENOUGH_ALONG), {"top"}),
        ((ENOUGH_ACROSS - 1, ENOUGH_ALONG), set()),
        ((ENOUGH_ALONG - 1, ENOUGH_ALONG - 1), set()),
    ],
)
def test_sides_that_are_short_or_have_little_picture_behind_them_are_not_looked_at(shape, sides):
    found = look([darkened(texture(shape), ("top", (0.0,)), ("left", (0.0,))), texture(shape)])

    assert (set() if found is None else found.strips[0].keys()) == sides


@pytest.mark.parametrize("seed", range(3))
def test_along_a_side_every_pixel_is_left_to_one_image_at_least(seed):
    generator = np.random.default_rng(seed)
    found = look(
        [darkened(texture(seed=number), ("top", generator.random(DEPTH))) for number in range(3)], ends=(True, False, False, False)
    )

    assert not np.all([missing(found, number) for number in range(3)], axis=0).any()


def test_a_tile_finds_what_the_whole_image_has_as_far_as_the_reach_goes():
    scene, columns = texture((96, 300)), np.arange(300)
    blocks = [darkened(scene, ("top", (0.5, 0.7, 0.9))), np.where(columns < 140, blurred(scene), scene / 2)]
    blocks[1] = np.where(columns > 220, darkened(blocks[1], ("top", (0.5,))), blocks[1])

    whole, tile = look(blocks), look([block[:, :, 70:260] for block in blocks], ends=(True, False, True, False))

    inner = slice(ALONG_PX, 190 - ALONG_PX)
    assert 0 < np.count_nonzero(missing(whole, 0)[0]) < 300
    for number in range(2):
        np.testing.assert_array_equal(missing(tile, number)[:, inner], missing(whole, number)[:, 70:260][:, inner])


@pytest.mark.parametrize("depth", [1, DEPTH])
def test_the_profile_is_the_brightness_over_that_of_the_rows_further_in_and_goes_one_row_farther_than_a_border(depth):
    block = texture((60, 70))

    profile, reference = validity.border_brightness(block, "bottom", depth_px=depth)

    assert (profile.shape, reference.shape) == ((depth + 1, 70), (70,))
    rows = np.pad(block.mean(axis=0, dtype=float)[::-1][: depth + REFERENCE_PX], ((0, 0), (ALONG_PX, ALONG_PX)), mode="symmetric")
    for column in (0, 35, 69):
        level = rows[:, column : column + 2 * ALONG_PX + 1].mean(axis=1) + PEDESTAL_LEVEL
        np.testing.assert_allclose(profile[:, column], level[: depth + 1] / level[depth:].mean(), rtol=1e-6)
        np.testing.assert_allclose(reference[column], level[depth:].mean(), rtol=1e-6)


@pytest.mark.parametrize("gain", [1.0, 2.0])
def test_the_fused_picture_takes_nothing_from_a_border_even_if_exposure_is_evened_out(gain):
    images = [
        np.rint(np.moveaxis(planes, 0, -1)).astype(np.uint8) for planes in (blurred(SCENE) / gain, darkened(SCENE, ("left", (0, 0, 0.2))))
    ]
    correction = ExposureCorrection(gains=((gain,) * 3, (1.0,) * 3), offsets=((0.0,) * 3,) * 2, reference=1)

    index = fuse(correct_stack(stack_arrays(images), correction)).source_index

    assert (index[:, :3] == 0).all()
    assert (index == 1).mean() > 0.9


@pytest.mark.shared
@pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared pictures are not beside this checkout")
def test_the_dark_left_columns_of_a_published_picture_are_found():
    images = [read_image(SHARED_DATA / "mffw" / f"06_{letter}.png").samples for letter in "ab"]
    bounds = measure_focus_range(images)

    found = look([to_planes(image, bounds, representation=Representation.QUATERNION) for image in images])

    assert [set(strips) for strips in found.strips] == [{"left"}, set()]
    depth = np.count_nonzero(found.strips[0]["left"], axis=0)
    assert not depth[:483].any()  # the background is dark there
    assert (depth[483:] > 0).all()
    # contours of the scene, blurred in the other image, make the border look deeper in a few rows
    assert set(np.flatnonzero(depth > 1)) == {*range(579, 584), *range(777, 868)}
    assert set(np.flatnonzero(depth > 2)) == {*range(580, 584), *range(830, 836)}


# --- ends of frames ---

FRAME = (120, 160)
SHIFT_PX = 30
STEP = 24
CUT = FusionConfig().replaced({"blend_px": 0, "feather_px": 0})


def paint(*, contrast):
    """A blurred image of the whole picture, and a sharp and brighter one that ends at column 30 of it."""
    sharp = 110 + contrast * ndimage.gaussian_filter(np.random.default_rng(3).normal(0, 1, FRAME), 0.8)
    return np.stack([np.rint(picture).astype(np.uint8) for picture in (ndimage.gaussian_filter(sharp, 3), sharp + STEP)])


@pytest.mark.parametrize("contrast", [40, 6])
def test_a_frame_that_ends_shows_no_line_and_samples_stay_near_the_range_of_the_images_that_have_the_pixel(contrast):
    """Detail is copied, and brightness that would jump is spread: a dark detail can get darker than in either image, but not by much."""
    images = paint(contrast=contrast)
    matrices = (((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 0, -SHIFT_PX), (0, 1, 0), (0, 0, 1)))
    transforms = Transforms(model=TransformModel.TRANSLATION, reference=0, image_shape=FRAME, matrices=matrices)

    result = fuse(align_stack(stack_arrays([images[0], np.roll(images[1], -SHIFT_PX, axis=1)]), transforms))

    assert (result.source_index[:, :SHIFT_PX] == 0).all()
    np.testing.assert_array_equal(result.fused[:, :SHIFT_PX], images[0][:, :SHIFT_PX])
    assert np.mean(result.source_index[:, SHIFT_PX + 2 * FRAME_END_PX :] == 1) > 0.9
    # the brightness of columns changes from one to the next as in the image itself
    steps, own = (
        np.abs(np.diff(each.mean(axis=0)))[SHIFT_PX - 5 : SHIFT_PX + 3 * FRAME_END_PX].max() for each in (result.fused, images[1])
    )
    assert steps < own + STEP / 6
    low, high = (edge(axis=0)[:, SHIFT_PX:].astype(int) for edge in (images.min, images.max))
    beyond = np.maximum(low - result.fused[:, SHIFT_PX:], result.fused[:, SHIFT_PX:] - high)
    assert beyond.max() < STEP / 2
    assert np.mean(beyond > 0) < 0.01


@pytest.mark.parametrize("value", [0, 255])
def test_samples_that_an_image_lacks_decide_nothing(value):
    """Nor are they copied. A wide blend shows a trace of them unless they repeat the edge of the frame, as in aligned images."""
    images = paint(contrast=40)
    other, repeated = images.copy(), images.copy()
    other[1, :, :SHIFT_PX] = value
    repeated[1, :, :SHIFT_PX] = images[1, :, SHIFT_PX : SHIFT_PX + 1]

    one, two = (fuse(scenes.lacking_stack(each, (0, SHIFT_PX)), CUT) for each in (images, other))
    blended, close, far = (fuse(scenes.lacking_stack(each, (0, SHIFT_PX))) for each in (images, repeated, other))

    np.testing.assert_array_equal(two.source_index, one.source_index)
    np.testing.assert_array_equal(two.fused, one.fused)
    np.testing.assert_array_equal(far.source_index, blended.source_index)
    assert np.abs(close.fused.astype(int) - blended.fused).max() <= 1
    # hard cuts have no ends
    assert np.mean(one.source_index[:, SHIFT_PX : SHIFT_PX + FRAME_END_PX] == 1) > 0.9
    assert [validity.frame_end_px(config) for config in (DecisionConfig(), CUT.decision)] == [FRAME_END_PX, 0]


def test_an_image_is_chosen_as_far_from_its_end_as_the_reach_in_whatever_window():
    """Frames of three images, none of which covers the image, and which all lack one corner."""
    has = np.zeros((3, *FRAME), bool)
    has[0, 10:100, :90], has[1, :, 60:150], has[2, 30:, 5:] = True, True, True
    has[:, :20, 140:] = False
    far = np.stack([ndimage.minimum_filter(plane, 2 * FRAME_END_PX + 1, mode="nearest") for plane in has])
    is_covered = far.any(axis=0)
    assert 0.5 < is_covered.mean() < 1

    for window in (Window.whole(FRAME), Window(0, 0, 60, 70), Window(33, 57, 41, 99), Window(95, 110, 120, 160), Window(19, 139, 20, 140)):
        ends = FrameEnds(lambda number, part: has[number][part.slices], window, n_images=3, shape=FRAME, reach_px=FRAME_END_PX)
        for number in range(3):
            expected = np.where(is_covered, far[number], has[number])[window.slices]
            part = Window(window.shape[0] // 3, window.shape[1] // 4, *window.shape)
            np.testing.assert_array_equal(ends(number, Window.whole(window.shape)), expected)
            np.testing.assert_array_equal(ends(number, part), expected[part.slices])
