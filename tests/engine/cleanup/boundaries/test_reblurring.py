"""Which of two images explains the other, and edges drawn by it."""

import numpy as np
import pytest
from scipy import ndimage, optimize

from qmcif_engine.cleanup.boundaries import reblurring
from qmcif_engine.cleanup.boundaries.outlines import shorten_outlines
from qmcif_engine.cleanup.boundaries.reblurring import (
    BLURS_PX,
    COMPARISON_WINDOW_PX,
    CONTRAST_SHARE,
    CONTRAST_WINDOW_PX,
    EXACT_BLURS_PX,
    EXPLAINED_SHARES,
    EXPLAINED_WINDOW_PX,
    LARGEST_CONTRAST_EVIDENCE,
    LEAST_REST,
    MARGIN_PX,
    NOISE_POWER,
    exact_evidence,
    refine_edges,
    rival_index,
)
from qmcif_engine.cleanup.boundaries.reblurring import sharpness_evidence as evidence_where
from qmcif_engine.cleanup.boundaries.trial_blurs import COARSE_CUT_OFF, COARSE_VARIANCE, COARSE_WIDENING
from qmcif_engine.config.fusion_config import DecisionConfig
from qmcif_engine.method.patches import edge_band

WIDE_PX = 4.0
"""From this standard deviation on blurs are made in a quarter of the resolution."""


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


def enlarged(coarse, length):
    """Four pixels for each along the first axis, by a quadratic spline; the first ten lie before the image."""
    square, place = np.divmod(np.arange(length), 4)
    offset, around = ((place - 1.5) / 4).reshape(-1, *[1] * (coarse.ndim - 1)), square + 10
    return (0.5 - offset) ** 2 / 2 * coarse[around - 1] + (0.75 - offset**2) * coarse[around] + (0.5 + offset) ** 2 / 2 * coarse[around + 1]


def coarse_kernel(deviation):
    """The Gaussian over few pixels that has, cut off, the variance wanted beside that of shrinking and enlarging."""
    radius = int(np.ceil(COARSE_CUT_OFF * np.sqrt(deviation**2 - COARSE_VARIANCE) / 4))
    places = np.arange(-radius, radius + 1)

    def excess(spread):
        weights = np.exp(-((places / spread) ** 2) / 2)
        return np.sum(weights * places**2) / weights.sum() - (COARSE_WIDENING * deviation**2 - COARSE_VARIANCE) / 16

    weights = np.exp(-((places / optimize.brentq(excess, 0.1, deviation, xtol=1e-13)) ** 2) / 2)
    return weights / weights.sum()


