"""Whatever cannot be compared is refused in words that help."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.metrics.inputs import load_samples, name_images, prepare_images, settle_limits

GRAY = np.zeros((5, 6), np.uint8)
COLOR = np.zeros((5, 6, 3), np.uint8)


def prepare(sources, fused, *, truth=None, sample_range=None):
    """Check and convert, as an evaluation of small images does."""
    named = name_images(sources, fused, truth)
    return prepare_images(named, n_sources=len(sources), limits=settle_limits(fused.dtype, sample_range))


@pytest.mark.parametrize("n_sources", [0, 1])
def test_fewer_than_two_sources_are_refused(n_sources):
    with pytest.raises(InvalidImageError, match=rf"Got {n_sources} source image\(s\); .* at least 2\. Pass all"):
        prepare([GRAY] * n_sources, GRAY)


def test_something_else_than_an_array_is_refused():
    with pytest.raises(
        InvalidImageError, match=r"Got source 2 as list; a NumPy array or a dask array is needed\. Convert it with numpy\.asarray"
    ):
        prepare([GRAY, GRAY.tolist()], GRAY)


@pytest.mark.parametrize("shape", [(5,), (5, 6, 4), (5, 6, 1), (2, 5, 6, 3), (0, 6), (5, 0, 3)])
def test_shape_that_is_no_image_is_refused(shape):
    images = [np.zeros(shape, np.uint8)] * 3
    with pytest.raises(
        InvalidImageError, match=r"Got source 1 with shape \(.*\); \(H, W\) gray or \(H, W, 3\) RGB .*Drop an alpha channel"
    ):
        prepare(images[:2], images[2])


@pytest.mark.parametrize("other", [GRAY[:4], GRAY.T, COLOR])
def test_sizes_that_differ_are_refused(other):
    with pytest.raises(InvalidImageError, match=r"Got source 2 with shape .* but source 1 with \(5, 6\); all must agree\. Crop"):
        prepare([GRAY, other], GRAY)
    with pytest.raises(InvalidImageError, match=r"Got the fused image with shape .*; all must agree\. Crop or convert"):
        prepare([GRAY, GRAY], other)
    with pytest.raises(InvalidImageError, match=r"Got the truth with shape .*; all must agree"):
        prepare([GRAY, GRAY], GRAY, truth=other)


def test_dtypes_that_differ_are_refused():
    with pytest.raises(InvalidImageError, match=r"Got the fused image of uint16 but source 1 of uint8; .* Convert them to one dtype"):
        prepare([GRAY, GRAY], GRAY.astype(np.uint16))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float16, complex])
def test_dtype_that_is_not_supported_is_refused(dtype):
    image = GRAY.astype(dtype)
    with pytest.raises(InvalidImageError, match=r"Got images of \w+; one of uint8, .*bool is needed\. Convert"):
        prepare([image, image], image, sample_range=(0, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32])
def test_types_without_a_natural_range_are_refused_without_one(dtype):
    image = GRAY.astype(dtype)
    with pytest.raises(InvalidImageError, match=r"Got images of (float|uint)\d\d without a sample range; .*Pass sample_range"):
        prepare([image, image], image)


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.int8, -128, 127), (np.int16, -32768, 32767), (bool, 0, 1)])
def test_signed_samples_and_bits_have_the_limits_of_their_type(dtype, low, high):
    assert settle_limits(np.dtype(dtype), None) == (low, high)
    assert settle_limits(np.dtype(np.uint32), (0, 70000)) == (0, 70000)


@pytest.mark.parametrize("sample_range", [(1, 0), (0, 0), (0, np.inf), (np.nan, 1), (-1e308, 1e308), (0, 1, 2), 255, ("0", "1")])
def test_range_that_is_no_range_is_refused(sample_range):
    with pytest.raises(InvalidImageError, match=r"Got sample range .*; two finite numbers, black below white, .* Pass for instance"):
        prepare([GRAY, GRAY], GRAY, sample_range=sample_range)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", range(4))
def test_samples_that_are_not_finite_are_refused(value, position):
    images = [np.zeros((5, 6), np.float32) for _ in range(4)]
    images[position][2, 3] = value
    name = ["source 1", "source 2", "the fused image", "the truth"][position]
    with pytest.raises(InvalidImageError, match=rf"Got 1 NaN or infinite sample\(s\) in {name}; .*Replace them"):
        prepare(images[:2], images[2], truth=images[3], sample_range=(0, 1))


def test_checked_images_are_eight_bit_with_gray_sources_and_colored_truth():
    image = np.full((5, 6, 3), 65535, np.uint16)

    prepared = prepare([image] * 3, image, truth=image // 2)

    assert [source.shape for source in prepared.sources] == [(5, 6)] * 3
    assert prepared.fused.shape == (5, 6)
    assert prepared.fused_samples.shape == prepared.truth_samples.shape == (5, 6, 3)
    assert np.all(prepared.fused == 255)
    assert np.all(prepared.truth_samples == 127)


def test_declared_range_overrules_that_of_the_type():
    image = np.full((5, 6), 4095, np.uint16)

    assert np.all(prepare([image, image], image, sample_range=(0, 4095)).fused == 255)
    assert np.all(prepare([image, image], image).fused == 16)


def test_dask_arrays_are_images_too_and_are_computed_when_they_are_loaded():
    lazy = da.from_array(GRAY, chunks=2)

    named = name_images([lazy, lazy], lazy, None)

    assert all(image is lazy for _, image in named)
    np.testing.assert_array_equal(load_samples(lazy), GRAY)
    assert load_samples(GRAY) is GRAY
