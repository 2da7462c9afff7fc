"""Decisions that fit together: prices, evidence in cells, and maps whose right answer is known."""

import numpy as np
import pytest

from qmcif_engine.cleanup import regularization
from qmcif_engine.cleanup.decision import Decision
from qmcif_engine.cleanup.regularization import (
    CHOSEN_WEIGHT,
    CONTRAST_WEIGHT,
    DEAREST_STEP,
    FLOOR_LEVEL,
    HALF_SIGNIFICANT,
    HOPELESS_COST,
    NOISE_FLOOR,
    CellEvidence,
    price_borders,
    weigh_breadth,
)
from qmcif_engine.config.fusion_config import DecisionConfig, StackOrder
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import sample_cells, spread_cells
from qmcif_engine.stack.window import Window

NO_ORDER = DecisionConfig(order=StackOrder.NONE)
HALF = float(np.finfo(np.float16).eps)


def evidence_of(levels, *, noise_level=0.0):
    """Levels of all images, one per cell."""
    evidence = CellEvidence(noise_level=noise_level)
    for level in levels:
        evidence.add(np.asarray(level, np.float32))
    return evidence


def pixels(cells):
    return np.kron(np.asarray(cells), np.ones((CELL_PX, CELL_PX), int)).astype(np.uint16)


def cells_of_map(index):
    return index[::CELL_PX, ::CELL_PX]


def sharpest(levels):
    """The map of the sharpest image of each cell, in pixels."""
    return pixels(np.argmax(levels, axis=0))


def regularize(index, evidence, *, noise_level, config):
    """Decisions in pixels from a map of pixels."""
    decided, confidence = regularization.regularize(sample_cells(index), evidence, noise_level=noise_level, config=config)
    return Decision(spread_cells(decided, index.shape), spread_cells(confidence, index.shape))


def fitted(levels, config=DecisionConfig(), *, noise_level=0.0, index=None):  # noqa: B008 - settings are frozen
    index = sharpest(levels) if index is None else index
    return regularize(index, evidence_of(levels, noise_level=noise_level), noise_level=noise_level, config=config)


def noisy_levels(n_images, shape=(20, 24), *, seed=0, spread=0.7):
    """Focus levels that fall off from the image in focus, of a slope, with a random factor."""
    depth = np.linspace(0, n_images - 1, shape[1])
    sharp = np.exp(-0.5 * ((np.arange(n_images)[:, None, None] - depth) / max(1, n_images / 8)) ** 2)
    return (sharp * np.random.default_rng(seed).lognormal(0, spread, (n_images, *shape)) + 0.05).astype(np.float32)


# --- prices and weights ---


@pytest.mark.parametrize("order", StackOrder)
@pytest.mark.parametrize("n_images", [2, 3, 10, 24, 40, 500])
def test_borders_cost_nothing_within_an_image_more_the_larger_the_step_and_one_at_most(n_images, order):
    prices = price_borders(n_images, order)

    assert prices[0] == 0
    assert prices[-1] == 1
    assert (np.diff(prices) > 0).all()
    is_graded = order is StackOrder.ORDERED and n_images > 2
    assert DEAREST_STEP[0] <= len(prices) - 1 <= DEAREST_STEP[1] if is_graded else len(prices) == 2


def test_a_slope_costs_less_than_the_stairs_it_could_be_cut_into():
    prices = price_borders(40, StackOrder.ORDERED)
    for step in range(2, len(prices)):
        assert step * prices[1] < prices[step]


def test_deeper_stacks_have_a_longer_way_to_the_dearest_step():
    lengths = [len(price_borders(n_images, StackOrder.ORDERED)) for n_images in range(3, 100)]

    assert lengths == sorted(lengths)
    assert (lengths[0] - 1, lengths[-1] - 1) == DEAREST_STEP


def test_large_windows_count_fully_in_a_pair_less_in_a_deep_stack_and_more_under_noise():
    assert weigh_breadth(2, 0.0) == weigh_breadth(2, 30.0) == 1
    assert weigh_breadth(4, 0.0) == 0.5
    depths = [weigh_breadth(n_images, 0.0) for n_images in (2, 3, 10, 100)]
    assert depths == sorted(depths, reverse=True)
    noises = [weigh_breadth(20, noise) for noise in (0.0, 5.0, 20.0, 60.0)]
    assert noises == sorted(noises)
    assert noises[0] < noises[-1] < 1


