"""Outlines that are as short as the evidence allows."""

from itertools import product

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.boundaries.outlines import ROUNDS, shorten_outlines

STIFFNESS = 2.0
CERTAIN = 15976
HALF_OF_THE_LINKS = ((0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.7), (1, -1, 0.7))
"""Steps to four of the eight neighbors, and what an outline between the two costs; the others are their opposites."""


def shortened(evidence, *, is_second=None, is_open=None, pairs=None, stiffness=STIFFNESS):
    shape = evidence.shape
    if pairs is None:
        pairs = (np.zeros(shape, np.uint16), np.ones(shape, np.uint16))
    return shorten_outlines(
        evidence,
        np.zeros(shape, bool) if is_second is None else is_second,
        np.ones(shape, bool) if is_open is None else is_open,
        pairs=pairs,
        stiffness=stiffness,
    )


def shifted(planes, down, right):
    """The values of the neighbors in a direction, 0 beyond the border."""
    result = np.zeros_like(planes)
    h, w = planes.shape
    here = (slice(max(0, -down), min(h, h - down)), slice(max(0, -right), min(w, w - right)))
    there = (slice(max(0, down), min(h, h + down)), slice(max(0, right), min(w, w + right)))
    result[here] = planes[there]
    return result


def shortened_in_one_piece(evidence, is_second, is_open, *, pairs, stiffness):
    """All pixels talk at once, without cells, and count as they do: 2048 for a straight step of an outline, 1434 for a diagonal one."""
    counted = np.rint(np.clip(evidence * 2048 / stiffness, -CERTAIN, CERTAIN))
    known = np.where(is_open, counted, np.where(is_second, CERTAIN, -CERTAIN))
    group = pairs[0].astype(np.int64) * 65536 + pairs[1] + 1
    steps = [(sign * down, sign * right, weight) for down, right, weight in HALF_OF_THE_LINKS for sign in (1, -1)]
    links = [np.where(shifted(group, down, right) == group, np.rint(weight * 2048), 0) for down, right, weight in steps]
    heard = [np.zeros(evidence.shape) for _ in steps]
    for _ in range(ROUNDS):
        belief = sum(heard, start=known)
        # the neighbor heard from here what comes from the opposite direction
        told = [shifted(belief - heard[number ^ 1], down, right) for number, (down, right, _) in enumerate(steps)]
        heard = [np.clip(message, -link, link) for message, link in zip(told, links, strict=True)]
    belief = sum(heard, start=known)
    return np.where(belief == 0, is_second, belief > 0)


def cost_of(labels, evidence, stiffness):
    """What speaks against the decisions, and what their outlines cost; labels have shape (..., h, w)."""
    h, w = evidence.shape
    total = np.where(labels, np.maximum(-evidence, 0), np.maximum(evidence, 0)).sum(axis=(-2, -1))
    for down, right, weight in HALF_OF_THE_LINKS:
        here = labels[..., : h - down, max(0, -right) : w - max(0, right)]
        there = labels[..., down:, max(0, right) : w + min(0, right)]
        total = total + weight * stiffness * (here != there).sum(axis=(-2, -1))
    return total


def halves(shape, column):
    return np.broadcast_to(np.arange(shape[1]) >= column, shape)


def length_of_outline(labels):
    """Steps between neighbors in rows and columns."""
    return np.count_nonzero(np.diff(labels, axis=0)) + np.count_nonzero(np.diff(labels, axis=1))


def test_specks_vanish_and_the_straight_edge_between_them_stays():
    truth = halves((60, 80), 40)
    evidence = np.where(truth, 1.0, -1.0)
    for row, column in ((5, 7), (20, 30), (21, 30), (33, 38), (12, 44), (50, 60), (51, 61), (59, 79)):
        evidence[row, column] *= -3

    np.testing.assert_array_equal(shortened(evidence), truth)
    assert (shortened(evidence, stiffness=0) != truth).sum() == 8


@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_straight_edge_becomes_smooth(seed):
    truth = halves((80, 80), 40)
    evidence = np.where(truth, 0.7, -0.7) + np.random.default_rng(seed).normal(0, 1, truth.shape)

    smooth, ragged = shortened(evidence), evidence > 0

    assert np.mean(ragged != truth) > 0.2
    assert np.mean(smooth != truth) < 0.01
    assert length_of_outline(smooth) < 1.5 * len(truth)
    assert length_of_outline(ragged) > 20 * len(truth)


def test_a_region_that_its_evidence_pays_for_stays():
    truth = np.hypot(*(np.indices((60, 60)) - 30)) < 9

    np.testing.assert_array_equal(shortened(np.where(truth, 5.0, -5.0)), truth)


def test_without_stiffness_each_open_pixel_decides_for_itself():
    generator = np.random.default_rng(3)
    evidence = generator.normal(size=(40, 50)).astype(np.float32)
    is_open, is_second = generator.random((2, 40, 50)) < 0.5

    decided = shortened(evidence, is_second=is_second, is_open=is_open, stiffness=0)

    np.testing.assert_array_equal(decided, np.where(is_open, evidence > 0, is_second))


def test_evidence_of_nothing_goes_to_the_first_image_and_follows_closed_pixels():
    nothing, is_open = np.zeros((9, 9), np.float32), np.ones((9, 9), bool)
    assert not shortened(nothing).any()

    is_open[0] = False
    assert shortened(nothing, is_second=np.ones((9, 9), bool), is_open=is_open).all()


