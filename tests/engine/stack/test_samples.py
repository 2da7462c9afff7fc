"""The way in and the way out: what is refused and how, the focus range, the planes, the return to samples."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import Representation
from qmcif_engine.errors import InvalidConfigError, InvalidImageError
from qmcif_engine.stack.samples import (
    FARTHEST_LEVEL,
    LUMINANCE,
    SUPPORTED_DTYPES,
    FocusRange,
    check_focus_range,
    check_focus_ranges,
    check_images,
    list_bounds,
    measure_focus_range,
    to_planes,
    to_samples,
)

SINGLE_EPS = float(np.finfo(np.float32).eps)
FULL_SCALE = 255
SUPPORTED = ", ".join(SUPPORTED_DTYPES)
UNFIT_RANGES = [(5, 5), (10, 3), (0, np.nan), (-np.inf, 1), (0, np.inf), (1,), ("dark", "bright"), 7, (0, 1e-320), (-1.7e308, 1.7e308)]


def plain(shape=(4, 5), dtype=np.uint8):
    return np.zeros(shape, dtype)


def picture(dtype=np.uint8, shape=(40, 50, 3), seed=0):
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "ui":
        return generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
    if dtype == "bool":
        return generator.random(shape) < 0.5
    return generator.normal(0, 1, shape).astype(dtype)


# --- what is accepted ---


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (1, 1)])
def test_lists_and_whole_arrays_of_images_are_accepted_alike(dtype, shape):
    images = np.ones((3, *shape), dtype)

    for given in (images, list(images), tuple(images)):
        stack = check_images(given)
        assert len(stack) == 3
        assert all(np.shares_memory(image, original) and image.shape == shape for image, original in zip(stack, images, strict=True))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], r"0 images were given; at least 2 of one scene are needed: add the other focus positions$"),
        ([plain()], r"1 image was given; at least 2 of one scene are needed: add the other focus positions$"),
        ([plain(), plain((4, 6))], r"a\.png has shape \(4, 5\) and b\.png \(4, 6\); all must be equal: crop or align them first$"),
        ([plain(), plain((4, 5, 3))], r"a\.png has shape \(4, 5\) and b\.png \(4, 5, 3\); all must be equal: crop or align them first$"),
        ([plain(), plain(dtype=np.uint16)], r"a\.png is uint8 and b\.png uint16; all must be of one type: convert them first$"),
        *(
            (
                [plain(dtype=dtype)] * 2,
                rf"a\.png has samples of type {dtype}; {SUPPORTED} are supported: convert it with astype$",
            )
            for dtype in ("int64", "int32", "float16", "uint64", "complex128")
        ),
        *(
            (
                [plain(shape)] * 2,
                r"a\.png has shape .*; \(height, width\) or \(height, width, 3\) is needed: drop or select channels first$",
            )
            for shape in ((4, 5, 4), (4, 5, 1), (5,), (2, 4, 5, 3), (0, 5))
        ),
        *(
            (
                [plain(dtype=dtype), np.full((4, 5), value, dtype)],
                r"b\.png holds NaN or infinite samples; finite ones are needed: fill them first",
            )
            for dtype, value in ((np.float32, np.nan), (np.float64, np.inf), (np.float64, -np.inf))
        ),
    ],
)
def test_unfit_images_are_refused_by_name_with_what_is_needed_and_what_to_do(images, message):
    with pytest.raises(InvalidImageError, match=f"^{message}"):
        check_images(images, names=["a.png", "b.png"][: len(images)])


def test_without_names_images_are_numbered():
    with pytest.raises(InvalidImageError, match=r"^image 1 is uint8 and image 2 uint16"):
        check_images([plain(), plain(dtype=np.uint16)])


# --- the focus range ---


def test_focus_range_ignores_the_extreme_thousandth_at_both_ends():
    values = np.linspace(1000, 2000, 10_000, dtype=np.float64).reshape(2, 50, 100)
    spoiled = values.copy()
    spoiled[0, 0, :4], spoiled[1, -1, -4:] = -1e9, 1e9

    low, high = measure_focus_range(list(spoiled))

    # within two steps of the thousandth and the 999 thousandth
    assert low == pytest.approx(1001, abs=0.3)
    assert high == pytest.approx(1999, abs=0.3)


@pytest.mark.parametrize("bits", [10, 12, 14])
def test_focus_range_of_the_same_data_is_the_same_up_to_scale_whatever_the_bit_depth(bits):
    base = np.random.default_rng(1).integers(0, 1024, (2, 60, 70))
    narrow = [(image << (bits - 10)).astype(np.uint16) for image in base]
    full = [(image << 6).astype(np.uint16) for image in base]

    narrow_range, full_range = measure_focus_range(narrow), measure_focus_range(full)

    ratio = 2 ** (16 - bits)
    accepted = 4 * np.finfo(np.float64).eps * full_range.high
    assert narrow_range.low * ratio == pytest.approx(full_range.low, abs=accepted)
    assert narrow_range.high * ratio == pytest.approx(full_range.high, abs=accepted)


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
def test_focus_range_depends_neither_on_the_order_of_images_nor_on_equal_channels(dtype):
    gray = [picture(dtype, (40, 50), seed=seed) for seed in range(3)]

    assert measure_focus_range(gray) == measure_focus_range([gray[2], gray[0], gray[1]])
    assert measure_focus_range(gray) == measure_focus_range([np.repeat(image[..., None], 3, axis=-1) for image in gray])


def test_focus_range_looks_at_every_image():
    dark, bright = plain((20, 20)), np.full((20, 20), 200, np.uint8)

    assert measure_focus_range([dark, dark, bright]) == (0, 200)
    assert measure_focus_range([bright, dark, dark]) == (0, 200)


def test_focus_range_of_a_large_stack_comes_from_a_subsample_all_over_it():
    columns = np.broadcast_to(np.arange(3000, dtype=np.uint16), (1500, 3000))

    low, high = measure_focus_range([columns, columns])

    # percentiles of a ramp, within the step of the subsample
    assert low == pytest.approx(3, abs=4)
    assert high == pytest.approx(2996, abs=4)


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
def test_constant_stack_has_a_finite_scale_and_planes_of_zero(dtype):
    stack = [np.full((6, 7, 3), 1, dtype)] * 2
    bounds = measure_focus_range(stack)

    assert bounds == (1, 1)
    assert np.isfinite(bounds.width)
    np.testing.assert_array_equal(to_planes(stack[0], bounds, representation=Representation.QUATERNION), 0)


def test_a_given_range_is_returned_as_numbers_for_all_channels_or_for_each():
    assert check_focus_range((0, 4095)) == FocusRange(0.0, 4095.0)
    assert check_focus_range(FocusRange(7.0, 7.0)) == (7, 7)  # measured before, of a stack of one value
    assert (FocusRange(-1, 1).width, FocusRange(7, 7).width) == (2, FULL_SCALE)
    for given, expected in (((0, 9), FocusRange(0, 9)), ([(0, 9), [1, 4]], (FocusRange(0, 9), FocusRange(1, 4)))):
        bounds = check_focus_ranges(given, n_channels=2)
        assert bounds == expected
        assert list_bounds(bounds) == [list(pair) if isinstance(pair, (list, tuple)) else pair for pair in given]


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        *(
            (bounds, "the focus range is .*; two finite values, the lower first, are needed: give for example 0 and 4095 for 12 bits$")
            for bounds in UNFIT_RANGES
        ),
        ([(0, 9)], "1 focus ranges were given and 2 channels decide; one for all or one for each is needed: give as many as"),
        ([(0, 9), (4, 1)], r"the focus range is \(4, 1\); two finite values"),
        ([(0, 9), 3], "the focus range is 3; two finite values"),
    ],
)
def test_unfit_ranges_are_refused(bounds, message):
    with pytest.raises(InvalidConfigError, match=f"^{message}"):
        check_focus_ranges(bounds, n_channels=2)


# --- planes ---


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
def test_color_becomes_three_float32_planes_on_the_scale_of_decisions(dtype):
    image = picture(dtype)
    bounds = FocusRange(float(image.min()), float(image.max()))

    planes = to_planes(image, bounds, representation=Representation.QUATERNION)

    expected = (image.astype(np.float64) - bounds.low) / (bounds.high - bounds.low) * FULL_SCALE
    assert planes.dtype == np.float32
    assert planes.flags.c_contiguous
    np.testing.assert_allclose(planes, np.moveaxis(expected, -1, 0), rtol=0, atol=4 * FULL_SCALE * SINGLE_EPS)
    assert planes.min() == 0
    assert planes.max() == pytest.approx(FULL_SCALE, abs=4 * FULL_SCALE * SINGLE_EPS)


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
def test_gray_becomes_one_plane_which_is_each_of_those_of_equal_channels(dtype):
    gray = picture(dtype, (12, 13))
    bounds = FocusRange(float(gray.min()), float(gray.max()))

    planes = to_planes(gray, bounds, representation=Representation.QUATERNION)
    of_color = to_planes(np.repeat(gray[..., None], 3, axis=-1), bounds, representation=Representation.QUATERNION)

    assert planes.shape == (1, 12, 13)
    np.testing.assert_array_equal(np.repeat(planes, 3, axis=0), of_color)


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
def test_gray_representation_is_the_luminance(dtype):
    image = picture(dtype)
    bounds = FocusRange(float(image.min()), float(image.max()))
    luminance = (image.astype(np.float64) - bounds.low) / (bounds.high - bounds.low) * FULL_SCALE @ np.array(LUMINANCE)

    planes = to_planes(image, bounds, representation=Representation.GRAY)

    assert planes.shape == (1, *image.shape[:2])
    np.testing.assert_allclose(planes[0], luminance, rtol=0, atol=8 * FULL_SCALE * SINGLE_EPS)


def test_gray_representation_of_gray_is_that_of_equal_channels():
    gray = picture(np.uint8, (12, 13))
    bounds = FocusRange(0, 255)

    of_gray = to_planes(gray, bounds, representation=Representation.GRAY)
    of_color = to_planes(np.repeat(gray[..., None], 3, axis=-1), bounds, representation=Representation.GRAY)

    np.testing.assert_allclose(of_gray, of_color, rtol=0, atol=4 * FULL_SCALE * SINGLE_EPS)


def test_small_range_on_a_large_offset_keeps_its_detail():
    detail = np.random.default_rng(2).uniform(0, 1e-3, (8, 9))
    image = 1e6 + detail

    planes = to_planes(image, FocusRange(1e6, 1e6 + 1e-3), representation=Representation.QUATERNION)

    rounding_of_input = np.spacing(1e6) / 1e-3 * FULL_SCALE
    np.testing.assert_allclose(planes[0], detail / 1e-3 * FULL_SCALE, rtol=0, atol=2 * rounding_of_input)


def test_samples_outside_the_range_are_not_clipped_and_neighboring_ones_stay_apart():
    image = np.array([[0, 50, 250, 40000, 40001]], np.uint16)

    planes = to_planes(image, FocusRange(50, 101), representation=Representation.QUATERNION)

    np.testing.assert_allclose(planes[0, 0, :3], [-250, 0, 1000], rtol=4 * SINGLE_EPS, atol=0)
    planes = to_planes(image, FocusRange(0, 65535), representation=Representation.QUATERNION)
    assert planes[0, 0, 4] > planes[0, 0, 3]


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES)
@pytest.mark.parametrize("representation", Representation)
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_planes_leave_the_image_alone(dtype, representation, shape):
    image = picture(dtype, shape)
    kept = image.copy()

    to_planes(image, FocusRange(1, 3), representation=representation)

    np.testing.assert_array_equal(image, kept)


# --- back to samples ---


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_integers_are_rounded_to_the_nearest_and_clipped(dtype):
    limit = np.iinfo(dtype).max
    values = np.array([-3.0, -0.4, 0.4, 0.6, 100.7, limit - 0.4, limit + 0.4, limit + 1, 1e12])

    samples = to_samples(values, np.dtype(dtype))

    assert samples.dtype == dtype
    np.testing.assert_array_equal(samples, [0, 0, 0, 1, 101, limit, limit, limit, limit])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_cast_and_never_clipped_nor_rounded(dtype):
    values = np.array([-3.25, 0.5, 300.125, 1e6])

    samples = to_samples(values, np.dtype(dtype))

    assert samples.dtype == dtype
    np.testing.assert_array_equal(samples, values)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_every_integer_sample_comes_back_as_it_was(dtype):
    every = np.arange(np.iinfo(dtype).max + 1)

    np.testing.assert_array_equal(to_samples(every.astype(np.float32), np.dtype(dtype)), every)


@pytest.mark.parametrize("sentinel", [-3.4e38, 1e20, np.finfo(np.float32).max])
def test_a_sentinel_far_outside_the_range_stays_within_what_can_be_squared(sentinel):
    image = np.array([[0, 1, sentinel]], np.float32)
    planes = to_planes(image, FocusRange(0, 1), representation=Representation.QUATERNION)

    assert np.isfinite(planes**2).all()
    np.testing.assert_array_equal(planes[:, 0, :2], [[0, 255]])


# --- sparse pictures ---


@pytest.mark.parametrize("noise", [0, 1e-17])
def test_focus_range_of_a_few_bright_samples_on_black_spans_them(noise):
    generator = np.random.default_rng(3)
    stack = [generator.normal(0, noise, (200, 300)) for _ in range(2)]
    stack[0][50, 60:90] = np.linspace(0.1, 0.7, 30)
    stack[1][50, 60:90] = np.linspace(0.2, 1.0, 30)

    low, high = measure_focus_range(stack)

    assert low == pytest.approx(0, abs=1e-15)
    assert high == 1


def test_focus_range_of_one_bright_sample_off_the_subsampling_grid_spans_it():
    stack = [plain((1500, 1500), np.uint16) for _ in range(2)]
    stack[1][701, 703] = 900

    assert measure_focus_range(stack) == (0, 900)


@pytest.mark.parametrize("sentinel", [-1e9, -3.4e38])
def test_one_sentinel_value_does_not_stretch_the_focus_range(sentinel):
    stack = [picture(np.float64, seed=seed) for seed in range(2)]
    expected = measure_focus_range(stack)
    stack[0][0, :2] = sentinel

    low, high = measure_focus_range(stack)

    assert low == pytest.approx(expected.low, abs=0.5)
    assert high == pytest.approx(expected.high, abs=0.5)


@pytest.mark.parametrize("dtype", [np.uint16, np.float64])
def test_each_channel_is_mapped_through_its_own_range_and_a_plane_of_zeros_stays_zero(dtype):
    image = np.zeros((4, 5, 3), dtype)
    image[..., 0], image[..., 1] = 1000, np.arange(5)

    planes = to_planes(image, (FocusRange(0, 2000), FocusRange(0, 4)), representation=Representation.QUATERNION)

    np.testing.assert_array_equal(planes[0], FULL_SCALE / 2)
    np.testing.assert_allclose(planes[1], np.broadcast_to(np.arange(5) * FULL_SCALE / 4, (4, 5)))
    np.testing.assert_array_equal(planes[2], 0)


# --- integers, in one pass ---

EMBEDDED = FocusRange(17.0, 203.0)
EMBEDDEDS = (FocusRange(3.0, 90.0), FocusRange(0.0, 255.0), FocusRange(40.0, 1000.0))


def random_samples(shape, dtype):
    limits = np.iinfo(dtype)
    return np.random.default_rng(shape).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def embedded_plainly(image, ranges):
    """The formula, channel by channel and step by step in float32."""
    planes = []
    for channel, bounds in enumerate(ranges):
        samples = image[..., channel].astype(np.float32)
        samples = (samples - np.float32(bounds.low)) / np.float32(bounds.width) * np.float32(FULL_SCALE)
        planes.append(np.clip(samples, -FARTHEST_LEVEL, FARTHEST_LEVEL))
    return np.stack(planes)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    "focus_range",
    [EMBEDDED, EMBEDDEDS, EMBEDDEDS[:2]],
    ids=["one for all", "one per channel", "two of three channels"],
)
def test_color_images_of_integers_are_embedded_by_the_plain_formula(dtype, focus_range):
    image = random_samples((11, 14, 3), dtype)
    ranges = [focus_range] * 3 if isinstance(focus_range, FocusRange) else [*focus_range, FocusRange(0.0, FULL_SCALE)][:3]

    planes = to_planes(image, focus_range, representation=Representation.QUATERNION)

    assert planes.dtype == np.float32
    assert planes.flags.c_contiguous
    np.testing.assert_array_equal(planes, embedded_plainly(image, ranges))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_views_are_embedded_like_copies_and_left_alone(dtype):
    samples = random_samples((20, 30, 4), dtype)
    kept = samples.copy()
    views = [
        samples[3:15, 5:22, :3],  # a window without its alpha plane
        samples[::2, ::3, 1:],
        samples[::-1, ::-1, 2::-1],
        samples[..., :3].transpose(1, 0, 2),
        np.asfortranarray(samples[..., :3]),
        np.broadcast_to(samples[..., :1], (20, 30, 3)),  # read only
        samples[..., :3].astype(samples.dtype.newbyteorder()),
    ]

    for view in views:
        planes = to_planes(view, EMBEDDED, representation=Representation.QUATERNION)
        np.testing.assert_array_equal(planes, embedded_plainly(view.astype(dtype), [EMBEDDED] * 3))
    np.testing.assert_array_equal(samples, kept)