# --- cells ---


@pytest.mark.parametrize("shape", [(1, 1), (4, 8), (5, 6), (2, 11), (7, 3), (3, 13)])
def test_cells_are_sampled_at_their_centers_and_cut_ones_at_their_nearest_pixel(shape):
    plane = np.arange(shape[0] * shape[1]).reshape(shape)

    sampled = sample_cells(plane)

    assert sampled.shape == (-(-shape[0] // CELL_PX), -(-shape[1] // CELL_PX))
    for row, column in np.ndindex(sampled.shape):
        y, x = min(CELL_PX * row + 2, shape[0] - 1), min(CELL_PX * column + 2, shape[1] - 1)
        assert sampled[row, column] == plane[y, x]


@pytest.mark.parametrize("noise_level", [0.0, 8.0])
def test_costs_are_weighted_logarithms_of_the_ratio_to_the_sharpest_image(noise_level):
    levels = np.random.default_rng(1).exponential(0.3, (4, 6, 9)).astype(np.float32)
    evidence = evidence_of(levels, noise_level=noise_level)

    costs = evidence.costs(Window(1, 2, 5, 9), contrast_weight=3.0)

    known = levels[:, 1:5, 2:9] + FLOOR_LEVEL + NOISE_FLOOR * noise_level
    expected = 3.0 * np.log(known.max(axis=0) / known)
    np.testing.assert_allclose(costs, expected, rtol=0, atol=3.0 * 2 * HALF * np.abs(np.log(known)).max())
    assert (costs.min(axis=0) == 0).all()
    assert (len(evidence), evidence.shape) == (4, (6, 9))


# --- maps ---


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 4), (33, 41)])
@pytest.mark.parametrize("n_images", [2, 3, 20])
def test_results_have_the_shape_of_the_map_and_whole_cells(shape, n_images):
    generator = np.random.default_rng(n_images)
    index = generator.integers(0, n_images, shape).astype(np.uint16)
    levels = generator.random((n_images, *sample_cells(index).shape))

    result = regularize(index, evidence_of(levels), noise_level=0.0, config=DecisionConfig())

    assert result.index.dtype == np.uint16
    assert result.confidence.dtype == np.float32
    assert result.index.shape == result.confidence.shape == shape
    np.testing.assert_array_equal(result.index, pixels(cells_of_map(result.index))[: shape[0], : shape[1]])


def test_a_lone_cell_of_weak_evidence_joins_its_surroundings_and_a_strong_one_stays():
    levels = np.stack([np.full((9, 9), 0.5), np.full((9, 9), 0.25)])
    weak, strong = levels.copy(), levels.copy()
    weak[1, 4, 4], strong[1, 4, 4] = 0.6, 5.0

    assert (fitted(weak).index == 0).all()
    assert (cells_of_map(fitted(strong).index) == 1).sum() == 1


def test_neighbors_in_an_ordered_stack_lie_side_by_side_where_far_images_do_not():
    """The same evidence for a lone cell, once of the next image and once of one far away."""
    n_images = 24
    outcomes = []
    for lone in (11, 20):
        levels = np.full((n_images, 9, 9), 0.02)
        levels[10], levels[:, 4, 4], levels[lone, 4, 4] = 0.5, 0.02, 0.5
        levels[10, 4, 4] = 0.35
        outcomes.append(cells_of_map(fitted(levels).index)[4, 4])

    assert outcomes == [11, 10]


def test_a_slope_of_noisy_levels_is_found_better_than_cell_by_cell():
    n_images, levels = 24, noisy_levels(24, (24, 96), spread=0.2)
    truth = np.linspace(0, n_images - 1, 96)

    alone, together = (np.abs(cells_of_map(index) - truth) for index in (sharpest(levels), fitted(levels).index))

    assert (together <= 1.5).mean() > 0.92 > 0.87 > (alone <= 1.5).mean()
    assert together.mean() < 0.8 * alone.mean()


def test_what_the_refinement_chose_tips_the_balance_where_evidence_is_equal():
    levels = np.full((2, 8, 8), 0.4)
    for chosen in (0, 1):
        index = np.full((32, 32), chosen, np.uint16)
        np.testing.assert_array_equal(fitted(levels, index=index).index, chosen)


