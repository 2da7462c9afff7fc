"""Pictures put together from decisions: samples are copied, blends are fair, limits are kept."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from qmcif_engine.fusion import Blend, compose, select

SHAPE = (9, 11)
DTYPES = ("uint8", "uint16", "float32", "float64")


def random_images(n_images, dtype, *, channels=(3,), seed=0):
    generator = np.random.default_rng(seed)
    shape = (n_images, *SHAPE, *channels)
    if np.dtype(dtype).kind == "u":
        return list(generator.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True))
    return list((generator.normal(0, 1, shape) * 10.0 ** generator.integers(-6, 6, shape)).astype(dtype))


def random_index(n_images, seed=1):
    return np.random.default_rng(seed).integers(0, n_images, SHAPE).astype(np.uint16)


def blend_of(index, *, band=None, sources=(), weights=None):
    is_mixed = np.zeros(index.shape, bool) if band is None else band
    shares = np.zeros((len(sources), int(is_mixed.sum())), np.float32) if weights is None else np.asarray(weights)
    return Blend(index, is_mixed, tuple(sources), csr_array(shares), csr_array(shares.shape, dtype=shares.dtype))


def middle_band():
    band = np.zeros(SHAPE, bool)
    band[:, 4:7] = True
    return band


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("n_images", [2, 3, 5])
def test_select_takes_each_pixel_from_the_block_its_index_names(n_images):
    blocks = [np.random.default_rng(number).normal(size=(3, *SHAPE)).astype(np.float32) for number in range(n_images)]
    index = random_index(n_images)

    fused = select(blocks, index)

    rows, columns = np.indices(SHAPE)
    np.testing.assert_array_equal(fused, np.stack(blocks)[index, :, rows, columns].transpose(2, 0, 1))
    assert fused.dtype == np.float32


def test_select_takes_blocks_one_at_a_time_and_leaves_them_alone():
    blocks = [np.full((3, *SHAPE), number, np.float32) for number in range(3)]
    index = random_index(3)

    fused = select(iter(blocks), index)

    np.testing.assert_array_equal(fused, np.broadcast_to(index, (3, *SHAPE)))
    for number, block in enumerate(blocks):
        np.testing.assert_array_equal(block, number)
        assert not np.shares_memory(fused, block)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [(), (3,), (2,)])
def test_samples_of_one_image_are_copied_bit_for_bit(dtype, channels):
    images = random_images(3, dtype, channels=channels)
    index = random_index(3)

    fused = compose(images, blend_of(index))

    rows, columns = np.indices(SHAPE)
    assert fused.dtype == np.dtype(dtype)
    assert fused.shape == images[0].shape
    np.testing.assert_array_equal(bits(fused), bits(np.stack(images)[index, rows, columns]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_outside_the_band_are_copied_bit_for_bit_while_the_band_is_mixed(dtype):
    images = random_images(3, dtype)
    index, band = random_index(3), middle_band()
    weights = np.full((3, band.sum()), 1 / 3)

    fused = compose(images, blend_of(index, band=band, sources=(0, 1, 2), weights=weights))

    rows, columns = np.nonzero(~band)
    np.testing.assert_array_equal(bits(fused[rows, columns]), bits(np.stack(images)[index[rows, columns], rows, columns]))
    rows, columns = np.nonzero(band)
    assert (fused[rows, columns] != np.stack(images)[index[rows, columns], rows, columns]).any()


def test_negative_zeros_and_subnormal_floats_survive_copying():
    special = np.array([[-0.0, 5e-324, np.finfo(np.float64).max], [1 / 3, -1e-310, 2**53 + 2.0]])
    images = [special, np.zeros_like(special)]

    fused = compose(images, blend_of(np.zeros(special.shape, np.uint16)))

    np.testing.assert_array_equal(bits(fused), bits(special))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_type", [np.float32, np.float64])
def test_equal_samples_stay_exactly_equal_inside_the_band(dtype, weight_type):
    image = random_images(1, dtype)[0]
    band = middle_band()
    weights = np.random.default_rng(3).dirichlet(np.ones(3), band.sum()).T.astype(weight_type)

    fused = compose([image, image.copy(), image.copy()], blend_of(random_index(3), band=band, sources=(0, 1, 2), weights=weights))

    np.testing.assert_array_equal(bits(fused), bits(image))


@pytest.mark.parametrize("channels", [(), (3,)])
def test_band_is_the_weighted_mean_of_its_sources(channels):
    generator = np.random.default_rng(4)
    images = list(generator.uniform(-5, 5, (4, *SHAPE, *channels)))
    band = middle_band()
    weights = generator.dirichlet(np.ones(2), band.sum()).T
    index = np.where(band, np.where(generator.random(SHAPE) < 0.5, 1, 3), random_index(4)).astype(np.uint16)

    fused = compose(images, blend_of(index, band=band, sources=(1, 3), weights=weights))

    shares = weights.reshape(2, -1, *(1,) * len(channels))
    expected = shares[0] * images[1][band] + shares[1] * images[3][band]
    accepted = 8 * np.finfo(np.float64).eps * 5
    np.testing.assert_allclose(fused[band], expected, rtol=0, atol=accepted)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("leader", [0, 1])
def test_mixed_integers_are_rounded_not_truncated(dtype, leader):
    low, high = np.full(SHAPE, 10, dtype), np.full(SHAPE, 12, dtype)
    band = np.ones(SHAPE, bool)
    share = np.repeat([[0.65], [0.35]], band.sum(), axis=1)  # 10.7
    index = np.full(SHAPE, leader, np.uint16)

    fused = compose([low, high], blend_of(index, band=band, sources=(0, 1), weights=share))

    np.testing.assert_array_equal(fused, 11)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_mixed_integers_never_leave_the_limits_of_their_type(dtype):
    limit = np.iinfo(dtype).max
    black, white = np.zeros(SHAPE, dtype), np.full(SHAPE, limit, dtype)
    band = np.ones(SHAPE, bool)
    # shares that rounding left a little off one must not wrap round
    for index, share in ((0, [0.0, 1.02]), (1, [1.02, 0.0])):
        weights = np.repeat(np.array(share)[:, None], band.sum(), axis=1)
        fused = compose([black, white], blend_of(np.full(SHAPE, index, np.uint16), band=band, sources=(0, 1), weights=weights))
        np.testing.assert_array_equal(fused, limit if index == 0 else 0)


def test_mixed_floats_are_not_clipped():
    images = [np.full(SHAPE, -300.0), np.full(SHAPE, 900.0)]
    band = np.ones(SHAPE, bool)
    weights = np.full((2, band.sum()), 0.5)

    fused = compose(images, blend_of(np.zeros(SHAPE, np.uint16), band=band, sources=(0, 1), weights=weights))

    np.testing.assert_array_equal(fused, 300.0)


def test_mixing_uint16_uses_all_its_bits():
    images = [np.full(SHAPE, 40001, np.uint16), np.full(SHAPE, 40004, np.uint16)]
    band = np.ones(SHAPE, bool)
    weights = np.repeat([[1 / 3], [2 / 3]], band.sum(), axis=1)

    fused = compose(images, blend_of(np.ones(SHAPE, np.uint16), band=band, sources=(0, 1), weights=weights))

    np.testing.assert_array_equal(fused, 40003)


def test_images_are_left_alone():
    images = random_images(2, "uint8")
    kept = [image.copy() for image in images]
    band = middle_band()
    weights = np.full((2, band.sum()), 0.5)

    fused = compose(images, blend_of(random_index(2), band=band, sources=(0, 1), weights=weights))

    np.testing.assert_array_equal(images, kept)
    assert not any(np.shares_memory(fused, image) for image in images)
