"""Confidence and position of the focus: their formulas, and cases in which both are known."""

import numpy as np
import pytest

from qmcif_engine.decision import posterior
from qmcif_engine.decision.evidence import CELL_PX, ENERGY_STEP, FREEDOM, MISSING
from tests.scenes import reach_of_change

SHAPE = (5, 7)


def position_of(evidence, index):
    return posterior.average_peaks(*posterior.find_peaks(evidence, index), index, far=2.0)


def evidence_of(position, n_images, *, width=1.5):
    """Stored evidence of all scales that falls off on both sides of a position, shape (rows, columns), as a parabola."""
    energy = np.clip(20 - (np.arange(n_images)[:, None, None] - position) ** 2 / width, 0, None)
    return np.rint(np.stack([energy] * len(FREEDOM)) / ENERGY_STEP).astype(np.uint16)


@pytest.mark.parametrize("spread", [2.0, 0.0])
@pytest.mark.parametrize(("n_images", "is_ordered", "reach"), [(2, True, 0), (6, True, 1), (6, False, 0)])
def test_confidence_is_the_share_of_the_chosen_image_and_in_stacks_of_its_neighbors(n_images, is_ordered, reach, spread):
    beliefs = np.random.default_rng(0).uniform(0, spread, (*SHAPE, n_images)).astype(np.float32)
    label = np.broadcast_to(np.arange(n_images, dtype=np.int32), beliefs.shape)
    index = beliefs.argmin(axis=-1)

    found = posterior.find_confidence(beliefs, label, index.astype(np.uint16), is_ordered=is_ordered, n_images=n_images)

    weight = np.exp(-beliefs.astype(np.float64) / posterior.TEMPERATURE)
    is_near = np.abs(label - index[..., None]) <= reach
    np.testing.assert_allclose(found, (weight * is_near).sum(axis=-1) / weight.sum(axis=-1), rtol=1e-4)


@pytest.mark.parametrize("place", [0.0, 2.3, 4.5, 7.0, np.broadcast_to(np.linspace(1, 6, 60), (40, 60))], ids=str)
def test_the_vertex_between_images_is_found_and_a_slope_is_followed(place):
    place = np.broadcast_to(place, np.shape(place) or SHAPE)

    position = position_of(evidence_of(place, 8), np.rint(place).astype(np.uint16))

    inside = np.s_[:, 6:-6] if place.shape != SHAPE else np.s_[:]
    np.testing.assert_allclose(position[inside], place[inside], atol=0.05 if place.shape != SHAPE else 0.01)


def test_scales_weigh_by_their_degrees_of_freedom_and_without_evidence_the_position_is_the_image():
    evidence = np.stack([evidence_of(np.full(SHAPE, place), 5)[0] for place in (1.6, 2.4, 2.2)])
    index = np.full(SHAPE, 2, np.uint16)

    np.testing.assert_allclose(position_of(evidence, index), np.dot((1.6, 2.4, 2.2), FREEDOM) / sum(FREEDOM), atol=0.01)
    np.testing.assert_allclose(position_of(np.zeros_like(evidence), index), 2, atol=1e-5)


@pytest.mark.parametrize("n_images", [2, 3, 40])
def test_positions_stay_within_the_stack_and_near_the_chosen_image(n_images):
    generator = np.random.default_rng(n_images)
    evidence = generator.integers(0, 5000, (2, n_images, 20, 30)).astype(np.uint16)
    evidence[:, generator.random((n_images, 20, 30)) < 0.2] = MISSING
    index = generator.integers(0, n_images, (20, 30)).astype(np.uint16)

    position, _ = posterior.find_peaks(evidence, index)

    assert np.isfinite(position_of(evidence, index)).all()
    assert (np.abs(position - index) <= 2).all()
    assert 0 <= position.min() <= position.max() <= n_images - 1


def test_positions_reach_as_far_as_is_stated_and_not_across_depth_edges():
    evidence, index = evidence_of(np.full((41, 41), 2.2), 5), np.full((41, 41), 2, np.uint16)

    def reach():
        return reach_of_change(
            lambda planes: position_of(np.where(planes > 0, evidence[:, ::-1], evidence), index), np.zeros((41, 41)), (20, 20)
        )

    assert 0 < CELL_PX * reach() <= posterior.POSITION_REACH_PX
    index[20, 20] = 4
    assert reach() == 0
