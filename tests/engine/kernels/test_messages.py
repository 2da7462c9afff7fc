"""The messages of pixels against their definition, and against the exact answer where there is one."""

from itertools import product

import numpy as np
import pytest

from qmcif_engine.kernels.cells import list_boxes
from qmcif_engine.kernels.messages import CERTAIN, DIAGONAL, STRAIGHT, pass_messages, settle_cells

STEPS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1))


def links_between(groups, *, straight=STRAIGHT, diagonal=DIAGONAL):
    """How much the neighbor in each direction listens to a pixel, for a flat picture with a ring of nothing around it."""
    ringed = np.pad(groups + 1, 1)
    shifted = [np.roll(ringed, (-down, -right), (0, 1)) for down, right in STEPS]
    weights = [straight if 0 in step else diagonal for step in STEPS]
    links = [np.where((ringed > 0) & (other == ringed), weight, 0) for weight, other in zip(weights, shifted, strict=True)]
    return np.array(links, np.int16)


def passed(evidence, groups=None, *, straight=STRAIGHT, diagonal=DIAGONAL, rounds=4):
    groups = np.zeros(evidence.shape, int) if groups is None else groups
    ringed = np.pad(evidence.astype(np.int16), 1)
    links = links_between(groups, straight=straight, diagonal=diagonal).reshape(8, -1)
    beliefs, buffers = np.empty(ringed.size, np.int16), np.full((2, 8, ringed.size), 99, np.int16)
    pass_messages(ringed.reshape(-1), links, ringed.shape[1], rounds, buffers, beliefs)
    return beliefs.reshape(ringed.shape)[1:-1, 1:-1].astype(int)


def passed_plainly(evidence, groups, *, rounds):
    """One message after the other, kept by sender and receiver, in whole numbers of any size."""
    strength = {}
    for (y, x), step in product(np.ndindex(evidence.shape), STEPS):
        other = (y + step[0], x + step[1])
        if all(0 <= place < length for place, length in zip(other, evidence.shape, strict=True)) and groups[other] == groups[y, x]:
            strength[other, (y, x)] = STRAIGHT if 0 in step else DIAGONAL
    messages = dict.fromkeys(strength, 0)

    def belief(pixel):
        neighbors = [(pixel[0] + down, pixel[1] + right) for down, right in STEPS]
        return int(evidence[pixel]) + sum(messages.get((neighbor, pixel), 0) for neighbor in neighbors)

    for _ in range(rounds):
        beliefs = {pixel: belief(pixel) for pixel in np.ndindex(evidence.shape)}
        messages = {
            (sender, receiver): min(max(beliefs[sender] - messages[receiver, sender], -limit), limit)
            for (sender, receiver), limit in strength.items()
        }
    return np.array([belief(pixel) for pixel in np.ndindex(evidence.shape)]).reshape(evidence.shape)


def random_evidence(shape, seed):
    """Weak, strong and certain."""
    generator = np.random.default_rng(seed)
    values = np.rint(generator.normal(0, 2 * STRAIGHT, shape)).astype(int)
    return np.where(generator.random(shape) < 0.2, np.sign(values) * CERTAIN, np.clip(values, -CERTAIN, CERTAIN))


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (8, 1), (2, 2), (6, 9)])
@pytest.mark.parametrize("n_groups", [1, 3])
def test_beliefs_are_those_of_the_definition(rounds, shape, n_groups):
    evidence = random_evidence(shape, [rounds, *shape])
    groups = np.random.default_rng(rounds).integers(0, n_groups, shape)

    np.testing.assert_array_equal(passed(evidence, groups, rounds=rounds), passed_plainly(evidence, groups, rounds=rounds))


@pytest.mark.parametrize("axis", [0, 1])
def test_along_a_line_beliefs_are_what_each_decision_costs_at_best(axis):
    """Without loops the messages are exact: the least cost of all decisions with the pixel in the first image, less that in the second."""
    n_pixels = 9
    evidence = np.rint(np.random.default_rng(4).normal(0, STRAIGHT, n_pixels)).astype(int)
    labelings = np.array(list(product([0, 1], repeat=n_pixels)))
    costs = -labelings @ evidence + STRAIGHT * np.abs(np.diff(labelings, axis=1)).sum(axis=1)
    expected = [costs[labels == 0].min() - costs[labels == 1].min() for labels in labelings.T]

    beliefs = passed(np.expand_dims(evidence, axis), rounds=n_pixels - 1)

    np.testing.assert_array_equal(beliefs.ravel(), expected)


