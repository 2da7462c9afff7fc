"""Integers as planes in one pass: bit for bit what the plain formula gives."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import Representation
from qmcif_engine.kernels.sample_planes import embed_planes
from qmcif_engine.stack.samples import FARTHEST_LEVEL, FULL_SCALE, FocusRange, to_planes

RANGE = FocusRange(17.0, 203.0)
RANGES = (FocusRange(3.0, 90.0), FocusRange(0.0, 255.0), FocusRange(40.0, 1000.0))


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


def scales_of(ranges):
    return np.array([(bounds.low, bounds.width, FULL_SCALE, FARTHEST_LEVEL) for bounds in ranges], np.float32)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int16])
@pytest.mark.parametrize("n_channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (13, 18)])
def test_planes_are_those_of_the_plain_formula(shape, n_channels, dtype):
    image = random_samples((*shape, n_channels), dtype)
    ranges = [FocusRange(3.0 + channel, 90.0 + 50 * channel) for channel in range(n_channels)]
    planes = np.full((n_channels, *shape), np.nan, np.float32)

    embed_planes(image.reshape(shape[0], -1), scales_of(ranges), planes)

    np.testing.assert_array_equal(planes, embedded_plainly(image, ranges))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("n_channels", [2, 3, 5])
def test_far_levels_are_clipped_on_both_sides(n_channels, dtype):
    image = np.zeros((2, 3, n_channels), dtype)
    image[1] = np.iinfo(dtype).max
    ranges = [FocusRange(100.0, 100.001)] * n_channels
    planes = np.empty((n_channels, 2, 3), np.float32)

    embed_planes(image.reshape(2, -1), scales_of(ranges), planes)

    np.testing.assert_array_equal(planes[:, 0], -FARTHEST_LEVEL)
    np.testing.assert_array_equal(planes[:, 1], FARTHEST_LEVEL)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("focus_range", [RANGE, RANGES, RANGES[:2]], ids=["one for all", "one per channel", "two of three channels"])
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
        np.broadcast_to(samples[..., :1], (20, 30, 3)),
    ]

    for view in views:
        planes = to_planes(view, RANGE, representation=Representation.QUATERNION)
        np.testing.assert_array_equal(planes, embedded_plainly(view.copy(), [RANGE] * 3))
    np.testing.assert_array_equal(samples, kept)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_read_only_samples_are_embedded(dtype):
    image = random_samples((5, 6, 3), dtype)
    image.flags.writeable = False

    np.testing.assert_array_equal(to_planes(image, RANGE, representation=Representation.QUATERNION), embedded_plainly(image, [RANGE] * 3))


def test_other_byte_order_is_embedded():
    image = random_samples((5, 6, 3), np.uint16)
    swapped = image.astype(image.dtype.newbyteorder())

    np.testing.assert_array_equal(to_planes(swapped, RANGE, representation=Representation.QUATERNION), embedded_plainly(image, [RANGE] * 3))
