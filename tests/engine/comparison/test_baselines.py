"""What is asked of every baseline: it does what fusion is for, on any image, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.comparison.baselines import fuse_patches, fuse_with
from qmcif_engine.comparison.baselines.convolutional_coding import N_FILTERS, SPARSITY, code, cosine_filters, draw, split_layers
from qmcif_engine.comparison.baselines.morphological_gradients import measure_focus, segment, solve_matte
from qmcif_engine.comparison.baselines.quaternion_tensors import QUATERNION_TENSORS, STEEPNESS, complex_form, measure_activity, weigh
from qmcif_engine.comparison.baselines.simple import fuse_by_pyramid, guide_filter
from qmcif_engine.comparison.baselines.sparse_coding import LARGEST_RESIDUAL, cosine_dictionary, pursue
from qmcif_engine.comparison.methods import BASELINES
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.method import quaternion

LOSSY_RMS = {"sr": 2.0, "csr": 4.0}
"""Gray levels that sparse codes may leave out of a image; the others return it whole."""

PLANE = ndimage.gaussian_filter(np.random.default_rng(2).uniform(size=(40, 36)), 1)
RNG = np.random.default_rng(8)

every_baseline = pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES)


def draw_texture(shape, *, seed=3):
    noise = np.random.default_rng(seed).uniform(0, 255, (*shape, 3))
    return np.rint(ndimage.gaussian_filter(noise, (0.8, 0.8, 0)).clip(0, 255)).astype(np.uint8)


def blur(image):
    return np.rint(ndimage.gaussian_filter(image.astype(float), (2.5, 2.5, 0))).astype(np.uint8)


def measure_rms(first, second):
    return np.sqrt(np.mean((first.astype(float) - second) ** 2))


@every_baseline
def test_identical_images_return_themselves(baseline):
    image = draw_texture((40, 33))
    fused = fuse_with(baseline, [image, image.copy()])

    assert fused.dtype == np.uint8
    assert fused.shape == image.shape
    assert measure_rms(fused, image) <= LOSSY_RMS.get(baseline.name, 0.0)


@every_baseline
def test_the_sharp_half_of_each_image_is_chosen(baseline):
    truth = draw_texture((64, 96))
    blurred = blur(truth)
    first, second = truth.copy(), truth.copy()
    first[:, 48:], second[:, :48] = blurred[:, 48:], blurred[:, :48]
    fused = fuse_with(baseline, [first, second])
    for part in (np.s_[:, :32], np.s_[:, 64:]):
        lost = measure_rms(blurred[part], truth[part])
        assert measure_rms(fused[part], truth[part]) < 0.35 * lost


@every_baseline
def test_three_images_are_fused(baseline):
    truth = draw_texture((48, 96))
    images = []
    for number in range(3):
        image = blur(truth)
        image[:, 32 * number : 32 * (number + 1)] = truth[:, 32 * number : 32 * (number + 1)]
        images.append(image)
    fused = fuse_with(baseline, images)

    assert measure_rms(fused, truth) < 0.6 * min(measure_rms(image, truth) for image in images)


@every_baseline
@pytest.mark.parametrize("shape", [(1, 1), (2, 9), (7, 5), (8, 8), (19, 23)])
def test_any_size_is_fused_gray_or_in_color(baseline, shape):
    color = draw_texture(shape)
    other = blur(color)
    gray, other_gray = color[..., 0], other[..., 0]

    assert fuse_with(baseline, [color, other]).shape == color.shape
    assert fuse_with(baseline, [gray, other_gray]).shape == gray.shape


@every_baseline
def test_gray_images_are_fused_as_colors_without_hue(baseline):
    gray = draw_texture((24, 30))[..., 0]
    other = blur(gray[..., None])[..., 0]
    alone = fuse_with(baseline, [gray, other])
    tripled = fuse_with(baseline, [np.repeat(image[..., None], 3, axis=-1) for image in (gray, other)])

    assert np.abs(tripled.astype(int) - alone[..., None]).max() <= 1  # sums of three in another order


@every_baseline
def test_the_same_bytes_come_every_time(baseline):
    image = draw_texture((30, 26))
    images = [image, blur(image)]

    assert fuse_with(baseline, images).tobytes() == fuse_with(baseline, images).tobytes()


@every_baseline
def test_a_constant_image_stays_constant(baseline):
    even = np.full((20, 20, 3), 90, np.uint8)

    np.testing.assert_array_equal(fuse_with(baseline, [even, even]), even)


@every_baseline
def test_the_work_can_be_ended(baseline):
    class EndedError(Exception):
        pass

    def end():
        raise EndedError

    image = draw_texture((16, 16))
    with pytest.raises(EndedError):
        fuse_with(baseline, [image, blur(image)], check_cancelled=end)


@pytest.mark.parametrize(
    "images",
    [
        [np.zeros((4, 4), np.uint8)],
        [np.zeros((4, 4), np.uint8), np.zeros((4, 5), np.uint8)],
        [np.zeros((4, 4), np.uint16), np.zeros((4, 4), np.uint16)],
    ],
)
def test_images_that_do_not_fit_are_refused(images):
    with pytest.raises(InvalidImageError, match="two or more 8-bit images of one shape are needed"):
        fuse_with(BASELINES["guided-filter"], images)


def go_on():
    """Nobody ends the work."""


@pytest.mark.parametrize(("shape", "step"), [((8, 8), 2), ((9, 20), 3), ((17, 11), 8), ((10, 13), 1), ((2, 3), 2), ((3, 30), 4)])
def test_patches_put_together_unchanged_are_the_image(shape, step):
    stack = np.random.default_rng(1).random((2, 3, *shape))
    seen = []

    def take_second(patches):
        seen.append(patches.shape)
        return patches[1]

    np.testing.assert_allclose(fuse_patches(stack, take_second, side_px=8, step_px=step), stack[1])
    n_rows, n_columns = (1 + -(-max(length - 8, 0) // step) for length in shape)
    assert seen == [(2, 3, n_columns, 8, 8)] * n_rows


def test_each_window_fits_a_line_and_lines_are_averaged():
    generator = np.random.default_rng(4)
    guide, weights = generator.random((2, 7, 9))
    radius, power = 2, 0.05
    slopes, offsets = np.empty((2, 7, 9))

    def window(row, column):
        return np.s_[max(0, row - radius) : row + radius + 1, max(0, column - radius) : column + radius + 1]

    for row, column in np.ndindex(7, 9):
        near_guide, near_weights = guide[window(row, column)], weights[window(row, column)]
        covariance = np.mean(near_guide * near_weights) - near_guide.mean() * near_weights.mean()
        slopes[row, column] = covariance / (near_guide.var() + power)
        offsets[row, column] = near_weights.mean() - slopes[row, column] * near_guide.mean()
    expected = [
        slopes[window(row, column)].mean() * guide[row, column] + offsets[window(row, column)].mean() for row, column in np.ndindex(7, 9)
    ]

    np.testing.assert_allclose(guide_filter(weights, guide, radius_px=radius, regularization=power).ravel(), expected)


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 17), (33, 40)])
def test_one_image_comes_back_from_its_pyramid(shape):
    plane = np.random.default_rng(1).random((1, 2, *shape))

    np.testing.assert_allclose(fuse_by_pyramid(plane, go_on), plane[0], atol=1e-12)


def test_detail_comes_from_the_image_that_has_it_and_brightness_from_both():
    detailed = np.random.default_rng(2).random((48, 48))
    fused = fuse_by_pyramid(np.stack([detailed, np.full((48, 48), detailed.mean())]), go_on)

    assert np.corrcoef(fused.ravel(), detailed.ravel())[0, 1] > 0.95
    assert abs(fused.mean() - detailed.mean()) < 0.02


def test_what_is_known_stays():
    known = (np.arange(24).reshape(4, 6) % 2).astype(float)

    np.testing.assert_array_equal(solve_matte(np.random.default_rng(1).random((3, 4, 6)), known, np.zeros((4, 6), bool)), known)


def test_the_matte_steps_where_the_image_does():
    image = np.zeros((3, 12, 20))
    image[:, :, 11:] = 0.8
    known = np.zeros((12, 20))
    known[:, 10:] = 1
    is_unknown = np.zeros((12, 20), bool)
    is_unknown[:, 5:15] = True
    matte = solve_matte(image, known, is_unknown)

    assert matte[:, :11].max() < 0.05
    assert matte[:, 11:].min() > 0.95


def test_a_soft_edge_of_the_image_gives_a_soft_matte():
    ramp = np.clip((np.arange(24) - 6) / 12, 0, 1)
    image = np.broadcast_to(ramp, (3, 10, 24)).copy()
    known = np.broadcast_to((ramp > 0.5).astype(float), (10, 24))
    is_unknown = np.broadcast_to((ramp > 0) & (ramp < 1), (10, 24))

    np.testing.assert_allclose(solve_matte(image, known, is_unknown)[5], ramp, atol=0.03)


def test_pixels_with_nothing_known_around_them_stay_undecided():
    matte = solve_matte(np.full((3, 6, 6), 0.5), np.zeros((6, 6)), np.ones((6, 6), bool))

    np.testing.assert_allclose(matte, 0.5, atol=1e-6)


def test_texture_has_more_focus_than_its_blur_and_none_is_none():
    texture = np.random.default_rng(1).random((40, 40))

    assert (measure_focus(texture) > measure_focus(ndimage.gaussian_filter(texture, 2))).all()
    assert not measure_focus(np.full((20, 20), 0.4)).any()


def test_small_regions_are_given_away_and_large_ones_kept():
    focus = np.zeros((2, 100, 100))
    focus[1, :, 50:] = 1
    focus[1, 20:23, 20:23] = 1
    regions = segment(focus)

    np.testing.assert_array_equal(regions[1], np.broadcast_to(np.arange(100) >= 50, (100, 100)))
    np.testing.assert_array_equal(regions.sum(axis=0), 1)


def test_the_complex_form_multiplies_as_quaternions_do():
    first, second = RNG.normal(size=(2, 3, 4, 4))
    product = complex_form(first) @ complex_form(second)
    full = [np.concatenate([np.zeros((1, 4, 4)), each]) for each in (first, second)]
    real = quaternion.real_form(full[0]) @ quaternion.real_form(full[1])

    np.testing.assert_allclose(np.linalg.svd(product, compute_uv=False)[::2], np.linalg.svd(real, compute_uv=False)[::4])


def test_a_patch_alone_has_the_sum_of_its_singular_values():
    patch = RNG.normal(size=(1, 1, 3, 6, 6))
    singular = np.linalg.svd(complex_form(patch[0, 0]), compute_uv=False)

    np.testing.assert_allclose(measure_activity(patch), [[singular.sum() / 2]])


def test_activity_grows_with_the_contrast_of_a_patch_and_ignores_a_turn_of_hues():
    patch = RNG.uniform(size=(3, 8, 8))
    pair = np.stack([patch, 0.5 * patch])[:, None]
    turned = pair[:, :, [1, 2, 0]]
    strong, weak = measure_activity(pair)[:, 0]

    np.testing.assert_allclose(weak, strong / 2)
    np.testing.assert_allclose(measure_activity(turned), measure_activity(pair))


def test_weights_are_a_sigmoid_function_of_the_logarithm_of_the_ratio_of_activities():
    activity = np.array([[3.0, 1.0, 0.0, 0.0, 1e-200], [2.0, 1.0, 4.0, 0.0, 2e-200]])
    weights = weigh(activity)
    expected = 1 / (1 + np.exp(-STEEPNESS * np.log(3 / 2)))

    np.testing.assert_allclose(weights[0], [expected, 0.5, 0.0, 0.5, 1 / (1 + 2**STEEPNESS)])
    np.testing.assert_allclose(weights.sum(axis=0), 1)


def test_brightness_does_not_speak_for_a_patch():
    texture = RNG.uniform(0.1, 0.2, size=(1, 3, 16, 16))
    flat = np.full_like(texture, 0.9)

    np.testing.assert_allclose(QUATERNION_TENSORS.fuse_planes(np.concatenate([texture, flat]), go_on), texture[0], atol=1e-12)


def code_plainly(signal, atoms, *, most_atoms, largest_residual):
    code, chosen, residual = np.zeros(atoms.shape[1]), [], signal
    while residual @ residual > largest_residual**2 and len(chosen) < most_atoms:
        chosen.append(int(np.abs(residual @ atoms).argmax()))
        code[chosen] = np.linalg.lstsq(atoms[:, chosen], signal, rcond=None)[0]
        residual = signal - atoms @ code
    return code


@pytest.mark.parametrize(("most_atoms", "largest_residual"), [(6, 0.0), (12, 0.5), (3, 2.0)])
def test_codes_are_those_of_least_squares_on_the_atoms_chosen(most_atoms, largest_residual):
    generator = np.random.default_rng(8)
    atoms = generator.normal(size=(16, 40))
    atoms /= np.linalg.norm(atoms, axis=0)
    signals = generator.normal(size=(25, 16))
    signals[3] = 0
    limits = {"most_atoms": most_atoms, "largest_residual": largest_residual}

    codes = pursue(signals, atoms, **limits)

    np.testing.assert_allclose(codes, [code_plainly(signal, atoms, **limits) for signal in signals], atol=1e-9)
    assert not codes[3].any()


def test_the_pursuit_ends_where_no_new_atom_is_left():
    codes = pursue(np.array([[1.0, 2.0, 3.0, 0.0]]), np.eye(4)[:, :2], most_atoms=4, largest_residual=0.0)

    np.testing.assert_allclose(codes, [[1.0, 2.0]])


def test_patches_are_described_up_to_the_residual_allowed_by_atoms_of_unit_norm_without_mean():
    atoms = cosine_dictionary()
    signals = np.random.default_rng(6).normal(0, 0.02, (30, 64))
    signals -= signals.mean(axis=1, keepdims=True)
    codes = pursue(signals, atoms)

    assert atoms.shape == (64, 256)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1)
    np.testing.assert_allclose(atoms[:, 1:].sum(axis=0), 0, atol=1e-12)
    assert np.linalg.norm(signals - codes @ atoms.T, axis=1).max() <= LARGEST_RESIDUAL
    assert codes.any(axis=1).all()


def cost_of(maps, layer):
    return 0.5 * np.sum((draw(maps) - layer) ** 2) + SPARSITY * np.abs(maps).sum()


def test_filters_are_orthonormal_and_without_mean():
    filters = cosine_filters().reshape(N_FILTERS, -1)

    np.testing.assert_allclose(filters @ filters.T, np.eye(N_FILTERS), atol=1e-6)
    np.testing.assert_allclose(filters.sum(axis=1), 0, atol=1e-6)


def test_the_layers_add_up_and_the_base_is_the_smoother():
    base, detail = split_layers(PLANE)

    np.testing.assert_allclose(base + detail, PLANE)
    assert np.abs(np.diff(base)).sum() < np.abs(np.diff(PLANE)).sum()
    np.testing.assert_allclose(base.mean(), PLANE.mean())


def test_drawing_convolves_each_map_with_its_filter():
    maps = np.zeros((N_FILTERS, 20, 20), np.float32)
    maps[4, 5, 6] = 1.0
    drawn = draw(maps)

    np.testing.assert_allclose(drawn[5:13, 6:14], cosine_filters()[4], atol=1e-6)
    assert np.abs(drawn[13:]).max() < 1e-6


def test_maps_are_sparse_and_near_the_least_cost():
    _, detail = split_layers(PLANE)
    maps = code(detail, go_on)
    cost = cost_of(maps, detail)

    assert cost < 0.5 * np.sum(detail**2)
    assert np.count_nonzero(maps) < 0.2 * maps.size
    generator = np.random.default_rng(1)
    for _ in range(5):
        nudged = maps + 0.02 * generator.normal(size=maps.shape).astype(np.float32) * (maps != 0)
        assert cost_of(nudged, detail) > cost
