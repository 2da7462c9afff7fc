"""Pictures made to show the very limit of a stage's reach, where pictures at random do not (`test_reach.py`)."""

import math

import numpy as np
import pytest
from qmcif_engine.cleanup.blending import BLENDING, blend_along_edges
from qmcif_engine.cleanup.boundaries.outlines import ROUNDS
from qmcif_engine.cleanup.boundaries.reblurring import (
    BLURS_PX,
    COMPARISON_WINDOW_PX,
    EDGES,
    EXACT_BAND_PX,
    EXACT_BLURS_PX,
    EXACT_MARGIN_PX,
    EXACT_PASSES,
    EXPLAINED_WINDOW_PX,
    MARGIN_PX,
    NOISE_POWER,
    exact_evidence,
    refine_edges,
)
from qmcif_engine.cleanup.boundaries.trial_blurs import COARSE_CUT_OFF, COARSE_VARIANCE, COARSE_WIDENING
from qmcif_engine.cleanup.dark_border import DARK_BORDERS, REACH_PX, REFERENCE_PX, find_dark_borders
from qmcif_engine.cleanup.regularization import REACH_PX as REGULARIZATION_REACH_PX
from qmcif_engine.cleanup.regularization import ROUNDS as CELL_ROUNDS
from qmcif_engine.cleanup.regularization import CellEvidence, regularize
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX
from qmcif_engine.cleanup.seams import measure_seams
from qmcif_engine.kernels.boxes import TEXTURE_PX
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.stack.noise import NO_NOISE, SMOOTHING, WIDEST_BLUR_PX, NoiseAdaptation
from qmcif_engine.tiles.stage_list import derive_overlap
from scipy import ndimage, optimize

from qmcif_engine.config.fusion_config import DecisionConfig, FocusConfig, FusionConfig
from qmcif_engine.method.cell_grid import sample_cells, spread_cells
from qmcif_engine.method.focus import FINE_FOCUS, fine_focus
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, compose
from qmcif_engine.method.patches import edge_band

ROUNDING = 1e-5
"""Of float32 levels of order one: window means are running sums, so samples far away on a line may change the last bit."""


# --- helpers ---


def reach_of(stage, what="", **changes):
    """How far a stage looks at one of its inputs."""
    (reach,) = [reach for reach in stage.reaches if reach.of == what]
    return reach.px(FusionConfig().replaced(changes), 9)


def planes_of(shape, *, seed=0, n=3):
    return np.random.default_rng(seed).uniform(0, 255, (n, *shape)).astype(np.float32)


