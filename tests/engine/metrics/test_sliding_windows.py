"""Strips cover an image once; window averages are those of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qmcif_engine.metrics.sliding_windows import (
    BoxWindow,
    GaussianWindow,
    cut_padded,
    filter_valid,
    find_flat_windows,
    iterate_strips,
    iterate_window_strips,
    sum_windows,
)

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-11  # float64 sums of at most 121 products of numbers up to 255

sides = st.integers(1, 20)
levels = hnp.arrays(np.uint8, st.tuples(st.integers(1, 14), st.integers(1, 14)))


def weigh_gaussian(length, sigma):
    positions = [index - (length - 1) / 2 for index in range(length)]
    weights = np.array([[np.exp(-(y * y + x * x) / (2 * sigma * sigma)) for x in positions] for y in positions])
    return weights / weights.sum()


@PROPERTY
@given(st.integers(1, 1000), st.integers(1, 100_000))
def test_strips_cover_every_row_once_in_order(n_rows, n_columns):
    strips = list(iterate_strips((n_rows, n_columns)))

    assert [row for strip in strips for row in range(strip.start, strip.stop)] == list(range(n_rows))


@PROPERTY
@given(st.integers(1, 400), sides)
def test_window_strips_hold_every_complete_window_once(n_rows, side):
    shrunk = min(side, n_rows)
    starts = [start for rows in iterate_window_strips((n_rows, 1000), side) for start in range(rows.start, rows.stop - shrunk + 1)]

    assert starts == list(range(n_rows - shrunk + 1))


@PROPERTY
@given(levels, st.integers(1, 16), st.data())
def test_padded_strip_equals_that_of_the_padded_image(image, margin, data):
    start = data.draw(st.integers(0, image.shape[0] - 1))
    stop = data.draw(st.integers(start + 1, image.shape[0]))

    strip = cut_padded(image, slice(start, stop), margin=margin)

    np.testing.assert_array_equal(strip, np.pad(image, margin)[start : stop + 2 * margin])


@pytest.mark.parametrize(("side", "sigma"), [(7, 1.5), (11, 1.5)])
def test_gaussian_average_equals_the_weighted_sum_over_each_window(side, sigma):
    image = np.random.default_rng(0).uniform(0, 255, (17, 15))
    weights = weigh_gaussian(side, sigma)
    expected = [
        [np.sum(weights * image[y : y + side, x : x + side]) for x in range(image.shape[1] - side + 1)]
        for y in range(image.shape[0] - side + 1)
    ]

    np.testing.assert_allclose(GaussianWindow(side, sigma).average(image), expected, rtol=0, atol=ROUNDING)


@PROPERTY
@given(levels)
def test_box_average_of_integers_is_exact(image):
    side = 8
    down, across = (min(side, length) for length in image.shape)
    sums = np.lib.stride_tricks.sliding_window_view(image.astype(int), (down, across)).sum(axis=(2, 3))

    averages = BoxWindow(side).average(image.astype(float))

    np.testing.assert_array_equal(np.rint(averages * down * across), sums)
    if (down, across) == (side, side):
        np.testing.assert_array_equal(averages, sums / 64)


@PROPERTY
@given(st.floats(0, 1e3))
def test_box_average_of_a_constant_is_that_constant(value):
    assert np.all(BoxWindow(8).average(np.full((9, 10), value)) == value)


@pytest.mark.parametrize("window", [GaussianWindow(11, 1.5), BoxWindow(8)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (20, 2), (5, 6)])
def test_window_shrinks_to_an_image_that_is_smaller(window, shape):
    image = np.random.default_rng(0).uniform(0, 255, shape)

    averages = window.average(image)

    assert averages.shape == tuple(max(1, length - window.side + 1) for length in shape)
    assert image.min() <= averages.min() <= averages.max() <= image.max()


@PROPERTY
@given(levels, sides, st.sampled_from([0, 1]))
def test_window_sums_equal_plain_sums(image, length, axis):
    length = min(length, image.shape[axis])

    sums = sum_windows(image.astype(float), length, axis=axis)

    np.testing.assert_array_equal(sums, np.lib.stride_tricks.sliding_window_view(image.astype(float), length, axis).sum(axis=-1))


@pytest.mark.parametrize("n_weights", [1, 2, 5, 6])
@pytest.mark.parametrize("axis", [0, 1])
def test_valid_filtering_correlates_and_does_not_convolve(n_weights, axis):
    image = np.random.default_rng(0).uniform(0, 1, (8, 9))
    weights = np.arange(1.0, n_weights + 1)

    filtered = filter_valid(image, weights, axis=axis)

    expected = np.apply_along_axis(np.correlate, axis, image, weights, mode="valid")
    np.testing.assert_allclose(filtered, expected, rtol=0, atol=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 14), st.integers(1, 14)), elements=st.sampled_from([7, 7, 7, 8])), sides)
def test_flat_windows_are_those_whose_samples_are_all_equal(image, side):
    shape = tuple(min(side, length) for length in image.shape)
    windows = np.lib.stride_tricks.sliding_window_view(image, shape)

    np.testing.assert_array_equal(find_flat_windows(image, side), windows.min(axis=(2, 3)) == windows.max(axis=(2, 3)))
