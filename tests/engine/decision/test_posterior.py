"""Confidence and position of the focus: their formulas, and cases in which both are known."""

import numpy as np
import pytest

from qmcif_engine.decision.evidence import CELL_PX, ENERGY_STEP, FREEDOM, MISSING
from qmcif_engine.decision.posterior import (
    POSITION_REACH_PX,
    TEMPERATURE,
    average_peaks,
    find_confidence,
    find_peaks,
)
from tests.scenes import reach_of_change

SHAPE = (5, 7)


def position_of(evidence, index):
    return average_peaks(*find_peaks(evidence, index), index, far=2.0)


def choose(beliefs, label):
    return np.take_along_axis(label, beliefs.argmin(axis=-1)[..., None], -1)[..., 0].astype(np.uint16)


@pytest.mark.parametrize(("n_images", "is_ordered", "reach"), [(2, True, 0), (6, True, 1), (6, False, 0)])
def test_confidence_is_the_share_of_the_chosen_image_and_in_stacks_of_its_neighbors(n_images, is_ordered, reach):
    beliefs = np.random.default_rng(0).uniform(0, 2, (*SHAPE, n_images)).astype(np.float32)
    label = np.broadcast_to(np.arange(n_images, dtype=np.int32), beliefs.shape)
    index = choose(beliefs, label)
    chosen = index.astype(int)

    found = find_confidence(beliefs, label, index, is_ordered=is_ordered, n_images=n_images)

    weight = np.exp(-beliefs.astype(np.float64) / TEMPERATURE)
    expected = [
        [weight[y, x, max(chosen[y, x] - reach, 0) : chosen[y, x] + reach + 1].sum() / weight[y, x].sum() for x in range(SHAPE[1])]
        for y in range(SHAPE[0])
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("n_images", [2, 3, 9])
def test_equal_beliefs_share_the_confidence_and_a_clear_one_has_it_all(n_images):
    label = np.broadcast_to(np.arange(n_images, dtype=np.int32), (*SHAPE, n_images))
    beliefs = np.zeros((*SHAPE, n_images), np.float32)
    clear = beliefs + 40
    clear[..., 0] = 0

    even = find_confidence(beliefs, label, choose(beliefs, label), is_ordered=False, n_images=n_images)

    np.testing.assert_allclose(even, 1 / n_images, rtol=1e-5)
    np.testing.assert_allclose(find_confidence(clear, label, choose(clear, label), is_ordered=True, n_images=n_images), 1, rtol=1e-5)


def evidence_of(position, n_images, *, width=1.5):
    """Stored evidence of all scales that falls off on both sides of a position, shape (rows, columns), as a parabola."""
    distance = np.arange(n_images)[:, None, None] - position
    energy = np.clip(20 - distance**2 / width, 0, None)
    return np.rint(np.stack([energy] * len(FREEDOM)) / ENERGY_STEP).astype(np.uint16)


@pytest.mark.parametrize("place", [0.0, 2.3, 4.5, 7.0])
def test_the_vertex_between_images_is_found(place):
    evidence = evidence_of(np.full(SHAPE, place), 8)

    position = position_of(evidence, np.full(SHAPE, round(place), np.uint16))

    np.testing.assert_allclose(position, place, atol=0.01)


def test_a_slope_is_followed():
    place = np.broadcast_to(np.linspace(1, 6, 60), (40, 60))

    position = position_of(evidence_of(place, 8), np.rint(place).astype(np.uint16))

    np.testing.assert_allclose(position[:, 6:-6], place[:, 6:-6], atol=0.05)


def test_scales_weigh_by_their_degrees_of_freedom():
    position = np.full(SHAPE, 2.0)
    one, *others = (evidence_of(position + shift, 5)[0] for shift in (-0.4, 0.4, 0.2))

    found = position_of(np.stack([one, *others]), np.full(SHAPE, 2, np.uint16))

    expected = np.dot((1.6, 2.4, 2.2), FREEDOM) / sum(FREEDOM)
    np.testing.assert_allclose(found, expected, atol=0.01)


@pytest.mark.parametrize("n_images", [2, 3, 40])
def test_positions_stay_within_the_stack_and_near_the_chosen_image(n_images):
    generator = np.random.default_rng(n_images)
    evidence = generator.integers(0, 5000, (2, n_images, 20, 30)).astype(np.uint16)
    evidence[:, generator.random((n_images, 20, 30)) < 0.2] = MISSING
    index = generator.integers(0, n_images, (20, 30)).astype(np.uint16)

    position, curvature = find_peaks(evidence, index)

    assert position.dtype == curvature.dtype == np.float32
    assert np.isfinite(position_of(evidence, index)).all()
    assert (np.abs(position - index) <= 2).all()
    assert position.min() >= 0
    assert position.max() <= n_images - 1


def test_without_evidence_the_position_is_the_image():
    index = np.full(SHAPE, 3, np.uint16)

    np.testing.assert_allclose(position_of(np.zeros((2, 7, *SHAPE), np.uint16), index), 3, atol=1e-5)


def test_positions_reach_as_far_as_is_stated():
    evidence = evidence_of(np.full((41, 41), 2.2), 5)

    def positions(planes):
        return position_of(np.where(planes > 0, evidence[:, ::-1], evidence), np.full((41, 41), 2, np.uint16))

    assert CELL_PX * reach_of_change(positions, np.zeros((41, 41)), (20, 20)) <= POSITION_REACH_PX
