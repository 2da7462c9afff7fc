"""The detail layer as the default measures it: against its updates written out, and what a detail layer must do."""

import numpy as np
import pytest

from qmcif_engine.method.detail_layer import (
    FIRST_STEPS,
    ITERATIONS,
    PENALTY,
    PENALTY_GROWTH,
    REACH_PX,
    SMOOTHNESS,
    STEP,
    detail_layer,
)
from tests.scenes import SINGLE_EPS, reach_of_change, texture

SHAPES = ((12, 17), (1, 9), (9, 1), (1, 1), (2, 2), (31, 3))
TOLERANCE = 64 * SINGLE_EPS
"""Relative to the largest sample: a few dozen roundings on the way."""


def gradients(planes):
    """Forward differences down and to the right, shape (2, c, h, w); the last row and column have none."""
    return np.stack([np.diff(planes, axis=1, append=planes[:, -1:]), np.diff(planes, axis=2, append=planes[:, :, -1:])])


def transposed(fields):
    """The adjoint of `gradients`."""
    down, right = fields
    return np.diff(-down, axis=1, prepend=0) + np.diff(-right, axis=2, prepend=0)


def detail_written_out(planes):
    """The updates of the docstring in float64, one line for each."""
    image = planes.astype(np.float64)
    planes_alike = 3 if len(image) == 1 else 1
    base = image
    for step in FIRST_STEPS:
        base = base + step * (image - base - transposed(gradients(base)))
    multiplier = np.zeros((2, *image.shape))
    for k in range(ITERATIONS):
        penalty = PENALTY * PENALTY_GROWTH**k
        gradient = gradients(base)
        target = gradient - multiplier / penalty
        length = np.sqrt(planes_alike * (target**2).sum(axis=1, keepdims=True))
        field = target * np.maximum(length - SMOOTHNESS / penalty, 0) / np.maximum(length, 1e-20) + multiplier / penalty
        base = base + STEP * transposed(field - gradient)
        multiplier = penalty * (field - gradients(base))
    return image - base


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_planes", [1, 3])
def test_the_detail_layer_is_that_of_the_updates_written_out(n_planes, shape):
    planes = np.random.default_rng(0).normal(0, 20, (n_planes, *shape)).astype(np.float32)

    np.testing.assert_allclose(detail_layer(planes), detail_written_out(planes), atol=TOLERANCE * np.abs(planes).max())


def test_the_adjoint_of_the_twin_is_one():
    generator = np.random.default_rng(1)
    planes, fields = generator.normal(size=(3, 7, 5)), generator.normal(size=(2, 3, 7, 5))

    fields[0, :, -1], fields[1, :, :, -1] = 0, 0

    np.testing.assert_allclose((gradients(planes) * fields).sum(), (planes * transposed(fields)).sum(), rtol=1e-12)


def test_parts_are_joined_without_a_trace():
    planes = np.random.default_rng(2).normal(0, 20, (1, 131, 517)).astype(np.float32)

    np.testing.assert_allclose(detail_layer(planes), detail_written_out(planes), atol=TOLERANCE * np.abs(planes).max())


def test_a_sample_reaches_as_far_as_is_stated():
    planes = texture((1, 41, 41))

    assert reach_of_change(detail_layer, planes, (20, 20)) == REACH_PX


def test_a_gray_image_has_the_detail_of_three_equal_planes():
    gray = texture((1, 20, 30))

    color = detail_layer(np.repeat(gray, 3, axis=0))

    np.testing.assert_allclose(color, np.repeat(detail_layer(gray), 3, axis=0), atol=TOLERANCE * 255)


@pytest.mark.parametrize("level", [0, 93.5, -4])
def test_a_constant_image_has_no_detail(level):
    assert not detail_layer(np.full((3, 9, 11), level, np.float32)).any()


def test_an_offset_changes_no_detail():
    planes = texture((3, 24, 24))

    np.testing.assert_allclose(detail_layer(planes + 64), detail_layer(planes), atol=TOLERANCE * 255)


@pytest.mark.parametrize("axis", [1, 2])
def test_turned_over_images_have_turned_over_detail_but_for_the_differences_to_one_side(axis):
    """Differences go down and to the right, so that a flip moves them by a pixel: the shrinkage, which is per direction, is the same."""
    planes = np.random.default_rng(3).normal(0, 20, (3, 16, 18)).astype(np.float32)

    flipped = np.flip(detail_layer(np.ascontiguousarray(np.flip(planes, axis))), axis)

    np.testing.assert_allclose(flipped, detail_layer(planes), atol=TOLERANCE * np.abs(planes).max())


def test_rows_and_columns_are_treated_alike():
    planes = np.random.default_rng(4).normal(0, 20, (3, 15, 22)).astype(np.float32)

    turned = detail_layer(np.ascontiguousarray(planes.swapaxes(1, 2))).swapaxes(1, 2)

    np.testing.assert_allclose(turned, detail_layer(planes), atol=TOLERANCE * np.abs(planes).max())


def test_a_tall_step_goes_into_the_base_layer_more_than_a_low_one_and_than_noise():
    step = np.zeros((1, 40, 40), np.float32)
    step[:, :, 20:] = 1
    noise = np.random.default_rng(5).normal(size=(1, 40, 40)).astype(np.float32)

    low, tall = (np.abs(detail_layer(height * step)).max() / height for height in (1, 500))

    assert tall < 0.9 * low
    assert (detail_layer(noise) ** 2).mean() > 0.5 * (noise**2).mean()


def test_the_image_is_left_as_it_is():
    planes = texture((3, 10, 10))
    before = planes.copy()

    detail_layer(planes)

    np.testing.assert_array_equal(planes, before)
