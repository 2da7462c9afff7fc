"""The largest level, the shares of patches, and pictures put together from them: samples are copied, means are fair, limits are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qmcif_engine.method.fusion import WHOLE_SHARE, LargestLevel, blend_shares, compose_samples, select, share_patches

SHAPE = (9, 11)
DTYPES = ("uint8", "uint16", "uint32", "float32", "float64")
SIDE_PX = 5


def random_images(n_images, dtype, *, channels=(3,), seed=0):
    generator = np.random.default_rng(seed)
    shape = (n_images, *SHAPE, *channels)
    if dtype == "bool":
        return list(generator.random(shape) < 0.5)
    if np.dtype(dtype).kind == "u":
        return list(generator.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True))
    return list((generator.normal(0, 1, shape) * 10.0 ** generator.integers(-6, 6, shape)).astype(dtype))


def random_index(n_images, seed=1):
    return np.random.default_rng(seed).integers(0, n_images, SHAPE).astype(np.uint16)


def dirichlet(n_images, seed=3):
    """Shares that add up to one, and in the left half are those of one image alone."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(n_images), SHAPE).transpose(2, 0, 1).astype(np.float32)
    shares[:, :, :5] = np.arange(n_images)[:, None, None] == random_index(n_images)[:, :5]
    return shares


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 3), st.integers(1, 3)), elements=st.sampled_from([0.0, 1.0, 2.5])))
def test_last_of_the_largest_levels_wins(levels):
    largest = LargestLevel(levels.shape[1:])
    for number, level in enumerate(levels):
        largest.add(number, level)

    np.testing.assert_array_equal(largest.index, len(levels) - 1 - levels[::-1].argmax(axis=0))
    np.testing.assert_array_equal(largest.level, levels.max(axis=0))


def test_select_takes_each_pixel_from_the_image_that_its_index_names_and_shares_are_those_of_the_patches_over_it():
    choices, blocks = random_index(3), np.random.default_rng(0).normal(size=(3, 3, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(select(enumerate(blocks), choices), np.take_along_axis(blocks, choices[None, None], 0)[0])
    around = np.lib.stride_tricks.sliding_window_view(np.pad(choices, SIDE_PX // 2, mode="symmetric"), (SIDE_PX, SIDE_PX))

    for number in range(3):
        share = share_patches(choices, number, side_px=SIDE_PX)
        np.testing.assert_allclose(share, (around == number).mean(axis=(2, 3)), rtol=0, atol=np.finfo(np.float32).eps)


def mixed(shares):
    return blend_shares(enumerate(shares), shape=SHAPE)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_samples_are_copied_bit_for_bit_but_in_the_band_which_is_mixed(dtype, channels):
    images, shares = random_images(3, dtype, channels=channels), dirichlet(3)
    images[0].reshape(-1)[:2] = [-0.0, np.finfo(dtype).smallest_subnormal] if np.dtype(dtype).kind == "f" else 0
    for image in images:
        image.flags.writeable = False  # writing into it would raise
    rows, columns = np.indices(SHAPE)
    blend = mixed(shares)
    leading = np.stack(images)[blend.index, rows, columns]

    fused = compose_samples(images, blend)

    np.testing.assert_array_equal(blend.index, shares.argmax(axis=0))
    np.testing.assert_array_equal(blend.band, np.flatnonzero(shares.max(axis=0) < WHOLE_SHARE))
    assert fused.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(bits(fused[:, :5]), bits(leading[:, :5]))
    assert (fused[:, 5:] != leading[:, 5:]).any() or dtype == "bool"
    np.testing.assert_array_equal(bits(compose_samples([images[0]] * 3, blend)), bits(images[0]))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float64"])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_band_is_the_mean_of_the_images_by_their_shares_and_integers_are_rounded(dtype, channels):
    images, shares = np.random.default_rng(4).uniform(0, 250, (4, *SHAPE, *channels)).astype(dtype), dirichlet(4)
    expected = sum(share.reshape(*SHAPE, *(1,) * len(channels)) * image for share, image in zip(shares, images, strict=True))

    fused = compose_samples(list(images), mixed(shares))

    half = 0.5 if np.dtype(dtype).kind == "u" else 0
    np.testing.assert_allclose(fused, expected, rtol=0, atol=half + 64 * 250 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mixtures_of_the_largest_floats_stay_finite(dtype):
    images = [np.full(SHAPE, sign * np.finfo(dtype).max, dtype) for sign in (1, -1, 1)]

    assert np.isfinite(compose_samples(images, mixed(dirichlet(3)))).all()
