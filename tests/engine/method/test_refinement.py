"""Weights in proportion to focus, and a refinement that picks the candidate which looks like the focused source."""

import itertools

import numpy as np
import pytest
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import average_cells, cell_grid, sample_cells, spread_cells
from scipy import ndimage

from qmcif_engine.config.fusion_config import RefinementConfig, Representation, SimilarityPart, WeightRule
from qmcif_engine.method.refinement import LEAST_WEIGHT, SMALL_WEIGHT, refine, refine_cells, source_weights
from qmcif_engine.method.similarity import quaternion_similarity
from qmcif_engine.stack.samples import FocusRange, PlaneStack

SATURATION = 0.2


def rounding(dtype, n_images):
    """Rounding of a sum of that many weights, none above one."""
    return 4 * n_images * np.finfo(dtype).eps


def random_levels(n_images, dtype=np.float64, shape=(6, 8)):
    levels = np.random.default_rng(n_images).exponential(0.1, (n_images, *shape)).astype(dtype)
    levels[:, 0, 0] = 0
    levels[:, 0, 1] = np.arange(n_images) / n_images
    return list(levels)


def sharp_and_blurred(seed=0, shape=(40, 48)):
    sharp = np.random.default_rng(seed).uniform(0, 255, (3, *shape))
    return sharp, ndimage.gaussian_filter(sharp, (0, 1.5, 1.5))


def weights_for(n_images, leader, shape):
    """A source that is clearly in focus everywhere, the others hardly."""
    weights = np.full((n_images, *shape), 0.1 / max(n_images - 1, 1))
    weights[leader] = 0.9
    return list(weights)


@pytest.mark.parametrize("rule", WeightRule)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_images", [2, 3, 7, 32])
def test_weights_of_all_images_add_up_to_one_where_any_of_them_is_in_focus(n_images, dtype, rule):
    levels = random_levels(n_images, dtype)
    total = np.sum(1 - np.exp(-np.array(levels, np.float64) / SATURATION), axis=0)
    expected = total / (total + SMALL_WEIGHT) if rule is WeightRule.ADAPTIVE else 1

    weights = list(source_weights(levels, rule=rule, saturation=SATURATION))

    assert len(weights) == n_images
    assert all(weight.shape == levels[0].shape and weight.dtype == dtype for weight in weights)
    np.testing.assert_allclose(np.sum(weights, axis=0), expected, rtol=0, atol=rounding(dtype, n_images))
    assert np.min(weights) >= 0


def test_two_images_get_the_pair_of_weights_of_the_paper():
    first, second = random_levels(2)
    l_1, l_2 = (1 - np.exp(-level / SATURATION) for level in (first, second))
    tau_1 = l_1 / (l_1 + l_2 + SMALL_WEIGHT)

    weights = list(source_weights([first, second], rule=WeightRule.ADAPTIVE, saturation=SATURATION))

    np.testing.assert_allclose(weights[0], tau_1, rtol=0, atol=rounding(np.float64, 2))
    # the paper gives the second image what the first one and epsilon leave
    share_of_epsilon = SMALL_WEIGHT / (l_1 + l_2 + SMALL_WEIGHT)
    np.testing.assert_allclose(weights[1], 1 - tau_1 - share_of_epsilon, rtol=0, atol=rounding(np.float64, 2))


def test_weights_of_many_images_follow_their_saturated_levels():
    levels = random_levels(5)
    saturated = 1 - np.exp(-np.array(levels) / SATURATION)

    weights = list(source_weights(levels, rule=WeightRule.ADAPTIVE, saturation=SATURATION))

    expected = saturated / (saturated.sum(axis=0) + SMALL_WEIGHT)
    np.testing.assert_allclose(weights, expected, rtol=0, atol=rounding(np.float64, 5))


@pytest.mark.parametrize("rule", WeightRule)
@pytest.mark.parametrize("n_images", [2, 3])
def test_permuting_the_images_permutes_their_weights_bit_for_bit(n_images, rule):
    levels = random_levels(n_images, np.float32)
    weights = list(source_weights(levels, rule=rule, saturation=SATURATION))

    for order in itertools.permutations(range(n_images)):
        permuted = source_weights([levels[number] for number in order], rule=rule, saturation=SATURATION)
        for number, weight in zip(order, permuted, strict=True):
            np.testing.assert_array_equal(weight, weights[number])


