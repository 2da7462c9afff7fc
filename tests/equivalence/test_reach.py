"""How far each stage after the solve looks: what lies beyond its reach does not matter, what lies just within it does.

The table "Reach of every stage in pixels" of docs/method.md states these formulas.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.cleanup.blending import TEXTURE_PX, blend_along_edges
from qmcif_engine.cleanup.boundaries.outlines import ROUNDS
from qmcif_engine.cleanup.boundaries.reblurring import (
    BLURS_PX,
    COMPARISON_WINDOW_PX,
    EXACT_BAND_PX,
    EXACT_BLURS_PX,
    EXACT_MARGIN_PX,
    EXACT_PASSES,
    EXACT_ROUNDS,
    EXPLAINED_WINDOW_PX,
    MARGIN_PX,
    NOISE_POWER,
    exact_evidence,
    refine_edges,
)
from qmcif_engine.cleanup.dark_border import REACH_PX, REFERENCE_PX, find_dark_frames
from qmcif_engine.cleanup.fill import follow_neighbors
from qmcif_engine.cleanup.frame_ends import LARGEST_REACH_PX
from qmcif_engine.cleanup.regularization import CELL_PX, SLOPE_REACH_PX, CellEvidence, regularize, sample_cells
from qmcif_engine.cleanup.regularization import REACH_PX as REGULARIZATION_REACH_PX
from qmcif_engine.cleanup.regularization import ROUNDS as CELL_ROUNDS
from qmcif_engine.cleanup.seams import REACH_PX as SEAM_REACH_PX
from qmcif_engine.cleanup.seams import measure_seams
from qmcif_engine.config.fusion_config import DecisionConfig, DecompositionConfig, FocusConfig, FusionConfig, RefinementConfig
from qmcif_engine.method.decomposition import Decomposition, History, StopReason
from qmcif_engine.method.focus import (
    FINEST_WINDOW_PX,
    amplify_detail,
    base_focus,
    detail_focus,
    fine_focus,
    gather_evidence,
    gradient_level,
)
from qmcif_engine.method.fusion import LOW_PASS_REACH_PX, compose
from qmcif_engine.method.patches import edge_band, vote
from qmcif_engine.method.refinement import refine
from qmcif_engine.stack.noise import LONGEST_BLUR_REACH_PX, NO_NOISE, WIDEST_BLUR_PX, NoiseAdaptation
from qmcif_engine.tiles.plan import derive_halo
from qmcif_engine.tiles.plan import reach_of_blend as blend_of_halo

DOCUMENT = Path(__file__).parents[2] / "docs" / "method.md"

ROUNDING = 1e-5
"""Of float32 levels of order one: window means are running sums, so samples far away on a line may change the last bit."""


# --- the reaches ---


def reach_of_amplification(config):
    return config.amplification_radius_px


def reach_of_gradient_level(config):
    """One pixel for the forward difference; within the border band the mirrored interior, and its difference."""
    return max(1, 2 * config.border_px)


def reach_of_base_focus(config, *, base_patch_px):
    return base_patch_px - 1 + reach_of_gradient_level(config)


def reach_of_detail_focus(config, *, side):
    return reach_of_amplification(config) + reach_of_gradient_level(config) + side // 2


def reach_of_evidence(config, *, side):
    """Half of the largest window, whose side is ``2^(scales - 1) (side + 1) - 1``."""
    return 0 if config.evidence_scales == 1 else 2 ** (config.evidence_scales - 2) * (side + 1) - 1


def reach_of_following(config):
    return config.follow_reach_px


def reach_of_vote(side):
    return side // 2


def reach_of_refinement(side):
    """Similarity over a window, then votes over another."""
    return 2 * (side // 2)


def reach_of_smoothing(adaptation):
    """Neighbors that tell an outlier, and the Gaussian at three deviations."""
    return 1 + int(3 * adaptation.blur_px + 0.5)


def reach_of_fine_focus(growth_px=0):
    """The forward difference, and half the window."""
    return 1 + (FINEST_WINDOW_PX + growth_px) // 2


def reach_of_regularization(config):
    """A word from cell to cell a round, and within the cells at both ends."""
    return (CELL_ROUNDS + 1) * CELL_PX if config.consistency else 0


def reach_of_first_drawing_to_samples():
    """Messages of the pixels, and the evidence of the farthest that is heard: comparison, and the widest Gaussian at three deviations."""
    assert COMPARISON_WINDOW_PX // 2 + int(3 * max(BLURS_PX) + 0.5) == MARGIN_PX
    return ROUNDS + MARGIN_PX


def reach_of_first_drawing_to_index(config):
    """From there to the nearest edge, which lies at most a diagonal beyond the band of the pixel heard, and the pixel across it."""
    return reach_of_first_drawing_to_samples() + math.ceil(math.sqrt(2) * (MARGIN_PX + config.edge_band_px)) + 1


def reach_of_exact_pass_to_samples():
    """As above, with the blurs and the window of `exact_evidence`."""
    assert EXPLAINED_WINDOW_PX // 2 + int(3 * max(EXACT_BLURS_PX) + 0.5) == EXACT_MARGIN_PX
    return EXACT_ROUNDS + EXACT_MARGIN_PX


def reach_of_exact_pass_to_index(config):
    band_px = min(EXACT_BAND_PX, config.edge_band_px)
    return reach_of_exact_pass_to_samples() + math.ceil(math.sqrt(2) * (EXACT_MARGIN_PX + band_px)) + 1


def reach_of_exact_passes(config):
    return EXACT_PASSES * reach_of_exact_pass_to_index(config) if config.edge_stiffness else 0


def reach_of_edges_to_samples(config):
    return reach_of_first_drawing_to_samples() + reach_of_exact_passes(config)


def reach_of_edges_to_index(config):
    return reach_of_first_drawing_to_index(config) + reach_of_exact_passes(config)


def reach_of_blend_to_guide(config):
    return 2 * config.blend_radius_px


def reach_of_blend_to_samples(config):
    """What tells whether the surroundings are smooth (the feather, and the mean that leaves the texture at its end), or have a seam."""
    return max(reach_of_feather(config) + TEXTURE_PX // 2, SEAM_REACH_PX) if reach_of_feather(config) else 0


def reach_of_feather(config):
    return config.feather_px // 2 * 2 if config.blend_radius_px else 0


def reach_of_blend_to_index(config):
    """Of the narrow blend, of the wide one, or of what asks for it: a slope or a seam."""
    wide = max(reach_of_feather(config), SLOPE_REACH_PX, SEAM_REACH_PX) if reach_of_feather(config) else 0
    return max(reach_of_blend_to_guide(config), wide)


def reach_of_dark_frames(config):
    """Along the border, or across to the last row compared with, whichever is farther."""
    return max(REACH_PX, config.dark_frame_px + REFERENCE_PX - 1) if config.dark_frame_px else 0


def test_reaches_of_the_default_settings_are_those_of_the_document():
    focus, decision, side = FocusConfig(), DecisionConfig(), FocusConfig().largest_detail_patch_px
    section = DOCUMENT.read_text(encoding="utf-8").split("\n## Reach of every stage in pixels\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]

    reaches = {
        "`stack.noise.NoiseAdaptation.smooth`": LONGEST_BLUR_REACH_PX,
        "`method.focus.amplify_detail`": reach_of_amplification(focus),
        "`method.focus.gradient_level`": reach_of_gradient_level(focus),
        "`method.focus.base_focus`": reach_of_base_focus(focus, base_patch_px=DecompositionConfig().base_patch_px),
        "`method.focus.detail_focus`": reach_of_detail_focus(focus, side=side),
        "`method.focus.fine_focus`": reach_of_fine_focus(),
        "`method.focus.gather_evidence`": reach_of_evidence(focus, side=side),
        "`cleanup.fill.follow_neighbors`": reach_of_following(decision),
        "`method.patches.vote`": reach_of_vote(side),
        "`method.refinement.refine`": reach_of_refinement(side),
        "`cleanup.regularization.regularize`": reach_of_regularization(decision),
        "`cleanup.boundaries.reblurring.refine_edges`, first drawing, samples": reach_of_first_drawing_to_samples(),
        "`cleanup.boundaries.reblurring.refine_edges`, first drawing, map": reach_of_first_drawing_to_index(decision),
        "`cleanup.boundaries.reblurring.refine_edges`, one pass to the pixel, samples": reach_of_exact_pass_to_samples(),
        "`cleanup.boundaries.reblurring.refine_edges`, one pass to the pixel, map": reach_of_exact_pass_to_index(decision),
        "`cleanup.boundaries.reblurring.refine_edges`, samples": reach_of_edges_to_samples(decision),
        "`cleanup.boundaries.reblurring.refine_edges`, map": reach_of_edges_to_index(decision),
        "`cleanup.dark_border.find_dark_frames`": reach_of_dark_frames(focus),
        "`cleanup.frame_ends.FrameEnds`, which pixels images have": min(LARGEST_REACH_PX, reach_of_blend_to_index(decision)),
        "`cleanup.blending.blend_along_edges`, samples": reach_of_blend_to_samples(decision),
        "`cleanup.blending.blend_along_edges`, guide": reach_of_blend_to_guide(decision),
        "`cleanup.blending.blend_along_edges`, map": reach_of_blend_to_index(decision),
        "`method.fusion.compose`, samples": LOW_PASS_REACH_PX,
    }
    assert {stage: int(default) for stage, _, default in rows} == reaches
    assert reach_of_evidence(focus, side=side) == 8 * (side + 1) - 1


def test_sums_and_the_halo_in_the_document_are_those_of_the_table_and_of_the_code():
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    summands, total = re.search(r"(\d+(?: \+ \d+)+) = (\d+) px for the default", text).groups()
    focus, decision, side = FocusConfig(), DecisionConfig(), FocusConfig().largest_detail_patch_px
    longest_way = [
        reach_of_detail_focus(focus, side=side),
        reach_of_evidence(focus, side=side),
        reach_of_following(decision),
        reach_of_vote(side),
        reach_of_refinement(side),
        reach_of_regularization(decision),
        reach_of_edges_to_index(decision),
        reach_of_blend_to_index(decision),
    ]

    assert [int(number) for number in summands.split(" + ")] == longest_way
    assert int(total) == sum(longest_way)
    assert f"; {derive_halo(FusionConfig(), detail_patch_px=side)} px for the default at s = {side}" in text


# --- helpers ---


def beyond(shape, place, reach):
    """Return which pixels lie farther than the reach, in rows or in columns, from every pixel of a block (two slices)."""
    is_kept = np.zeros(shape, bool)
    is_kept[place] = True
    return ~ndimage.maximum_filter(is_kept, 2 * reach + 1, mode="constant")


def just_within(place, reach):
    """The pixel in the row of a one-pixel place that lies at the reach."""
    row, column = place
    return np.s_[row, column + reach]


def planes_of(shape, *, seed=0, n=3):
    return np.random.default_rng(seed).uniform(0, 255, (n, *shape)).astype(np.float32)


def mixed(planes, others, is_far):
    """Planes with those of others where it is far."""
    return np.where(is_far, others, planes)


def blocky(shape, *, n_labels, side, seed=0):
    """A map of square regions."""
    labels = np.random.default_rng(seed).integers(0, n_labels, (-(-shape[0] // side), -(-shape[1] // side)))
    return np.kron(labels, np.ones((side, side), int))[: shape[0], : shape[1]].astype(np.uint16)


def assert_far_is_ignored(stage, planes, *, reach, places):
    """Exchange everything beyond the reach of some places for something else; the result there stays."""
    expected = stage(planes)
    for number, place in enumerate(places):
        others = planes_of(planes.shape[-2:], seed=100 + number, n=len(planes))
        is_far = beyond(planes.shape[-2:], place, reach)
        assert is_far.any()
        result = stage(mixed(planes, others, is_far))
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result[..., *place], expected[..., *place], rtol=0, atol=ROUNDING * scale)


INTERIOR = (slice(30, 33), slice(40, 44))
CORNERS = ((slice(0, 3), slice(0, 2)), (slice(-3, None), slice(-2, None)))
SHAPE = (64, 90)


# --- focus measures ---


@pytest.mark.parametrize("radius_px", [0, 1, 3])
def test_amplification(radius_px):
    config, planes = FocusConfig(amplification_radius_px=radius_px), planes_of(SHAPE)
    reach = reach_of_amplification(config)

    def stage(layer):
        return amplify_detail(layer, radius_px=radius_px)

    assert_far_is_ignored(stage, planes, reach=reach, places=[INTERIOR, *CORNERS])
    changed = planes.copy()
    changed[:, *just_within((30, 40), reach)] += 50
    assert np.abs(stage(changed) - stage(planes))[:, 30, 40].min() > 40


@pytest.mark.parametrize("border_px", [0, 1, 8])
def test_gradient_level(border_px):
    planes = planes_of(SHAPE)
    reach = reach_of_gradient_level(FocusConfig(border_px=border_px))

    def stage(layer):
        return gradient_level(layer, border_px=border_px)

    assert_far_is_ignored(stage, planes, reach=1, places=[INTERIOR])
    assert_far_is_ignored(stage, planes, reach=reach, places=CORNERS)
    changed = planes.copy()
    changed[:, 30, reach] += 50
    assert stage(changed)[30, 0] != stage(planes)[30, 0]


@pytest.mark.parametrize("border_px", [0, 8])
def test_base_focus(border_px):
    planes, patch = planes_of((64, 96)), 8
    config = FocusConfig(border_px=border_px)

    def stage(layer):
        parts = Decomposition(layer, layer, layer, None, History((), StopReason.ITERATIONS_DONE))
        levels = base_focus(parts, base_patch_px=patch, config=config)
        return np.repeat(np.repeat(levels, patch, axis=0), patch, axis=1)

    assert_far_is_ignored(stage, planes, reach=reach_of_base_focus(config, base_patch_px=patch), places=[INTERIOR, *CORNERS])


@pytest.mark.parametrize("side", [1, 9])
@pytest.mark.parametrize("border_px", [0, 4])
def test_detail_focus(border_px, side):
    planes, config = planes_of(SHAPE), FocusConfig(border_px=border_px)

    def stage(detail):
        return detail_focus(detail, detail_patch_px=side, config=config)

    assert_far_is_ignored(stage, planes, reach=reach_of_detail_focus(config, side=side), places=[INTERIOR, *CORNERS])
    # inside the picture nothing is mirrored
    inner = reach_of_detail_focus(FocusConfig(border_px=0), side=side)
    assert_far_is_ignored(stage, planes, reach=inner, places=[INTERIOR])
    changed = planes.copy()
    changed[:, *just_within((30, 40), inner)] += 100
    assert abs(stage(changed) - stage(planes))[30, 40] > 1e-3


@pytest.mark.parametrize("side", [3, 9])
@pytest.mark.parametrize("scales", [1, 2, 3, 5])
def test_evidence(scales, side):
    shape, config = (200, 220), FocusConfig(evidence_scales=scales)
    planes = planes_of(shape, n=1)
    reach = reach_of_evidence(config, side=side)
    assert scales != 5 or reach == 8 * (side + 1) - 1

    def stage(levels):
        return gather_evidence(levels[0], detail_patch_px=side, config=config)[None]

    place = (slice(100, 102), slice(110, 113))
    assert_far_is_ignored(stage, planes, reach=reach, places=[place, *CORNERS])
    changed = planes.copy()
    changed[:, *just_within((100, 110), reach)] += 1e6
    assert abs(stage(changed) - stage(planes))[0, 100, 110] > 1


# --- decisions of patches ---


@pytest.mark.parametrize("reach_px", [1, 5, 20])
def test_following(reach_px):
    generator = np.random.default_rng(reach_px)
    reach = reach_of_following(DecisionConfig(follow_reach_px=reach_px))
    for _ in range(10):
        index, others = generator.integers(0, 4, (2, *SHAPE)).astype(np.uint16)
        is_decided, is_otherwise = generator.random((2, *SHAPE)) < 0.01
        expected = follow_neighbors(index, is_decided, reach_px=reach_px)
        for place in (INTERIOR, *CORNERS):
            is_far = beyond(SHAPE, place, reach)
            result = follow_neighbors(mixed(index, others, is_far), mixed(is_decided, is_otherwise, is_far), reach_px=reach_px)
            np.testing.assert_array_equal(result[place], expected[place])

    index, is_decided = np.zeros(SHAPE, np.uint16), np.zeros(SHAPE, bool)
    index[just_within((30, 40), reach)], is_decided[just_within((30, 40), reach)] = 1, True
    assert follow_neighbors(index, is_decided, reach_px=reach_px)[30, 40] == 1
    assert follow_neighbors(index, is_decided, reach_px=reach_px)[30, 39] == 0


@pytest.mark.parametrize("side", [1, 5, 9])
def test_vote(side):
    index, others = np.random.default_rng(side).integers(0, 3, (2, *SHAPE)).astype(np.uint16)
    expected = vote(index, n_choices=3, side_px=side)
    for place in (INTERIOR, *CORNERS):
        result = vote(mixed(index, others, beyond(SHAPE, place, reach_of_vote(side))), n_choices=3, side_px=side)
        np.testing.assert_array_equal(result[place], expected[place])

    halves = np.zeros(SHAPE, np.uint16)
    halves[:, 40:] = 1
    halves[: 30 - side // 2] = halves[31 + side // 2 :] = 0
    before = vote(halves, n_choices=2, side_px=side)[30, 40]
    halves[30 - side // 2 : 31 + side // 2, 40 + reach_of_vote(side)] = 0  # takes the majority away
    assert (before, vote(halves, n_choices=2, side_px=side)[30, 40]) == (1, 0)


@pytest.mark.parametrize("side", [3, 9])
def test_refinement(side):
    planes = planes_of(SHAPE, n=12)
    tau = np.random.default_rng(5).uniform(0, 1, (2, *SHAPE)).astype(np.float32)

    def stage(stacked, weights):
        first, second, *sources = np.split(stacked, 4)
        return refine((first, second), sources, weights=weights, detail_patch_px=side, config=RefinementConfig())

    expected = stage(planes, tau)
    assert 0.2 < expected.mean() < 0.8
    reach = reach_of_refinement(side)
    for number, place in enumerate((INTERIOR, *CORNERS)):
        is_far = beyond(SHAPE, place, reach)
        result = stage(mixed(planes, planes_of(SHAPE, seed=200 + number, n=12), is_far), mixed(tau, 1 - tau, is_far))
        np.testing.assert_array_equal(result[place], expected[place])


# --- decisions that fit together ---


def fitted(index, levels, config=DecisionConfig()):  # noqa: B008 - settings are frozen
    """A map of pixels from levels of all images at all pixels."""
    evidence = CellEvidence(noise_level=0.0)
    for level in levels:
        evidence.add(sample_cells(level))
    result = regularize(index, evidence, noise_level=0.0, config=config)
    return np.stack([result.index, result.confidence])


@pytest.mark.parametrize("n_images", [2, 9])
@pytest.mark.parametrize("consistency", [0.5, 1.0, 2.0])
def test_regularization(consistency, n_images):
    shape, config = (190, 211), DecisionConfig(consistency=consistency)
    reach = reach_of_regularization(config)
    assert reach == REGULARIZATION_REACH_PX
    for seed in range(4):
        generator = np.random.default_rng(seed)
        index, others = generator.integers(0, n_images, (2, *shape)).astype(np.uint16)
        levels, other_levels = generator.uniform(0.2, 0.6, (2, n_images, *shape)).astype(np.float32)
        expected = fitted(index, levels, config)
        for place in ((slice(90, 97), slice(100, 109)), *CORNERS):
            is_far = beyond(shape, place, reach)
            assert is_far.any()
            result = fitted(mixed(index, others, is_far), mixed(levels, other_levels, is_far), config)
            np.testing.assert_array_equal(result[:, *place], expected[:, *place])


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
def test_smoothing(adaptation):
    planes, reach = planes_of(SHAPE), reach_of_smoothing(adaptation)

    assert_far_is_ignored(adaptation.smooth, planes, reach=reach, places=[INTERIOR, *CORNERS])
    assert adaptation.reach_px + 1 == reach <= LONGEST_BLUR_REACH_PX
    plain = np.full((3, *SHAPE), 100, np.float32)
    plain[:, 30, 40 + reach - 1] = 250  # an outlier, until its neighbor is one too
    changed = plain.copy()
    changed[:, *just_within((30, 40), reach)] = 250
    assert (adaptation.smooth(changed) != adaptation.smooth(plain))[:, 30, 40].all()


def test_the_longest_reach_of_smoothing_is_that_of_the_widest_blur():
    assert reach_of_smoothing(NoiseAdaptation(blur_px=WIDEST_BLUR_PX)) == LONGEST_BLUR_REACH_PX


@pytest.mark.parametrize("growth_px", [0, 4])
def test_fine_focus(growth_px):
    planes, reach = planes_of(SHAPE), reach_of_fine_focus(growth_px)

    def stage(detail):
        return fine_focus(detail, growth_px=growth_px, config=FocusConfig())

    assert_far_is_ignored(stage, planes, reach=reach, places=[INTERIOR, *CORNERS])
    changed = planes.copy()
    changed[:, *just_within((30, 40), reach)] += 100
    assert abs(stage(changed) - stage(planes))[30, 40] > 1e-3


# --- dark frames ---


def frames(planes, *, depth_px):
    """Which pixels of each of two images are frames."""
    found = find_dark_frames(np.split(planes, 2), depth_px=depth_px)
    return np.zeros((2, *planes.shape[-2:]), bool) if found is None else ~np.array([found.validity(0), found.validity(1)])


def framed_planes(shape, *, frame_px, seed):
    """Whole gray levels, darker at the border by an amount that changes along it."""
    generator = np.random.default_rng(seed)
    planes = generator.integers(60, 200, (6, *shape)).astype(np.float32)
    for view in (planes, planes[..., ::-1, :], planes.swapaxes(-2, -1), planes.swapaxes(-2, -1)[..., ::-1, :]):
        shares = np.repeat(generator.uniform(0, 1, (2, frame_px, view.shape[-1] // 60 + 1)), 60, axis=-1)[..., : view.shape[-1]]
        view[..., :frame_px, :] = np.rint(view[..., :frame_px, :] * np.repeat(shares, 3, axis=0))
    return planes


@pytest.mark.parametrize("depth_px", [4, 20])
def test_dark_frames(depth_px):
    shape, reach = (150, 230), reach_of_dark_frames(FocusConfig(dark_frame_px=depth_px))
    places = ((slice(0, depth_px), slice(100, 130)), (slice(60, 90), slice(-depth_px, None)), *CORNERS)
    n_found = 0
    for seed in range(5):
        planes, others = (framed_planes(shape, frame_px=depth_px // 2, seed=number) for number in (seed, seed + 50))
        expected = frames(planes, depth_px=depth_px)
        for place in places:
            result = frames(mixed(planes, others, beyond(shape, place, reach)), depth_px=depth_px)
            np.testing.assert_array_equal(result[:, *place], expected[:, *place])
            n_found += np.count_nonzero(expected[:, *place])
    assert n_found > 40


@pytest.mark.parametrize(("depth_px", "row", "column", "level"), [(4, 0, 100 + REACH_PX, 0), (40, 39 + REFERENCE_PX, 100, 255)])
def test_samples_at_the_reach_of_a_dark_frame_matter_and_those_one_pixel_farther_do_not(depth_px, row, column, level):
    """An image whose border is all but dark enough; one pixel more makes it a frame."""
    assert max(row, column - 100) == reach_of_dark_frames(FocusConfig(dark_frame_px=depth_px))
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
    return refine_edges(index, np.split(planes, len(planes) // 3), config)


@pytest.mark.parametrize("stiffness", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("edge_band_px", [2, 8])
def test_edges(edge_band_px, stiffness):
    config = DecisionConfig(edge_band_px=edge_band_px, edge_inertia=0.0, edge_stiffness=stiffness)
    shape = (250, 250) if stiffness == 0 else (250, 610)
    n_changed = 0
    for seed in range(3):
        index, planes, _ = edge_case(shape, seed=seed)
        others, other_planes, _ = edge_case(shape, seed=seed + 50)
        expected = edges(index, planes, config)
        n_changed += np.count_nonzero(expected != index)
        for place in ((slice(118, 130), slice(shape[1] // 2 - 9, shape[1] // 2 + 7)), *CORNERS):
            assert beyond(shape, place, reach_of_edges_to_index(config)).mean() > 0.2
            result = edges(
                mixed(index, others, beyond(shape, place, reach_of_edges_to_index(config))),
                mixed(planes, other_planes, beyond(shape, place, reach_of_edges_to_samples(config))),
                config,
            )
            np.testing.assert_array_equal(result[place], expected[place])
    assert n_changed > 100


def explained_by_the_widest_blur(width, *, center):
    """An image and its copy blurred most, alike at the center, where lines nearby let narrower blurs explain less than no blur at all."""
    distance = np.abs(np.arange(width) - center)
    lines, ground = 100.0 * (distance == 3), 100.0 * (distance > 12)

    def blurred(profile):
        return ndimage.gaussian_filter(profile, max(BLURS_PX), truncate=3)

    profile = 100 + lines - ground * blurred(lines)[center] / blurred(ground)[center]
    return np.tile(np.repeat([profile, blurred(profile)], 3, axis=0)[:, None], (1, 20, 1)).astype(np.float32)


@pytest.mark.parametrize(("distance", "is_seen"), [(0, False), (MARGIN_PX, True), (MARGIN_PX + 1, False)])
def test_samples_at_the_margin_of_the_evidence_matter_and_those_one_pixel_farther_do_not(distance, is_seen):
    """A glaring line takes its explanation from the widest Gaussian."""
    asked, config = 80, DecisionConfig(edge_inertia=0.0, edge_stiffness=0.0)
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
    side, center = 2 * EXACT_MARGIN_PX + 9, 4
    distances = np.indices((side, side)).sum(axis=0) - 2 * (center + EXACT_MARGIN_PX)
    sharp = np.repeat([128 + 100 * np.cos(0.3 / math.sqrt(2) * distances)], 3, axis=0)
    wide = np.repeat([128 + 100 * np.cos(0.3 / math.sqrt(2) * np.pad(distances, 12, mode="reflect", reflect_type="odd"))], 3, axis=0)
    soft = ndimage.gaussian_filter(wide, (0, max(EXACT_BLURS_PX), max(EXACT_BLURS_PX)), truncate=3)[:, 12:-12, 12:-12]
    changed = sharp.copy()
    changed.swapaxes(1, axis)[:, center + EXACT_MARGIN_PX + distance] += 1e6
    is_first = np.ones((side, side), bool)

    before, after = (exact_evidence(case, soft, case, is_first, noise_power=NOISE_POWER)[center, center] for case in (sharp, changed))

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
    shape, asked, config = (80, 200), 100, DecisionConfig(edge_inertia=0.0, edge_stiffness=0.0)
    farthest, to_edge = asked + MARGIN_PX, MARGIN_PX + config.edge_band_px
    _, planes, _ = edge_case(shape, seed=0)
    planes[:3, :, farthest] += 1e7
    results = []
    for end in (farthest + to_edge - 1, farthest + to_edge, farthest + to_edge + 1):
        index = np.zeros(shape, np.uint16)
        index[:, farthest - to_edge + 1 :], index[:, end:] = 1, 2
        results.append(edges(index, planes, config)[:, asked])
        assert end - asked <= reach_of_first_drawing_to_index(config) - ROUNDS

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


def blend_case(shape, *, seed):
    """Images of which some parts are smooth, so that both blends are asked for."""
    index, planes, guide = edge_case(shape, seed=seed, n_images=5)
    strength = np.kron(np.random.default_rng(seed).choice([0.0, 0.02, 1.0], (3, 3)), np.ones((50, 50)))[: shape[0], : shape[1]]
    levels = 100 + 4 * np.arange(5).repeat(3)[:, None, None]
    return index, (levels + strength * (planes - 128)).astype(np.float32), guide


@pytest.mark.parametrize("feather_px", [0, 5, 16])
@pytest.mark.parametrize("radius_px", [0, 1, 3])
def test_blend(radius_px, feather_px):
    config = DecisionConfig(blend_radius_px=radius_px, feather_px=feather_px)
    shape, place = (110, 130), (slice(50, 56), slice(60, 70))
    for seed in range(6):
        index, planes, guide = blend_case(shape, seed=seed)
        others, other_planes, other_guide = blend_case(shape, seed=seed + 50)
        expected = blended(index, planes, guide, config)
        for kept in (place, *CORNERS):
            result = blended(
                mixed(index, others, beyond(shape, kept, reach_of_blend_to_index(config))),
                mixed(planes, other_planes, beyond(shape, kept, reach_of_blend_to_samples(config))),
                mixed(guide, other_guide, beyond(shape, kept, reach_of_blend_to_guide(config))),
                config,
            )
            np.testing.assert_allclose(result[..., *kept], expected[..., *kept], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(("distance", "is_seen"), [(0, False), (16 + TEXTURE_PX // 2, True), (17 + TEXTURE_PX // 2, False)])
def test_samples_at_the_reach_of_a_blend_matter_and_those_one_pixel_farther_do_not(distance, is_seen):
    """A glaring line, whose mean leaves texture beside it, takes the feather from a pixel of smooth ground; the step makes no seam."""
    asked, config = 80, DecisionConfig(feather_px=16)
    assert reach_of_blend_to_samples(config) == 16 + TEXTURE_PX // 2
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


def test_the_halo_of_a_tile_holds_what_a_blend_looks_at():
    for radius_px in (0, 1, 3):
        for feather_px in (0, 1, 5, 16):
            config = DecisionConfig(blend_radius_px=radius_px, feather_px=feather_px)
            assert reach_of_blend_to_index(config) <= blend_of_halo(config) <= reach_of_blend_to_index(config) + 1
            # samples are looked at once, by no stage after another, so that all of the halo is there for them
            assert max(reach_of_blend_to_samples(config), LOW_PASS_REACH_PX) <= derive_halo(
                FusionConfig(decision=config), detail_patch_px=1
            )