def blocky(shape, *, n_labels, side, seed=0):
    """A map of square regions."""
    labels = np.random.default_rng(seed).integers(0, n_labels, (-(-shape[0] // side), -(-shape[1] // side)))
    return np.kron(labels, np.ones((side, side), int))[: shape[0], : shape[1]].astype(np.uint16)


# --- decisions that fit together ---


def fitted(index, levels, config=DecisionConfig()):  # noqa: B008 - settings are frozen
    """A map of pixels from levels of all images at all pixels."""
    evidence = CellEvidence(noise_level=0.0)
    for level in levels:
        evidence.add(sample_cells(level))
    decided = regularize(sample_cells(index), evidence, noise_level=0.0, config=config)
    return np.stack([spread_cells(cells, index.shape) for cells in decided])


@pytest.mark.parametrize(("n_cells", "is_heard"), [(CELL_ROUNDS, True), (CELL_ROUNDS + 1, False)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_evidence_as_many_cells_away_as_there_are_rounds_matters_and_farther_does_not(n_cells, is_heard, sign):
    """A strip of cells for which nothing speaks: a word comes as far as it can."""
    shape, asked = (1, 60 * CELL_PX), 30
    index, levels = np.zeros(shape, np.uint16), np.full((2, *shape), 0.4, np.float32)
    levels[1] = 0.4200 * np.exp(1 / 6) - 0.02  # just as much as leaving what was chosen costs
    before = fitted(index, levels)
    changed = levels.copy()
    changed[0, :, (asked + sign * n_cells) * CELL_PX + 2] = 50

    after = fitted(index, changed)

    assert (before[:, 0, asked * CELL_PX] != after[:, 0, asked * CELL_PX]).any() == is_heard
    assert n_cells * CELL_PX + 2 <= REGULARIZATION_REACH_PX or not is_heard


# --- smoothing for noise ---


@pytest.mark.parametrize("adaptation", [NO_NOISE, NoiseAdaptation(blur_px=0.7), NoiseAdaptation(blur_px=WIDEST_BLUR_PX)])
def test_smoothing_looks_one_pixel_farther_than_its_blur_and_no_farther(adaptation):
    """A pixel at the end of the blur is an outlier, until its neighbor is one too."""
    reach, asked = adaptation.reach_px + 1, 40
    plain = np.full((3, 64, 90), 100, np.float32)
    plain[:, 30, asked + reach - 1] = 250
    near, far = plain.copy(), plain.copy()
    near[:, 30, asked + reach], far[:, 30, asked + reach + 1] = 250, 250

    before, seen, unseen = (adaptation.smooth(planes)[:, 30, asked] for planes in (plain, near, far))

    assert (seen != before).all()
    np.testing.assert_array_equal(unseen, before)


def test_the_longest_reach_of_smoothing_is_that_of_the_widest_blur():
    assert reach_of(SMOOTHING) == 1 + NoiseAdaptation(blur_px=WIDEST_BLUR_PX).reach_px
    assert reach_of(SMOOTHING, adapts_to_noise=False) == 0


@pytest.mark.parametrize("growth_px", [0, 4])
def test_the_finest_window_looks_as_far_as_it_has_grown(growth_px):
    planes, reach = planes_of((64, 90)), reach_of(FINE_FOCUS) + growth_px // 2
    near, far = planes.copy(), planes.copy()
    near[:, 30, 40 + reach] += 100
    far[:, 30, 41 + reach] += 100

    before, seen, unseen = (fine_focus(layer, growth_px=growth_px, config=FocusConfig())[30, 40] for layer in (planes, near, far))

    assert abs(seen - before) > 1e-3
    assert abs(unseen - before) < ROUNDING


# --- dark borders ---


def frames(planes, *, depth_px):
    """Which pixels of each of two images are frames."""
    found = find_dark_borders(np.split(planes, 2), depth_px=depth_px)
    return np.zeros((2, *planes.shape[-2:]), bool) if found is None else ~np.array([found.validity(0), found.validity(1)])


@pytest.mark.parametrize(("depth_px", "row", "column", "level"), [(4, 0, 100 + REACH_PX, 0), (40, 39 + REFERENCE_PX, 100, 255)])
def test_samples_at_the_reach_of_a_dark_border_matter_and_those_one_pixel_farther_do_not(depth_px, row, column, level):
    """An image whose border is all but dark enough; one pixel more makes it a frame."""
    assert max(row, column - 100) == reach_of(DARK_BORDERS, dark_border_px=depth_px)
    planes = np.full((6, 200, 220), 100, np.float32)
    planes[:3, 0] = 67.7
    assert not frames(planes, depth_px=depth_px).any()

    planes[:3, row, column] = level

    is_frame = frames(planes, depth_px=depth_px)
    assert is_frame[0, 0, 100]
    assert not is_frame[0, 0, 99 - (0 if row == 0 else REACH_PX)]
    planes[:3, row, column], planes[:3, row + (row > 0), column + (row == 0)] = (67.7 if row == 0 else 100), level
    assert not frames(planes, depth_px=depth_px)[0, 0, 100]


# --- edges ---


def edge_case(shape, *, seed, n_images=3):
    blocks = planes_of(shape, seed=seed, n=3 * n_images)
    soft = ndimage.gaussian_filter(blocks, (0, 1.2, 1.2))
    return blocky(shape, n_labels=n_images, side=24, seed=seed), soft, soft.mean(axis=0) / 255


def edges(index, planes, config):
    return refine_edges(index, np.split(planes, len(planes) // 3), config).index


def blurred_most(profile):
    """A profile under the widest blur: means of four pixels, a Gaussian over them, and a quadratic spline."""
    padded = np.pad(profile, (40, 40 - len(profile) % -4), mode="symmetric").reshape(-1, 4).mean(axis=1)
    radius, places = math.ceil(COARSE_CUT_OFF * math.sqrt(max(BLURS_PX) ** 2 - COARSE_VARIANCE) / 4), np.arange(-10, 11)
    wanted = (COARSE_WIDENING * max(BLURS_PX) ** 2 - COARSE_VARIANCE) / 16

    def kernel(spread):
        weights = np.where(np.abs(places) <= radius, np.exp(-((places / spread) ** 2) / 2), 0)
        return weights / weights.sum()

    spread = optimize.brentq(lambda spread: np.sum(kernel(spread) * places**2) - wanted, 0.1, 8, xtol=1e-13)
    soft = np.convolve(padded, kernel(spread), mode="same")
    square, place = np.divmod(np.arange(len(profile)), 4)
    offset, around = (place - 1.5) / 4, square + 10
    return (0.5 - offset) ** 2 / 2 * soft[around - 1] + (0.75 - offset**2) * soft[around] + (0.5 + offset) ** 2 / 2 * soft[around + 1]


def explained_by_the_widest_blur(width, *, center):
    """An image and its copy blurred most, alike at the center, where lines nearby let narrower blurs explain less than no blur at all."""
    distance = np.abs(np.arange(width) - center)
    lines, ground = 100.0 * (distance == 3), 100.0 * (distance > 12)

    profile = 100 + lines - ground * blurred_most(lines)[center] / blurred_most(ground)[center]
    return np.tile(np.repeat([profile, blurred_most(profile)], 3, axis=0)[:, None], (1, 20, 1)).astype(np.float32)


@pytest.mark.parametrize(("distance", "is_seen"), [(0, False), (MARGIN_PX, True), (MARGIN_PX + 1, False)])
def test_samples_at_the_margin_of_the_evidence_matter_and_those_one_pixel_farther_do_not(distance, is_seen):
    """A glaring line takes its explanation from the widest Gaussian; this pixel sees farthest in its square of four by four."""
    asked, config = 79, DecisionConfig(edge_inertia=0.0, edge_stiffness=0.0)
    planes = explained_by_the_widest_blur(160, center=asked)
    index = np.broadcast_to(np.arange(160) >= asked, planes.shape[1:]).astype(np.uint16)
    if distance:
        planes[:3, :, asked + distance] += 1e5

    result = edges(index, planes, config)

    np.testing.assert_array_equal(result[:, asked], is_seen)
    np.testing.assert_array_equal(result[:, asked - config.edge_band_px : asked], 0)


@pytest.mark.parametrize(("distance", "is_seen"), [(EXACT_MARGIN_PX, True), (EXACT_MARGIN_PX + 1, False)])
@pytest.mark.parametrize("axis", [1, 2])
def test_samples_at_the_margin_of_exact_evidence_matter_and_those_one_pixel_farther_do_not(axis, distance, is_seen):
    """Waves that only the widest blur explains; a glaring line takes that explanation away, and with it the evidence."""
    side, asked = 2 * EXACT_MARGIN_PX + 9, EXACT_MARGIN_PX + 5  # the last pixel of its window sees farthest in its square of four
    assert asked % 4 == 0
    distances = np.indices((side, side)).sum(axis=0) - 2 * asked
    sharp = np.repeat([128 + 100 * np.cos(0.3 / math.sqrt(2) * distances)], 3, axis=0)
    wide = np.repeat([128 + 100 * np.cos(0.3 / math.sqrt(2) * np.pad(distances, 12, mode="reflect", reflect_type="odd"))], 3, axis=0)
    soft = ndimage.gaussian_filter(wide, (0, max(EXACT_BLURS_PX), max(EXACT_BLURS_PX)), truncate=3)[:, 12:-12, 12:-12]
    changed = sharp.copy()
    changed.swapaxes(1, axis)[:, asked + distance] += 1e9
    is_first = np.ones((side, side), bool)

    before, after = (
        exact_evidence(case, soft, is_first, is_wanted=is_first, noise_power=NOISE_POWER).evidence[asked, asked]
        for case in (sharp, changed)
    )

    assert before < -0.5
    assert (abs(after - before) > 0.1) == is_seen
    assert abs(after - before) < 1e-6 or is_seen


def test_evidence_at_a_distance_of_as_many_pixels_as_there_are_rounds_matters():
    """In plain pictures nothing else speaks, so that a word comes as far as it can."""
    shape, line, config = (7, 200), 90, DecisionConfig(edge_band_px=64, edge_inertia=0.0)
    index = np.zeros(shape, np.uint16)
    index[:, 100:] = 1
    planes = np.full((6, *shape), 100, np.float32)
    assert (edges(index, planes, config)[:, :100] == 0).all()
    planes[:3, :, line] = 1e7  # the first image, were it sharp, would shine as far as the narrowest Gaussian in the second
    last_lit = line - COMPARISON_WINDOW_PX // 2 - int(3 * min(BLURS_PX) + 0.5)

    result = edges(index, planes, config)

    assert (result[:, last_lit - ROUNDS] == 1).all()
    assert (result[:, last_lit - ROUNDS - 1] == 0).all()


def test_the_map_matters_to_the_evidence_as_far_as_a_straight_line_goes():
    """Nearly the reach, which has a diagonal: a third image becomes the rival of the farthest sample that is looked at."""
    shape, asked, config = (80, 200), 99, DecisionConfig(edge_inertia=0.0, edge_stiffness=0.0)
    farthest, to_edge = asked + MARGIN_PX, MARGIN_PX + config.edge_band_px
    _, planes, _ = edge_case(shape, seed=0)
    planes[:3, :, farthest] += 1e7
    results = []
    for end in (farthest + to_edge - 1, farthest + to_edge, farthest + to_edge + 1):
        index = np.zeros(shape, np.uint16)
        index[:, farthest - to_edge + 1 :], index[:, end:] = 1, 2
        results.append(edges(index, planes, config)[:, asked])
        assert end - asked <= reach_of(EDGES, "first drawing, map") - ROUNDS

    assert (results[0] != results[1]).any()
    np.testing.assert_array_equal(results[1], results[2])


@pytest.mark.parametrize("stiffness", [0.0, 2.0])
def test_only_pixels_within_the_bands_can_change(stiffness):
    config = DecisionConfig(edge_band_px=6, edge_inertia=0.0, edge_stiffness=stiffness)
    _, planes, _ = edge_case((120, 120), seed=3)
    index = np.broadcast_to(np.arange(120) // 50, (120, 120)).astype(np.uint16)

    result = edges(index, planes, config)

    is_outside = ~edge_band(index, reach_px=6 + (EXACT_PASSES * EXACT_BAND_PX if stiffness else 0))
    assert is_outside.any()
    assert (result != index).any()
    np.testing.assert_array_equal(result[is_outside], index[is_outside])


# --- blending ---


def share_maps(blend, n_images):
    """The share of every image at every pixel: in the detail, then in the brightness."""
    shares = np.stack([np.arange(n_images)[:, None, None] == blend.source_index] * 2).astype(np.float64)
    shares[:, :, blend.band] = 0
    for kind, table in enumerate((blend.weights, blend.weights + blend.brightness)):
        for source, weights in zip(blend.sources, table.toarray(), strict=True):
            shares[kind, source, blend.band] = weights
    return shares


def blended(index, planes, guide, config):
    return share_maps(blend_along_edges(index, np.split(planes, len(planes) // 3), guide, config), len(planes) // 3)


@pytest.mark.parametrize(("distance", "is_seen"), [(0, False), (16 + TEXTURE_PX // 2, True), (17 + TEXTURE_PX // 2, False)])
def test_samples_at_the_reach_of_a_blend_matter_and_those_one_pixel_farther_do_not(distance, is_seen):
    """A glaring line, whose mean leaves texture beside it, takes the feather from a pixel of smooth ground; the step makes no seam."""
    asked, config = 80, DecisionConfig(feather_px=16)
    assert reach_of(BLENDING, "samples", feather_px=16) == 16 + TEXTURE_PX // 2
    index = np.broadcast_to(np.arange(160) > asked, (20, 160)).astype(np.uint16)
    planes = np.full((6, 20, 160), 100, np.float32)
    planes[3:] += 2
    if distance:
        planes[:3, :, asked - distance] += 1e4

    shares = blended(index, planes, np.full(index.shape, 0.5, np.float32), config)

    narrow = blended(index, planes, np.full(index.shape, 0.5, np.float32), DecisionConfig(feather_px=0))
    np.testing.assert_array_equal(np.isclose(shares[1, 0, :, asked], narrow[1, 0, :, asked], rtol=0, atol=ROUNDING), is_seen)


@pytest.mark.parametrize(("distance", "is_seen"), [(SEAM_REACH_PX, True), (SEAM_REACH_PX + 1, False)])
@pytest.mark.parametrize("what", ["samples", "map"])
def test_what_lies_at_the_reach_of_a_seam_matters_and_what_lies_one_pixel_farther_does_not(what, distance, is_seen):
    """A line that glares in one image, or that is taken from the other image."""
    asked, shape = 80, (20, 160)
    index = np.broadcast_to(np.arange(160) > asked, shape).astype(np.uint16)
    blocks = [np.full((3, *shape), level, np.float32) for level in (100, 107)]
    before = measure_seams(index, blocks, edge_band(index, reach_px=16))[:, asked]
    assert (before > 0.1).all()
    assert (before < 0.9).all()
    if what == "samples":
        blocks[0][:, :, asked - distance] += 1e4
    else:
        index[:, : asked - distance + 1] = 1

    after = measure_seams(index, blocks, edge_band(index, reach_px=16))[:, asked]

    np.testing.assert_array_equal(after != before, is_seen)


def test_the_low_pass_of_a_composition_looks_as_far_as_it_says():
    rows, columns = 60, 80
    images = [np.full((rows, columns), level) for level in (100.0, 140.0)]
    blend = blend_along_edges(
        np.broadcast_to(np.arange(columns) >= 40, (rows, columns)).astype(np.uint16),
        [np.tile(image, (3, 1, 1)).astype(np.float32) for image in images],
        np.full((rows, columns), 0.5, np.float32),
        DecisionConfig(),
    )
    assert blend.brightness.nnz
    plain = compose(images, blend)

    images[1][30, 36] += 5

    is_changed = compose(images, blend) != plain
    reached = np.zeros((rows, columns), bool)
    reached[30 - LOW_PASS_REACH_PX : 31 + LOW_PASS_REACH_PX, 36 - LOW_PASS_REACH_PX : 37 + LOW_PASS_REACH_PX] = True
    assert not is_changed[~reached].any()
    assert is_changed[30 - LOW_PASS_REACH_PX, 36]
    assert is_changed[30, 36 - LOW_PASS_REACH_PX]


def test_the_overlap_of_a_tile_holds_what_a_blend_looks_at():
    for radius_px in (0, 1, 3):
        for feather_px in (0, 1, 5, 16):
            changes = {"blend_radius_px": radius_px, "feather_px": feather_px}
            config, to_map = FusionConfig().replaced(changes), reach_of(BLENDING, "map", **changes)
            assert to_map <= BLENDING.overlap_px(config, 1) <= to_map + 1
            # samples are looked at once, by no stage after another, so that all of the overlap is there for them
            assert max(reach_of(BLENDING, "samples", **changes), LOW_PASS_REACH_PX) <= derive_overlap(config, detail_patch_px=1)


def test_margins_of_the_evidence_are_those_of_its_windows_and_blurs():
    for blurs, window_px, margin_px in (
        (BLURS_PX, COMPARISON_WINDOW_PX, MARGIN_PX),
        (EXACT_BLURS_PX, EXPLAINED_WINDOW_PX, EXACT_MARGIN_PX),
    ):
        radius = math.ceil(COARSE_CUT_OFF * math.sqrt(max(blurs) ** 2 - COARSE_VARIANCE) / 4)
        # from the first pixel of a square to the end of the last one: the spline mixes three of them
        assert window_px // 2 + 4 * (radius + 1) + 3 == margin_px
