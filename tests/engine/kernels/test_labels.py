"""The messages of cells against their definition, and against the exact answer where there is one."""

from itertools import product

import numpy as np
import pytest

from qmcif_engine.cleanup.regularization import price_borders
from qmcif_engine.config.fusion_config import StackOrder
from qmcif_engine.kernels.labels import pass_label_messages, pass_lead_messages

EPS = float(np.finfo(np.float64).eps)
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))
"""Where the neighbors are that a cell hears, in the order in which it adds up their words."""


def passed(costs, *, labels=None, prices=(0, 1), damping=0.0, rounds=4, wanted=None, hopeless=np.inf):
    beliefs = np.full(costs.shape, np.nan, costs.dtype)
    labels = (np.arange(len(costs)) if labels is None else np.asarray(labels)).astype(np.int64)
    sides = wanted or (0, 0, *costs.shape[1:])
    limits = (costs.dtype.type(damping), costs.dtype.type(hopeless))
    pass_label_messages(costs, labels, np.asarray(prices, costs.dtype), limits, rounds, sides, beliefs)
    return beliefs


def price_table(labels, prices):
    """What a border between each two of the images costs, shape (K, K)."""
    differences = np.abs(np.subtract.outer(labels, labels))
    return np.asarray(prices)[np.minimum(differences, len(prices) - 1)]


def passed_plainly(costs, *, labels, prices, damping, rounds):
    """One message after the other, kept by sender and receiver."""
    kind, table = costs.dtype.type, price_table(labels, prices).astype(costs.dtype)
    cells = list(np.ndindex(costs.shape[1:]))
    neighbors = {(y, x): [(y + down, x + right) for down, right in STEPS if (y + down, x + right) in cells] for y, x in cells}
    messages = {(sender, cell): np.zeros(len(costs), kind) for cell in cells for sender in neighbors[cell]}

    def belief(cell):
        total = costs[:, *cell]
        for sender in neighbors[cell]:
            total = total + messages[sender, cell]
        return total

    for _ in range(rounds):
        beliefs = {cell: belief(cell) for cell in cells}
        spoken = {(sender, cell): beliefs[sender] - messages[cell, sender] for sender, cell in messages}
        told = {ends: np.min((words - words.min())[:, None] + table, axis=0) for ends, words in spoken.items()}
        messages = {ends: words + kind(damping) * (messages[ends] - words) for ends, words in told.items()}
    return np.stack([belief(cell) for cell in cells], axis=1).reshape(costs.shape)


def least_cost(costs, labels, prices):
    """What the cheapest map costs that gives each cell each image, shape (K, h, w): all maps are tried."""
    table, n_labels, shape = price_table(labels, prices), len(costs), costs.shape[1:]
    maps = np.array(list(product(range(n_labels), repeat=shape[0] * shape[1]))).reshape(-1, *shape)
    totals = costs[maps, *np.indices(shape)].sum(axis=(1, 2))
    totals += table[maps[:, 1:], maps[:, :-1]].sum(axis=(1, 2)) + table[maps[..., 1:], maps[..., :-1]].sum(axis=(1, 2))
    return np.array([[[totals[maps[:, y, x] == k].min() for x in range(shape[1])] for y in range(shape[0])] for k in range(n_labels)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (6, 1), (2, 2), (5, 6)])
@pytest.mark.parametrize(
    ("labels", "prices"), [((0, 1), (0, 1)), ((0, 1, 2, 3), (0, 0.3, 0.8, 1.5)), ((2, 3, 5, 9, 30), (0, 0.3, 0.8, 1.5))]
)
def test_beliefs_are_those_of_the_definition(dtype, damping, rounds, shape, labels, prices):
    costs = np.random.default_rng([rounds, *shape]).exponential(1.0, (len(labels), *shape)).astype(dtype)

    beliefs = passed(costs, labels=labels, prices=prices, damping=damping, rounds=rounds)

    expected = passed_plainly(costs, labels=np.array(labels), prices=prices, damping=damping, rounds=rounds)
    np.testing.assert_allclose(beliefs, expected, rtol=0, atol=16 * np.finfo(dtype).eps * expected.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (6, 1), (2, 2), (5, 6)])
def test_leads_of_two_images_are_the_differences_of_their_beliefs(dtype, damping, rounds, shape):
    costs = np.random.default_rng([rounds, *shape]).exponential(1.0, (2, *shape)).astype(dtype)
    lead = np.full(shape, np.nan, dtype)

    pass_lead_messages(costs[0] - costs[1], np.array([0.8, damping], dtype), rounds, lead)

    expected = passed_plainly(costs, labels=np.array([0, 1]), prices=(0, 0.8), damping=damping, rounds=rounds)
    np.testing.assert_allclose(lead, expected[0] - expected[1], rtol=0, atol=32 * np.finfo(dtype).eps * expected.max())


@pytest.mark.parametrize("shape", [(1, 2), (1, 6), (6, 1)])
@pytest.mark.parametrize(("labels", "prices"), [((0, 1), (0, 1.0)), ((0, 1, 2), (0, 0.35, 1.0)), ((0, 1, 5), (0, 0.35, 1.0))])
@pytest.mark.parametrize("seed", range(3))
def test_in_a_chain_beliefs_are_what_the_cheapest_map_costs(shape, labels, prices, seed):
    costs = np.random.default_rng(seed).exponential(0.7, (len(labels), *shape))

    beliefs = passed(costs, labels=labels, prices=prices, rounds=max(shape))

    expected = least_cost(costs, labels, prices)
    offset = expected.min(axis=0) - beliefs.min(axis=0)  # messages keep differences only
    np.testing.assert_allclose(beliefs + offset, expected, rtol=0, atol=64 * EPS * expected.max())
    np.testing.assert_array_equal(beliefs.argmin(axis=0), expected.argmin(axis=0))


