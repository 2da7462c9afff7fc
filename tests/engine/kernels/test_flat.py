"""Arithmetic of flat pictures against the same in plain NumPy."""

import numpy as np
import pytest

from qmcif_engine.kernels import flat

SHAPE = (41, 37)


def planes_of(n, dtype, *, seed=0):
    return np.random.default_rng(seed).uniform(0, 255, (n, SHAPE[0] * SHAPE[1])).astype(dtype)


def summed_plainly(values, side):
    """Sums over the windows that fit, in float64."""
    windows = np.lib.stride_tricks.sliding_window_view(values.reshape(SHAPE).astype(np.float64), (side, side))
    return windows.sum(axis=(2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("side", [3, 5, 17])
def test_sums_are_those_over_the_windows_that_fit(side, dtype):
    values, *buffers, sums = planes_of(4, dtype)
    if side == 17:
        flat.sum_seventeen(values, SHAPE[1], *buffers, sums)
    else:
        (flat.sum_three if side == 3 else flat.sum_five)(values, SHAPE[1], buffers[0], sums)

    inner = sums.reshape(SHAPE)[side // 2 : -(side // 2), side // 2 : -(side // 2)]

    np.testing.assert_allclose(inner, summed_plainly(values, side), rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("side", [3, 5, 17])
def test_what_lies_outside_a_window_does_not_even_change_the_last_bit(side):
    values, *buffers, sums = planes_of(4, np.float32)
    changed = values.copy().reshape(SHAPE)
    is_far = np.maximum(*np.abs(np.indices(SHAPE) - [[[20]], [[18]]])) > side // 2
    changed[is_far] *= 1e6
    results = []
    for case in (values, changed.reshape(-1)):
        if side == 17:
            flat.sum_seventeen(case, SHAPE[1], *buffers, sums)
        else:
            (flat.sum_three if side == 3 else flat.sum_five)(case, SHAPE[1], buffers[0], sums)
        results.append(sums.reshape(SHAPE)[20, 18])

    assert results[0] == results[1]


def test_choices_and_least_values_are_those_of_numpy():
    first, second, least, kept = planes_of(4, np.float32)
    is_first, before = first > 100, kept.copy()
    chosen, expected = np.empty_like(first), np.minimum(first, least)

    flat.choose(is_first, first, second, chosen)
    flat.take_where_less(first, least, second, kept)
    np.testing.assert_array_equal(kept, np.where(first < least, second, before))
    flat.take_least(first, least)

    np.testing.assert_array_equal(chosen, np.where(is_first, first, second))
    np.testing.assert_array_equal(least, expected)


@pytest.mark.parametrize("skipped", [0, 5])
def test_the_difference_of_colors_is_their_squared_distance(skipped):
    planes, others = planes_of(3, np.float64), planes_of(3, np.float64, seed=1)
    difference = np.empty(planes.shape[1] - 2 * skipped)

    flat.measure_difference(planes, others, skipped, difference)

    expected = ((planes - others) ** 2).sum(axis=0)
    np.testing.assert_allclose(difference, expected[skipped : expected.size - skipped], rtol=1e-12)


def test_filling_sets_all_values():
    values = planes_of(1, np.float32)[0]

    flat.fill(values, np.inf)

    assert np.isposinf(values).all()
