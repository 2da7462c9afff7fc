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
    if np.dtype(dtype).kind == "u":
        return list(generator.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True))
    return list((generator.normal(0, 1, shape) * 10.0 ** generator.integers(-6, 6, shape)).astype(dtype))


def random_index(n_images, seed=1):
    return np.random.default_rng(seed).integers(0, n_images, SHAPE).astype(np.uint16)


def whole(index):
    """The blend that gives each pixel to one image."""
    return blend_shares(((number, (index == number).astype(np.float32)) for number in np.unique(index).tolist()), shape=index.shape)


def mixed(shares):
    return blend_shares(enumerate(shares), shape=shares[0].shape)


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


def test_select_takes_each_pixel_from_the_block_its_index_names():
    blocks = [np.random.default_rng(number).normal(size=(3, *SHAPE)).astype(np.float32) for number in range(3)]
    index = random_index(3)
    rows, columns = np.indices(SHAPE)

    np.testing.assert_array_equal(select(enumerate(blocks), index), np.stack(blocks)[index, :, rows, columns].transpose(2, 0, 1))


def test_share_of_an_image_is_the_share_of_the_patches_over_a_pixel_that_chose_it():
    choices = random_index(3)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(choices, SIDE_PX // 2, mode="symmetric"), (SIDE_PX, SIDE_PX))

    shares = [share_patches(choices, number, side_px=SIDE_PX) for number in range(3)]

    for number, share in enumerate(shares):
        np.testing.assert_allclose(share, (around == number).mean(axis=(2, 3)), rtol=0, atol=np.finfo(np.float32).eps)
    np.testing.assert_allclose(sum(shares), 1, rtol=0, atol=4 * np.finfo(np.float32).eps)


def test_image_with_the_largest_share_leads_and_whole_shares_are_not_mixed():
    shares = dirichlet(3)
    blend = mixed(shares)

    np.testing.assert_array_equal(blend.index, shares.argmax(axis=0))
    np.testing.assert_array_equal(blend.band, np.flatnonzero(shares.max(axis=0) < WHOLE_SHARE))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [(), (3,), (2,)])
def test_samples_of_one_image_are_copied_bit_for_bit(dtype, channels):
    images, index = random_images(3, dtype, channels=channels), random_index(3)
    rows, columns = np.indices(SHAPE)

    fused = compose_samples(images, whole(index))

    assert fused.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(bits(fused), bits(np.stack(images)[index, rows, columns]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_outside_the_band_are_copied_bit_for_bit_while_the_band_is_mixed(dtype):
    images, blend = random_images(3, dtype), mixed(dirichlet(3))
    rows, columns = np.indices(SHAPE)
    leading = np.stack(images)[blend.index, rows, columns]

    fused = compose_samples(images, blend)

    np.testing.assert_array_equal(bits(fused[:, :5]), bits(leading[:, :5]))
    assert (fused[:, 5:] != leading[:, 5:]).any()


def test_negative_zeros_and_subnormal_floats_survive_copying():
    special = np.array([[-0.0, 5e-324, np.finfo(np.float64).max], [1 / 3, -1e-310, 2**53 + 2.0]])

    fused = compose_samples([special, np.zeros_like(special)], whole(np.zeros(special.shape, np.uint16)))

    np.testing.assert_array_equal(bits(fused), bits(special))


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_equal_samples_stay_exactly_equal_inside_the_band(dtype):
    image = random_images(1, dtype)[0] if dtype != "bool" else random_index(2).astype(bool)

    np.testing.assert_array_equal(bits(compose_samples([image, image.copy(), image.copy()], mixed(dirichlet(3)))), bits(image))


@pytest.mark.parametrize("channels", [(), (3,)])
def test_band_is_the_mean_of_the_images_by_their_shares(channels):
    images, shares = list(np.random.default_rng(4).uniform(-5, 5, (4, *SHAPE, *channels))), dirichlet(4)
    expected = sum(share.reshape(*SHAPE, *(1,) * len(channels)) * image for share, image in zip(shares, images, strict=True))

    np.testing.assert_allclose(compose_samples(images, mixed(shares)), expected, rtol=0, atol=64 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("share", [0.35, 0.65])
def test_mixed_integers_are_rounded_not_truncated(dtype, share):
    shares = [np.full(SHAPE, part, np.float32) for part in (share, 1 - share)]
    first, second = (10, 12) if share > 0.5 else (12, 10)  # 10.7

    np.testing.assert_array_equal(compose_samples([np.full(SHAPE, first, dtype), np.full(SHAPE, second, dtype)], mixed(shares)), 11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mixtures_of_the_largest_floats_stay_finite(dtype):
    largest = np.finfo(dtype).max
    images = [np.full(SHAPE, value, dtype) for value in (largest, -largest, largest)]

    assert np.isfinite(compose_samples(images, mixed(dirichlet(3)))).all()


def test_images_are_left_alone():
    images = random_images(3, "uint16")
    for image in images:
        image.flags.writeable = False  # writing into it would raise

    assert compose_samples(images, mixed(dirichlet(3))).flags.writeable
