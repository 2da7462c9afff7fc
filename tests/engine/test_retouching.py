"""Fusing again where a person says so: blended like the engine, and nothing else changes."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import FusionConfig, InvalidImageError, fuse, make_focus_stack, open_stack, retouch, write_image
from qmcif_engine.decision import energy
from qmcif_engine.decision.composition import composition_reach_px
from qmcif_engine.rules import Decision
from qmcif_engine.stack.stack import sample_stack, stack_arrays
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.companions import measure_sample_noise
from tests.scenes import lacking_stack

CONFIG = FusionConfig()
REACH_PX = composition_reach_px(CONFIG.decision)


@pytest.fixture(scope="module")
def scene():
    return make_focus_stack(n_images=3, shape=(150, 180), seed=5)


@pytest.fixture(scope="module")
def result(scene):
    return fuse(scene.images, CONFIG)


@pytest.fixture
def labels():
    return np.zeros((150, 180), np.uint8)


def retouched(scene, result, labels, **further):
    arguments = {"fused": result.fused, "source_index": result.source_index, "focus_range": result.focus_range, "config": CONFIG}
    return retouch(list(scene.images), labels, **{**arguments, **further})


def painted_over(result, answer):
    """The whole picture and decisions after a stroke."""
    fused, index = result.fused.copy(), result.source_index.copy()
    fused[answer.window.slices], index[answer.window.slices] = answer.fused, answer.source_index
    return fused, index


def test_without_labels_the_picture_comes_back_bit_for_bit(scene, result, labels):
    answer = retouched(scene, result, labels)

    assert tuple(answer.window) == (0, 0, 150, 180)
    np.testing.assert_array_equal(answer.fused, result.fused)
    np.testing.assert_array_equal(answer.source_index, result.source_index)


def test_painting_what_the_engine_chose_changes_no_decision_inside_a_region(scene, result, labels):
    labels[:] = result.source_index + 1

    answer = retouched(scene, result, labels)

    is_same = answer.source_index == result.source_index
    assert is_same.mean() > 0.98
    changes = np.abs(answer.fused.astype(int) - result.fused)[is_same]
    assert np.percentile(changes, 99) <= 4


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_inside_of_a_stroke_is_the_chosen_image_bit_for_bit(scene, result, labels, number):
    labels[30:110, 40:140] = number

    answer = retouched(scene, result, labels, window=(30, 40, 110, 140))
    fused, index = painted_over(result, answer)

    inside = slice(30 + REACH_PX, 110 - REACH_PX), slice(40 + REACH_PX, 140 - REACH_PX)
    np.testing.assert_array_equal(fused[inside], scene.images[number - 1][inside])
    assert (index[inside] == number - 1).all()


def test_nothing_changes_beyond_the_reach_of_the_blend_around_a_stroke(scene, result, labels):
    labels[30:110, 40:140] = 2

    answer = retouched(scene, result, labels, window=(30, 40, 110, 140))
    fused, index = painted_over(result, answer)

    assert tuple(answer.window) == (30 - REACH_PX, 40 - REACH_PX, 110 + REACH_PX, 140 + REACH_PX)
    is_far = np.ones((150, 180), bool)
    is_far[answer.window.slices] = False
    np.testing.assert_array_equal(fused[is_far], result.fused[is_far])
    np.testing.assert_array_equal(index[is_far], result.source_index[is_far])


def test_a_stroke_is_composed_as_the_engine_composes(scene, result, labels):
    labels[30:110, 40:140] = 2
    index = np.where(labels > 0, labels - 1, result.source_index).astype(np.uint16)
    whole = Window.whole(index.shape)
    noise = measure_sample_noise(sample_stack(stack_arrays(list(scene.images))), CONFIG)
    decision = Decision(window=whole, index=index, confidence=np.ones(index.shape, np.float32))
    expected = energy.RULE.compose(stack_arrays(list(scene.images)), decision, inner=whole, noise=noise, config=CONFIG)

    answer = retouched(scene, result, labels, window=(30, 40, 110, 140))

    is_changed = index != result.source_index
    np.testing.assert_array_equal(answer.fused[is_changed[answer.window.slices]], expected[is_changed])
    assert is_changed.sum() > 100


@pytest.mark.parametrize("window", [(30, 40, 110, 140), None])
def test_taking_a_stroke_back_restores_the_picture_bit_for_bit(scene, result, labels, window):
    labels[30:110, 40:140] = 2
    fused, _ = painted_over(result, retouched(scene, result, labels, window=window))
    assert (fused != result.fused).any()

    labels[:] = 0
    answer = retouched(scene, result, labels, window=window)
    fused[answer.window.slices] = answer.fused

    np.testing.assert_array_equal(fused, result.fused)


def test_two_strokes_give_what_one_stroke_over_both_gives(scene, result, labels):
    fused, index = result.fused.copy(), result.source_index.copy()
    for window, number in (((10, 10, 50, 60), 1), ((40, 50, 80, 110), 3)):
        labels[window[0] : window[2], window[1] : window[3]] = number
        answer = retouched(scene, result, labels, window=window)
        fused[answer.window.slices], index[answer.window.slices] = answer.fused, answer.source_index

    at_once = retouched(scene, result, labels)
    np.testing.assert_array_equal(fused, at_once.fused)
    np.testing.assert_array_equal(index, at_once.source_index)


@pytest.fixture
def even():
    """Two even images of different brightness, fused to the first of them."""
    images = [np.full((120, 140, 3), level, np.uint8) for level in (100, 120)]
    return images, {"fused": images[0], "source_index": np.zeros((120, 140), np.uint16), "focus_range": (0, 255)}


def test_a_stroke_on_smooth_ground_is_feathered(even):
    images, known = even
    labels = np.zeros((120, 140), np.uint8)
    labels[:, 70:] = 2

    def columns_of(**changes):
        config = CONFIG.replaced(changes)
        return retouch(images, labels, **known, config=config).fused[60, :, 0].astype(int)

    steps, narrow_steps = np.diff(columns_of()), np.diff(columns_of(feather_px=0))
    assert steps.min() >= 0
    assert steps.max() < narrow_steps.max()
    assert steps.sum() == narrow_steps.sum() == 20


@pytest.mark.parametrize("changes", [{}, {"feather_px": 0}, {"feather_px": 5}, {"blend_px": 0, "feather_px": 0}, {"blend_px": 2}])
def test_pixels_beyond_the_reach_of_every_changed_label_come_back_bit_for_bit(even, changes):
    """The picture handed in is one that no fusion gives, so that whatever was fused again shows."""
    images, known = even
    config = CONFIG.replaced(changes)
    fused = np.random.default_rng(1).integers(0, 255, images[0].shape).astype(np.uint8)
    labels = np.zeros((120, 140), np.uint8)
    labels[40:50, 30:60], labels[110, 130] = 2, 2
    is_near = ndimage.maximum_filter(labels > 0, 2 * composition_reach_px(config.decision) + 1, mode="constant")

    answer = retouch(images, labels, **{**known, "fused": fused}, config=config)

    np.testing.assert_array_equal(answer.fused[~is_near], fused[~is_near])
    np.testing.assert_array_equal(answer.source_index[~is_near], 0)
    assert (answer.fused[is_near] != fused[is_near]).any(axis=-1).mean() > 0.9
    assert (~is_near).any()


@pytest.mark.parametrize("window", [(30, 30, 90, 100), None])
def test_taking_a_stroke_on_smooth_ground_back_restores_the_picture_bit_for_bit(even, window):
    images, known = even
    labels = np.zeros((120, 140), np.uint8)
    labels[30:90, 30:100] = 2
    painted = images[0].copy()
    answer = retouch(images, labels, **known, window=window, config=CONFIG)
    painted[answer.window.slices] = answer.fused
    assert painted.max() == 120

    answer = retouch(images, np.zeros_like(labels), **known, window=window, config=CONFIG)
    painted[answer.window.slices] = answer.fused

    np.testing.assert_array_equal(painted, images[0])


@pytest.mark.parametrize(("dtype", "is_color"), [(np.uint16, False), (np.float32, True), (np.float64, False)])
def test_every_kind_of_picture_can_be_retouched(labels, dtype, is_color):
    scene = make_focus_stack(n_images=2, shape=(150, 180), dtype=dtype, is_color=is_color)
    result = fuse(scene.images, CONFIG)
    labels[5:100, 5:100] = 1

    answer = retouched(scene, result, labels, window=(5, 5, 100, 100))

    assert (answer.fused.dtype, answer.fused.shape[2:]) == (result.fused.dtype, result.fused.shape[2:])
    inside = slice(5 + REACH_PX, 100 - REACH_PX), slice(5 + REACH_PX, 100 - REACH_PX)
    assert tuple(answer.window)[:2] == (0, 0)
    np.testing.assert_array_equal(answer.fused[inside], scene.images[0][inside])


@pytest.fixture
def opacity():
    return np.arange(1, 4, dtype=np.uint8)[:, None, None, None] * np.ones((3, 150, 180, 1), np.uint8)


def open_with_channels(images, folder):
    return open_stack(list(images), axes="YXS", channels=[1, 2, 3])


def open_with_opacity(images, folder):
    paths = [folder / f"{number}.png" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image[..., :3], alpha=image[..., 3])
    return open_stack(paths)


@pytest.mark.parametrize("open_one", [open_with_channels, open_with_opacity])
def test_a_lazy_stack_gives_the_same_and_its_fourth_channel_follows_the_stroke(scene, result, labels, opacity, tmp_path, open_one):
    stack = open_one(np.concatenate([scene.images, opacity], axis=-1), tmp_path)
    fused = np.dstack([result.fused, result.source_index.astype(np.uint8) + 1])
    labels[30:110, 40:140] = 2
    known = {"source_index": result.source_index, "focus_range": result.focus_range, "config": CONFIG, "window": (30, 40, 110, 140)}

    answer = retouch(stack, labels, fused=fused, **known)

    plain = retouched(scene, result, labels, window=(30, 40, 110, 140))
    np.testing.assert_array_equal(answer.fused[..., :3], plain.fused)
    assert (answer.fused[REACH_PX * 2 : -REACH_PX * 2, REACH_PX * 2 : -REACH_PX * 2, 3] == 2).all()


@pytest.fixture
def planes_apart():
    """Three images textured alike, each brighter and fainter than the one before, as planes of a thick specimen are."""
    grain = np.random.default_rng(3).uniform(0, 12, (120, 140, 3))
    return [(60 + 40 * number + grain * (1 - 0.3 * number)).astype(np.uint8) for number in range(3)]


def test_a_channel_that_follows_a_stroke_over_a_seam_is_blended_as_the_deciding_ones(planes_apart):
    """Floats, so that even the smallest share shows: the low pass looks beyond the window for both."""
    images = [np.concatenate([image, image[..., :1]], axis=-1).astype(np.float32) for image in planes_apart]
    labels = (1 + np.indices((120, 140)).sum(axis=0) // 20 % 3).astype(np.uint8)
    known = {"fused": images[0], "source_index": np.zeros((120, 140), np.uint16), "focus_range": (0, 255), "window": (40, 50, 80, 90)}

    answer, narrow = (
        retouch(open_with_channels(images, None), labels, **known, config=config) for config in (CONFIG, CONFIG.replaced({"feather_px": 0}))
    )

    plain = retouch([image[..., :3] for image in images], labels, **known | {"fused": images[0][..., :3]}, config=CONFIG)
    np.testing.assert_array_equal(answer.fused[..., :3], plain.fused)
    # the same samples as the first channel, composed without the other two
    np.testing.assert_allclose(answer.fused[..., 3], answer.fused[..., 0], atol=2)
    wide_core, narrow_core = (each.fused[Window(*known["window"]).relative_to(each.window).slices] for each in (answer, narrow))
    assert (wide_core != narrow_core).any()


@pytest.mark.parametrize("window", [(60, 60, 66, 72), (0, 0, 30, 40), (100, 120, 120, 140)])
def test_a_window_over_a_seam_gives_what_the_whole_picture_gives_there(planes_apart, window):
    """Three images in reach of each other, and the low pass looks beyond the window."""
    labels = (1 + (np.indices((120, 140)) // 13).sum(axis=0) % 3).astype(np.uint8)
    known = {"fused": planes_apart[0], "source_index": np.zeros((120, 140), np.uint16), "focus_range": (0, 255), "config": CONFIG}

    whole, part = (retouch(planes_apart, labels, **known, window=asked) for asked in (None, window))

    asked = Window(*window)
    inside = asked.relative_to(part.window).slices
    np.testing.assert_array_equal(part.fused[inside], whole.fused[asked.slices])
    np.testing.assert_array_equal(part.source_index[inside], whole.source_index[asked.slices])


def test_a_stroke_over_a_seam_brings_no_brightness_of_pixels_that_its_image_does_not_have(planes_apart):
    def moved(glare):
        """The second image lacks its left half, which it fills with samples brighter by so much."""
        second = planes_apart[1].copy()
        second[:, :70] += np.uint8(glare)
        return lacking_stack([planes_apart[0], second], (0, 70))

    labels = np.zeros((120, 140), np.uint8)
    labels[30:90, 72:120] = 2
    known = {"fused": planes_apart[0], "source_index": np.zeros((120, 140), np.uint16), "focus_range": (0, 255), "config": CONFIG}

    plain, glaring = (retouch(moved(glare), labels, **known).fused for glare in (0, 100))

    np.testing.assert_array_equal(plain[:, :70], planes_apart[0][:, :70])
    difference = np.abs(glaring.astype(int) - plain)
    assert difference.max() <= 2


def test_a_pixel_that_the_chosen_image_does_not_have_gets_no_share_of_it_in_the_blend(scene, labels):
    stack = lacking_stack(scene.images, (0, 0, 60))
    labels[20:60, 60:80] = 3
    result = fuse(stack, CONFIG)
    answer = retouch(stack, labels, fused=result.fused, source_index=result.source_index, focus_range=result.focus_range, config=CONFIG)

    left_of_stroke = answer.fused[25:55, 58]
    by_others = [scene.images[number][25:55, 58] for number in (0, 1)]
    lowest, highest = np.minimum(*by_others), np.maximum(*by_others)
    assert ((left_of_stroke >= lowest) & (left_of_stroke <= highest)).all()


def test_a_stroke_beside_the_dark_border_of_its_image_takes_no_pixel_of_it(labels):
    scene = make_focus_stack(n_images=2, shape=(150, 180), seed=3)
    images = [scene.images[0], scene.images[1].copy()]
    images[1][:, :3] = 0
    result = fuse(images, CONFIG)
    assert (result.source_index[:, :3] == 0).all()
    labels[30:60, :50] = 2

    answer = retouch(images, labels, fused=result.fused, source_index=result.source_index, focus_range=result.focus_range, config=CONFIG)

    assert (answer.source_index[:, :3] == 0).all()


@pytest.mark.parametrize("window", [(60, 0, 70, 6), (104, 2, 112, 5), (0, 40, 6, 52), (120, 154, 130, 160), (190, 60, 200, 70)])
def test_a_small_window_at_the_border_gives_what_the_whole_picture_gives_there(window):
    """Frames along a part of a side, and painted right across."""
    scene = make_focus_stack(n_images=2, shape=(200, 160), seed=3)
    images = [scene.images[0].copy(), scene.images[1].copy()]
    images[1][:110, :3], images[1][:2, :], images[0][100:, -3:], images[0][-1:, 50:] = 0, 0, 0, 0
    result = fuse(images, CONFIG)
    labels = (1 + (np.indices((200, 160)) // 10).sum(axis=0) % 2).astype(np.uint8)
    known = {"fused": result.fused, "source_index": result.source_index, "focus_range": result.focus_range, "config": CONFIG}

    whole, part = (retouch(images, labels, **known, window=asked) for asked in (None, window))

    np.testing.assert_array_equal(part.fused, whole.fused[part.window.slices])
    np.testing.assert_array_equal(part.source_index, whole.source_index[part.window.slices])
    without = retouch(images, labels, **known | {"config": CONFIG.replaced({"dark_border_px": 0})}, window=window)
    assert (without.fused != part.fused).any()


def test_the_focus_range_is_settled_once_and_handed_back(scene, result, labels):
    assert retouched(scene, result, labels, focus_range=None).focus_range == result.focus_range


def test_hard_cuts_are_retouched_too(scene, labels):
    config = CONFIG.replaced({"blend_px": 0, "feather_px": 0})
    result = fuse(scene.images, config)
    labels[30:110, 40:140] = 2

    answer = retouched(scene, result, labels, window=(30, 40, 110, 140), config=config)

    inside = Window(30, 40, 110, 140).relative_to(answer.window).slices
    np.testing.assert_array_equal(answer.fused[inside], scene.images[1][30:110, 40:140])


@pytest.mark.parametrize(
    ("further", "message"),
    [
        ({"labels": np.zeros((9, 9), np.uint8)}, r"labels is uint8 of shape \(9, 9\); whole numbers of the images' shape \(150, 180\)"),
        ({"labels": np.zeros((150, 180))}, "labels is float64"),
        ({"labels": np.full((150, 180), 4)}, "labels from 4 to 4 and a source index up to 2 were given for 3 images"),
        ({"labels": np.full((150, 180), -1)}, "labels from -1 to -1"),
        ({"source_index": np.full((150, 180), 3, np.uint16)}, "a source index up to 3 were given for 3 images"),
        ({"source_index": np.zeros((150, 181), np.uint16)}, r"source_index is uint16 of shape \(150, 181\)"),
        ({"fused": np.zeros((150, 180), np.uint8)}, r"the fused image is uint8 of shape \(150, 180\); uint8 of shape \(150, 180, 3\)"),
        ({"fused": np.zeros((150, 180, 3), np.uint16)}, "the fused image is uint16"),
        ({"window": (0, 0, 151, 5)}, r"the window \(0, 0, 151, 5\) was given; top, left, bottom and right inside \(150, 180\)"),
        ({"window": (5, 5, 5, 9)}, r"the window \(5, 5, 5, 9\)"),
    ],
)
def test_what_does_not_belong_together_is_refused(scene, result, labels, further, message):
    with pytest.raises(InvalidImageError, match=message):
        retouched(scene, result, **{"labels": labels, **further})
