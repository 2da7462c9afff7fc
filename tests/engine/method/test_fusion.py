"""Pictures put together from decisions: samples are copied, blends are fair, limits are kept."""

import numpy as np
import pytest
from scipy import ndimage
from scipy.sparse import csr_array

from qmcif_engine.method.fusion import LOW_PASS_PX, LOW_PASS_REACH_PX, Blend, compose, crop_blend, low_pass, select
from qmcif_engine.method.patches import CELL_PX
from qmcif_engine.stack.window import Window

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


def blend_of(index, *, band=None, sources=(), weights=None, brightness=None):
    is_mixed = np.zeros(index.shape, bool) if band is None else band
    shares = np.zeros((len(sources), int(is_mixed.sum())), np.float32) if weights is None else np.asarray(weights)
    shift = np.zeros_like(shares) if brightness is None else np.asarray(brightness)
    return Blend(index, is_mixed, tuple(sources), csr_array(shares), csr_array(shift))


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


# --- brightness ---


KINDS = [("uint8", ()), ("uint8", (3,)), ("uint16", ()), ("uint16", (3,)), ("float32", ()), ("float32", (3,)), ("float64", (2,))]


def random_shifts(n_images, n_pixels, weights, *, seed=7):
    """Shares in the brightness, less those in the detail: both add up to one."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_images), n_pixels).T - weights


def shifted_blend(n_images, shape, *, seed=8):
    """A band of most pixels in which detail and brightness are mixed at random."""
    generator = np.random.default_rng(seed)
    band = generator.random(shape) < 0.8
    weights = generator.dirichlet(np.full(n_images, 0.3), band.sum()).T
    index = generator.integers(0, n_images, shape).astype(np.uint16)
    index[band] = weights.argmax(axis=0)
    return blend_of(index, band=band, sources=range(n_images), weights=weights, brightness=random_shifts(n_images, band.sum(), weights))


def ramp_blend(shape, *, reach_px):
    """The second image from the middle on, cut hard in the detail; in the brightness it comes in over twice the reach."""
    columns = np.arange(shape[1])
    index = np.broadcast_to(columns >= shape[1] // 2, shape).astype(np.uint16)
    share = np.clip((columns - shape[1] // 2 + reach_px + 0.5) / (2 * reach_px), 0, 1)
    band = np.ones(shape, bool)
    second = np.broadcast_to(share, shape)[band]
    hard = index[band].astype(float)
    weights, shift = np.stack([1 - hard, hard]), np.stack([hard - second, second - hard])
    return blend_of(index, band=band, sources=(0, 1), weights=weights, brightness=shift), share


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
def test_shifted_samples_lie_between_those_of_the_images_that_contribute(dtype, channels):
    images = random_images(3, dtype, channels=channels)
    blend = shifted_blend(3, SHAPE)

    fused = compose(images, blend)

    assert fused.dtype == np.dtype(dtype)
    assert fused.shape == images[0].shape
    rounding = np.spacing(np.abs(images).max(axis=0)) if np.dtype(dtype).kind == "f" else 0
    assert (fused >= np.min(images, axis=0) - rounding).all()
    assert (fused <= np.max(images, axis=0) + rounding).all()
    plain = compose(images, blend_of(blend.source_index, band=blend.band, sources=blend.sources, weights=blend.weights.toarray()))
    assert (fused != plain)[blend.band].any()
    np.testing.assert_array_equal(bits(fused[~blend.band]), bits(plain[~blend.band]))


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
def test_an_image_without_a_share_in_the_brightness_widens_no_limits(dtype, channels):
    """The third image contributes nowhere, and however bright it is, it does not show."""
    images = random_images(3, dtype, channels=channels)
    of_two = shifted_blend(2, SHAPE)
    nothing = np.zeros((1, of_two.band.sum()))
    tables = [np.vstack([table.toarray(), nothing]) for table in (of_two.weights, of_two.brightness)]

    of_three = blend_of(of_two.source_index, band=of_two.band, sources=(0, 1, 2), weights=tables[0], brightness=tables[1])

    np.testing.assert_array_equal(bits(compose(images, of_three)), bits(compose(images[:2], of_two)))


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
def test_equal_samples_stay_exactly_equal_where_brightness_is_shifted(dtype, channels):
    """Also those of images that differ around them."""
    image, other = random_images(2, dtype, channels=channels)
    is_same = np.random.default_rng(5).random(SHAPE) < 0.5
    images = [image, np.where(is_same.reshape(*SHAPE, *[1] * len(channels)), image, other), image.copy()]

    fused = compose(images, shifted_blend(3, SHAPE))

    np.testing.assert_array_equal(bits(fused[is_same]), bits(image[is_same]))
    assert (fused != image).any()


@pytest.mark.parametrize("channels", [(), (3,)])
def test_brightness_is_the_weighted_mean_of_the_low_passed_images(channels):
    """Images that differ by more than their texture is deep, so that the limits do not matter."""
    generator = np.random.default_rng(6)
    shape = (40, CELL_PX + 30)
    images = [level + generator.uniform(-1, 1, (*shape, *channels)) for level in (0.0, 100.0)]
    band = np.ones(shape, bool)
    share, second = np.full(band.sum(), 0.4), generator.uniform(0.2, 0.8, band.sum())
    weights, shift = np.stack([1 - share, share]), np.stack([share - second, second - share])

    fused = compose(images, blend_of(np.zeros(shape, np.uint16), band=band, sources=(0, 1), weights=weights, brightness=shift))

    sigma = (LOW_PASS_PX, LOW_PASS_PX, *[0] * len(channels))
    broad = [ndimage.gaussian_filter(image, sigma, truncate=LOW_PASS_REACH_PX / LOW_PASS_PX) for image in images]
    mixed = (0.6 * images[0] + 0.4 * images[1]).reshape(len(share), -1)
    expected = mixed + (second - share)[:, None] * (broad[1] - broad[0]).reshape(len(share), -1)
    np.testing.assert_allclose(fused.reshape(len(share), -1), expected, rtol=0, atol=1e-9)


def test_without_brightness_samples_are_mixed_as_they_are():
    images = random_images(3, "uint8")
    blend = shifted_blend(3, SHAPE)
    shares = blend.weights.toarray()

    fused = compose(images, blend_of(blend.source_index, band=blend.band, sources=blend.sources, weights=shares))

    expected = np.einsum("np,npc->pc", shares, np.stack(images)[:, blend.band].astype(float))
    assert np.abs(fused[blend.band] - expected).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(("dtype", "step"), [("uint8", 40), ("uint16", 4000), ("float32", 0.2)])
def test_a_step_becomes_a_ramp_while_the_texture_on_top_keeps_its_contrast(dtype, step):
    """Texture that the two images show at opposite phases, as far as they differ: mixed, it would be gone."""
    shape, reach_px = (60, 120), 12
    checkers = np.where(np.indices(shape).sum(axis=0) % 2, 1, -1) * (step / 8)
    first, second = 2 * step + checkers, 3 * step - checkers
    images = [image.astype(dtype) for image in (first, second)]
    blend, share = ramp_blend(shape, reach_px=reach_px)
    by_samples = blend_of(
        blend.source_index, band=blend.band, sources=(0, 1), weights=np.stack([1 - share, share])[:, None].repeat(60, 1).reshape(2, -1)
    )

    fused, mixed = (compose(images, each).astype(float) for each in (blend, by_samples))

    ramp = 2 * step + step * share
    inner = np.s_[10:-10, 60 - reach_px + 2 : 60 + reach_px - 2]
    np.testing.assert_allclose(fused[10:-10].mean(axis=0), ramp, rtol=0, atol=0.05 * step)
    assert np.diff(fused[10:-10].mean(axis=0)).max() < 0.1 * step
    contrast, contrast_mixed = (np.abs(picture - picture[10:-10].mean(axis=0))[inner].mean(axis=0) for picture in (fused, mixed))
    np.testing.assert_allclose(contrast, step / 8, rtol=0.1)
    assert contrast_mixed.min() < 0.1 * step / 8


@pytest.mark.parametrize(("dtype", "channels"), KINDS)
@pytest.mark.parametrize("corner", [(0, 0), (11, 20), (LOW_PASS_REACH_PX, CELL_PX - 5)])
def test_a_window_inside_the_images_gives_the_bytes_of_the_whole(dtype, channels, corner):
    generator = np.random.default_rng(9)
    shape = (60, CELL_PX + 60)
    images = [(200 * generator.random((*shape, *channels))).astype(dtype) for _ in range(3)]
    blend = shifted_blend(3, shape)
    inner = Window(*corner, corner[0] + 30, corner[1] + 50)
    seen = inner.grown(LOW_PASS_REACH_PX, shape)

    whole = compose(images, blend)[inner.slices]

    np.testing.assert_array_equal(bits(compose(images, crop_blend(blend, inner), inner=inner)), bits(whole))
    cut = [image[seen.slices] for image in images]
    np.testing.assert_array_equal(bits(compose(cut, crop_blend(blend, inner), inner=inner.relative_to(seen))), bits(whole))


def test_the_low_pass_keeps_what_is_even_and_takes_detail_away():
    rows, columns = np.indices((40, 50))
    ramp = 3.0 * rows - 2.0 * columns
    checkers = np.where((rows + columns) % 2, 1.0, -1.0)
    inside = np.s_[LOW_PASS_REACH_PX:-LOW_PASS_REACH_PX, LOW_PASS_REACH_PX:-LOW_PASS_REACH_PX]

    even, sloping, rough = low_pass(np.stack([np.full((40, 50), 7.0), ramp, checkers]))

    np.testing.assert_allclose(even, 7, rtol=1e-12)
    np.testing.assert_allclose(sloping, ramp[inside], rtol=0, atol=1e-9)
    assert np.abs(rough).max() < 0.01


def test_images_are_left_alone_where_their_brightness_is_shifted():
    images = random_images(3, "float64")
    kept = [image.copy() for image in images]
    blend = shifted_blend(3, SHAPE)
    tables = blend.weights.toarray(), blend.brightness.toarray()

    compose(images, blend)

    np.testing.assert_array_equal(images, kept)
    np.testing.assert_array_equal(blend.weights.toarray(), tables[0])
    np.testing.assert_array_equal(blend.brightness.toarray(), tables[1])
