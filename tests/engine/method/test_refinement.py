"""Weights in proportion to focus, and a refinement that picks the candidate which looks like the focused source."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config.fusion_config import SimilarityPart, WeightRule
from qmcif_engine.method import refinement
from qmcif_engine.method.refinement import SMALL_WEIGHT, refine, source_weights
from qmcif_engine.method.similarity import quaternion_similarity, window_moments
from tests.scenes import centered_windows

SATURATION = 0.2


def rounding(dtype, n_images):
    """Rounding of a sum of that many weights, none above one."""
    return 4 * n_images * np.finfo(dtype).eps


def random_levels(n_images, dtype=np.float64, shape=(6, 8)):
    levels = np.random.default_rng(n_images).exponential(0.1, (n_images, *shape)).astype(dtype)
    levels[:, 0, 0] = 0
    levels[:, 0, 1] = np.arange(n_images) / n_images
    return list(levels)


@pytest.mark.parametrize("rule", WeightRule)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_images", [2, 3, 32])
def test_weights_are_those_of_the_formula_and_go_with_their_images(n_images, dtype, rule):
    """For two images the pair of the paper, but for the share of epsilon, which it gives to the second one."""
    levels = random_levels(n_images, dtype)
    focus = 1 - np.exp(-np.array(levels, np.float64) / SATURATION)
    expected = focus / (focus.sum(axis=0) + SMALL_WEIGHT) if rule is WeightRule.ADAPTIVE else np.full(focus.shape, 1 / n_images)

    weights = np.stack(list(source_weights(levels, rule=rule, saturation=SATURATION)))
    turned = np.stack(list(source_weights(levels[::-1], rule=rule, saturation=SATURATION)))

    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, expected, rtol=0, atol=rounding(dtype, n_images))
    if n_images < 4 and dtype == np.float32:
        np.testing.assert_array_equal(turned[::-1], weights)


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize("level", [None, 255, 5000])
def test_candidate_that_equals_the_focused_source_is_chosen_in_a_bright_flat_area_too(level, part):
    """There the two differ by noise of 0.2 alone; float32 moments of such levels would choose at random."""
    generator = np.random.default_rng(0)
    sharp = generator.uniform(0, 255, (3, 40, 48)) if level is None else level + generator.normal(0, 0.2, (3, 40, 48)).astype(np.float32)
    other = ndimage.gaussian_filter(sharp, (0, 1.5, 1.5)) if level is None else sharp[:, ::-1].copy()
    weights = np.stack([np.full((40, 48), weight) for weight in (0.9, 0.1)])

    for candidates, expected in (((sharp, other), 0), ((other, sharp), 1), ((other, other.copy()), 1)):
        choice = refine(candidates, [sharp, other], weights=weights, detail_patch_px=7, part=part)
        assert choice.dtype == bool
        np.testing.assert_array_equal(choice, expected)
    # a tie goes to the detail scale
    assert refine((sharp, other), [sharp, other], weights=0 * weights, detail_patch_px=7, part=part).all()


@pytest.mark.parametrize("part", SimilarityPart)
@pytest.mark.parametrize(("n_images", "shape", "side_px", "is_sparse"), [(3, (14, 15), 5, False), (2, (150, 210), 7, True)])
def test_refinement_compares_weighted_similarities_and_takes_the_majority_of_the_patches(
    monkeypatch, n_images, shape, side_px, is_sparse, part
):
    """Candidates that differ in two blocks only, one of them in a corner: everything else ties and goes to the detail scale."""
    monkeypatch.setattr(refinement, "COMPARED_PX", 64)
    generator = np.random.default_rng(n_images)
    sources = generator.uniform(0, 255, (n_images, 3, *shape))
    pick = generator.integers(0, n_images, (2, *shape))
    if is_sparse:
        pick[:] = 0
        pick[0, 60:75, 120:140] = pick[1, 140:, 200:] = 1
    candidates = tuple(np.take_along_axis(sources, index[None, None], 0)[0] for index in pick)
    weights = list(generator.dirichlet(np.ones(n_images), shape).transpose(2, 0, 1))
    of_sources, of_candidates = ([window_moments(block, side_px=side_px) for block in blocks] for blocks in (sources, candidates))
    scores = [
        sum(
            weight * quaternion_similarity(candidate, source, side_px=side_px, part=part)
            for source, weight in zip(of_sources, weights, strict=True)
        )
        for candidate in of_candidates
    ]
    is_open = ndimage.maximum_filter(pick[0] != pick[1], side_px)
    ballots = centered_windows((scores[0] <= scores[1]) | ~is_open, side_px)

    choice = refine(candidates, list(sources), weights=weights, detail_patch_px=side_px, part=part)

    np.testing.assert_array_equal(choice, ballots.sum(axis=(2, 3)) > side_px**2 / 2)
    assert 0 < (choice == 0).mean() < (0.1 if is_sparse else 1)
