"""The filters agree with whole shifted grids, and noise gains with transforms of the filters."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.metrics import levels
from qmcif_engine.metrics.log_gabor import N_ORIENTATIONS, N_SCALES, FilterBank

ROUNDING = 1e-12
SINGLE_ROUNDING = 1e-5

shapes = pytest.mark.parametrize("shape", [(12, 14), (13, 14), (12, 15), (11, 13), (1, 8), (7, 1), (2, 2), (200, 170)])


def sample_plainly(shape, *, scale, orientation):
    def sample_axis(length):
        if length == 1:
            return np.zeros(1)
        return (np.arange(length) - length // 2) / length if length % 2 == 0 else (np.arange(length) - (length - 1) / 2) / (length - 1)

    x, y = np.meshgrid(sample_axis(shape[1]), sample_axis(shape[0]))
    radius = np.sqrt(x**2 + y**2)
    radius[shape[0] // 2, shape[1] // 2] = 1
    radius, theta = np.fft.ifftshift(radius), np.fft.ifftshift(np.arctan2(-y, x))
    low_x, low_y = np.meshgrid(*((np.arange(length) - length // 2) / length for length in shape[::-1]))
    low_pass = np.fft.fftshift(1 / (1 + (np.sqrt(low_x**2 + low_y**2) / 0.45) ** 30))
    radial = np.exp(-(np.log(radius * 3 * 2.1**scale) ** 2) / (2 * np.log(0.55) ** 2)) * low_pass
    radial[0, 0] = 0
    angle = orientation * np.pi / 6
    sine = np.sin(theta) * np.cos(angle) - np.cos(theta) * np.sin(angle)
    cosine = np.cos(theta) * np.cos(angle) + np.sin(theta) * np.sin(angle)
    spread = np.pi / 6 / 1.2
    return radial * np.exp(-(np.abs(np.arctan2(sine, cosine)) ** 2) / (2 * spread**2))


@shapes
def test_filters_equal_the_plain_definition(shape):
    bank = FilterBank(shape)
    for orientation in range(N_ORIENTATIONS):
        for scale in range(N_SCALES):
            plain = sample_plainly(shape, scale=scale, orientation=orientation)
            sampled = bank.sample(slice(0, shape[0]), orientation=orientation, scales=(scale,))
            np.testing.assert_allclose(sampled, plain, rtol=0, atol=ROUNDING)


@shapes
def test_noise_gain_equals_that_of_the_transformed_filters(shape):
    bank = FilterBank(shape)
    for orientation in range(N_ORIENTATIONS):
        filters = [sample_plainly(shape, scale=scale, orientation=orientation) for scale in range(N_SCALES)]
        kernels = [np.fft.ifft2(values).real * np.sqrt(np.prod(shape)) for values in filters]
        squares = sum(np.sum(kernel**2) for kernel in kernels)
        products = sum(np.sum(kernels[i] * kernels[j]) for i in range(N_SCALES) for j in range(i + 1, N_SCALES))
        assert bank.noise_gains[orientation] == pytest.approx((squares + 2 * products) / np.sum(filters[0] ** 2), rel=1e-9)


def test_some_rows_and_several_scales_are_parts_and_sums_of_the_whole():
    bank = FilterBank((13, 10))
    whole = [bank.sample(slice(0, 13), orientation=2, scales=(scale,)) for scale in range(N_SCALES)]

    np.testing.assert_allclose(bank.sample(np.array([4, 0, 12]), orientation=2, scales=range(N_SCALES)), sum(whole)[[4, 0, 12]])


@shapes
def test_large_banks_are_computed_on_demand_with_the_same_values(shape, monkeypatch):
    kept = FilterBank(shape)
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)
    on_demand = FilterBank(shape)

    assert (kept.is_kept, on_demand.is_kept) == (True, False)
    for orientation in range(N_ORIENTATIONS):
        rows = slice(shape[0] // 3, shape[0])
        sampled = on_demand.sample(rows, orientation=orientation, scales=(1, 2))
        assert sampled.dtype == np.float32
        np.testing.assert_allclose(sampled, kept.sample(rows, orientation=orientation, scales=(1, 2)), rtol=0, atol=SINGLE_ROUNDING)


def test_bank_of_a_single_pixel_is_zero_without_noise():
    bank = FilterBank((1, 1))

    assert bank.sample(slice(0, 1), orientation=0, scales=(0,)).tolist() == [[0.0]]
    assert bank.noise_gains == [0.0] * N_ORIENTATIONS
