"""Levels of all images: weighed by the preference, compared, and interpolated along the stack."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import DecisionConfig
from qmcif_engine.method.focus import NEGLIGIBLE_LEVEL
from qmcif_engine.method.focus_levels import compare_levels, interpolate_position, weigh_images

SHAPE = (4, 5)
EPS_SINGLE = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize(("preference", "expected"), [("none", [1, 1, 1]), ("front", [4, 2, 1]), ("back", [1, 2, 4])])
def test_preferred_end_of_the_stack_is_weighed_by_the_ratio_and_the_rest_in_equal_steps(preference, expected):
    config = DecisionConfig(preference=preference, preference_ratio=4.0)

    assert weigh_images(3, config) == pytest.approx(expected)


def test_confidence_is_the_level_of_the_chosen_image_beside_the_largest_of_all_others():
    levels = np.zeros((3, 1, 5), np.float32)
    levels[:, 0] = np.array([[3, 1, 0, 1, 2], [1, 1, 0, 3, 0], [0, 0, 0, 2, 0]])

    confidence = compare_levels(levels, np.zeros((1, 5), np.uint16))

    np.testing.assert_allclose(confidence, [[0.75, 0.5, 0.5, 0.25, 1]], rtol=EPS_SINGLE)
    assert confidence.dtype == np.float32


@pytest.mark.parametrize("peak", [1.6, 2.0, 2.3])
def test_position_is_the_peak_of_the_gaussian_through_three_levels(peak):
    levels = np.exp(-((np.arange(5) - peak) ** 2) / 3)[:, None, None] * np.ones(SHAPE)
    index = np.full(SHAPE, round(peak), np.uint16)

    np.testing.assert_allclose(interpolate_position(levels, index), peak, rtol=0, atol=1e-5)


def test_position_without_a_peak_lies_half_an_image_towards_the_larger_neighbor_and_ends_keep_their_own():
    levels = np.array([1.0, 2, 4, 8, 16])[:, None, None] * np.ones((1, 3))

    np.testing.assert_array_equal(interpolate_position(levels, np.array([[0, 2, 4]], np.uint16)), [[0, 2.5, 4]])


def test_position_where_nothing_is_in_focus_is_that_of_the_chosen_image():
    nothing = np.full((3, *SHAPE), NEGLIGIBLE_LEVEL / 2)

    np.testing.assert_array_equal(interpolate_position(nothing, np.ones(SHAPE, np.uint16)), 1)