def test_no_message_crosses_groups():
    evidence, changed = random_evidence((12, 14), 5), random_evidence((12, 14), 6)
    groups = np.random.default_rng(5).integers(0, 2, (12, 14))
    changed = np.where(groups == 0, changed, evidence)

    beliefs, others = passed(evidence, groups, rounds=8), passed(changed, groups, rounds=8)

    np.testing.assert_array_equal(others[groups == 1], beliefs[groups == 1])
    assert (others[groups == 0] != beliefs[groups == 0]).mean() > 0.9


def test_a_word_travels_one_pixel_a_round_in_every_direction():
    evidence = np.zeros((15, 15), int)
    evidence[7, 7] = 3 * STRAIGHT
    rows, columns = np.indices(evidence.shape)

    for rounds in range(6):
        is_near = np.maximum(abs(rows - 7), abs(columns - 7)) <= rounds
        np.testing.assert_array_equal(passed(evidence, rounds=rounds) > 0, is_near)


def test_without_links_or_rounds_every_pixel_believes_its_own_evidence():
    evidence = random_evidence((7, 8), 6)

    np.testing.assert_array_equal(passed(evidence, rounds=0), evidence)
    np.testing.assert_array_equal(passed(evidence, straight=0, diagonal=0), evidence)


def test_certain_pixels_are_never_outweighed_speak_as_loud_as_can_be_and_fit_into_16_bits():
    """Eight neighbors, all of them certain of the opposite."""
    evidence = np.full((5, 5), -CERTAIN)
    evidence[2, 2] = CERTAIN

    beliefs = passed(evidence, rounds=16)

    np.testing.assert_array_equal(beliefs > 0, evidence > 0)
    assert beliefs[2, 2] == CERTAIN - 4 * (STRAIGHT + DIAGONAL) == STRAIGHT
    assert np.iinfo(np.int16).max >= CERTAIN + 4 * (STRAIGHT + DIAGONAL) + STRAIGHT


def test_turning_the_picture_or_exchanging_the_images_turns_or_exchanges_the_beliefs():
    evidence = random_evidence((9, 11), 7)
    beliefs = passed(evidence)

    np.testing.assert_array_equal(passed(-evidence), -beliefs)
    np.testing.assert_array_equal(passed(evidence.T), beliefs.T)
    np.testing.assert_array_equal(passed(evidence[::-1]), beliefs[::-1])
    np.testing.assert_array_equal(passed(evidence[:, ::-1]), beliefs[:, ::-1])


def settled_plainly(evidence, is_second, is_open, *, groups, weights, rounds):
    """The whole picture in one piece."""
    per_unit, inertia = weights
    sides = np.where(is_second, 1, -1)
    weighed = np.rint(np.clip((evidence + sides * inertia) * per_unit, -CERTAIN, CERTAIN)).astype(int)
    beliefs = passed(np.where(is_open, weighed, sides * CERTAIN), groups, rounds=rounds)
    return np.where(is_open & (beliefs != 0), beliefs > 0, is_second)


@pytest.mark.parametrize("share_open", [0.3, 0.95, 1.0])
@pytest.mark.parametrize("rounds", [1, 6])
@pytest.mark.parametrize("n_groups", [1, 2])
def test_boxes_leave_no_trace(share_open, rounds, n_groups):
    """Also where closed lines between them hide what lies behind."""
    shape, weights, generator = (70, 90), (STRAIGHT / 1.5, 0.3), np.random.default_rng(rounds)
    evidence = generator.normal(size=shape)
    is_second, is_open = generator.random(shape) < 0.5, generator.random(shape) < share_open
    is_open[30:32, :50] = is_open[40:, 60] = False
    groups = generator.integers(0, n_groups, (7, 9)).repeat(10, axis=0).repeat(10, axis=1).astype(np.uint16)
    decided = is_second.copy()

    settle_cells(evidence, is_second, is_open, (groups, groups), list_boxes(is_open, 16), weights, rounds, decided)

    expected = settled_plainly(evidence, is_second, is_open, groups=groups, weights=weights, rounds=rounds)
    np.testing.assert_array_equal(decided, expected)
    assert (decided != is_second).any()


def test_who_believes_nothing_stays_where_it_is():
    is_second, nothing = np.indices((6, 8))[1] > 3, np.zeros((6, 8), np.float32)
    decided, pair = ~is_second, np.zeros((6, 8), np.uint16)
    groups = np.arange(48, dtype=np.uint16).reshape(6, 8)  # nobody talks

    settle_cells(nothing, is_second, np.ones((6, 8), bool), (groups, pair), np.array([[0, 0, 8, 8]]), (1.0, 0.0), 4, decided)

    np.testing.assert_array_equal(decided, is_second)
