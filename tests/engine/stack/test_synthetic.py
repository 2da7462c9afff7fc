from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.synthetic import LARGEST_BLUR_PX, SyntheticStack, make_focus_stack

CLEAR_OF_EDGES_PX = 8
ROUNDING = 1  # level: blurring by Fourier transform in float32 may tip a sample over a half
FLOAT_TOLERANCE = 64 * np.finfo(np.float32).eps
LUMA = np.array([0.299, 0.587, 0.114])


def pick_focused(stack: SyntheticStack) -> np.ndarray:
    rows, columns = np.indices(stack.depth_index.shape)
    return stack.images[stack.depth_index, rows, columns]


def disc(radius_px: float) -> np.ndarray:
    rows, columns = np.mgrid[-8:9, -8:9]
    kernel = np.clip(radius_px + 0.5 - np.hypot(rows, columns), 0, 1)
    return kernel / kernel.sum()


def sharpness(image: np.ndarray) -> np.ndarray:
    return ndimage.gaussian_filter(ndimage.laplace(image.astype(float) @ LUMA) ** 2, 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("is_color", [True, False])
@pytest.mark.parametrize(("n_images", "shape"), [(2, (16, 16)), (3, (33, 47)), (32, (21, 64)), (2, (8, 8))])
def test_stack_has_the_promised_shapes_and_types(dtype, is_color, n_images, shape):
    stack = make_focus_stack(n_images=n_images, shape=shape, dtype=dtype, is_color=is_color)
    channels = (3,) if is_color else ()
    assert (stack.images.shape, stack.images.dtype) == ((n_images, *shape, *channels), dtype)
    assert (stack.truth.shape, stack.truth.dtype) == ((*shape, *channels), dtype)
    assert (stack.depth_index.shape, stack.depth_index.dtype) == (shape, np.uint16)
    assert (stack.edge_distance_px.shape, stack.edge_distance_px.dtype) == (shape, np.float32)
    assert stack.depth_index.max() < n_images
    assert stack.images.flags.c_contiguous
    if np.dtype(dtype).kind == "f":
        assert stack.images.min() >= 0
        assert stack.images.max() <= 1


@pytest.mark.parametrize("n_images", [2, 3, 7, 32])
@pytest.mark.parametrize("blur_px", [0.5, 5.0, LARGEST_BLUR_PX])
def test_focused_image_is_the_truth_away_from_depth_edges(n_images, blur_px):
    stack = make_focus_stack(n_images=n_images, shape=(150, 170), blur_px=blur_px, seed=n_images)
    is_clear = stack.edge_distance_px > CLEAR_OF_EDGES_PX
    assert is_clear.mean() > 0.05
    assert np.abs(pick_focused(stack).astype(int) - stack.truth)[is_clear].max() <= ROUNDING


@pytest.mark.parametrize("n_images", [2, 3, 8, 32])
def test_every_image_has_a_visible_plane_in_focus(n_images):
    stack = make_focus_stack(n_images=n_images, shape=(256, 256))
    assert len(np.unique(stack.depth_index)) == n_images


@pytest.mark.parametrize("n_images", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_focused_image_is_the_sharpest_away_from_depth_edges(n_images, seed):
    stack = make_focus_stack(n_images=n_images, shape=(256, 256), seed=seed)
    sharpest = np.argmax([sharpness(image) for image in stack.images], axis=0)
    is_clear = stack.edge_distance_px > CLEAR_OF_EDGES_PX
    assert (sharpest == stack.depth_index)[is_clear].mean() >= 0.99


def test_planes_get_blurrier_with_their_distance_from_the_focus():
    stack = make_focus_stack(n_images=3, shape=(200, 200), blur_px=2.0)
    for plane, order in ((0, (0, 1, 2)), (2, (2, 1, 0))):
        is_inside = (stack.depth_index == plane) & (stack.edge_distance_px > CLEAR_OF_EDGES_PX)
        energies = [sharpness(stack.images[index])[is_inside].mean() for index in order]
        assert energies[0] > 2 * energies[1] > 2 * energies[2]


def test_background_out_of_focus_is_the_truth_seen_through_a_disc():
    blur_px = 4.0
    stack = make_focus_stack(shape=(160, 160), dtype=np.float32, blur_px=blur_px)
    expected = np.stack([ndimage.convolve(stack.truth[..., channel], disc(blur_px)) for channel in range(3)], axis=-1)
    is_background = (stack.depth_index == 0) & (stack.edge_distance_px > CLEAR_OF_EDGES_PX)
    is_background[:8] = is_background[-8:] = is_background[:, :8] = is_background[:, -8:] = False
    assert is_background.any()
    np.testing.assert_allclose(stack.images[1][is_background], expected[is_background], atol=FLOAT_TOLERANCE)


def test_blurred_foreground_spreads_over_the_sharp_background():
    stack = make_focus_stack(shape=(256, 256), dtype=np.float32)
    error = np.abs(stack.images[0] - stack.truth).max(axis=-1)
    is_near = (stack.depth_index == 0) & (stack.edge_distance_px > 1) & (stack.edge_distance_px <= 3)
    assert error[is_near].mean() > 0.05


def test_image_focused_on_the_nearest_plane_is_sharp_up_to_its_outlines():
    stack = make_focus_stack(shape=(256, 256))
    is_object = (stack.depth_index == 1) & (stack.edge_distance_px >= 2)
    assert np.abs(stack.images[1].astype(int) - stack.truth)[is_object].max() <= ROUNDING


def test_no_spot_is_without_texture():
    truth = make_focus_stack(shape=(256, 256), dtype=np.float32).truth @ LUMA
    spread = np.sqrt(ndimage.uniform_filter(truth**2, 9) - ndimage.uniform_filter(truth, 9) ** 2)
    assert np.quantile(spread, 0.001) > 4 / 255


def test_the_same_seed_gives_the_same_stack_and_another_seed_another():
    first, second, other = (make_focus_stack(n_images=3, shape=(64, 64), seed=seed) for seed in (5, 5, 6))
    for name in ("images", "truth", "depth_index", "edge_distance_px"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.depth_index != other.depth_index).any()


def test_the_composition_is_the_same_at_every_size():
    small = make_focus_stack(n_images=3, shape=(128, 128)).depth_index
    large = make_focus_stack(n_images=3, shape=(256, 256)).depth_index
    assert (small == large[::2, ::2]).mean() > 0.95


def test_sixteen_bit_samples_have_sixteen_bits_of_detail():
    eight, sixteen = (make_focus_stack(shape=(64, 64), dtype=dtype) for dtype in (np.uint8, np.uint16))
    low_bytes = np.unique(sixteen.images & 0xFF)
    assert len(low_bytes) == 256
    assert np.abs(sixteen.images / 257 - eight.images).max() <= 0.51


def test_samples_use_most_of_the_range():
    truth = make_focus_stack(shape=(256, 256)).truth
    assert np.quantile(truth, 0.01) < 40
    assert np.quantile(truth, 0.99) > 200


def test_gray_stack_is_the_luma_of_the_color_stack():
    color = make_focus_stack(shape=(64, 80), dtype=np.float32)
    gray = make_focus_stack(shape=(64, 80), dtype=np.float32, is_color=False)
    np.testing.assert_allclose(gray.images, color.images @ LUMA, atol=FLOAT_TOLERANCE)
    np.testing.assert_array_equal(gray.depth_index, color.depth_index)


def test_edge_distance_is_the_distance_to_the_nearest_pixel_beside_an_edge():
    stack = make_focus_stack(n_images=4, shape=(40, 36))
    depth = stack.depth_index.astype(int)
    beside = [
        (row, column)
        for row, column in np.ndindex(depth.shape)
        if any(
            depth[row, column] != depth[row + down, column + right]
            for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1))
            if 0 <= row + down < 40 and 0 <= column + right < 36
        )
    ]
    rows, columns = np.indices(depth.shape)
    expected = np.min([np.hypot(rows - row, columns - column) for row, column in beside], axis=0)
    np.testing.assert_allclose(stack.edge_distance_px, expected, rtol=FLOAT_TOLERANCE)


