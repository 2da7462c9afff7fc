"""The messages of pixels against their definition, and against the exact answer where there is one."""

from itertools import product

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import setting_fields
from qmcif_engine.kernels.messages import pass_messages

EPS = float(np.finfo(np.float64).eps)
STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1))
DIAGONAL_WEIGHT = 0.7


def passed(evidence, groups=None, *, stiffness=1.0, rounds=4):
    beliefs = np.full(evidence.shape, np.nan, evidence.dtype)
    if groups is None:
        groups = np.zeros(evidence.shape, np.int64)
    pass_messages(evidence, groups, stiffness, rounds, beliefs)
    return beliefs


def passed_plainly(evidence, groups, *, stiffness, rounds):
    """One message after the other, kept by sender and receiver; sums in the order of the steps."""
    kind = evidence.dtype.type
    strength = {}
    for (y, x), step in product(np.ndindex(evidence.shape), STEPS):
        other = (y + step[0], x + step[1])
        if all(0 <= place < length for place, length in zip(other, evidence.shape, strict=True)) and groups[other] == groups[y, x]:
            strength[other, (y, x)] = kind(stiffness if 0 in step else DIAGONAL_WEIGHT * stiffness)
    messages = dict.fromkeys(strength, kind(0))

    def belief(pixel):
        total = evidence[pixel]
        for down, right in STEPS:
            total = kind(total + messages.get(((pixel[0] + down, pixel[1] + right), pixel), kind(0)))
        return total

    for _ in range(rounds):
        beliefs = {pixel: belief(pixel) for pixel in np.ndindex(evidence.shape)}
        messages = {
            (sender, receiver): np.clip(kind(beliefs[sender] - messages[receiver, sender]), -limit, limit)
            for (sender, receiver), limit in strength.items()
        }
    return np.array([belief(pixel) for pixel in np.ndindex(evidence.shape)], evidence.dtype).reshape(evidence.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (8, 1), (2, 2), (6, 9)])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_beliefs_are_those_of_the_definition(dtype, rounds, shape, n_groups):
    generator = np.random.default_rng([rounds, *shape])
    evidence = generator.normal(0, 2, shape).astype(dtype)
    groups = generator.integers(0, n_groups, shape)

    beliefs = passed(evidence, groups, stiffness=1.3, rounds=rounds)

    np.testing.assert_array_equal(beliefs, passed_plainly(evidence, groups, stiffness=1.3, rounds=rounds))
    assert beliefs.dtype == dtype


@pytest.mark.parametrize("axis", [0, 1])
def test_along_a_line_beliefs_are_what_each_decision_costs_at_best(axis):
    """Without loops the messages are exact: the least cost of all decisions with the pixel in the first image, less that in the second."""
    n_pixels, stiffness = 9, 0.8
    evidence = np.random.default_rng(4).normal(0, 1, n_pixels)
    labelings = np.array(list(product([0, 1], repeat=n_pixels)))
    costs = -labelings @ evidence + stiffness * np.abs(np.diff(labelings, axis=1)).sum(axis=1)
    expected = [costs[labels == 0].min() - costs[labels == 1].min() for labels in labelings.T]

    beliefs = passed(np.expand_dims(evidence, axis), stiffness=stiffness, rounds=n_pixels - 1)

    np.testing.assert_allclose(beliefs.ravel(), expected, rtol=0, atol=100 * EPS)


def test_no_message_crosses_groups():
    generator = np.random.default_rng(5)
    evidence = generator.normal(size=(12, 14)).astype(np.float32)
    groups = generator.integers(0, 2, (12, 14))
    changed = np.where(groups == 0, evidence + generator.normal(0, 9, (12, 14)), evidence).astype(np.float32)

    beliefs, others = passed(evidence, groups, rounds=8), passed(changed, groups, rounds=8)

    np.testing.assert_array_equal(others[groups == 1], beliefs[groups == 1])
    assert (others[groups == 0] != beliefs[groups == 0]).all()


def test_a_word_travels_one_pixel_a_round_in_every_direction():
    evidence = np.zeros((15, 15), np.float32)
    evidence[7, 7] = 3
    rows, columns = np.indices(evidence.shape)

    for rounds in range(6):
        is_near = np.maximum(abs(rows - 7), abs(columns - 7)) <= rounds
        np.testing.assert_array_equal(passed(evidence, rounds=rounds) > 0, is_near)


def test_without_stiffness_or_rounds_every_pixel_believes_its_own_evidence():
    evidence = np.random.default_rng(6).normal(size=(7, 8)).astype(np.float32)

    np.testing.assert_array_equal(passed(evidence, rounds=0), evidence)
    np.testing.assert_array_equal(passed(evidence, stiffness=0.0), evidence)


def test_certain_pixels_are_never_outweighed_at_the_largest_stiffness_there_is():
    """Eight neighbors, all of them certain of the opposite."""
    stiffness = setting_fields()["decision.edge_stiffness"].metadata["high"]
    evidence = np.full((5, 5), -1000, np.float32)
    evidence[2, 2] = 1000

    beliefs = passed(evidence, stiffness=stiffness, rounds=16)

    np.testing.assert_array_equal(beliefs > 0, evidence > 0)
    assert beliefs[2, 2] == pytest.approx(1000 - 4 * (1 + DIAGONAL_WEIGHT) * stiffness)


def test_turning_the_picture_or_exchanging_the_images_turns_or_exchanges_the_beliefs():
    evidence = np.random.default_rng(7).normal(size=(9, 11))
    beliefs = passed(evidence)
    tolerance = 1000 * EPS

    np.testing.assert_allclose(passed(-evidence), -beliefs, rtol=0, atol=tolerance)
    np.testing.assert_allclose(passed(np.ascontiguousarray(evidence.T)), beliefs.T, rtol=0, atol=tolerance)
    np.testing.assert_allclose(passed(np.ascontiguousarray(evidence[::-1])), beliefs[::-1], rtol=0, atol=tolerance)
    np.testing.assert_allclose(passed(np.ascontiguousarray(evidence[:, ::-1])), beliefs[:, ::-1], rtol=0, atol=tolerance)


def test_the_arguments_stay_as_they_are():
    evidence = np.random.default_rng(8).normal(size=(5, 6))
    groups = np.zeros((5, 6), np.int64)
    before = evidence.copy()

    passed(evidence, groups)

    np.testing.assert_array_equal(evidence, before)
    assert not groups.any()
