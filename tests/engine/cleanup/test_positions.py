"""Positions between images: exact where levels are Gaussian, bounded where they are anything else."""

import numpy as np
import pytest

from qmcif_engine.cleanup.positions import FARTHEST_SHIFT, interpolate_position


def gaussian_levels(truth, n_images, width=1.3):
    return [0.05 * np.exp(-0.5 * ((truth - number) / width) ** 2) for number in range(n_images)]


def winners(levels):
    return np.argmax(levels, axis=0).astype(np.uint16)


def test_gaussian_levels_give_the_exact_peak_between_the_first_and_the_last_image():
    truth = np.linspace(0.6, 5.4, 300).reshape(15, 20)
    levels = gaussian_levels(truth, 7)

    position = interpolate_position(levels, winners(levels))

    assert position.dtype == np.float32
    np.testing.assert_allclose(position, truth, atol=2e-5)


def test_a_wide_range_of_levels_makes_no_difference_because_only_ratios_count():
    truth = np.linspace(1, 3, 12).reshape(3, 4)
    levels = gaussian_levels(truth, 5)

    np.testing.assert_allclose(
        interpolate_position(levels, winners(levels)), interpolate_position([8 * level for level in levels], winners(levels)), atol=1e-5
    )


def test_at_the_ends_of_the_stack_the_position_is_the_image():
    levels = gaussian_levels(np.array([[0.3, 2.7]]), 4)

    np.testing.assert_array_equal(interpolate_position(levels, winners(levels)), [[0, 3]])


def test_where_another_image_was_chosen_than_the_sharpest_the_position_goes_half_an_image_towards_it():
    levels = gaussian_levels(np.array([[3.4, 0.8, 2.0]]), 5)

    np.testing.assert_allclose(interpolate_position(levels, np.array([[2, 2, 2]], np.uint16)), [[2.5, 1.5, 2.0]], atol=1e-5)


def test_no_pixel_leaves_the_reach_of_its_image_whatever_the_levels_are():
    generator = np.random.default_rng(1)
    levels = list(generator.random((6, 20, 30)) * generator.integers(0, 2, (6, 20, 30)))
    index = generator.integers(0, 6, (20, 30)).astype(np.uint16)

    position = interpolate_position(levels, index)

    assert np.isfinite(position).all()
    assert np.abs(position - index).max() <= FARTHEST_SHIFT


@pytest.mark.parametrize("n_images", [2, 3])
def test_images_without_any_focus_keep_their_number(n_images):
    index = np.full((4, 5), n_images - 1, np.uint16)

    np.testing.assert_array_equal(interpolate_position([np.zeros((4, 5))] * n_images, index), index)


def test_levels_are_taken_one_at_a_time():
    truth = np.full((2, 2), 1.2)
    levels = gaussian_levels(truth, 4)

    lazily = interpolate_position((level for level in levels), winners(levels))

    np.testing.assert_array_equal(lazily, interpolate_position(levels, winners(levels)))
