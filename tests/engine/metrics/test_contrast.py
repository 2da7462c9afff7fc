"""Q_CB agrees with a transcription of its definition by plain transforms and two-dimensional sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import signal

from qmcif_engine.metrics import levels
from qmcif_engine.metrics.contrast import filter_by_sensitivity, map_contrast, measure_contrast
from qmcif_engine.metrics.levels import stretch_levels

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-9
SINGLE_ROUNDING = 1e-5  # a few hundred steps of float32


def filter_plainly(image):
    n_rows, n_columns = image.shape
    down = (np.arange(n_rows) - n_rows // 2) * 2 / n_rows * n_rows / 30
    across = (np.arange(n_columns) - n_columns // 2) * 2 / n_columns * n_columns / 30
    radius = np.sqrt(down[:, np.newaxis] ** 2 + across**2)
    sensitivity = np.exp(-((radius / 15.3870) ** 2)) - 0.7622 * np.exp(-((radius / 1.3456) ** 2))
    spectrum = np.fft.fftshift(np.fft.fft2(image.astype(float)))
    return np.fft.ifft2(np.fft.ifftshift(spectrum * sensitivity)).real


def map_plainly(image):
    y, x = np.mgrid[-15:16, -15:16]
    visible = filter_plainly(stretch_levels(image))
    fine, coarse = (
        signal.correlate2d(visible, np.exp(-(x**2 + y**2) / (2 * sigma**2)) / (2 * np.pi * sigma**2), mode="same") for sigma in (2, 4)
    )
    contrast = np.abs(fine / coarse - 1)
    return contrast**3 / (contrast**2 + 0.0001)


def measure_plainly(sources, fused):
    maps, target = [map_plainly(source) for source in sources], map_plainly(fused)
    ratios = [np.where(seen < target, seen / target, target / seen) for seen in maps]
    total = sum(seen**2 for seen in maps)
    return np.mean(sum(seen**2 / total * ratio for seen, ratio in zip(maps, ratios, strict=True)))


@pytest.mark.parametrize("shape", [(2, 2), (1, 9), (17, 23), (24, 30), (33, 20)])
@pytest.mark.parametrize("n_sources", [2, 3])
def test_equals_the_plain_definition(paint_scene, shape, n_sources):
    sources, fused = paint_scene(shape, n_sources=n_sources)

    assert measure_contrast(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_single_precision_moves_the_result_by_no_more_than_rounding(paint_scene, monkeypatch):
    sources, fused = paint_scene((65, 90))
    in_double = measure_contrast(sources, fused)
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)

    assert map_contrast(fused).dtype == np.float32
    assert measure_contrast(sources, fused) == pytest.approx(in_double, abs=SINGLE_ROUNDING)


@pytest.mark.parametrize("shape", [(16, 16), (15, 16), (16, 15), (15, 15)])
def test_sensitivity_filter_equals_that_of_the_whole_spectrum(paint_scene, shape):
    image = paint_scene(shape).fused

    np.testing.assert_allclose(filter_by_sensitivity(image), filter_plainly(image), rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("shape", [(1, 1), (40, 40)])
@pytest.mark.parametrize("level", [0, 77, 255])
def test_constant_images_agree_in_having_no_contrast(shape, level):
    constant = np.full(shape, level, np.uint8)

    assert measure_contrast([constant, np.zeros_like(constant)], constant) == 1


def test_contrast_the_sources_do_not_have_scores_nothing(paint_scene):
    fused = paint_scene((20, 20)).fused
    constant = np.full_like(fused, 9)

    assert measure_contrast([constant, constant], fused) == 0


@PROPERTY
@given(hnp.arrays(np.uint8, (3, 8, 9), elements=st.sampled_from([0, 1, 128, 255])))
def test_lies_between_zero_and_one_and_ignores_the_order_of_sources(stack):
    first, second, fused = stack
    score = measure_contrast([first, second], fused)

    assert 0 <= score <= 1 + ROUNDING
    assert measure_contrast([second, first], fused) == pytest.approx(score, abs=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, (8, 9)))
def test_identical_images_score_one(image):
    assert measure_contrast([image, image, image], image) == pytest.approx(1, abs=ROUNDING)


def test_every_image_is_one_step(paint_scene):
    sources, fused = paint_scene((9, 9), n_sources=3)
    steps = []

    measure_contrast(sources, fused, on_step=lambda: steps.append(1))

    assert len(steps) == 4
