"""The one function people call: what it returns, what it refuses, every setting of the paper, and pictures with a known answer."""

import logging

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import PRESETS, FusionConfig, Representation
from qmcif_engine.errors import Cancelled, InvalidConfigError, InvalidImageError
from qmcif_engine.pipeline.in_memory import FusionProgress, fuse
from qmcif_engine.stack.samples import FocusRange, measure_focus_range
from qmcif_engine.stack.synthetic import make_focus_stack

SHAPE = (72, 88)
EDGE_REACH_PX = 8
"""Farther than this from a depth edge a pixel must come from the right image."""


def painted(shape, *, seed=0, contrast=0.17):
    """A color texture on the 0-1 scale, sharp to about a pixel."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(*shape, 3)), (0.8, 0.8, 0))
    return np.clip(0.5 + contrast * noise / noise.std(), 0, 1)


def defocused(sharp, truth, *, blur_px=2.0):
    """One image a depth: sharp where the truth says so, blurred elsewhere."""
    blurred = ndimage.gaussian_filter(sharp, (blur_px, blur_px, 0))
    return [np.where((truth == depth)[..., None], sharp, blurred) for depth in range(int(truth.max()) + 1)]


def as_bytes(images):
    return [np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8) for image in images]


def bands(shape, n_depths):
    """Vertical bands of equal width, one a depth."""
    return np.broadcast_to(np.arange(shape[1]) * n_depths // shape[1], shape)


def far_from_edges(truth):
    is_edge = ndimage.maximum_filter(truth, 3) != ndimage.minimum_filter(truth, 3)
    return ndimage.distance_transform_edt(~is_edge) > EDGE_REACH_PX if is_edge.any() else np.ones(truth.shape, bool)


def share_right(result, truth):
    return np.mean(result.source_index[far_from_edges(truth)] == truth[far_from_edges(truth)])


@pytest.fixture(scope="module")
def truth():
    return bands(SHAPE, 2)


@pytest.fixture(scope="module")
def pair(truth):
    return as_bytes(defocused(painted(SHAPE), truth))


@pytest.fixture(scope="module")
def fused_pair(pair):
    return fuse(pair, with_maps=True)


# --- what comes back ---


def test_result_has_dtype_and_shape_of_one_input_and_maps_of_its_size(pair, fused_pair):
    assert fused_pair.fused.dtype == np.uint8
    assert fused_pair.fused.shape == pair[0].shape
    for index in (fused_pair.source_index, fused_pair.base_map, fused_pair.detail_map):
        assert index.dtype == np.uint16
        assert index.shape == SHAPE
        assert set(np.unique(index)) == {0, 1}
    assert fused_pair.confidence.shape == SHAPE
    assert fused_pair.confidence.dtype == np.float32


def test_confidence_lies_between_zero_and_one_and_is_high_on_texture(fused_pair, truth):
    assert fused_pair.confidence.min() >= 0
    assert fused_pair.confidence.max() <= 1
    assert fused_pair.confidence[far_from_edges(truth)].mean() > fused_pair.confidence[~far_from_edges(truth)].mean()


def test_result_says_which_settings_and_range_were_used(pair, fused_pair):
    settings = FusionConfig().replaced({"iterations": 2})

    assert fused_pair.config == FusionConfig()
    assert fused_pair.focus_range == measure_focus_range(pair)
    assert fuse(pair, settings).config is settings


def test_all_maps_find_the_truth_and_the_picture_is_sharp_everywhere(pair, fused_pair, truth):
    far = far_from_edges(truth)

    assert share_right(fused_pair, truth) == 1
    assert np.mean(fused_pair.detail_map[far] == truth[far]) == 1
    assert np.mean(fused_pair.base_map[far] == truth[far]) >= 0.99
    sharp = as_bytes([painted(SHAPE)])[0]
    np.testing.assert_array_equal(fused_pair.fused[far], sharp[far])


def test_array_tuple_and_list_give_the_same_result(pair, fused_pair):
    for given in (np.stack(pair), tuple(pair)):
        result = fuse(given)
        np.testing.assert_array_equal(result.fused, fused_pair.fused)
        np.testing.assert_array_equal(result.source_index, fused_pair.source_index)


def test_inputs_are_left_alone(pair):
    given = [image.copy() for image in pair]
    for image in given:
        image.setflags(write=False)

    fuse(given, companions=given)

    np.testing.assert_array_equal(given, pair)


def test_hard_cut_takes_every_sample_from_the_image_the_index_names(pair):
    result = fuse(pair, FusionConfig().replaced({"blend_px": 0}))

    np.testing.assert_array_equal(result.fused, np.where(result.source_index[..., None] == 0, pair[0], pair[1]))


def test_blend_stays_near_decision_edges_and_between_the_sources(pair, fused_pair):
    index = fused_pair.source_index
    is_inside = ndimage.maximum_filter(index, 17) == ndimage.minimum_filter(index, 17)
    low, high = np.minimum(*pair), np.maximum(*pair)

    taken = np.where(index[..., None] == 0, pair[0], pair[1])
    np.testing.assert_array_equal(fused_pair.fused[is_inside], taken[is_inside])
    assert is_inside.mean() > 0.5
    assert (fused_pair.fused >= low).all()
    assert (fused_pair.fused <= high).all()


def test_information_is_logged_once_a_run(pair, caplog):
    with caplog.at_level(logging.INFO, logger="qmcif_engine"):
        fuse(pair)

    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "2 images" in caplog.messages[0]


# --- what is refused ---


def with_nan(pair):
    images = [image.astype(np.float32) for image in pair]
    images[1][3, 4, 0] = np.nan
    return images


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda pair: pair[:1], {}, "1 image was given; at least 2 of one scene are needed"),
        (lambda pair: pair[0], {}, r"one array of shape \(72, 88, 3\) was given"),
        (lambda pair: [pair[0], pair[1][:-1]], {}, r"image 1 has shape \(72, 88, 3\) and image 2 \(71, 88, 3\); all must be equal"),
        (with_nan, {}, "image 2 holds NaN or infinite samples"),
        (list, {"focus_range": (255, 0)}, r"the focus range is \(255, 0\); two finite values, the lower first, are needed"),
        (
            list,
            {"companions": [np.zeros(SHAPE, np.uint8), np.full(SHAPE, 300, np.uint16)]},
            "2 companions of shape .* uint16, uint8 were given",
        ),
    ],
)
def test_what_cannot_be_fused_is_refused(pair, change, options, words):
    with pytest.raises((InvalidImageError, InvalidConfigError), match=f"^{words}"):
        fuse(change(pair), **options)


@pytest.mark.parametrize(
    ("shapes", "given"),
    [
        ([SHAPE], r"1 companions of shape \[\(72, 88\)\]"),
        ([], r"0 companions of shape \[\]"),
        ([SHAPE, (72, 87)], r"2 companions of shape \[\(72, 87\), \(72, 88\)\]"),
        ([(88, 72), (88, 72)], r"2 companions of shape \[\(88, 72\)\]"),
        ([(72,), (72,)], r"2 companions of shape \[\(72,\)\]"),
    ],
)
def test_companions_that_do_not_match_are_refused(pair, shapes, given):
    message = rf"^{given} and type (uint8)? were given; one for each of the 2 images, all of height and width \(72, 88\) and of one type"
    with pytest.raises(InvalidImageError, match=message):
        fuse(pair, companions=[np.zeros(shape, np.uint8) for shape in shapes])


def test_confidence_is_float32_whatever_the_precision_of_the_decomposition(pair):
    assert fuse(pair, FusionConfig().replaced({"precision": "float64"})).confidence.dtype == np.float32


# --- companions, progress, cancellation ---


@pytest.mark.parametrize(("channels", "dtype"), [((), "uint8"), ((1,), "uint16"), ((2,), "float32"), ((2,), "bool")])
def test_companions_follow_the_decisions(pair, fused_pair, channels, dtype):
    low, high = (0, 1) if dtype == "bool" else (20, 220)
    companions = [np.full((*SHAPE, *channels), value, dtype) for value in (low, high)]

    result = fuse(pair, companions=companions)

    np.testing.assert_array_equal(result.fused, fused_pair.fused)
    assert result.companions.dtype == dtype
    assert result.companions.shape == (*SHAPE, *channels)
    # the image that leads has the largest share
    leads = np.broadcast_to((fused_pair.source_index == 1).reshape(*SHAPE, *(1,) * len(channels)), result.companions.shape)
    np.testing.assert_array_equal(result.companions > (low + high) / 2 - 0.1, leads)
    inside = ndimage.maximum_filter(fused_pair.source_index, 21) == ndimage.minimum_filter(fused_pair.source_index, 21)
    assert set(np.unique(result.companions[inside])) == {low, high}


def test_companions_that_are_the_images_give_the_fused_picture_bit_for_bit():
    """In tiles, and where brightness is blended more widely than detail: the low pass sees as much of both."""
    scene = make_focus_stack(n_images=3, shape=(260, 300), seed=4)
    images = [np.clip(image * 0.7 + 25 * number, 0, 255).astype(np.uint8) for number, image in enumerate(scene.images)]
    config = FusionConfig().replaced({"tile_px": 208})

    result = fuse(images, config, companions=[image.copy() for image in images])

    np.testing.assert_array_equal(result.companions, result.fused)
    narrow = fuse(images, config.replaced({"feather_px": 0}))
    assert (result.fused != narrow.fused).any()


@pytest.mark.parametrize("n_images", [2, 3])
def test_progress_counts_one_step_an_image_and_one_for_the_decision(n_images):
    seen = []

    fuse(as_bytes(defocused(painted((24, 30)), bands((24, 30), n_images))), on_progress=seen.append)

    total = n_images + 1
    assert seen == [FusionProgress(done, total) for done in range(1, total + 1)]


@pytest.mark.parametrize("name", PRESETS)
def test_cancellation_in_the_middle_of_an_image_ends_the_fusion_at_once(pair, name):
    questions, seen = [], []

    def is_cancelled():
        questions.append(len(seen))
        return len(questions) > 3

    message = r"^the fusion was cancelled after [012] of 3 steps; nothing was returned: start it again$"
    with pytest.raises(Cancelled, match=message):
        fuse(pair, PRESETS[name], on_progress=seen.append, is_cancelled=is_cancelled)

    assert len(seen) < 3
    assert len(questions) == 4


def test_cancellation_is_also_heard_between_the_last_image_and_the_decision(pair):
    seen = []

    with pytest.raises(Cancelled, match=r"cancelled after 2 of 3 steps"):
        fuse(pair, on_progress=seen.append, is_cancelled=lambda: len(seen) == 2)


def test_token_that_is_never_set_changes_nothing(pair, fused_pair):
    np.testing.assert_array_equal(fuse(pair, is_cancelled=lambda: False).fused, fused_pair.fused)


def test_given_focus_range_takes_the_place_of_the_measured_one(pair, fused_pair):
    again = fuse(pair, focus_range=tuple(fused_pair.focus_range))
    wide = fuse(pair, focus_range=(0, 1e6))

    np.testing.assert_array_equal(again.fused, fused_pair.fused)
    assert wide.focus_range == FocusRange(0.0, 1e6)


# --- every ablation of the paper ---


@pytest.mark.parametrize(
    "changes",
    [
        {"base_smoothness": 0},
        {"detail_sparsity": 0},
        {"noise_weight": 0},
        {"base_patch_px": 5},
        {"base_patch_px": 8},
        {"base_patch_px": 10},
        {"result": "base"},
        {"result": "detail"},
        {"result": "refined"},
        {"weights": "equal"},
        {"weights": "adaptive"},
        {"representation": "gray"},
        {"representation": "quaternion"},
        {"is_low_rank": True},
        {"is_low_rank": True, "base_patch_px": 5},
        {"is_low_rank": True, "base_patch_px": 10},
        {"is_low_rank": True, "base_smoothness": 0},
        {"similarity": "modulus"},
        {"similarity": "scalar"},
        {"coefficient_weight": 0, "is_low_rank": True},
        {"amplification_radius_px": 0},
        {"detail_patch_px": 13},
        {"precision": "float64"},
        {"tolerance": 1e-3, "iterations": 50},
    ],
    ids=lambda changes: ", ".join(f"{name}={value}" for name, value in changes.items()),
)
def test_every_ablation_runs_and_still_finds_most_of_an_easy_truth(pair, truth, changes):
    result = fuse(pair, PRESETS["paper"].replaced(changes))

    assert np.isfinite(result.confidence).all()
    assert result.fused.dtype == np.uint8
    assert share_right(result, truth) >= 0.95


@pytest.mark.parametrize("name", PRESETS)
def test_presets_find_an_easy_truth(pair, truth, name):
    assert share_right(fuse(pair, PRESETS[name]), truth) >= 0.99


def test_result_scale_decides_which_map_is_followed(pair):
    base = fuse(pair, PRESETS["paper"].replaced({"result": "base"}), with_maps=True)
    detail = fuse(pair, PRESETS["paper"].replaced({"result": "detail"}), with_maps=True)

    np.testing.assert_array_equal(base.source_index, base.base_map)
    np.testing.assert_array_equal(detail.source_index, detail.detail_map)
    assert (base.source_index != detail.source_index).any()


def test_refined_result_takes_each_pixel_from_one_of_the_two_maps(pair):
    result = fuse(pair, PRESETS["paper"], with_maps=True)

    assert ((result.source_index == result.base_map) | (result.source_index == result.detail_map)).all()


def test_gray_representation_does_not_see_detail_that_only_color_has(truth):
    # red and blue texture of equal luminance
    noise = ndimage.gaussian_filter(np.random.default_rng(3).normal(size=SHAPE), 0.8)
    noise *= 0.15 / noise.std()
    sharp = 0.5 + np.stack([noise, np.zeros(SHAPE), -noise * 0.299 / 0.114], axis=-1)
    images = [image.astype(np.float32) for image in defocused(sharp, truth)]

    color = fuse(images)
    gray = fuse(images, FusionConfig().replaced({"representation": Representation.GRAY}))

    assert share_right(color, truth) == 1
    assert share_right(gray, truth) < 0.75


# --- sizes and numbers of images ---


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 3), (7, 9), (1, 40), (40, 1), (17, 31), (33, 8)])
@pytest.mark.parametrize(("n_images", "channels"), [(2, (3,)), (3, ()), (32, (3,))])
def test_images_smaller_than_a_patch_and_odd_sizes_work(shape, n_images, channels):
    images = list(np.random.default_rng(0).integers(0, 256, (n_images, *shape, *channels), dtype=np.uint8))

    result = fuse(images)

    assert result.fused.shape == images[0].shape
    assert result.source_index.shape == shape
    assert result.source_index.max() < n_images
    assert np.isfinite(result.confidence).all()


def test_tiny_images_work_with_the_paper_preset_too():
    images = list(np.random.default_rng(0).integers(0, 256, (2, 7, 9, 3), dtype=np.uint8))

    assert fuse(images, PRESETS["paper"]).fused.shape == (7, 9, 3)


@pytest.mark.parametrize(("n_images", "shape"), [(2, (61, 75)), (3, (61, 97)), (32, (40, 32 * 20))])
def test_every_image_of_a_stack_gives_its_part(n_images, shape):
    truth = bands(shape, n_images)
    images = as_bytes(defocused(painted(shape, seed=n_images), truth))

    result = fuse(images)

    assert set(np.unique(result.source_index)) == set(range(n_images))
    assert share_right(result, truth) >= 0.99


# --- nothing to see ---


@pytest.mark.parametrize("levels", [(0, 0), (7, 7), (7, 7, 7), (0, 200)])
@pytest.mark.parametrize(("dtype", "preset"), [("uint8", "default"), ("float32", "default"), ("float64", "default"), ("float32", "paper")])
def test_constant_images_give_no_nan_and_one_of_their_values(dtype, preset, levels):
    result = fuse([np.full((20, 23, 3), level, dtype) for level in levels], PRESETS[preset])

    assert set(np.unique(result.fused)) <= set(levels)
    assert np.isfinite(result.confidence).all()


def with_flat_patches(*, level, side_px, blur_px=2.0):
    """Left half sharp in the first image, right half in the second, and a patch without texture deep inside each half."""
    shape, centers = (110, 220), (55, 165)
    truth = bands(shape, 2)
    scene = painted(shape, seed=5)
    patches = [np.s_[55 - side_px // 2 : 55 + side_px // 2, center - side_px // 2 : center + side_px // 2] for center in centers]
    for patch in patches:
        scene[patch] = level
    return as_bytes(defocused(scene, truth, blur_px=blur_px)), truth, patches


@pytest.mark.parametrize("side_px", [40, 50])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_saturated_areas_follow_their_surroundings(side_px, is_reversed):
    brighter_than_white = 8.0
    images, truth, patches = with_flat_patches(level=brighter_than_white, side_px=side_px)
    if is_reversed:
        images, truth = images[::-1], 1 - truth

    result = fuse(images)

    for patch in patches:
        np.testing.assert_array_equal(result.source_index[patch], truth[patch])


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_textureless_areas_follow_their_surroundings_although_blurred_texture_spreads_into_them(level, is_reversed):
    images, truth, patches = with_flat_patches(level=level, side_px=50)
    if is_reversed:
        images, truth = images[::-1], 1 - truth

    result = fuse(images)

    for patch in patches:
        inner = np.s_[10:-10, 10:-10]  # beyond the reach of the measures and the blur
        assert np.mean(result.source_index[patch][inner] == truth[patch][inner]) >= 0.99


def test_published_method_leaves_areas_without_texture_to_its_tie_rule():
    images, _, patches = with_flat_patches(level=8.0, side_px=50)

    result = fuse(images, PRESETS["paper"].replaced({"is_low_rank": False, "iterations": 5}), with_maps=True)

    for patch in patches:
        middle = np.s_[20:-20, 20:-20]
        np.testing.assert_array_equal(result.detail_map[patch][middle], 1)


# --- scenes with depth ---


@pytest.mark.parametrize("n_images", [2, 3])
def test_discs_on_a_ground_come_from_the_right_image(n_images):
    shape = (120, 150)
    rows, columns = np.indices(shape)
    truth = np.zeros(shape, np.intp)
    for depth, (row, column) in enumerate([(45, 50), (75, 105)][: n_images - 1], start=1):
        truth[(rows - row) ** 2 + (columns - column) ** 2 < 30**2] = depth
    images = as_bytes(defocused(painted(shape, seed=6, contrast=0.08), truth))

    assert share_right(fuse(images), truth) >= 0.99


@pytest.mark.parametrize(
    "scene",
    [{}, {"seed": 1}, {"n_images": 3}, {"n_images": 6, "seed": 2}, {"is_color": False}, {"dtype": "uint16"}, {"blur_px": 2.0}],
    ids=lambda scene: ", ".join(f"{name}={value}" for name, value in scene.items()) or "default",
)
def test_generated_scenes_come_from_the_right_image_away_from_depth_edges(scene):
    stack = make_focus_stack(**scene)
    is_far = stack.edge_distance_px > EDGE_REACH_PX
    assert is_far.mean() > 0.4

    result = fuse(stack.images)

    assert np.mean(result.source_index[is_far] == stack.depth_index[is_far]) >= 0.99
    # and inside such a region its samples are those of the image in focus
    is_inside = ndimage.minimum_filter(result.source_index, 17) == ndimage.maximum_filter(result.source_index, 17)
    is_right = is_far & is_inside & (result.source_index == stack.depth_index)
    assert is_right.mean() > 0.3
    rows, columns = np.nonzero(is_right)
    np.testing.assert_array_equal(result.fused[is_right], stack.images[stack.depth_index[is_right], rows, columns])


# --- sparse pictures ---

BEADS = ((60, 80, 0), (150, 90, 0), (70, 310, 1), (160, 300, 1))
"""Row, column and the image that has the bead in focus."""


def bead_images(shape=(400, 520), *, sharp_px=0.8, blur_px=2.0):
    """A few beads on exact black, 0-1: so few that the percentiles of the focus range see none of them."""
    rows, columns = np.indices(shape)
    images = np.zeros((2, *shape))
    for number, image in enumerate(images):
        for row, column, focused in BEADS:
            width = sharp_px if number == focused else blur_px
            distance = np.hypot(rows - row, columns - column)
            image += np.where(distance <= 2.5 * width, (sharp_px / width) ** 2 * np.exp(-((distance / width) ** 2) / 2), 0)
    assert np.mean(images > 0) < 0.001
    return images


@pytest.mark.parametrize(("dtype", "noise"), [("uint16", 0), ("float32", 1e-17), ("float64", 0)])
def test_beads_on_exact_black_are_taken_from_the_image_that_has_them_in_focus(dtype, noise):
    images = bead_images() + np.random.default_rng(0).normal(0, noise, (2, 400, 520))
    stack = list(np.rint(images * 60_000).astype(dtype) if dtype == "uint16" else images.astype(dtype))

    result = fuse(stack)

    for row, column, focused in BEADS:
        around = np.s_[row - 4 : row + 5, column - 4 : column + 5]
        np.testing.assert_array_equal(result.source_index[around], focused)
        # brightness may be blended from the nearest border between the images
        np.testing.assert_allclose(result.fused[around], stack[focused][around], rtol=0, atol=0.01 * stack[focused].max())


def test_beads_far_above_the_noise_of_a_camera_are_taken_from_the_image_that_has_them_in_focus():
    """The beads reach 60000 on a dark offset of 100 with noise of one count."""
    noise = np.random.default_rng(0).normal(0, 1, (2, 400, 520))
    stack = list(np.rint(bead_images() * 60_000 + 100 + noise).astype(np.uint16))

    result = fuse(stack)

    for row, column, focused in BEADS:
        assert result.source_index[row, column] == focused


# --- hot pixels, beads, deep stacks ---


@pytest.mark.parametrize("n_images", [2, 6])
def test_hot_pixels_change_no_decision_away_from_them_and_are_not_enriched(n_images):
    shape, generator = (120, 150), np.random.default_rng(0)
    images = as_bytes(defocused(painted(shape, contrast=0.05), bands(shape, n_images)))
    is_hot = generator.random((n_images, *shape)) < 0.001
    hot = [np.where(spots[..., None], np.uint8(255), image) for spots, image in zip(is_hot, images, strict=True)]

    clean, result = fuse(images), fuse(hot)

    is_far = ~ndimage.maximum_filter(is_hot.any(axis=0), 9)
    assert np.mean(result.source_index[is_far] == clean.source_index[is_far]) >= 0.99
    is_taken = (result.fused == 255).all(axis=-1)
    assert is_taken.mean() <= 1.2 * is_hot.mean(axis=(1, 2)).max()


def test_every_bead_of_five_pixels_is_kept():
    """Small spots before a textured ground, each sharp in an image of its own."""
    shape, n_images, generator = (150, 190), 6, np.random.default_rng(2)
    ground = painted(shape, seed=3, contrast=0.03)
    depth, scene = np.full(shape, n_images - 1), ground.copy()
    centers = [(15 + 30 * row, 15 + 32 * column) for row in range(5) for column in range(6)]
    rows, columns = np.indices(shape)
    beads = []
    for center in centers:
        side, number = generator.integers(5, 10), generator.integers(0, n_images - 1)
        is_bead = np.hypot(rows - center[0], columns - center[1]) <= side / 2
        depth[is_bead], scene[is_bead] = number, 0.5 + 0.4 * generator.random((is_bead.sum(), 3))
        beads.append(is_bead)

    def seen(number):
        """Beads before the ground, each layer blurred by its distance to the focus."""
        picture = ndimage.gaussian_filter(ground, 2 * (0.8 * (n_images - 1 - number),) + (0,))
        for layer in range(n_images - 2, -1, -1):
            blur = 0.8 * abs(layer - number)
            is_here = (depth == layer)[..., None].astype(float)
            cover, color = (ndimage.gaussian_filter(plane, (blur, blur, 0)) for plane in (is_here, is_here * scene))
            picture = (1 - cover) * picture + color
        return picture

    images = [seen(number) for number in range(n_images)]

    result = fuse(as_bytes(images))

    kept = [np.mean(np.abs(result.source_index[is_bead].astype(int) - depth[is_bead]) <= 1) for is_bead in beads]
    assert min(kept) > 0.5


def test_a_slope_through_a_deep_stack_is_found_to_within_an_image():
    shape, n_images = (96, 320), 40
    scene = painted(shape, seed=8)
    depth = np.broadcast_to(np.linspace(0, n_images - 1, shape[1]), shape)
    blurs = np.arange(0, 0.35 * n_images + 0.5, 0.5)
    layers = np.stack([ndimage.gaussian_filter(scene, (blur, blur, 0)) for blur in blurs])
    rows, columns = np.indices(shape)
    images = [layers[np.rint(0.35 * np.abs(depth - number) / 0.5).astype(int), rows, columns] for number in range(n_images)]

    result = fuse(as_bytes(images))

    assert np.mean(np.abs(result.source_index - depth) <= 1.5) >= 0.99
