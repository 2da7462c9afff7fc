"""Q_G agrees with a pixel-by-pixel transcription of its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qmcif_engine.metrics.gradient import measure_gradient, rate_direction, rate_strength

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-12
HIGHEST = 0.9994 / (1 + math.exp(-7.5)) * 0.9879 / (1 + math.exp(-4.4))
SOBEL = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))

images = hnp.arrays(np.uint8, st.tuples(st.just(6), st.integers(1, 8)))


def find_edge(padded, y, x):
    slope_x = sum(SOBEL[i][j] * float(padded[y + i, x + j]) for i in range(3) for j in range(3))
    slope_y = sum(SOBEL[j][i] * float(padded[y + i, x + j]) for i in range(3) for j in range(3))
    return math.hypot(slope_x, slope_y), math.atan(slope_y / (slope_x or 1e-5))


def rate_plainly(sources, fused):
    numerator = denominator = 0.0
    for source in sources:
        for y, x in np.ndindex(*fused.shape):
            strength, angle = find_edge(np.pad(source, 1), y, x)
            strength_fused, angle_fused = find_edge(np.pad(fused, 1), y, x)
            ratio = strength_fused / strength if strength > strength_fused else (strength or 1e-5) / (strength_fused or 1e-5)
            agreement = 1 - abs(angle - angle_fused) * 2 / math.pi
            rate = 0.9994 / (1 + math.exp(-15 * (ratio - 0.5))) * 0.9879 / (1 + math.exp(-22 * (agreement - 0.8)))
            numerator += rate * (strength or 1e-5)
            denominator += strength or 1e-5
    return numerator / denominator


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (7, 9), (12, 8)])
@pytest.mark.parametrize("n_sources", [2, 3])
def test_equals_the_plain_definition(paint_scene, shape, n_sources):
    sources, fused = paint_scene(shape, n_sources=n_sources)

    assert measure_gradient(sources, fused) == pytest.approx(rate_plainly(sources, fused), abs=ROUNDING)


def test_flat_and_saturated_areas_follow_the_plain_definition(paint_scene):
    sources, fused = paint_scene((14, 12))
    for image in (*sources, fused):
        image[:5] = 255
    sources[0][8:] = 0
    fused[:, 9:] = 31

    assert measure_gradient(sources, fused) == pytest.approx(rate_plainly(sources, fused), abs=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, (3, 5, 6)))
def test_lies_in_its_range_and_ignores_the_order_of_sources(stack):
    first, second, fused = stack
    score = measure_gradient([first, second], fused)

    assert 0 <= score <= HIGHEST + ROUNDING
    assert measure_gradient([second, first], fused) == pytest.approx(score, abs=ROUNDING)


@PROPERTY
@given(images)
def test_identical_images_score_highest_even_if_constant(image):
    assert measure_gradient([image, image], image) == pytest.approx(HIGHEST, abs=ROUNDING)


def test_lost_edges_score_low(paint_scene):
    sources, _ = paint_scene((20, 20))

    assert measure_gradient(sources, np.zeros((20, 20), np.uint8)) < 0.01


def test_strength_is_rated_by_the_ratio_of_the_weaker_to_the_stronger():
    rates = rate_strength(np.array([0.0, 4.0, 2.0, 0.0, 4.0]), np.array([0.0, 2.0, 4.0, 4.0, 0.0]))

    assert rates[0] == pytest.approx(0.9994 / (1 + math.exp(-7.5)))
    assert rates[1] == rates[2] == pytest.approx(0.9994 / 2)
    assert rates[3] == pytest.approx(rates[4], abs=1e-4)
    assert rates[4] == pytest.approx(0.9994 / (1 + math.exp(7.5)))


def test_direction_is_not_folded_at_the_ends_of_its_range():
    steep = np.array([1.57])

    assert rate_direction(steep, -steep)[0] < 1e-15
    assert rate_direction(steep, steep)[0] == pytest.approx(0.9879 / (1 + math.exp(-4.4)))
