"""Q_Y agrees with a window-by-window transcription of its definition with centered moments."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qmcif_engine.metrics.structural_similarity import measure_structural_similarity

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-9
CONSTANT = 2e-16

images = hnp.arrays(np.uint8, st.tuples(st.just(9), st.integers(1, 12)))


def weigh_gaussian(shape):
    down, across = (np.exp(-((np.arange(length) - (length - 1) / 2) ** 2) / 4.5) for length in shape)
    weights = np.outer(down, across)
    return weights / weights.sum()


def compare_plainly(first, second, weights):
    """Centered moments: a constant window has deviations of exactly zero."""
    first, second = first.astype(float), second.astype(float)
    means = [image.flat[0] if np.ptp(image) == 0 else np.sum(weights * image) for image in (first, second)]
    spreads = [np.sum(weights * (image - mean) ** 2) for image, mean in zip((first, second), means, strict=True)]
    covariance = np.sum(weights * (first - means[0]) * (second - means[1]))
    luminance = (2 * means[0] * means[1] + CONSTANT) / (means[0] ** 2 + means[1] ** 2 + CONSTANT)
    return luminance * (2 * covariance + CONSTANT) / (sum(spreads) + CONSTANT), spreads[0]


def measure_plainly(sources, fused):
    side = [min(7, length) for length in fused.shape]
    weights = weigh_gaussian(side)
    rates = []
    for y, x in np.ndindex(*(length - part + 1 for length, part in zip(fused.shape, side, strict=True))):
        *parts, target = (image[y : y + side[0], x : x + side[1]] for image in (*sources, fused))
        similarities, variances = zip(*(compare_plainly(part, target, weights) for part in parts), strict=True)
        agreement = min(compare_plainly(*pair, weights)[0] for pair in combinations(parts, 2))
        if agreement < 0.75:
            rates.append(max(similarities))
        elif sum(variances) == 0:
            rates.append(np.mean(similarities))
        else:
            rates.append(np.dot(variances, similarities) / sum(variances))
    return np.mean(rates)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 7), (9, 30), (16, 13), (70, 8)])
@pytest.mark.parametrize("n_sources", [2, 3])
def test_equals_the_plain_definition(paint_scene, shape, n_sources):
    sources, fused = paint_scene(shape, n_sources=n_sources)

    assert measure_structural_similarity(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_flat_and_saturated_windows_follow_the_plain_definition(paint_scene):
    sources, fused = paint_scene((20, 24))
    for image, level in zip((*sources, fused), (255, 255, 254), strict=True):
        image[:12, :14] = level
    sources[1][:8, :8] = 0
    fused[10:] = 77

    assert measure_structural_similarity(sources, fused) == pytest.approx(measure_plainly(sources, fused), abs=ROUNDING)


def test_constant_images_of_different_levels_are_rated_by_their_levels_alone():
    dark, bright = np.full((30, 30), 20, np.uint8), np.full((30, 30), 201, np.uint8)

    score = measure_structural_similarity([dark, dark], bright)

    assert score == pytest.approx(2 * 20 * 201 / (20**2 + 201**2), abs=ROUNDING)


def test_three_sources_agree_only_if_every_pair_does(paint_scene):
    base = paint_scene((30, 30)).fused
    near, far = base // 2 + 60, 255 - base
    # `far` spoils the agreement of the other two, so that the best similarity counts instead of the mean
    assert measure_structural_similarity([base, near], base) < 1
    assert measure_structural_similarity([base, near, far], base) == pytest.approx(1, abs=ROUNDING)


@PROPERTY
@given(images)
def test_identical_images_score_one_even_if_constant(image):
    assert measure_structural_similarity([image, image, image], image) == pytest.approx(1, abs=ROUNDING)


@PROPERTY
@given(hnp.arrays(np.uint8, (3, 9, 10), elements=st.sampled_from([0, 0, 1, 255])))
def test_lies_in_its_range_and_ignores_the_order_of_sources(stack):
    first, second, fused = stack
    score = measure_structural_similarity([first, second], fused)

    assert -1 - ROUNDING <= score <= 1 + ROUNDING
    assert measure_structural_similarity([second, first], fused) == pytest.approx(score, abs=ROUNDING)
