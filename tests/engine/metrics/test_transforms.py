"""Q_CB and Q_P, which transform the whole image, agree with transcriptions of their definitions by plain transforms and sums."""

import numpy as np
import pytest
from scipy import signal

from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.phase_features import N_ORIENTATIONS, N_SCALES, FilterBank, compute_phase_features

ROUNDING = 1e-9
DOUBLE = np.dtype(np.float64)
shapes = pytest.mark.parametrize("shape", [(12, 14), (13, 14), (12, 15), (11, 13), (1, 8), (7, 1), (2, 2), (31, 40)])


def see_plainly(image):
    """The masked local contrast of a stretched image."""
    n_rows, n_columns = image.shape
    stretched = np.floor((image - float(image.min())) / np.ptp(image) * 255 + 0.5)
    down, across = ((np.arange(side) - side // 2) * 2 / 30 for side in (n_rows, n_columns))
    radius = np.sqrt(down[:, np.newaxis] ** 2 + across**2)
    sensitivity = np.exp(-((radius / 15.3870) ** 2)) - 0.7622 * np.exp(-((radius / 1.3456) ** 2))
    visible = np.fft.ifft2(np.fft.ifftshift(np.fft.fftshift(np.fft.fft2(stretched)) * sensitivity)).real
    y, x = np.mgrid[-15:16, -15:16]
    fine, coarse = (
        signal.correlate2d(visible, np.exp(-(x**2 + y**2) / (2 * sigma**2)) / (2 * np.pi * sigma**2), mode="same") for sigma in (2, 4)
    )
    contrast = np.abs(fine / coarse - 1)
    return contrast**3 / (contrast**2 + 0.0001)


@pytest.mark.parametrize(("shape", "n_sources"), [((2, 2), 2), ((1, 9), 3), ((17, 23), 3), ((24, 30), 2), ((33, 20), 2)])
def test_contrast_equals_the_plain_definition(paint_scene, shape, n_sources):
    scene = paint_scene(shape, n_sources=n_sources)
    *maps, target = map(see_plainly, scene.images)
    ratios = [np.minimum(seen, target) / np.maximum(seen, target) for seen in maps]
    expected = np.mean(sum(seen**2 * ratio for seen, ratio in zip(maps, ratios, strict=True)) / sum(seen**2 for seen in maps))

    assert evaluate(*scene).contrast == pytest.approx(expected, abs=ROUNDING)


def test_contrast_and_features_the_sources_do_not_have_score_nothing(paint_scene):
    sources, fused = paint_scene((40, 40))
    constant = np.full_like(fused, 9)
    of_nothing, constant_fused = evaluate([constant, constant], fused), evaluate(sources, constant)

    assert (of_nothing.contrast, of_nothing.phase_congruency) == (0, 0)
    assert constant_fused.phase_congruency == 0


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
    return radial * np.exp(-(np.abs(np.arctan2(sine, cosine)) ** 2) / (2 * (np.pi / 6 / 1.2) ** 2))


def sum_kernels_plainly(filters):
    """Energy of the sum of the kernels of all scales."""
    return np.sum(sum(np.fft.ifft2(values).real * np.sqrt(values.size) for values in filters) ** 2)


@shapes
def test_filters_and_noise_gains_equal_the_plain_definition(shape):
    bank = FilterBank(shape, DOUBLE)
    for orientation in range(N_ORIENTATIONS):
        filters = [sample_plainly(shape, scale=scale, orientation=orientation) for scale in range(N_SCALES)]
        for scale, plain in enumerate(filters):
            np.testing.assert_allclose(bank.sample(orientation=orientation, scale=scale), plain, rtol=0, atol=1e-12)
        assert bank.noise_gains[orientation] == pytest.approx(sum_kernels_plainly(filters) / np.sum(filters[0] ** 2), rel=1e-9)
    assert FilterBank((1, 1), DOUBLE).noise_gains == [0.0] * N_ORIENTATIONS


def find_features_plainly(image):
    """The specification line by line; the filters are tested above."""
    bank, spectrum = FilterBank(image.shape, DOUBLE), np.fft.fft2(image.astype(float))
    energy_sum = amplitude_sum = across = down = mixed = 0.0
    for orientation in range(N_ORIENTATIONS):
        filters = [bank.sample(orientation=orientation, scale=scale) for scale in range(N_SCALES)]
        responses = np.stack([np.fft.ifft2(spectrum * values) for values in filters])
        amplitudes = np.abs(responses)
        even, odd = responses.real.sum(axis=0), responses.imag.sum(axis=0)
        modulus = np.sqrt(even**2 + odd**2) + 1e-4
        mean_even, mean_odd = even / modulus, odd / modulus
        energy = np.sum(
            responses.real * mean_even + responses.imag * mean_odd - np.abs(responses.real * mean_odd - responses.imag * mean_even), axis=0
        )
        noise_power = np.median(amplitudes[0] ** 2) / np.log(2) / np.sum(filters[0] ** 2)
        tau = np.sqrt(noise_power * sum_kernels_plainly(filters))
        energy = np.maximum(energy - (tau * np.sqrt(np.pi / 2) + 2 * np.sqrt((2 - np.pi / 2) * tau**2)) / 1.7, 0)
        width = amplitudes.sum(axis=0) / (amplitudes.max(axis=0) + 1e-4) / 4
        energy = energy / (1 + np.exp((0.5 - width) * 10))
        congruency = energy / amplitudes.sum(axis=0)
        angle = orientation * np.pi / 6
        energy_sum, amplitude_sum = energy_sum + energy, amplitude_sum + amplitudes.sum(axis=0)
        across = across + (congruency * np.cos(angle)) ** 2 / 3
        down = down + (congruency * np.sin(angle)) ** 2 / 3
        mixed = mixed + congruency**2 * np.cos(angle) * np.sin(angle) / 6
    difference = np.sqrt(mixed**2 + (across - down) ** 2) + 1e-4
    return energy_sum / (amplitude_sum + 1e-4), (across + down + difference) / 2, (across + down - difference) / 2


@pytest.mark.parametrize("shape", [(30, 40), (31, 40), (33, 27)])
def test_feature_maps_equal_the_plain_definition(paint_scene, shape):
    image = paint_scene(shape).fused
    orientations = []
    features = compute_phase_features(image, FilterBank(shape, DOUBLE), on_orientation=lambda: orientations.append(1))

    for found, plain in zip(features, find_features_plainly(image), strict=True):
        np.testing.assert_allclose(found, plain, rtol=0, atol=ROUNDING)
    assert len(orientations) == N_ORIENTATIONS


def test_step_has_its_feature_at_the_step_and_a_constant_image_none():
    image = np.zeros((64, 64), np.uint8)
    image[:, 20:44] = 200
    image[5, 5] = 1
    bank = FilterBank(image.shape, np.dtype(np.float32))
    congruency = compute_phase_features(image, bank).congruency
    of_constant = compute_phase_features(np.full_like(image, 100), bank)

    assert set(np.argsort(congruency[32])[-4:]) <= {19, 20, 43, 44}
    assert congruency[32].max() > 0.5
    assert congruency.dtype == np.float32
    assert not of_constant.congruency.any()
    assert np.allclose(of_constant.largest_moment, 5e-5)
    assert np.allclose(of_constant.smallest_moment, -5e-5)


def average_plainly(image):
    y, x = np.mgrid[-5:6, -5:6]
    weights = np.exp(-(x**2 + y**2) / 4.5)
    return signal.correlate2d(image, weights / weights.sum(), mode="same")


def correlate_plainly(mask, of_source, of_fused):
    of_source = of_source * mask
    mean, mean_fused = average_plainly(of_source), average_plainly(of_fused)
    variance, variance_fused = average_plainly(of_source**2) - mean**2, average_plainly(of_fused**2) - mean_fused**2
    covariance = average_plainly(of_source * of_fused) - mean * mean_fused
    return mask * (covariance + 1e-4) / (np.sqrt(np.abs(variance * variance_fused)) + 1e-4)


@pytest.mark.parametrize(("shape", "n_sources"), [((6, 7), 2), ((30, 40), 3), ((31, 25), 4), ((70, 12), 2)])
def test_phase_congruency_equals_the_plain_definition(paint_scene, shape, n_sources):
    scene = paint_scene(shape, n_sources=n_sources)
    bank = FilterBank(shape, DOUBLE)
    *maps, target = (np.stack(compute_phase_features(image, bank)) for image in scene.images)
    strongest = maps[0]
    for other in maps[1:]:
        strongest = np.where(strongest[0] > other[0], strongest, other)
    expected = 1.0
    for number in range(3):
        matches = [correlate_plainly(each[0] > 0.1, each[number], target[number]) for each in (*maps, strongest)]
        expected *= np.max(matches, axis=0).sum() / np.count_nonzero(strongest[0] > 0.1)

    assert evaluate(*scene).phase_congruency == pytest.approx(expected, abs=ROUNDING)