def total_cost(costs, index, table):
    own = np.take_along_axis(costs, index[None], axis=0).sum()
    return own + table[index[1:], index[:-1]].sum() + table[index[:, 1:], index[:, :-1]].sum()


def test_on_a_small_grid_the_map_costs_hardly_more_than_the_cheapest():
    """Where evidence is about as strong as borders are dear; words that go round in circles are no longer exact."""
    prices, labels = (0, 0.35, 1.0), np.arange(3)
    table, alone, together, best = price_table(labels, prices), 0.0, 0.0, 0.0
    for seed in range(4):
        costs = np.random.default_rng(seed).exponential(1.5, (3, 3, 3))
        alone += total_cost(costs, costs.argmin(axis=0), table)
        together += total_cost(costs, passed(costs, prices=prices, rounds=12).argmin(axis=0), table)
        best += least_cost(costs, labels, prices).min()

    assert alone > 1.1 * best
    assert together <= 1.02 * best


@pytest.mark.parametrize("n_images", [2, 3, 8])
def test_images_without_an_order_may_be_exchanged(n_images):
    generator = np.random.default_rng(n_images)
    costs, order = generator.exponential(1.0, (n_images, 7, 9)).astype(np.float32), generator.permutation(n_images)
    prices = price_borders(n_images, StackOrder.NONE)

    np.testing.assert_array_equal(passed(costs[order], prices=prices), passed(costs, prices=prices)[order])


@pytest.mark.parametrize("n_images", [2, 3, 24])
def test_an_ordered_stack_may_be_reversed(n_images):
    costs = np.random.default_rng(n_images).exponential(1.0, (n_images, 7, 9)).astype(np.float32)
    prices = price_borders(n_images, StackOrder.ORDERED)

    np.testing.assert_array_equal(passed(np.ascontiguousarray(costs[::-1]), prices=prices), passed(costs, prices=prices)[::-1])


@pytest.mark.parametrize("turned", [lambda cells: cells[:, ::-1], lambda cells: cells[..., ::-1], lambda cells: cells.swapaxes(1, 2)])
def test_a_picture_may_be_turned(turned):
    costs = np.random.default_rng(3).exponential(1.0, (5, 7, 9))
    prices = price_borders(5, StackOrder.ORDERED)

    expected = turned(passed(costs, prices=prices))

    # words are added up in the order left, right, above, below
    np.testing.assert_allclose(passed(np.ascontiguousarray(turned(costs)), prices=prices), expected, rtol=0, atol=64 * EPS * expected.max())


@pytest.mark.parametrize(("distance", "is_heard"), [(0, True), (4, True), (5, False)])
@pytest.mark.parametrize("axis", [1, 2])
def test_a_word_travels_as_many_cells_as_there_are_rounds(distance, is_heard, axis):
    costs, changed = np.zeros((2, 3, 21, 21))
    changed.swapaxes(1, axis)[0, 10 + distance, 10] = 5

    before, after = (passed(case, prices=(0, 1.0), rounds=4)[:, 10, 10] for case in (costs, changed))

    assert (before != after).any() == is_heard


def test_a_lone_cell_gives_way_when_its_borders_cost_more_than_its_evidence_and_a_stronger_one_stays():
    costs = np.zeros((2, 7, 7), np.float32)
    costs[1] = 2
    for own, wanted in ((3.9, 0), (4.1, 1)):
        costs[:, 3, 3] = own, 0
        assert passed(costs, rounds=8).argmin(axis=0)[3, 3] == wanted


def test_a_slope_is_cheaper_than_a_stair():
    """Between two certain ends the images in between are chosen, though nothing else speaks for them."""
    costs = np.zeros((9, 1, 9), np.float32)
    costs[1:, 0, 0], costs[:-1, 0, 8] = 100, 100
    prices = (np.arange(9) / 8) ** 1.5

    index = passed(costs, prices=prices, rounds=12).argmin(axis=0)[0]

    np.testing.assert_array_equal(index, np.arange(9))


@pytest.mark.parametrize("wanted", [(0, 0, 9, 11), (3, 4, 6, 7), (0, 5, 2, 11), (8, 0, 9, 1)])
def test_wanted_cells_hear_the_same_whether_or_not_others_are_wanted(wanted):
    costs = np.random.default_rng(3).random((4, 9, 11), np.float32) * 3
    settings = {"labels": [0, 1, 2, 5], "prices": price_borders(20, StackOrder.ORDERED), "damping": 0.15, "rounds": 3}
    top, left, bottom, right = wanted

    here = (slice(None), slice(top, bottom), slice(left, right))
    np.testing.assert_array_equal(passed(costs, **settings, wanted=wanted)[here], passed(costs, **settings)[here])


@pytest.mark.parametrize("spread", [2.0, 6.0, 20.0])
@pytest.mark.parametrize("shape", [(1, 3), (7, 8), (13, 37)])
def test_images_that_are_no_choice_change_nothing_for_those_that_are(spread, shape):
    costs = np.random.default_rng([shape[1], int(spread)]).exponential(spread, (12, *shape)).astype(np.float32)
    prices = price_borders(40, StackOrder.ORDERED)
    settings = {"labels": [0, 1, 2, 3, 4, 6, 7, 8, 20, 21, 22, 39], "prices": prices, "damping": 0.15, "rounds": 5}
    hopeless = 4 * prices[-1]

    beliefs = passed(costs, **settings, hopeless=hopeless)

    is_choice = costs - costs.min(axis=0) < hopeless
    np.testing.assert_array_equal(beliefs, np.where(is_choice, passed(costs, **settings), np.inf))