def test_weights_come_one_at_a_time():
    weights = source_weights(random_levels(3), rule=WeightRule.ADAPTIVE, saturation=SATURATION)

    assert iter(weights) is weights
    assert next(weights).shape == (6, 8)


def test_weights_are_zero_where_no_image_is_in_focus():
    nothing = [np.zeros((3, 3)) for _ in range(3)]

    weights = list(source_weights(nothing, rule=WeightRule.ADAPTIVE, saturation=SATURATION))

    np.testing.assert_array_equal(weights, 0)


def test_equal_rule_ignores_the_levels():
    weights = list(source_weights(random_levels(4), rule=WeightRule.EQUAL, saturation=SATURATION))

    np.testing.assert_array_equal(weights, 0.25)


def test_weights_leave_the_levels_alone():
    levels = random_levels(3)
    kept = np.array(levels)

    list(source_weights(levels, rule=WeightRule.ADAPTIVE, saturation=SATURATION))

    np.testing.assert_array_equal(levels, kept)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("sharp_candidate", [0, 1])
def test_candidate_that_equals_the_focused_source_is_chosen(sharp_candidate, part):
    sharp, blurred = sharp_and_blurred()
    candidates = (sharp, blurred) if sharp_candidate == 0 else (blurred, sharp)
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine(candidates, [sharp, blurred], weights=weights, detail_patch_px=7, config=RefinementConfig(similarity=part))

    assert choice.dtype == np.uint16
    assert choice.shape == sharp.shape[1:]
    np.testing.assert_array_equal(choice, sharp_candidate)


def test_choice_turns_round_with_the_weights():
    sharp, blurred = sharp_and_blurred()
    for leader, expected in ((0, 0), (1, 1)):
        weights = weights_for(2, leader, sharp.shape[1:])
        choice = refine((sharp, blurred), [sharp, blurred], weights=weights, detail_patch_px=7, config=RefinementConfig())
        np.testing.assert_array_equal(choice, expected)


@pytest.mark.parametrize("part", SimilarityPart)
def test_equal_candidates_go_to_the_detail_scale(part):
    sharp, blurred = sharp_and_blurred()
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine(
        (blurred, blurred.copy()), [sharp, blurred], weights=weights, detail_patch_px=5, config=RefinementConfig(similarity=part)
    )

    np.testing.assert_array_equal(choice, 1)


