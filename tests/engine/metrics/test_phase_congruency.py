"""Q_P agrees with a transcription of its definition by two-dimensional sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from scipy import signal

from qmcif_engine.metrics import levels
from qmcif_engine.metrics.log_gabor import FilterBank
from qmcif_engine.metrics.phase_congruency import correlate_features, measure_phase_congruency
from qmcif_engine.metrics.phase_features import compute_phase_features

PROPERTY = settings(deadline=None, max_examples=20, derandomize=True)
ROUNDING = 1e-9
SINGLE_ROUNDING = 1e-3  # one pixel of a thousand may cross the threshold


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


def measure_plainly(sources, fused):
    bank = FilterBank(fused.shape)
    *maps, target = (np.stack(compute_phase_features(image, bank).as_tuple()) for image in (*sources, fused))
    strongest = maps[0]
    for other in maps[1:]:
        strongest = np.where(strongest[0] > other[0], strongest, other)
    product = 1.0
    for number in range(3):
        matches = [correlate_plainly(each[0] > 0.1, each[number], target[number]) for each in (*maps, strongest)]
        product *= np.max(matches, axis=0).sum() / np.count_nonzero(strongest[0] > 0.1)
    return product


@pytest.mark.parametrize("shape", [(6, 7), (30, 40), (31, 25), (70, 12)])
@pytest.mark.parametrize("n_sources", [2, 3, 4])
def test_equals_the_plain_definition(paint_scene, shape, n_sources):
    sources, fused = paint_scene(shape, n_sources=n_sources)

    assert measure_phase_congruency(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_single_precision_moves_the_result_by_no_more_than_rounding(paint_scene, monkeypatch):
    sources, fused = paint_scene((64, 90))
    in_double = measure_phase_congruency(sources, fused)
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)

    assert measure_phase_congruency(sources, fused) == pytest.approx(in_double, abs=SINGLE_ROUNDING)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (20, 20)])
def test_images_without_features_agree(shape):
    constant = np.full(shape, 50, np.uint8)

    assert measure_phase_congruency([constant, constant + 9], constant) == 1


def test_features_that_no_source_has_score_nothing(paint_scene):
    constant = np.full((20, 20), 50, np.uint8)

    assert measure_phase_congruency([constant, constant], paint_scene((20, 20)).fused) == 0


def test_constant_fused_image_keeps_no_feature(paint_scene):
    sources, _ = paint_scene((40, 40))

    assert measure_phase_congruency(sources, np.full((40, 40), 7, np.uint8)) == 0


@PROPERTY
@given(hnp.arrays(np.uint8, (3, 9, 10)))
def test_is_finite_and_ignores_the_order_of_sources(stack):
    first, second, fused = stack
    score = measure_phase_congruency([first, second], fused)

    assert np.isfinite(score)
    assert measure_phase_congruency([second, first], fused) == pytest.approx(score, abs=ROUNDING)


def test_match_is_zero_where_the_source_has_no_feature(paint_scene):
    sources, fused = paint_scene((40, 40))
    sources[0][:, :20] = 100
    bank = FilterBank(fused.shape)
    source, target = compute_phase_features(sources[0], bank), compute_phase_features(fused, bank)
    is_feature = source.congruency > 0.1

    matches = correlate_features(source, target)

    assert 0 < np.count_nonzero(is_feature) < is_feature.size
    for match in matches:
        assert np.all(match[~is_feature] == 0)
        assert np.all(match[is_feature] != 0)


def test_every_orientation_of_every_image_is_one_step(paint_scene):
    sources, fused = paint_scene((9, 9), n_sources=3)
    steps = []

    measure_phase_congruency(sources, fused, on_step=lambda: steps.append(1))

    assert len(steps) == 6 * 4
