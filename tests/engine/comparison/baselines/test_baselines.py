"""What is asked of every baseline: it does what fusion is for, on any picture, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.comparison.baselines import BASELINES, find_baseline, fuse_with
from qmcif_engine.comparison.baselines.baseline import take_largest
from qmcif_engine.errors import InvalidConfigError, InvalidImageError

LOSSY_RMS = {"sr": 2.0, "csr": 4.0}
"""Gray levels that sparse codes may leave out of a picture; the others return it whole."""

every_baseline = pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES)


def draw_texture(shape, *, seed=3):
    noise = np.random.default_rng(seed).uniform(0, 255, (*shape, 3))
    return np.rint(ndimage.gaussian_filter(noise, (0.8, 0.8, 0)).clip(0, 255)).astype(np.uint8)


def blur(picture):
    return np.rint(ndimage.gaussian_filter(picture.astype(float), (2.5, 2.5, 0))).astype(np.uint8)


def measure_rms(first, second):
    return np.sqrt(np.mean((first.astype(float) - second) ** 2))


@every_baseline
def test_identical_images_return_themselves(baseline):
    picture = draw_texture((40, 33))
    fused = fuse_with(baseline, [picture, picture.copy()])

    assert fused.dtype == np.uint8
    assert fused.shape == picture.shape
    assert measure_rms(fused, picture) <= LOSSY_RMS.get(baseline.name, 0.0)


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
    picture = draw_texture((30, 26))
    images = [picture, blur(picture)]

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

    picture = draw_texture((16, 16))
    with pytest.raises(EndedError):
        fuse_with(baseline, [picture, blur(picture)], check_cancelled=end)


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


def test_baselines_are_found_by_name_and_others_refused():
    assert find_baseline("SR") is BASELINES["sr"]
    with pytest.raises(InvalidConfigError, match=r"--method 'cnn' is not known; choose one of: sr, csr, mgimf, qhosvd, guided-filter"):
        find_baseline("cnn")


def test_the_first_of_equally_active_images_is_taken():
    values = np.arange(12.0).reshape(2, 3, 2)
    activity = np.array([[1.0, 0.0], [1.0, 2.0]])

    np.testing.assert_array_equal(take_largest(activity, values), [[0, 7], [2, 9], [4, 11]])
