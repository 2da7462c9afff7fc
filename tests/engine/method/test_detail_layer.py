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


@pytest.mark.parametrize(
    ("n_planes", "shape"),
    # the last one is solved in parts, which are joined without a trace
    [(1, (12, 17)), (3, (12, 17)), (3, (1, 9)), (1, (9, 1)), (3, (1, 1)), (1, (31, 3)), (1, (131, 517))],
)
def test_the_detail_layer_is_that_of_the_updates_written_out(n_planes, shape):
    planes = np.random.default_rng(0).normal(0, 20, (n_planes, *shape)).astype(np.float32)
    planes.flags.writeable = False  # writing into it would raise

    np.testing.assert_allclose(detail_layer(planes), detail_written_out(planes), atol=TOLERANCE * np.abs(planes).max())


def test_a_sample_reaches_as_far_as_is_stated():
    assert reach_of_change(detail_layer, texture((1, 41, 41)), (20, 20)) == REACH_PX


@pytest.mark.parametrize(
    "change",
    [
        lambda planes: np.flip(planes, 1),
        lambda planes: np.flip(planes, 2),
        lambda planes: planes.swapaxes(1, 2),
        lambda planes: planes.repeat(3, axis=0),
    ],
    ids=["rows", "columns", "turned", "gray"],
)
def test_detail_does_not_depend_on_direction_offset_or_equal_planes(change):
    planes = texture((1, 16, 18))

    changed = detail_layer(np.ascontiguousarray(change(planes + 64)))

    np.testing.assert_allclose(changed, change(detail_layer(planes)), atol=TOLERANCE * 255)


def test_a_tall_step_goes_into_the_base_layer_more_than_a_low_one_and_than_noise():
    step = np.zeros((1, 40, 40), np.float32)
    step[:, :, 20:] = 1
    noise = np.random.default_rng(5).normal(size=(1, 40, 40)).astype(np.float32)

    low, tall = (np.abs(detail_layer(height * step)).max() / height for height in (1, 500))

    assert tall < 0.9 * low
    assert (detail_layer(noise) ** 2).mean() > 0.5 * (noise**2).mean()
    assert not detail_layer(np.full((3, 9, 11), 93.5, np.float32)).any()