@pytest.mark.parametrize("contrast", [0.9, 1.1])
def test_what_the_refinement_chose_is_left_where_evidence_says_more_than_it_counts(contrast):
    levels = np.full((2, 8, 8), 0.4)
    levels[1] = (0.4 + FLOOR_LEVEL) * np.exp(contrast * CHOSEN_WEIGHT / CONTRAST_WEIGHT) - FLOOR_LEVEL

    result = fitted(levels, index=np.zeros((32, 32), np.uint16))

    np.testing.assert_array_equal(result.index, contrast > 1)


def test_equal_choices_go_to_the_last_image(monkeypatch):
    monkeypatch.setattr(regularization, "CHOSEN_WEIGHT", 0.0)

    np.testing.assert_array_equal(fitted(np.full((3, 8, 8), 0.4), index=np.zeros((32, 32), np.uint16)).index, 2)


def test_noise_takes_weight_from_evidence():
    """A lone cell that stays in a clean stack gives way in a noisy one."""
    levels = np.stack([np.full((9, 9), 2.0), np.full((9, 9), 1.0)])
    levels[1, 4, 4] = 8.0

    kept = [cells_of_map(fitted(levels, noise_level=noise).index)[4, 4] for noise in (0.0, 60.0)]

    assert kept == [1, 0]


def test_evidence_counts_by_what_the_sharpest_image_shows_beside_the_floor():
    levels = np.zeros((3, 2, 3), np.float32)
    levels[1] = FLOOR_LEVEL * np.array([[0, HALF_SIGNIFICANT, 1], [2, 10, 1000]])

    significance = evidence_of(levels).significance(Window(0, 0, 2, 3))

    expected = levels[1] / (levels[1] + HALF_SIGNIFICANT * FLOOR_LEVEL)
    np.testing.assert_allclose(significance, expected, atol=16 * HALF)
    assert significance[0, 0] == 0


def island(level, *, contrast=1.5):
    """Six by six cells of the second image on ground of the first, all as faint or as clear as each other."""
    levels = np.stack([np.full((24, 24), level), np.full((24, 24), level / contrast)])
    levels[:, 9:15, 9:15] = levels[::-1, 9:15, 9:15]
    return levels


@pytest.mark.parametrize(("level", "noise_level", "is_kept"), [(0.5, 0.0, True), (2e-5, 0.0, False), (0.5, 4.0, True)])
def test_an_island_that_shows_hardly_more_than_the_floor_joins_its_surroundings(level, noise_level, is_kept):
    """Of a clean stack; the choice of the refinement does not keep it either."""
    levels = island(level)

    result = cells_of_map(fitted(levels, noise_level=noise_level, index=pixels(levels[1] > levels[0])).index)

    assert (result[11:13, 11:13] == is_kept).all()
    assert not result[:6].any()


def test_faint_evidence_counts_fully_under_noise(monkeypatch):
    """Its floor is high already, and nothing else tells the images apart."""
    levels = noisy_levels(4) * 0.05
    noisy = [fitted(levels, noise_level=4.0)]
    monkeypatch.setattr(regularization, "HALF_SIGNIFICANT", 1e3)
    noisy.append(fitted(levels, noise_level=4.0))

    np.testing.assert_array_equal(noisy[0].index, noisy[1].index)
    np.testing.assert_array_equal(noisy[0].confidence, noisy[1].confidence)


def test_cells_without_evidence_keep_what_they_were_given():
    index = pixels(np.arange(8)[:, None] * np.ones(40) < 4)

    np.testing.assert_array_equal(fitted(np.zeros((2, 8, 40)), index=index).index, index)


# --- symmetries ---


@pytest.mark.parametrize("n_images", [2, 3, 9])
def test_images_without_an_order_may_be_exchanged(n_images):
    levels, order = noisy_levels(n_images), np.random.default_rng(2).permutation(n_images)

    result, permuted = fitted(levels, NO_ORDER), fitted(levels[order], NO_ORDER)

    np.testing.assert_array_equal(order[permuted.index], result.index)
    np.testing.assert_array_equal(permuted.confidence, result.confidence)


@pytest.mark.parametrize("n_images", [2, 3, 24])
def test_an_ordered_stack_may_be_reversed(n_images):
    levels = noisy_levels(n_images)

    result, reversed_ = fitted(levels), fitted(levels[::-1])

    np.testing.assert_array_equal(n_images - 1 - reversed_.index, result.index)
    np.testing.assert_array_equal(reversed_.confidence, result.confidence)