def blurred_as_defined(planes, deviation):
    """Narrow blurs as they are; wide ones of the means of squares of four by four pixels."""
    if deviation < WIDE_PX:
        return blurred(planes, deviation)
    _, height, width = planes.shape
    padded = np.pad(planes, [(0, 0), (40, 40 - height % -4), (40, 40 - width % -4)], mode="symmetric")
    coarse = padded.reshape(3, padded.shape[1] // 4, 4, -1, 4).mean(axis=(2, 4))
    kernel = coarse_kernel(deviation)
    soft = ndimage.convolve1d(ndimage.convolve1d(coarse, kernel, axis=1), kernel, axis=2)
    return enlarged(enlarged(soft.transpose(1, 2, 0), height).swapaxes(0, 1), width).transpose(2, 1, 0)


def sharpness_evidence(first, second):
    """The evidence of whole pictures."""
    return evidence_where(first, second, is_wanted=np.ones(first.shape[1:], bool))


@pytest.mark.parametrize("deviation", [4.0, 8.0])
def test_wide_blurs_in_a_quarter_of_the_resolution_are_nearly_those_of_the_full_one(deviation):
    scene = texture((90, 110)).astype(np.float64)
    expected = blurred(scene, deviation)

    difference = blurred_as_defined(scene, deviation) - expected

    assert np.sqrt(np.mean(difference**2)) < 0.2 * expected.std()
    assert 3 * np.mean(difference**2) < 0.5 * NOISE_POWER


@pytest.mark.parametrize("deviation", BLURS_PX)
def test_a_blurred_copy_is_explained_whole(deviation):
    scene = texture((70, 80))

    by_scene, by_copy = plain_powers(scene, blurred(scene, deviation))

    assert by_scene.mean() < 0.5 * NOISE_POWER
    assert by_copy.min() > NOISE_POWER
    assert (by_scene < 0.2 * by_copy).all()
    assert (sharpness_evidence(scene, blurred(scene, deviation)) < -LARGEST_CONTRAST_EVIDENCE).all()


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


@pytest.mark.parametrize(("distance", "is_seen"), [(MARGIN_PX, True), (MARGIN_PX + 1, False)])
@pytest.mark.parametrize(("axis", "sign", "asked"), [(1, 1, 43), (2, 1, 43), (1, -1, 44), (2, -1, 44)])
def test_samples_of_the_sharp_image_matter_as_far_as_the_margin_where_the_widest_blur_explains(axis, sign, asked, distance, is_seen):
    """Which pixels see farthest depends on where they lie in their square of four by four."""
    scene = texture((90, 90)).astype(np.float64)
    soft = blurred(scene, max(BLURS_PX))
    changed = scene.copy()
    changed.swapaxes(0, axis)[asked + sign * distance] += 1e5

    before, after = (sharpness_evidence(sharp, soft)[asked, asked] for sharp in (scene, changed))

    assert before < -1
    assert (abs(after - before) > 0.1) == is_seen
    assert is_seen or after == before


def window_means(planes, side):
    return ndimage.uniform_filter(planes, (0,) * (planes.ndim - 2) + (side, side), mode="reflect")


def plain_powers(first, second):
    """What each of two images leaves of the other, everywhere, in plain NumPy."""
    return [
        np.min(
            [window_means(((other - blurred_as_defined(one, blur)) ** 2).sum(axis=0), COMPARISON_WINDOW_PX) for blur in BLURS_PX], axis=0
        )
        for one, other in ((first, second), (second, first))
    ]


def plain_variance(image):
    means = window_means(image, CONTRAST_WINDOW_PX)
    return (window_means(image**2, CONTRAST_WINDOW_PX) - means**2).sum(axis=0)


def plain_evidence(first, second):
    """The evidence as its definition has it: an image as a whole, in plain NumPy."""
    by_first, by_second = plain_powers(first, second)
    contrast = np.log((plain_variance(second) + NOISE_POWER) / (plain_variance(first) + NOISE_POWER))
    bounded = np.clip(CONTRAST_SHARE * contrast, -LARGEST_CONTRAST_EVIDENCE, LARGEST_CONTRAST_EVIDENCE)
    return np.log((by_first + NOISE_POWER) / (by_second + NOISE_POWER)) + bounded


@pytest.mark.parametrize("shape", [(52, 60), (20, 84), (4, 4)])
@pytest.mark.parametrize("deviation", [0.5, 2.5, 6.0])
def test_evidence_is_that_of_its_definition(shape, deviation):
    first, second = texture(shape), blurred(texture(shape), deviation) + texture(shape, seed=1) / 10
    expected = plain_evidence(first.astype(np.float64), second.astype(np.float64))

    np.testing.assert_allclose(sharpness_evidence(first, second), expected, rtol=1e-4, atol=1e-4)


def test_evidence_is_that_of_wanted_pixels_alone():
    first, second = split_scene(48)
    is_wanted = np.random.default_rng(0).random(first.shape[1:]) < 0.01

    evidence = evidence_where(first, second, is_wanted=is_wanted)

    np.testing.assert_array_equal(evidence, np.where(is_wanted, sharpness_evidence(first, second), 0))
    assert is_wanted.any()


def brighter_pair(shape=(90, 100)):
    """A faint texture and its blurred copy in another exposure: neither explains the other."""
    sharp = 128 + (texture(shape) - 128) / 4
    return sharp, blurred(sharp, 3.0) + 90


def explanation(first, second):
    """The part of the evidence that is not contrast."""
    by_first, by_second = plain_powers(first, second)
    return np.log((by_first + NOISE_POWER) / (by_second + NOISE_POWER))


def test_contrast_decides_where_neither_image_explains_the_other():
    sharp, soft = brighter_pair()

    assert np.abs(explanation(soft, sharp)).max() < LARGEST_CONTRAST_EVIDENCE
    assert np.mean(explanation(soft, sharp) > 0) < 0.8
    assert np.mean(sharpness_evidence(soft, sharp) > 0) > 0.99
    assert np.mean(sharpness_evidence(sharp, soft) < 0) > 0.99


@pytest.mark.parametrize("gain", [0.0, 0.02, 1.0, 30.0])
def test_contrast_adds_no_more_than_its_bound(gain):
    first, second = texture((90, 100)), 128 + gain * (texture((90, 100), seed=1) - 128)

    share = sharpness_evidence(first, second) - explanation(first, second)

    assert np.abs(share).max() <= LARGEST_CONTRAST_EVIDENCE + 1e-4
    if gain != 1:
        np.testing.assert_allclose(share, np.sign(gain - 1) * LARGEST_CONTRAST_EVIDENCE, rtol=0, atol=1e-4)
    else:
        assert np.mean(np.abs(share) < 0.9 * LARGEST_CONTRAST_EVIDENCE) > 0.5


@pytest.mark.parametrize("make", [brighter_pair, lambda: (texture((60, 70)), texture((60, 70), seed=1)), lambda: split_scene(40)])
def test_exchanging_the_images_turns_the_sign_of_the_evidence(make):
    first, second = make()

    np.testing.assert_allclose(sharpness_evidence(second, first), -sharpness_evidence(first, second), rtol=1e-5, atol=1e-5)


def refine_everywhere(index, blocks, config):
    """The same by whole pictures: evidence everywhere, used in the band."""
    rival = rival_index(index, np.ones(index.shape, bool), reach_px=1000)
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    pictures = [np.choose(choice, blocks) for choice in (first[None], second[None])]
    evidence, band = plain_evidence(*pictures), edge_band(index, reach_px=config.edge_band_px)
    costs = {"stiffness": config.edge_stiffness, "inertia": config.edge_inertia}
    is_second = shorten_outlines(evidence, index == second, band, pairs=(first, second), **costs)
    return np.where(band, np.where(is_second, second, first), index)


@pytest.mark.parametrize("stiffness", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_edges_drawn_cell_by_cell_are_those_drawn_in_the_whole_picture(monkeypatch, seed, stiffness):
    monkeypatch.setattr(reblurring, "EXACT_PASSES", 0)
    shape, generator = (150, 170), np.random.default_rng(seed)
    blocks = [texture(shape, seed=number).astype(np.float64) for number in range(3)]
    index = np.kron(generator.integers(0, 3, (5, 5)), np.ones((30, 34), int)).astype(np.uint16)
    config = DecisionConfig(edge_inertia=0.05, edge_stiffness=stiffness)

    refined = refine_edges(index, blocks, config).index

    np.testing.assert_array_equal(refined, refine_everywhere(index, blocks, config))
    assert np.count_nonzero(refined != index) > 100


@pytest.mark.parametrize("offset", [-7, -3, 3, 7])
def test_a_misplaced_edge_is_drawn_where_the_scene_has_it(offset):
    first, second = split_scene(48)
    drawn = np.zeros((64, 96), np.uint16)
    drawn[:, 48 + offset :] = 1

    refined = refine_edges(drawn, (first, second), DecisionConfig()).index
    truth = np.broadcast_to(np.arange(96) >= 48, refined.shape)

    assert np.mean(drawn != truth) > 0.03
    assert np.mean(refined != truth) < 0.01


def spread_to_discs(plane, radius_px):
    """What a lens out of focus makes of it: every point becomes a disc."""
    disc = (np.hypot(*np.mgrid[-radius_px : radius_px + 1, -radius_px : radius_px + 1]) <= radius_px).astype(np.float64)
    return ndimage.convolve(plane, disc / disc.sum(), mode="nearest")


@pytest.mark.parametrize("is_sharp_one_first", [True, False])
@pytest.mark.parametrize("offset", [2, 3, 5])
@pytest.mark.parametrize(
    ("lens", "defocus_px"), [(spread_to_discs, 10), (spread_to_discs, 14), (ndimage.gaussian_filter, 5), (ndimage.gaussian_filter, 7)]
)
def test_the_halo_of_a_bright_disc_is_not_taken_from_the_image_that_shows_it_blurred(lens, defocus_px, offset, is_sharp_one_first):
    """On the flat background the halo has all the contrast; taken, it would surround the disc with a glow."""
    distance = np.hypot(*(np.indices((110, 110)) - 55))
    disc = np.clip(20.5 - distance, 0, 1)
    noise = np.random.default_rng(0).normal(0, 1, (2, 3, 110, 110))
    sharp, soft = (
        (20 + 200 * plane + grain).astype(np.float32) for plane, grain in zip((disc, lens(disc, defocus_px)), noise, strict=True)
    )
    blocks, wanted = ((sharp, soft), 0) if is_sharp_one_first else ((soft, sharp), 1)
    drawn = np.where(distance < 20 + offset, wanted, 1 - wanted).astype(np.uint16)
    is_halo = (distance >= 23) & (distance < 28)

    refined = refine_edges(drawn, blocks, DecisionConfig()).index

    assert np.mean(drawn[is_halo] != wanted) > 0.6
    assert (soft - sharp)[:, is_halo & (distance < 24)].mean() > 30
    assert np.mean(refined[is_halo] != wanted) < 0.02
    assert np.mean(refined[is_halo & (distance >= 26)] != wanted) < 0.02
    assert (refined[distance < 20] == wanted).all()


def test_stiffness_makes_outlines_shorter():
    first, second = split_scene(48, deviation=1.0)
    noise = np.random.default_rng(2).normal(0, 30, (2, *first.shape)).astype(np.float32)
    blocks = (first + noise[0], second + noise[1])
    drawn = np.broadcast_to(np.arange(96) >= 45, (64, 96)).astype(np.uint16)

    lengths = []
    for stiffness in (0.0, 0.1, 2.0):
        refined = refine_edges(drawn, blocks, DecisionConfig(edge_inertia=0.0, edge_stiffness=stiffness)).index.astype(int)
        lengths.append(np.abs(np.diff(refined, axis=0)).sum() + np.abs(np.diff(refined, axis=1)).sum())

    assert lengths[0] > 1.7 * 64
    assert lengths[0] > lengths[1] > lengths[2] >= 64
    assert lengths[2] < 1.1 * 64


def test_of_three_images_only_the_two_at_the_edge_compete():
    first, second = split_scene(48)
    third = texture((64, 96), seed=9)
    drawn = np.zeros((64, 96), np.uint16)
    drawn[:, 51:] = 2

    refined = refine_edges(drawn, (first, third, second), DecisionConfig()).index

    assert set(np.unique(refined)) == {0, 2}
    assert np.mean((refined == 2) != (np.arange(96) >= 48)) < 0.01


def test_pixels_outside_the_band_keep_their_decision():
    first, second = split_scene(48)
    drawn = np.ones((64, 96), np.uint16)
    drawn[:, :10] = 0

    refined = refine_edges(drawn, (first, second), DecisionConfig(edge_band_px=4)).index

    np.testing.assert_array_equal(refined[:, 14:], 1)


def test_inertia_keeps_pixels_without_evidence():
    plain = np.full((3, 20, 30), 100, np.float32)
    drawn = np.zeros((20, 30), np.uint16)
    drawn[:, 13:] = 1

    np.testing.assert_array_equal(refine_edges(drawn, (plain, plain), DecisionConfig()).index, drawn)


def test_a_map_without_edges_and_a_band_of_zero_return_the_map_itself():
    first, second = split_scene(48)
    whole = np.zeros((64, 96), np.uint16)
    halves = np.indices((64, 96))[1].astype(np.uint16) // 48

    assert refine_edges(whole, (first, second), DecisionConfig()).index is whole
    assert refine_edges(halves, (first, second), DecisionConfig(edge_band_px=0)).index is halves


# --- edges to the pixel ---


def focused_pair(is_first, *, deviation=2.5, seed=0):
    """Two images of one scene of texture, each sharp on one side of any edge; each blurred as a whole and sharp where it is in focus."""
    scene = texture(is_first.shape, seed=seed)
    soft = blurred(scene, deviation)
    return np.where(is_first, scene, soft), np.where(is_first, soft, scene)


def exact(first, second, is_first, *, noise_power=NOISE_POWER):
    """The evidence of two whole pictures."""
    return exact_evidence(first, second, is_first, is_wanted=np.ones(is_first.shape, bool), noise_power=noise_power).evidence


def exact_plainly(first, second, is_first):
    """The same as its definition has it, in plain NumPy."""
    fused = np.where(is_first, first, second)
    blurs = [blurred_as_defined(fused, deviation) for deviation in EXACT_BLURS_PX]
    rests = np.array([[((image - blur) ** 2).sum(axis=0) for blur in blurs] for image in (first, second)])
    left = window_means(np.where(is_first, rests[1], rests[0]), EXPLAINED_WINDOW_PX)
    first_rest, second_rest = np.take_along_axis(rests, left.argmin(axis=0)[None, None], axis=1)[:, 0]
    difference = ((first - second) ** 2).sum(axis=0)
    share = left.min(axis=0) / (window_means(difference, EXPLAINED_WINDOW_PX) + 2.5 * NOISE_POWER)
    well, badly = EXPLAINED_SHARES
    floor = NOISE_POWER + LEAST_REST * window_means(difference, COMPARISON_WINDOW_PX)
    return np.clip((badly - share) / (badly - well), 0, 1) * np.log((second_rest + floor) / (first_rest + floor))


@pytest.mark.parametrize("shape", [(112, 120), (40, 92)])
@pytest.mark.parametrize("deviation", [1.5, 3.0, 7.0])
def test_exact_evidence_is_that_of_its_definition(shape, deviation):
    is_first = np.hypot(*(np.indices(shape) - 25)) < 20
    first, second = (planes.astype(np.float64) for planes in focused_pair(is_first, deviation=deviation))
    second += texture(shape, seed=1) / 10

    np.testing.assert_allclose(exact(first, second, is_first), exact_plainly(first, second, is_first), rtol=1e-6, atol=1e-6)


def test_exact_evidence_is_that_of_wanted_pixels_alone():
    is_first = np.indices((80, 90)).sum(axis=0) < 80
    is_wanted = edge_band(is_first.astype(np.uint16), reach_px=2)
    pair = focused_pair(is_first)

    evidence = exact_evidence(*pair, is_first, is_wanted=is_wanted, noise_power=NOISE_POWER).evidence

    np.testing.assert_array_equal(evidence, np.where(is_wanted, exact(*pair, is_first), 0))


@pytest.mark.parametrize("deviation", EXACT_BLURS_PX)
def test_exact_evidence_tells_the_sharp_image_at_nearly_every_pixel(deviation):
    rows, columns = np.indices((110, 120))
    is_first = np.hypot(rows - 55, columns - 60) < 25

    evidence = exact(*focused_pair(is_first, deviation=deviation), is_first)

    assert np.mean((evidence < 0) == is_first) > 0.97


def test_exchanging_the_images_turns_the_sign_of_exact_evidence():
    is_first = np.indices((80, 90)).sum(axis=0) < 80
    first, second = focused_pair(is_first)

    np.testing.assert_allclose(exact(second, first, ~is_first), -exact(first, second, is_first), rtol=1e-5, atol=1e-6)


def test_alike_images_give_no_exact_evidence():
    scene = texture((60, 60))

    np.testing.assert_array_equal(exact(scene, scene, np.ones((60, 60), bool)), 0)


@pytest.mark.parametrize("shift", [4, 9])
def test_pictures_that_do_not_lie_on_each_other_have_no_exact_evidence(shift):
    is_first = np.indices((90, 100))[1] < 50
    scene = 128 + 4 * (blurred(texture((90, 100)), 2.0) - 128)  # coarse: its blurred copy still shows where it lies
    soft = blurred(scene, 2.5)
    first, second = np.where(is_first, scene, soft), np.where(is_first, soft, scene)

    registered, shifted = (np.abs(exact(first, case, is_first)) for case in (second, np.roll(second, shift, axis=-1)))

    assert np.mean(shifted == 0) > 0.7
    assert np.mean(registered > 0) > 0.9


def test_noise_power_takes_weight_from_exact_evidence():
    is_first = np.indices((80, 90))[1] < 45
    first, second = focused_pair(is_first)

    strengths = [np.abs(exact(first, second, is_first, noise_power=NOISE_POWER + 3 * noise**2)).mean() for noise in (0, 5, 20)]

    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] < 0.5 * strengths[0]


@pytest.mark.parametrize("deviation", [1.5, 3.0])
def test_edges_are_drawn_to_the_pixel(monkeypatch, deviation):
    rows, columns = np.indices((120, 130))
    is_first = columns + 6 * np.sin(rows / 9) < 65
    blocks = focused_pair(is_first, deviation=deviation)
    drawn = (columns >= 63).astype(np.uint16)

    refined = refine_edges(drawn, blocks, DecisionConfig()).index
    monkeypatch.setattr(reblurring, "EXACT_PASSES", 0)
    coarse = refine_edges(drawn, blocks, DecisionConfig()).index

    n_wrong, n_coarse = (np.count_nonzero((index == 0) != is_first) for index in (refined, coarse))
    assert n_wrong <= 0.5 * n_coarse
    assert n_wrong < 0.5 * 120  # half a pixel of every row


def test_noisy_edges_are_drawn_once():
    """What noise leaves unexplained is no evidence to the pixel."""
    first, second = split_scene(48)
    drawn = np.broadcast_to(np.arange(96) >= 51, (64, 96)).astype(np.uint16)

    refined = refine_edges(drawn, (first, second), DecisionConfig(), noise_level=10.0).index

    is_far = np.abs(np.arange(96) - 51) > DecisionConfig().edge_band_px
    np.testing.assert_array_equal(refined[:, is_far], drawn[:, is_far])
    assert np.mean((refined == 1) != (np.arange(96) >= 48)) < np.mean((drawn == 1) != (np.arange(96) >= 48))


@pytest.mark.parametrize("deviation", [1.0, 2.5])
def test_edges_are_exact_where_defocus_explains_the_images(deviation):
    columns = np.indices((90, 120))[1]
    blocks = focused_pair(columns < 60, deviation=deviation)
    drawn = (columns >= 61).astype(np.uint16)

    is_exact = refine_edges(drawn, blocks, DecisionConfig()).is_exact

    distance = np.abs(columns - 59.5)
    assert np.mean(is_exact[distance < 2]) > 0.8
    assert not is_exact[distance > reblurring.EXACT_BAND_PX + DecisionConfig().edge_band_px].any()


def test_edges_are_not_exact_where_images_do_not_lie_on_each_other():
    columns = np.indices((90, 120))[1]
    scene = 128 + 4 * (blurred(texture((90, 120)), 2.0) - 128)  # coarse: its blurred copy still shows where it lies
    soft = blurred(scene, 2.5)
    first, second = np.where(columns < 60, scene, soft), np.where(columns < 60, soft, scene)
    drawn = (columns >= 60).astype(np.uint16)

    registered, shifted = (
        np.mean(refine_edges(drawn, (first, case), DecisionConfig()).is_exact[np.abs(columns - 59.5) < 2])
        for case in (second, np.roll(second, 9, axis=-2))
    )

    assert shifted < 0.1
    assert registered > 0.8


@pytest.mark.parametrize("case", [{"edge_stiffness": 0.0}, {"noise_level": 10.0}])
def test_no_edge_is_exact_that_was_not_drawn_to_the_pixel(case):
    noise_level = case.pop("noise_level", 0.0)
    columns = np.indices((60, 80))[1]

    drawn = refine_edges((columns >= 40).astype(np.uint16), focused_pair(columns < 40), DecisionConfig(**case), noise_level=noise_level)

    assert drawn.is_exact is None
