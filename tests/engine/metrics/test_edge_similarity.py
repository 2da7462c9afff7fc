"""Q_E agrees with a window-by-window transcription of its definition in exact fractions where that matters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import signal

from qmcif_engine.metrics.edge_similarity import detect_edges, measure_edge_similarity

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-9
CONSTANT = (1e-6 * 255) ** 2

images = hnp.arrays(np.uint8, st.tuples(st.just(9), st.integers(1, 12)))


def weigh_plainly(sources, fused):
    side = [min(8, length) for length in fused.shape]
    numerator = denominator = 0.0
    for y, x in np.ndindex(*(length - part + 1 for length, part in zip(fused.shape, side, strict=True))):
        parts = [image[y : y + side[0], x : x + side[1]].astype(float) for image in (*sources, fused)]
        means, variances = [part.mean() for part in parts], [np.ptp(part) and part.var() for part in parts]
        similarities = []
        for number in range(len(sources)):
            covariance = np.mean((parts[number] - means[number]) * (parts[-1] - means[-1]))
            luminance = (2 * means[number] * means[-1] + CONSTANT) / (means[number] ** 2 + means[-1] ** 2 + CONSTANT)
            similarities.append(luminance * (2 * covariance + CONSTANT) / (variances[number] + variances[-1] + CONSTANT))
        weights = np.array(variances[:-1])
        if weights.sum() == 0:
            weights = np.full(len(sources), 1 / len(sources))
        numerator += weights.max() * np.dot(weights / weights.sum(), similarities)
        denominator += weights.max()
    return numerator / denominator


def find_edges_plainly(image):
    kernel = np.array([[1, 0, -1]] * 3)
    slopes = [signal.correlate2d(image.astype(int), taps, mode="same") for taps in (kernel, kernel.T)]
    return np.sqrt(slopes[0] ** 2 + slopes[1] ** 2)


def measure_plainly(sources, fused):
    return weigh_plainly(sources, fused) * weigh_plainly([find_edges_plainly(source) for source in sources], find_edges_plainly(fused))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 8), (9, 30), (17, 13), (70, 9)])
@pytest.mark.parametrize("n_sources", [2, 3])
def test_equals_the_plain_definition(paint_scene, shape, n_sources):
    sources, fused = paint_scene(shape, n_sources=n_sources)

    assert measure_edge_similarity(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_flat_windows_count_half_each_like_in_the_plain_definition(paint_scene):
    sources, fused = paint_scene((20, 24))
    for source in sources:
        source[:12, :14] = 100
    sources[0][:10, :10] = 30
    fused[:9, :11] = 60

    assert measure_edge_similarity(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_edges_are_detected_across_strips_as_in_the_whole_image(paint_scene):
    image = paint_scene((15, 11)).fused
    whole = find_edges_plainly(image)

    padded = np.pad(image, 1)
    np.testing.assert_allclose(detect_edges(padded[:8]), whole[:6])
    np.testing.assert_allclose(detect_edges(padded[6:]), whole[6:])


@PROPERTY
@given(images)
def test_identical_images_score_one_even_if_constant(image):
    assert measure_edge_similarity([image, image, image], image) == pytest.approx(1, abs=1e-5)


@PROPERTY
@given(hnp.arrays(np.uint8, (3, 9, 10)))
def test_lies_in_its_range_and_ignores_the_order_of_sources(stack):
    first, second, fused = stack
    score = measure_edge_similarity([first, second], fused)

    assert -1 <= score <= 1
    assert measure_edge_similarity([second, first], fused) == pytest.approx(score, abs=ROUNDING)