def test_each_part_of_the_picture_gets_its_better_candidate():
    sharp, blurred = sharp_and_blurred(shape=(32, 64))
    is_left = np.arange(64) < 32
    base, detail = np.where(is_left, sharp, blurred), np.where(is_left, blurred, sharp)
    weights = weights_for(2, 0, (32, 64))

    choice = refine((base, detail), [sharp, blurred], weights=weights, detail_patch_px=5, config=RefinementConfig())

    reach_px = 2 * (5 // 2)  # similarity windows, then votes
    np.testing.assert_array_equal(choice[:, : 32 - reach_px], 0)
    np.testing.assert_array_equal(choice[:, 32 + reach_px :], 1)


def test_scalar_part_refuses_a_candidate_with_inverted_contrast():
    sharp, _ = sharp_and_blurred()
    inverted = 255 - sharp
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine(
        (sharp, inverted), [sharp, sharp], weights=weights, detail_patch_px=7, config=RefinementConfig(similarity=SimilarityPart.SCALAR)
    )

    np.testing.assert_array_equal(choice, 0)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("n_images", [2, 3])
def test_refinement_compares_weighted_similarities_and_takes_the_majority_of_the_patches(n_images, part):
    shape, side_px = (14, 15), 5
    generator = np.random.default_rng(n_images)
    sources = [generator.uniform(0, 255, (3, *shape)) for _ in range(n_images)]
    pick = generator.integers(0, n_images, (2, 1, *shape))
    candidates = tuple(np.choose(index, sources) for index in pick)
    weights = list(generator.dirichlet(np.ones(n_images), shape).transpose(2, 0, 1))
    margin = ((0, 0), (side_px // 2, side_px // 2), (side_px // 2, side_px // 2))
    wide = {id(block): np.pad(block, margin, mode="symmetric") for block in (*sources, *candidates)}
    scores = [
        sum(
            weight * quaternion_similarity(wide[id(candidate)], wide[id(source)], side_px=side_px, part=part)
            for source, weight in zip(sources, weights, strict=True)
        )
        for candidate in candidates
    ]
    preferred = np.pad(scores[0] <= scores[1], side_px // 2, mode="symmetric")
    ballots = np.lib.stride_tricks.sliding_window_view(preferred, (side_px, side_px))

    choice = refine(candidates, sources, weights=weights, detail_patch_px=side_px, config=RefinementConfig(similarity=part))

    np.testing.assert_array_equal(choice, ballots.sum(axis=(2, 3)) > side_px**2 / 2)
    assert 0 < choice.mean() < 1


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize("level", [255, 1000, 5000])
def test_right_candidate_is_chosen_in_a_bright_flat_area_too(level, right, part):
    """The two differ by noise of 0.2 alone; float32 moments of such levels would choose at random."""
    generator = np.random.default_rng(level)
    focused, other = ((level + generator.normal(0, 0.2, (3, 40, 48))).astype(np.float32) for _ in range(2))
    candidates = (focused, other) if right == 0 else (other, focused)

    choice = refine(
        candidates, [focused, other], weights=weights_for(2, 0, (40, 48)), detail_patch_px=9, config=RefinementConfig(similarity=part)
    )

    np.testing.assert_array_equal(choice, right)


def test_refinement_of_candidates_that_differ_here_and_there_is_that_of_the_whole_pictures():
    """The candidates differ in two blocks, one of them in a corner; everything else ties and goes to the detail scale."""
    shape, side_px = (150, 210), 7
    generator = np.random.default_rng(3)
    sources = [generator.uniform(0, 255, (3, *shape)).astype(np.float32) for _ in range(2)]
    is_second = np.zeros((2, *shape), bool)
    is_second[0, 60:75, 120:140] = is_second[1, 140:, 200:] = True
    candidates = tuple(np.where(mask, sources[1], sources[0]) for mask in is_second)
    weights = list(generator.dirichlet(np.ones(2), shape).transpose(2, 0, 1))
    wide = [np.pad(block, ((0, 0), (3, 3), (3, 3)), mode="symmetric") for block in (*candidates, *sources)]
    leads = [
        quaternion_similarity(wide[1], source, side_px=side_px, part=SimilarityPart.SCALAR)
        - quaternion_similarity(wide[0], source, side_px=side_px, part=SimilarityPart.SCALAR)
        for source in wide[2:]
    ]
    is_open = ndimage.maximum_filter(is_second.any(axis=0), side_px)
    preferred = (sum(weight * lead for weight, lead in zip(weights, leads, strict=True)) >= 0) | ~is_open
    ballots = np.lib.stride_tricks.sliding_window_view(np.pad(preferred, 3, mode="symmetric"), (side_px, side_px))

    choice = refine(candidates, sources, weights=weights, detail_patch_px=side_px, config=RefinementConfig())

    np.testing.assert_array_equal(choice, ballots.sum(axis=(2, 3)) > side_px**2 / 2)
    assert 0 < (choice == 0).mean() < 0.1


def as_sources(blocks):
    """Blocks on the 0-255 scale as images that are embedded unchanged."""
    images = [np.ascontiguousarray(np.moveaxis(block, 0, -1), np.float32) for block in blocks]
    return PlaneStack(images, FocusRange(0.0, 255.0), representation=Representation.QUATERNION)


def refined_cells(maps, blocks, *, weights, side_cells=3, config=None):
    """Choices of the cells, for maps made of numbers of images."""
    shape = blocks[0].shape[1:]
    maps = tuple(np.broadcast_to(np.asarray(index, np.uint16), cell_grid(shape)).copy() for index in maps)
    config = RefinementConfig() if config is None else config
    return refine_cells(maps, as_sources(blocks), shape, weights=weights, side_cells=side_cells, config=config)


@pytest.mark.parametrize("shape", [(40, 48), (37, 50), (9, 140), (3, 5)])
@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("sharp_map", [0, 1])
def test_map_that_names_the_focused_source_is_chosen_in_all_cells(sharp_map, part, shape):
    blocks = sharp_and_blurred(shape=shape)
    maps = (0, 1) if sharp_map == 0 else (1, 0)

    choice = refined_cells(maps, blocks, weights=weights_for(2, 0, cell_grid(shape)), config=RefinementConfig(similarity=part))

    assert choice.dtype == np.uint16
    assert choice.shape == cell_grid(shape)
    np.testing.assert_array_equal(choice, sharp_map)


@pytest.mark.parametrize("number", [0, 1])
def test_cells_go_to_the_detail_scale_where_the_maps_agree(number):
    blocks = sharp_and_blurred()

    choice = refined_cells((number, number), blocks, weights=weights_for(2, 0, cell_grid((40, 48))))

    np.testing.assert_array_equal(choice, 1)


def test_cells_far_from_where_the_maps_differ_go_to_the_detail_scale():
    shape, side_cells = (80, 120), 3
    blocks, (rows, columns) = sharp_and_blurred(shape=shape), cell_grid(shape)
    base_map, detail_map = np.zeros((rows, columns)), np.zeros((rows, columns))
    detail_map[:, : columns // 2] = 1  # blurred: the base map is the better one there

    choice = refined_cells((base_map, detail_map), blocks, weights=weights_for(2, 0, (rows, columns)), side_cells=side_cells)

    reach = 2 * (side_cells // 2)  # similarity windows, then votes
    np.testing.assert_array_equal(choice[:, : columns // 2 - reach], 0)
    np.testing.assert_array_equal(choice[:, columns // 2 + reach :], 1)


def test_choice_of_cells_turns_round_with_the_weights():
    blocks = sharp_and_blurred()
    for leader in (0, 1):
        choice = refined_cells((0, 1), blocks, weights=weights_for(2, leader, cell_grid((40, 48))))
        np.testing.assert_array_equal(choice, leader)


def test_source_of_next_to_no_weight_changes_no_choice_of_cells():
    sharp, blurred = sharp_and_blurred()
    other = np.random.default_rng(5).uniform(0, 255, sharp.shape)
    weights = weights_for(2, 0, cell_grid((40, 48)))
    nothing = np.full(cell_grid((40, 48)), 0.99 * LEAST_WEIGHT)

    choice = refined_cells((1, 0), (sharp, blurred, other), weights=[*weights, nothing])

    np.testing.assert_array_equal(choice, refined_cells((1, 0), (sharp, blurred), weights=weights))


LEAST_AGREEMENT = 0.95
"""Share of cells: windows of cells are a little larger or smaller than those around pixels, so edges between choices move."""


@pytest.mark.parametrize("shape", [(96, 128), (93, 130)])
@pytest.mark.parametrize("part", SimilarityPart)
def test_most_cells_choose_what_their_pixels_choose(shape, part):
    sharp, blurred = sharp_and_blurred(shape=shape)
    is_near = np.indices(shape).sum(axis=0) < 110
    blocks = (np.where(is_near, sharp, blurred), np.where(is_near, blurred, sharp))
    levels = [np.where(is_near, 0.5, 0.05), np.where(is_near, 0.05, 0.5)]
    generator, grid, side_cells = np.random.default_rng(2), cell_grid(shape), 3
    maps = [np.kron(generator.integers(0, 2, (4, 5)), np.ones((8, 8), int))[: grid[0], : grid[1]].astype(np.uint16) for _ in range(2)]
    candidates = tuple(np.choose(spread_cells(index, shape), blocks) for index in maps)
    weights = list(source_weights(levels, rule=WeightRule.ADAPTIVE, saturation=SATURATION))
    config = RefinementConfig(similarity=part)

    choice = refined_cells(maps, blocks, weights=[average_cells(weight) for weight in weights], side_cells=side_cells, config=config)

    # an odd number of pixels beside the twelve of three cells
    by_pixel = refine(candidates, blocks, weights=weights, detail_patch_px=CELL_PX * side_cells + 1, config=config)
    assert {0, 1} == set(np.unique(choice))
    assert np.mean(choice == sample_cells(by_pixel)) >= LEAST_AGREEMENT


def test_refinement_of_cells_leaves_maps_and_weights_alone():
    blocks, grid = sharp_and_blurred(), cell_grid((40, 48))
    maps, weights = (np.zeros(grid, np.uint16), np.ones(grid, np.uint16)), weights_for(2, 0, grid)
    kept = [array.copy() for array in (*maps, *weights)]

    refine_cells(maps, as_sources(blocks), (40, 48), weights=weights, side_cells=3, config=RefinementConfig())

    for array, before in zip((*maps, *weights), kept, strict=True):
        np.testing.assert_array_equal(array, before)