def test_smallest_scenes_have_depth_edges_too():
    for seed in range(50):
        stack = make_focus_stack(shape=(8, 8), seed=seed)
        assert set(np.unique(stack.depth_index)) == {0, 1}
        assert stack.edge_distance_px.min() == 0


@pytest.mark.parametrize("n_images", [1, 33, 0, -2, 2.5, True, "2"])
def test_impossible_numbers_of_images_are_refused(n_images):
    with pytest.raises(InvalidConfigError, match=f"^n_images={n_images!r} was given; 2 to 32 is needed; choose"):
        make_focus_stack(n_images=n_images)


@pytest.mark.parametrize("shape", [(7, 16), (16, 8193), (16,), (16, 16, 3), (16.0, 16)])
def test_impossible_shapes_are_refused(shape):
    with pytest.raises(InvalidConfigError, match=r"^shape=\(.*\) was given; height and width of 8 to 8192 px are needed; choose"):
        make_focus_stack(shape=shape)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_impossible_seeds_are_refused(seed):
    with pytest.raises(InvalidConfigError, match=f"^seed={seed} was given; a whole number that is not negative is needed; choose"):
        make_focus_stack(seed=seed)


@pytest.mark.parametrize("dtype", ["int32", "bool", "float16", "complex64", "nonsense"])
def test_other_sample_types_are_refused(dtype):
    with pytest.raises(InvalidConfigError, match=f"^dtype='{dtype}' was given; one of uint8, uint16, float32, float64 is needed; choose"):
        make_focus_stack(dtype=dtype)


@pytest.mark.parametrize("blur_px", [0, 0.4, 6.6, -1.0, float("nan"), float("inf"), "5"])
def test_impossible_blurs_are_refused(blur_px):
    with pytest.raises(InvalidConfigError, match=f"^blur_px={blur_px!r} was given; 0.5 to 6.5 px is needed; choose"):
        make_focus_stack(blur_px=blur_px)
