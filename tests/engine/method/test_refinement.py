"""Weights in proportion to focus, and a refinement that picks the candidate which looks like the focused source."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import SimilarityPart, WeightRule
from qmcif_engine.method import refinement
from qmcif_engine.method.refinement import SMALL_WEIGHT, refine, source_weights
from qmcif_engine.method.similarity import quaternion_similarity, window_moments

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


@pytest.mark.parametrize("rule", WeightRule)
@pytest.mark.parametrize("n_images", [2, 3])
def test_permuting_the_images_permutes_their_weights_bit_for_bit(n_images, rule):
    levels = random_levels(n_images, np.float32)
    weights = list(source_weights(levels, rule=rule, saturation=SATURATION))

    for order in itertools.permutations(range(n_images)):
        permuted = source_weights([levels[number] for number in order], rule=rule, saturation=SATURATION)
        for number, weight in zip(order, permuted, strict=True):
            np.testing.assert_array_equal(weight, weights[number])


def test_equal_rule_ignores_the_levels():
    weights = list(source_weights(random_levels(4), rule=WeightRule.EQUAL, saturation=SATURATION))

    np.testing.assert_array_equal(weights, 0.25)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("sharp_candidate", [0, 1])
def test_candidate_that_equals_the_focused_source_is_chosen(sharp_candidate, part):
    sharp, blurred = sharp_and_blurred()
    candidates = (sharp, blurred) if sharp_candidate == 0 else (blurred, sharp)
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine(candidates, [sharp, blurred], weights=weights, detail_patch_px=7, part=part)

    assert choice.dtype == bool
    assert choice.shape == sharp.shape[1:]
    np.testing.assert_array_equal(choice, sharp_candidate)


@pytest.mark.parametrize("part", SimilarityPart)
def test_equal_candidates_go_to_the_detail_scale(part):
    sharp, blurred = sharp_and_blurred()
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine((blurred, blurred.copy()), [sharp, blurred], weights=weights, detail_patch_px=5, part=part)

    np.testing.assert_array_equal(choice, 1)


def test_each_part_of_the_picture_gets_its_better_candidate():
    sharp, blurred = sharp_and_blurred(shape=(32, 64))
    is_left = np.arange(64) < 32
    base, detail = np.where(is_left, sharp, blurred), np.where(is_left, blurred, sharp)
    weights = weights_for(2, 0, (32, 64))

    choice = refine((base, detail), [sharp, blurred], weights=weights, detail_patch_px=5, part=SimilarityPart.SCALAR)

    reach_px = 2 * (5 // 2)  # similarity windows, then votes
    np.testing.assert_array_equal(choice[:, : 32 - reach_px], 0)
    np.testing.assert_array_equal(choice[:, 32 + reach_px :], 1)


def test_scalar_part_refuses_a_candidate_with_inverted_contrast():
    sharp, _ = sharp_and_blurred()
    inverted = 255 - sharp
    weights = weights_for(2, 0, sharp.shape[1:])

    choice = refine((sharp, inverted), [sharp, sharp], weights=weights, detail_patch_px=7, part=SimilarityPart.SCALAR)

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
    moments = {id(block): window_moments(block, side_px=side_px) for block in (*sources, *candidates)}
    scores = [
        sum(
            weight * quaternion_similarity(moments[id(candidate)], moments[id(source)], side_px=side_px, part=part)
            for source, weight in zip(sources, weights, strict=True)
        )
        for candidate in candidates
    ]
    preferred = np.pad(scores[0] <= scores[1], side_px // 2, mode="symmetric")
    ballots = np.lib.stride_tricks.sliding_window_view(preferred, (side_px, side_px))

    choice = refine(candidates, sources, weights=weights, detail_patch_px=side_px, part=part)

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

    choice = refine(candidates, [focused, other], weights=weights_for(2, 0, (40, 48)), detail_patch_px=9, part=part)

    np.testing.assert_array_equal(choice, right)


def test_refinement_of_candidates_that_differ_here_and_there_is_that_of_the_whole_pictures(monkeypatch):
    """The candidates differ in two blocks, one of them in a corner; everything else ties and goes to the detail scale."""
    monkeypatch.setattr(refinement, "COMPARED_PX", 64)
    shape, side_px = (150, 210), 7
    generator = np.random.default_rng(3)
    sources = [generator.uniform(0, 255, (3, *shape)).astype(np.float32) for _ in range(2)]
    is_second = np.zeros((2, *shape), bool)
    is_second[0, 60:75, 120:140] = is_second[1, 140:, 200:] = True
    candidates = tuple(np.where(mask, sources[1], sources[0]) for mask in is_second)
    weights = list(generator.dirichlet(np.ones(2), shape).transpose(2, 0, 1))
    wide = [window_moments(block, side_px=side_px) for block in (*candidates, *sources)]
    leads = [
        quaternion_similarity(wide[1], source, side_px=side_px, part=SimilarityPart.SCALAR)
        - quaternion_similarity(wide[0], source, side_px=side_px, part=SimilarityPart.SCALAR)
        for source in wide[2:]
    ]
    is_open = ndimage.maximum_filter(is_second.any(axis=0), side_px)
    preferred = (sum(weight * lead for weight, lead in zip(weights, leads, strict=True)) >= 0) | ~is_open
    ballots = np.lib.stride_tricks.sliding_window_view(np.pad(preferred, 3, mode="symmetric"), (side_px, side_px))

    choice = refine(candidates, sources, weights=weights, detail_patch_px=side_px, part=SimilarityPart.SCALAR)

    np.testing.assert_array_equal(choice, ballots.sum(axis=(2, 3)) > side_px**2 / 2)
    assert 0 < (choice == 0).mean() < 0.1
