"""Levels are rounded as the reference rounds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qmcif_engine.metrics import levels
from qmcif_engine.metrics.levels import choose_precision, convert_to_eight_bits, convert_to_gray, stretch_levels

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
images = hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def test_eight_bit_samples_are_passed_on_uncopied():
    samples = np.arange(12, dtype=np.uint8).reshape(3, 4)

    assert convert_to_eight_bits(samples, (0.0, 255.0)) is samples


@PROPERTY
@given(images)
def test_sixteen_bit_copies_of_levels_become_those_levels(image):
    np.testing.assert_array_equal(convert_to_eight_bits(image.astype(np.uint16) * 257, (0.0, 65535.0)), image)


@pytest.mark.parametrize(("sample", "level"), [(-1.0, 0), (-2.0, 0), (-1e308, 0), (1e308, 255), (3.0, 255), (1.0, 128), (0.99, 127)])
def test_declared_range_is_mapped_rounded_up_at_halves_and_clipped(sample, level):
    assert convert_to_eight_bits(np.array([[sample]]), (-1.0, 3.0))[0, 0] == level


@pytest.mark.parametrize(("color", "gray"), [((255, 0, 0), 76), ((0, 255, 0), 150), ((0, 0, 255), 29), ((10, 200, 30), 124)])
def test_gray_is_the_rounded_weighted_sum(color, gray):
    # by hand: 76.23, 149.70, 29.08, and 2.99 + 117.41 + 3.42
    assert convert_to_gray(np.array([[color]], np.uint8))[0, 0] == gray


def test_gray_pixels_keep_their_level():
    every_level = np.arange(256, dtype=np.uint8).reshape(1, 256)

    np.testing.assert_array_equal(convert_to_gray(np.dstack([every_level] * 3)), every_level)


@PROPERTY
@given(images)
def test_stretched_levels_reach_both_ends_and_keep_their_order(image):
    stretched = stretch_levels(image)

    if image.min() == image.max():
        assert not stretched.any()
    else:
        assert (stretched.min(), stretched.max()) == (0, 255)
        order = np.argsort(image, axis=None, kind="stable")
        assert np.all(np.diff(stretched.ravel()[order].astype(int)) >= 0)


def test_stretching_rounds_halves_up():
    # 3 of 34 parts of 255 are 22.5
    assert stretch_levels(np.array([[0, 3, 34]], np.uint8))[0, 1] == 23


def test_precision_is_single_above_four_megapixels_only(monkeypatch):
    assert choose_precision((2048, 2048)) == np.float64
    assert choose_precision((2048, 2049)) == np.float32
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)
    assert choose_precision((1, 1)) == np.float32