@pytest.mark.parametrize("stiffness", [2.0, 100.0])
def test_closed_pixels_keep_their_decision_whatever_speaks_against_it(stiffness):
    generator = np.random.default_rng(4)
    is_open, is_second = generator.random((50, 60)) < 0.9, generator.random((50, 60)) < 0.5
    evidence = generator.normal(0, 50, (50, 60)).astype(np.float32)

    decided = shortened(evidence, is_second=is_second, is_open=is_open, stiffness=stiffness)

    np.testing.assert_array_equal(decided[~is_open], is_second[~is_open])


def test_evidence_of_closed_pixels_does_not_matter():
    generator = np.random.default_rng(5)
    is_open = generator.random((40, 50)) < 0.7
    evidence = generator.normal(size=(40, 50)).astype(np.float32)
    changed = np.where(is_open, evidence, 999).astype(np.float32)

    np.testing.assert_array_equal(shortened(changed, is_open=is_open), shortened(evidence, is_open=is_open))


def test_a_map_with_nothing_open_comes_back_and_is_not_the_one_given():
    is_second = halves((10, 12), 5).copy()

    decided = shortened(np.ones((10, 12), np.float32), is_second=is_second, is_open=np.zeros((10, 12), bool))

    np.testing.assert_array_equal(decided, is_second)
    assert not np.shares_memory(decided, is_second)


def test_a_word_travels_as_many_pixels_as_there_are_rounds_and_no_farther():
    for distance, is_heard in ((ROUNDS, True), (ROUNDS + 1, False)):
        evidence = np.zeros((1, 60), np.float32)
        evidence[0, 20 + distance] = 5
        assert shortened(evidence)[0, 20] == is_heard


@pytest.mark.parametrize("seed", range(4))
def test_nothing_beyond_the_rounds_matters(seed):
    generator = np.random.default_rng(seed)
    shape, place = (90, 100), (slice(43, 46), slice(50, 54))
    near = (slice(43 - ROUNDS, 46 + ROUNDS), slice(50 - ROUNDS, 54 + ROUNDS))

    def inputs():
        return [generator.normal(size=shape), generator.random(shape) < 0.5, generator.random(shape) < 0.9, generator.random(shape) < 0.05]

    first, other = inputs(), inputs()
    for changed, kept in zip(other, first, strict=True):
        changed[near] = kept[near]

    def decided(evidence, is_second, is_open, is_apart):
        pairs = (np.zeros(shape, np.uint16), 1 + is_apart.astype(np.uint16))
        return shortened(evidence.astype(np.float32), is_second=is_second, is_open=is_open, pairs=pairs)

    np.testing.assert_array_equal(decided(*other)[place], decided(*first)[place])
    assert (decided(*other) != decided(*first)).any()


def test_pixels_of_different_pairs_do_not_talk():
    """A speck among pixels of its pair vanishes, one in a pair of its own stays; also where only one of the two images is another."""
    evidence = np.full((20, 40), -1.0)
    evidence[10, 10] = evidence[10, 30] = 1
    for own_pair in ((0, 2), (1, 2), (1, 1)):
        pairs = (np.zeros((20, 40), np.uint16), np.ones((20, 40), np.uint16))
        pairs[0][10, 30], pairs[1][10, 30] = own_pair

        decided = shortened(evidence, pairs=pairs)

        assert np.argwhere(decided).tolist() == [[10, 30]]


def test_pairs_of_high_numbers_are_told_apart():
    evidence = np.full((9, 9), -1.0)
    evidence[4, 4] = 1
    first, second = np.zeros((9, 9), np.uint16), np.full((9, 9), 65535, np.uint16)
    first[4, 4], second[4, 4] = 1, 65535

    assert shortened(evidence, pairs=(first, second))[4, 4]


@pytest.mark.parametrize("seed", range(2))
def test_the_cells_in_which_it_is_computed_leave_no_trace(seed):
    generator = np.random.default_rng(seed)
    shape = (170, 290)
    evidence = 4 * ndimage.gaussian_filter(generator.normal(size=shape), 1.5)
    is_second = ndimage.gaussian_filter(generator.normal(size=shape), 20) > 0
    is_open = ndimage.gaussian_filter(generator.normal(size=shape), 12) > -0.02
    pairs = (np.zeros(shape, np.uint16), (1 + (np.indices(shape)[1] > 150)).astype(np.uint16))

    decided = shortened(evidence, is_second=is_second, is_open=is_open, pairs=pairs)

    expected = shortened_in_one_piece(evidence, is_second, is_open, pairs=pairs, stiffness=STIFFNESS)
    assert np.count_nonzero(decided != np.where(is_open, evidence > 0, is_second)) > 1000
    np.testing.assert_array_equal(decided, expected)


def test_the_answer_costs_hardly_more_than_the_best_of_all():
    """All 65536 decisions on 4 x 4 pixels are tried."""
    generator = np.random.default_rng(6)
    every = np.array(list(product([False, True], repeat=16))).reshape(-1, 4, 4)
    shares, single = [], []
    for _ in range(20):
        evidence = generator.normal(0, 2, (4, 4))
        least = cost_of(every, evidence, STIFFNESS).min()
        shares.append(cost_of(shortened(evidence), evidence, STIFFNESS) / least)
        single.append(cost_of(evidence > 0, evidence, STIFFNESS) / least)

    assert min(shares) >= 1 - 1e-9
    assert np.mean(shares) < 1.05
    assert np.mean(single) > 2
