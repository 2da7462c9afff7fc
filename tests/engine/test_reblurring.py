"""Which of two images explains the other, and edges drawn by it."""

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.config import DecisionConfig
from qmcif_engine.filters import guided_filter
from qmcif_engine.patches import edge_band
from qmcif_engine.reblurring import BLURS_PX, NOISE_POWER, refine_edges, rival_index, sharpness_evidence, unexplained_power

EPS = float(np.finfo(np.float32).eps)
FULL_SCALE = 255.0


def texture(shape, *, seed=0):
    """A pure block of color texture on the 0-255 scale."""
    noise = np.random.default_rng(seed).normal(size=(3, *shape))
    smooth = ndimage.gaussian_filter(noise, (0, 0.8, 0.8))
    return (128 + 40 * smooth / smooth.std()).astype(np.float32)


def blurred(planes, deviation):
    return ndimage.gaussian_filter(planes, (0, deviation, deviation), mode="reflect", truncate=3)


def split_scene(edge, *, shape=(64, 96), deviation=3.0):
    """Two images of one scene: left of the edge the first is sharp, right of it the second."""
    scene = texture(shape)
    soft = blurred(scene, deviation)
    is_right = np.arange(shape[1]) >= edge
    return np.where(is_right, soft, scene), np.where(is_right, scene, soft)


@pytest.mark.parametrize("deviation", BLURS_PX)
def test_a_blurred_copy_is_explained_whole(deviation):
    scene = texture((40, 50))

    rest = unexplained_power(scene, blurred(scene, deviation))

    assert rest.max() <= (4 * EPS * FULL_SCALE) ** 2 * 3
    assert unexplained_power(blurred(scene, deviation), scene).min() > NOISE_POWER


def test_the_sharp_image_wins_and_the_order_only_turns_the_sign():
    scene = texture((40, 50))
    soft = blurred(scene, 2.5)

    evidence = sharpness_evidence(soft, scene)

    assert (evidence > 0).mean() > 0.99
    np.testing.assert_allclose(sharpness_evidence(scene, soft), -evidence, rtol=1e-5, atol=1e-5)


def test_alike_images_give_no_evidence():
    scene = texture((30, 30))

    np.testing.assert_array_equal(sharpness_evidence(scene, scene), 0)


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_the_rival_is_the_other_side_of_the_nearest_edge(n_labels):
    rng = np.random.default_rng(n_labels)
    index = np.kron(rng.integers(0, n_labels, (4, 5)), np.ones((5, 4), int)).astype(np.uint16)
    rival = rival_index(index, np.ones(index.shape, bool), reach_px=100)
    rows, columns = np.indices(index.shape)

    assert (rival != index).all()
    for y, x in np.ndindex(index.shape):
        distance = np.hypot(rows - y, columns - x)
        nearest_other = distance[index != index[y, x]].min()
        to_rival = distance[index == rival[y, x]].min()
        # the edge is found from pixel to pixel, so a rival may be one pixel farther than the nearest other
        assert to_rival <= nearest_other + np.sqrt(2)


def test_rivals_do_not_wrap_round_the_border():
    index = np.zeros((6, 12), np.uint16)
    index[:, 4:8], index[:, 8:] = 1, 2

    rival = rival_index(index, np.ones(index.shape, bool), reach_px=100)

    assert set(np.unique(rival[:, :4])) == {1}
    assert set(np.unique(rival[:, 8:])) == {1}


def test_pixels_that_do_not_ask_or_are_too_far_from_an_edge_have_themselves_as_rival():
    index = np.zeros((3, 20), np.uint16)
    index[:, 15:] = 1
    is_asking = np.ones(index.shape, bool)
    is_asking[2] = False

    rival = rival_index(index, is_asking, reach_px=4)

    np.testing.assert_array_equal(rival[:2, 10:15], 1)
    np.testing.assert_array_equal(rival[:2, :10], 0)
    np.testing.assert_array_equal(rival[2], index[2])


