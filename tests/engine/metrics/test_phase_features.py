"""Phase congruency agrees with a transcription of its definition that keeps all responses."""

from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.metrics import levels, sliding_windows
from qmcif_engine.metrics.log_gabor import N_ORIENTATIONS, N_SCALES, FilterBank
from qmcif_engine.metrics.phase_features import compute_phase_features

ROUNDING = 1e-9
SINGLE_ROUNDING = 2e-4  # float32 noise where amplitudes nearly vanish

shapes = pytest.mark.parametrize("shape", [(30, 40), (31, 40), (30, 41), (33, 27)])


def compute_plainly(image):
    """The specification line by line; the filters are tested elsewhere."""
    bank, spectrum = FilterBank(image.shape), np.fft.fft2(image.astype(float))
    energy_sum = amplitude_sum = across = down = mixed = 0.0
    for orientation in range(N_ORIENTATIONS):
        filters = [bank.sample(slice(0, image.shape[0]), orientation=orientation, scales=(scale,)) for scale in range(N_SCALES)]
        responses = np.stack([np.fft.ifft2(spectrum * values) for values in filters])
        amplitudes = np.abs(responses)
        even, odd = responses.real.sum(axis=0), responses.imag.sum(axis=0)
        modulus = np.sqrt(even**2 + odd**2) + 1e-4
        mean_even, mean_odd = even / modulus, odd / modulus
        energy = np.sum(
            responses.real * mean_even + responses.imag * mean_odd - np.abs(responses.real * mean_odd - responses.imag * mean_even), axis=0
        )
        noise_power = np.median(amplitudes[0] ** 2) / np.log(2) / np.sum(filters[0] ** 2)
        kernels = [np.fft.ifft2(values).real * np.sqrt(image.size) for values in filters]
        squares = sum(np.sum(kernel**2) for kernel in kernels)
        products = sum(np.sum(kernels[i] * kernels[j]) for i in range(N_SCALES) for j in range(i + 1, N_SCALES))
        tau = np.sqrt((2 * noise_power * squares + 4 * noise_power * products) / 2)
        energy = np.maximum(energy - (tau * np.sqrt(np.pi / 2) + 2 * np.sqrt((2 - np.pi / 2) * tau**2)) / 1.7, 0)
        width = amplitudes.sum(axis=0) / (amplitudes.max(axis=0) + 1e-4) / 4
        energy = energy / (1 + np.exp((0.5 - width) * 10))
        congruency = energy / amplitudes.sum(axis=0)
        angle = orientation * np.pi / 6
        energy_sum, amplitude_sum = energy_sum + energy, amplitude_sum + amplitudes.sum(axis=0)
        across = across + (congruency * np.cos(angle)) ** 2
        down = down + (congruency * np.sin(angle)) ** 2
        mixed = mixed + congruency**2 * np.cos(angle) * np.sin(angle)
    across, down, mixed = across / 3, down / 3, mixed / 6
    difference = np.sqrt(mixed**2 + (across - down) ** 2) + 1e-4
    return energy_sum / (amplitude_sum + 1e-4), (across + down + difference) / 2, (across + down - difference) / 2


@shapes
def test_maps_equal_the_plain_definition(paint_scene, shape):
    image = paint_scene(shape).fused

    features = compute_phase_features(image, FilterBank(shape))

    for found, plain in zip(features.as_tuple(), compute_plainly(image), strict=True):
        np.testing.assert_allclose(found, plain, rtol=0, atol=ROUNDING)


@shapes
def test_large_images_get_the_same_maps_from_half_a_spectrum(paint_scene, shape, monkeypatch):
    image = paint_scene(shape).fused
    in_double = compute_phase_features(image, FilterBank(shape))
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)
    monkeypatch.setattr(sliding_windows, "FEWEST_ROWS_PER_STRIP", 7)
    monkeypatch.setattr(sliding_windows, "PIXELS_PER_STRIP", 1)

    in_single = compute_phase_features(image, FilterBank(shape))

    for found, expected in zip(in_single.as_tuple(), in_double.as_tuple(), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=SINGLE_ROUNDING)


@pytest.mark.parametrize("level", [0, 100, 255])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (20, 21)])
def test_constant_image_has_no_features(level, shape):
    features = compute_phase_features(np.full(shape, level, np.uint8), FilterBank(shape))

    assert not features.congruency.any()
    assert np.allclose(features.largest_moment, 5e-5)
    assert np.allclose(features.smallest_moment, -5e-5)


def test_step_has_its_feature_at_the_step():
    image = np.zeros((64, 64), np.uint8)
    image[:, 20:44] = 200
    image[5, 5] = 1

    congruency = compute_phase_features(image, FilterBank(image.shape)).congruency

    assert set(np.argsort(congruency[32])[-4:]) <= {19, 20, 43, 44}
    assert congruency[32].max() > 0.5


def test_image_is_left_as_it_was_and_every_orientation_is_one_step(paint_scene):
    image = paint_scene((12, 12)).fused
    before, steps = image.copy(), []

    compute_phase_features(image, FilterBank(image.shape), on_step=lambda: steps.append(1))

    np.testing.assert_array_equal(image, before)
    assert len(steps) == N_ORIENTATIONS
