"""Q_MI agrees with two independent implementations of mutual information."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.metrics import normalized_mutual_information
from sklearn.metrics import normalized_mutual_info_score

from qmcif_engine.metrics.levels import stretch_levels
from qmcif_engine.metrics.mutual_information import compute_entropy, count_joint_levels, measure_mutual_information

PROPERTY = settings(deadline=None, max_examples=50, derandomize=True)
ROUNDING = 1e-12
HIGHEST = 2.0

images = hnp.arrays(np.uint8, (6, 7), elements=st.sampled_from([3, 50, 51, 200]))


@pytest.mark.parametrize("n_sources", [2, 3, 5])
def test_equals_scikit_learn_for_any_number_of_sources(paint_scene, n_sources):
    sources, fused = paint_scene((40, 50), n_sources=n_sources)
    # scikit-learn's score is 2 I / (H + H)
    scores = [normalized_mutual_info_score(stretch_levels(source).ravel(), stretch_levels(fused).ravel()) for source in sources]

    assert measure_mutual_information(sources, fused) == pytest.approx(2 * np.mean(scores), abs=ROUNDING)


def test_equals_scikit_image(paint_scene):
    sources, fused = paint_scene((40, 50))
    # scikit-image's is (H + H) / H(joint), so that I / (H + H) = 1 - 1 / score
    scores = [normalized_mutual_information(stretch_levels(source), stretch_levels(fused), bins=256) for source in sources]

    assert measure_mutual_information(sources, fused) == pytest.approx(2 * sum(1 - 1 / score for score in scores), abs=ROUNDING)


@PROPERTY
@given(images, images, images)
def test_lies_between_zero_and_two_and_ignores_the_order_of_sources(first, second, fused):
    score = measure_mutual_information([first, second], fused)

    assert 0 <= score <= HIGHEST + ROUNDING
    assert measure_mutual_information([second, first], fused) == pytest.approx(score, abs=ROUNDING)


@PROPERTY
@given(images)
def test_identical_images_score_highest(image):
    assert measure_mutual_information([image, image, image], image) == pytest.approx(HIGHEST, abs=ROUNDING)


def test_recoding_levels_one_to_one_loses_nothing(paint_scene):
    image = paint_scene((40, 50)).fused

    assert measure_mutual_information([image, image], 255 - image) == pytest.approx(HIGHEST, abs=0.02)  # stretching merges a few levels


def test_constant_image_tells_nothing_about_a_varying_one(paint_scene):
    sources, fused = paint_scene((9, 9))

    assert measure_mutual_information(sources, np.full_like(fused, 9)) == pytest.approx(0, abs=ROUNDING)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7)])
def test_constant_images_determine_each_other(shape):
    constant = np.full(shape, 80, np.uint8)

    assert measure_mutual_information([constant, constant // 2], constant) == HIGHEST


def test_joint_shares_have_a_row_for_each_level_of_the_source():
    source, fused = np.array([[1, 1, 2]], np.uint8), np.array([[5, 5, 0]], np.uint8)

    shares = count_joint_levels(source, fused) / source.size

    assert shares[1, 5] == pytest.approx(2 / 3)
    assert shares[2, 0] == pytest.approx(1 / 3)
    assert shares.sum() == pytest.approx(1)


def test_entropy_of_equally_likely_levels_is_the_number_of_bits():
    assert compute_entropy(np.full(256, 1 / 256)) == 8
    assert compute_entropy(np.array([1.0, 0.0])) == 0