@pytest.mark.parametrize("deviation", BLURS_PX)
def test_unexplained_power_is_the_least_mean_square_that_blurring_leaves(deviation):
    first, second = texture((50, 60)), blurred(texture((50, 60), seed=1), deviation)
    rests = [second.astype(np.float64) - blurred(first.astype(np.float64), blur) for blur in BLURS_PX]
    powers = [ndimage.uniform_filter(np.sum(rest**2, axis=0), 3) for rest in rests]

    np.testing.assert_allclose(unexplained_power(first, second), np.min(powers, axis=0)[13:-13, 13:-13], rtol=1e-4, atol=1e-4)


def refine_everywhere(index, blocks, guide, config):
    """The same by whole pictures: evidence everywhere, used in the band."""
    rival = rival_index(index, np.ones(index.shape, bool), reach_px=1000)
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    pictures = [np.choose(choice, blocks) for choice in (first[None], second[None])]
    evidence = guided_filter(sharpness_evidence(*pictures), guide, radius_px=2, edge_contrast=config.blend_edge_contrast)
    evidence += np.where(index == second, config.edge_inertia, -config.edge_inertia)
    return np.where(edge_band(index, reach_px=config.edge_band_px), np.where(evidence > 0, second, first), index)


@pytest.mark.parametrize("seed", range(3))
def test_edges_drawn_cell_by_cell_are_those_drawn_in_the_whole_picture(seed):
    shape, generator = (150, 170), np.random.default_rng(seed)
    blocks = [texture(shape, seed=number) for number in range(3)]
    index = np.kron(generator.integers(0, 3, (5, 5)), np.ones((30, 34), int)).astype(np.uint16)
    guide, config = np.mean(blocks, axis=(0, 1)) / FULL_SCALE, DecisionConfig(edge_inertia=0.05)

    refined = refine_edges(index, blocks, guide.astype(np.float32), config)

    np.testing.assert_array_equal(refined, refine_everywhere(index, blocks, guide.astype(np.float32), config))
    assert (refined != index).any()


@pytest.mark.parametrize("offset", [-5, -3, 3, 5])
def test_a_misplaced_edge_is_drawn_where_the_scene_has_it(offset):
    first, second = split_scene(48)
    drawn = np.zeros((64, 96), np.uint16)
    drawn[:, 48 + offset :] = 1
    guide = (first.mean(axis=0) + second.mean(axis=0)) / (2 * FULL_SCALE)

    refined = refine_edges(drawn, (first, second), guide, DecisionConfig())
    truth = np.broadcast_to(np.arange(96) >= 48, refined.shape)

    assert np.mean(drawn != truth) > 0.03
    assert np.mean(refined != truth) < 0.01


def test_of_three_images_only_the_two_at_the_edge_compete():
    first, second = split_scene(48)
    third = texture((64, 96), seed=9)
    drawn = np.zeros((64, 96), np.uint16)
    drawn[:, 51:] = 2
    guide = first.mean(axis=0) / FULL_SCALE

    refined = refine_edges(drawn, (first, third, second), guide, DecisionConfig())

    assert set(np.unique(refined)) == {0, 2}
    assert np.mean((refined == 2) != (np.arange(96) >= 48)) < 0.01


def test_pixels_outside_the_band_keep_their_decision():
    first, second = split_scene(48)
    drawn = np.ones((64, 96), np.uint16)
    drawn[:, :10] = 0
    guide = first.mean(axis=0) / FULL_SCALE

    refined = refine_edges(drawn, (first, second), guide, DecisionConfig(edge_band_px=4))

    np.testing.assert_array_equal(refined[:, 14:], 1)


def test_inertia_keeps_pixels_without_evidence():
    plain = np.full((3, 20, 30), 100, np.float32)
    drawn = np.zeros((20, 30), np.uint16)
    drawn[:, 13:] = 1

    np.testing.assert_array_equal(refine_edges(drawn, (plain, plain), plain[0] / FULL_SCALE, DecisionConfig()), drawn)


def test_a_map_without_edges_and_a_band_of_zero_return_the_map_itself():
    first, second = split_scene(48)
    guide = first.mean(axis=0) / FULL_SCALE
    whole = np.zeros((64, 96), np.uint16)
    halves = np.indices((64, 96))[1].astype(np.uint16) // 48

    assert refine_edges(whole, (first, second), guide, DecisionConfig()) is whole
    assert refine_edges(halves, (first, second), guide, DecisionConfig(edge_band_px=0)) is halves