def test_the_order_of_a_stack_matters_unless_it_has_none():
    levels = noisy_levels(24)

    assert (fitted(levels).index != fitted(levels, NO_ORDER).index).any()


# --- blocks ---


@pytest.mark.parametrize("n_images", [2, 24])
@pytest.mark.parametrize("block_cells", [3, 10])
def test_blocks_do_not_show_where_every_image_is_a_contender(monkeypatch, block_cells, n_images):
    levels = noisy_levels(n_images, (31, 43))
    monkeypatch.setattr(regularization, "HOPELESS_COST", 1e6)
    expected = fitted(levels)
    monkeypatch.setattr(regularization, "BLOCK_CELLS", block_cells)

    result = fitted(levels)

    np.testing.assert_array_equal(result.index, expected.index)
    np.testing.assert_array_equal(result.confidence, expected.confidence)


@pytest.mark.parametrize("consistency", [0.5, 1.0, 2.0, 30.0])
@pytest.mark.parametrize("n_images", [2, 24])
def test_images_left_out_as_hopeless_would_not_have_been_chosen(monkeypatch, n_images, consistency):
    levels, config = noisy_levels(n_images, (31, 43)), DecisionConfig(consistency=consistency)
    levels[3:5] = 1e-3
    result = fitted(levels, config)
    monkeypatch.setattr(regularization, "HOPELESS_COST", 1e6)

    np.testing.assert_array_equal(result.index, fitted(levels, config).index)


def test_an_image_that_is_the_best_compromise_is_no_contender_only_where_it_is_sharp():
    """Every cell has an image of its own, and all can do with the last but nobody likes it best, but for one far cell."""
    n_images, shape = 5, (12, 40)
    levels = np.full((n_images, *shape), 1e-4)
    own = np.indices(shape).sum(axis=0) % (n_images - 1)
    np.put_along_axis(levels, own[None], 100.0, axis=0)
    levels[-1] = 100.0 * np.exp(-1.01 * HOPELESS_COST / CONTRAST_WEIGHT)
    liked = levels.copy()
    liked[-1, 0, -1] = 1000.0
    config = DecisionConfig(order=StackOrder.NONE, consistency=50.0)

    without, once = (cells_of_map(fitted(case, config).index) for case in (levels, liked))

    np.testing.assert_array_equal(without[:, :20], once[:, :20])


# --- confidence ---


@pytest.mark.parametrize("n_images", [2, 3, 24])
@pytest.mark.parametrize("consistency", [0.0, 1.0])
def test_confidence_is_a_probability(n_images, consistency):
    confidence = fitted(noisy_levels(n_images), DecisionConfig(consistency=consistency)).confidence

    assert confidence.min() >= 0
    assert confidence.max() <= 1
    assert np.ptp(confidence) > 0


def test_confidence_rises_with_the_lead_of_the_sharpest_image():
    confidences = []
    for lead in (0.0, 0.1, 0.2, 0.4):
        levels = np.full((2, 6, 6), 0.4)
        levels[0] += lead
        confidences.append(fitted(levels, DecisionConfig(consistency=0.0)).confidence[0, 0])

    assert (np.diff(confidences) > 0).all()


def test_the_next_image_of_an_ordered_stack_is_no_wrong_choice_and_of_others_it_is():
    levels = np.full((9, 6, 6), 0.02)
    levels[4], levels[5] = 0.5, 0.49
    config = DecisionConfig(consistency=0.0)

    ordered = fitted(levels, config).confidence
    without_order = fitted(levels, DecisionConfig(order=StackOrder.NONE, consistency=0.0)).confidence

    assert (ordered > without_order).all()


def test_confidence_is_higher_where_decisions_are_right():
    n_images, levels = 24, noisy_levels(24, (40, 96), seed=5, spread=0.4)
    truth = np.linspace(0, n_images - 1, 96)

    result = fitted(levels)

    is_right = np.abs(result.index[::CELL_PX, ::CELL_PX] - truth) <= 1
    confidence = cells_of_map(result.confidence)
    assert 0.5 < is_right.mean() < 1
    assert confidence[is_right].mean() > confidence[~is_right].mean()
