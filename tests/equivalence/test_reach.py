"""How far every stage looks: what lies beyond its reach does not matter, what lies at its reach does.

One procedure for all stages of `qmcif_engine.tiles.stage_list`. A clean-up stage of the decision map, or a focus measure of one stage,
needs nothing here; any other new stage needs a probe that runs it. What takes a picture made for it to be seen at the very limit is in
`test_reach_limits.py`.
"""

import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from qmcif_engine.cleanup.blending import blend_along_edges
from qmcif_engine.cleanup.dark_border import find_dark_borders
from qmcif_engine.cleanup.decision import Decision, DecisionBasis
from qmcif_engine.cleanup.fill import follow_neighbors
from qmcif_engine.cleanup.frame_ends import FrameEnds, reach_of_ends
from qmcif_engine.cleanup.regularization import CellEvidence, regularize
from qmcif_engine.stack.noise import WIDEST_BLUR_PX, NoiseAdaptation
from qmcif_engine.tiles.stage_list import CLEAN_UP, STAGES, derive_overlap
from scipy import ndimage

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.method.cell_grid import sample_cells, spread_cells
from qmcif_engine.method.decomposition import Decomposition, History, StopReason
from qmcif_engine.method.focus import amplify_detail, base_focus, detail_focus, fine_focus, gather_evidence, gradient_level
from qmcif_engine.method.focus_measures import FOCUS_MEASURES, MeasuringTask
from qmcif_engine.method.fusion import compose
from qmcif_engine.method.patches import vote
from qmcif_engine.method.refinement import refine
from qmcif_engine.stack.window import Window

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "method.md"

ROUNDING = 1e-5
"""Of float32 levels of order one: window means are running sums, so samples far away on a line may change the last bit."""

STAGES_BY_NAME = {stage.name: stage for stage in STAGES if stage.reaches}


# --- inputs: what a stage is given, by name, with rows and columns last ---


def planes_of(shape, seed, n=3):
    return np.random.default_rng(seed).uniform(0, 255, (n, *shape)).astype(np.float32)


def blocky(shape, *, n_labels, side, seed):
    """A map of square regions."""
    labels = np.random.default_rng(seed).integers(0, n_labels, (-(-shape[0] // side), -(-shape[1] // side)))
    return np.kron(labels, np.ones((side, side), int))[: shape[0], : shape[1]].astype(np.uint16)


def layer(shape, seed):
    return {"": planes_of(shape, seed)}


def three_images(shape, seed):
    """Three smooth images, a map of square regions and levels of all images: what decisions rest on."""
    generator = np.random.default_rng(seed)
    return {
        "samples": ndimage.gaussian_filter(planes_of(shape, seed, 9), (0, 1.2, 1.2)),
        "map": blocky(shape, n_labels=3, side=24, seed=seed),
        "levels": generator.uniform(0.2, 0.6, (3, *shape)).astype(np.float32),
    }


def partly_smooth_images(shape, seed):
    """Images of which some parts are smooth, so that both blends are asked for."""
    given = three_images(shape, seed)
    strength = np.kron(np.random.default_rng(seed).choice([0.0, 0.02, 1.0], (3, 3)), np.ones((50, 50)))[: shape[0], : shape[1]]
    brightness = 100 + 4 * np.arange(3).repeat(3)[:, None, None]
    guide = given["samples"].mean(axis=0) / 255
    return {"samples": (brightness + strength * (given["samples"] - 128)).astype(np.float32), "guide": guide, "map": given["map"]}


def choices(shape, seed):
    return {"": np.random.default_rng(seed).integers(0, 3, shape).astype(np.uint16)}


def sparse_decisions(shape, seed):
    """A map of whose pixels few are decided; the others are marked by one more."""
    generator = np.random.default_rng(seed)
    is_decided = generator.random(shape) < generator.choice([0.01, 0.0002])
    return {"": np.where(is_decided, generator.integers(0, 3, shape), 3).astype(np.uint16)}


def sources_and_weights(shape, seed):
    """Two fused pictures, their two sources, and what the sources weigh, from 0 to 255."""
    return {"": planes_of(shape, seed, 14)}


def framed_images(shape, seed, frame_px=4):
    """Whole gray levels of two images, darker at the border by an amount that changes along it."""
    generator = np.random.default_rng(seed)
    planes = generator.integers(60, 200, (6, *shape)).astype(np.float32)
    for view in (planes, planes[..., ::-1, :], planes.swapaxes(-2, -1), planes.swapaxes(-2, -1)[..., ::-1, :]):
        shares = np.repeat(generator.uniform(0, 1, (2, frame_px, view.shape[-1] // 60 + 1)), 60, axis=-1)[..., : view.shape[-1]]
        view[..., :frame_px, :] = np.rint(view[..., :frame_px, :] * np.repeat(shares, 3, axis=0))
    return {"": planes}


def missing_pixels(shape, seed):
    """Which pixels each of two images has, all but a few, and a map of both."""
    generator = np.random.default_rng(seed)
    share = generator.choice([0.001, 0.002, 0.01])
    has = generator.random((2, *shape)) > share
    return {"which pixels images have": has, "map": generator.integers(0, 2, shape).astype(np.uint16)}


# --- how stages are run on them ---


def run_regularization(given, config, _side):
    """Decisions in pixels, from levels of all images at all pixels."""
    cells = CellEvidence(noise_level=0.0)
    for level in given["levels"]:
        cells.add(sample_cells(level))
    decided = regularize(sample_cells(given["map"]), cells, noise_level=0.0, config=config.decision)
    return np.stack([spread_cells(values, given["map"].shape) for values in decided])


def run_clean_up(stage):
    """Return how a clean-up stage is run; all of them are alike."""

    def run(given, config, _side):
        basis = DecisionBasis(np.split(given["samples"], 3), 0.0)
        before = Decision(given["map"], np.ones(given["map"].shape, np.float32))
        after = stage.clean_up(before, basis, config)
        return np.stack([after.index, after.confidence])

    return run


def run_base_focus(given, config, _side):
    parts = Decomposition(given[""], given[""], given[""], None, History((), StopReason.ITERATIONS_DONE))
    patch = config.decomposition.base_patch_px
    levels = base_focus(parts, base_patch_px=patch, config=config.focus)
    return np.kron(levels, np.ones((patch, patch)))[: given[""].shape[-2], : given[""].shape[-1]]


def run_measure(measure):
    """Return how a focus measure is run that is one stage; all of them are alike."""

    def run(given, config, side):
        levels = measure.measure(given[""], config, MeasuringTask(detail_patch_px=side))
        return np.stack([levels.detail, levels.fine])

    return run


def run_following(given, config, _side):
    return follow_neighbors(np.minimum(given[""], 2), given[""] < 3, reach_px=config.decision.follow_reach_px)


def run_refinement(given, config, side):
    first, second, *sources = np.split(given[""][:12], 4)
    weights = given[""][12:] / np.float32(255)
    return refine((first, second), sources, weights=weights, detail_patch_px=side, config=config.refinement)


def run_dark_borders(given, config, _side):
    found = find_dark_borders(np.split(given[""], 2), depth_px=config.focus.dark_border_px)
    shape = (2, *given[""].shape[-2:])
    return np.zeros(shape, bool) if found is None else ~np.array([found.validity(0), found.validity(1)])


def run_frame_ends(given, config, _side):
    has = given["which pixels images have"]
    shape = has.shape[-2:]
    ends = FrameEnds(
        lambda number, window: has[number][window.slices],
        Window.whole(shape),
        n_images=2,
        shape=shape,
        reach_px=reach_of_ends(config.decision),
    )
    return np.stack([ends.choosable(0), ends.choosable(1), ends.fade(0), ends.fade(1), ends.find(given["map"])])


def run_blending(given, config, _side):
    """The share of every image at every pixel: in the detail, then in the brightness."""
    blend = blend_along_edges(given["map"], np.split(given["samples"], 3), given["guide"], config.decision)
    shares = np.stack([np.arange(3)[:, None, None] == blend.source_index] * 2).astype(np.float64)
    shares[:, :, blend.band] = 0
    for kind, table in enumerate((blend.weights, blend.weights + blend.brightness)):
        for source, weights in zip(blend.sources, table.toarray(), strict=True):
            shares[kind, source, blend.band] = weights
    return shares


def run_composition(given, config, _side):
    """Two images that meet in the middle, mixed by shares that are always the same."""
    images = list(given["samples"].astype(np.float64)[:2])
    index = np.broadcast_to(np.arange(images[0].shape[1]) >= images[0].shape[1] // 2, images[0].shape).astype(np.uint16)
    plain = [np.full((3, *index.shape), level, np.float32) for level in (100, 140)]
    return compose(images, blend_along_edges(index, plain, np.full(index.shape, 0.5, np.float32), config.decision))


@dataclass(frozen=True)
class Probe:
    """How a stage is run, on what, and with which settings (`side` is that of a detail patch)."""

    run: Callable
    inputs: Callable = layer
    cases: tuple = ({},)
    shape: tuple = (64, 90)
    n_seeds: int = 1
    is_seen_at_its_reach: bool = True


PROBES = {
    "stack.noise.NoiseAdaptation.smooth": Probe(
        lambda given, _config, _side: NoiseAdaptation(blur_px=WIDEST_BLUR_PX).smooth(given[""]), is_seen_at_its_reach=False
    ),
    "method.focus.amplify_detail": Probe(
        lambda given, config, _side: amplify_detail(given[""], radius_px=config.focus.amplification_radius_px),
        cases=tuple({"amplification_radius_px": radius_px} for radius_px in (0, 1, 3)),
    ),
    "method.focus.gradient_level": Probe(
        lambda given, config, _side: gradient_level(given[""], border_px=config.focus.border_px),
        cases=tuple({"border_px": border_px} for border_px in (0, 1, 8)),
    ),
    "method.focus.base_focus": Probe(run_base_focus, cases=({"border_px": 0}, {"border_px": 8}), shape=(64, 96)),
    "method.focus.detail_focus": Probe(
        lambda given, config, side: detail_focus(given[""], detail_patch_px=side, config=config.focus),
        cases=tuple({"border_px": border_px, "side": side} for border_px in (0, 4) for side in (1, 9)),
    ),
    "method.focus.fine_focus": Probe(lambda given, config, _side: fine_focus(given[""], config=config.focus)),
    "method.focus.gather_evidence": Probe(
        lambda given, config, side: gather_evidence(given[""][0], detail_patch_px=side, config=config.focus),
        cases=tuple({"evidence_scales": scales, "side": side} for scales in (1, 2, 3, 5) for side in (3, 9)),
        shape=(200, 220),
    ),
    "cleanup.fill.follow_neighbors": Probe(
        run_following, sparse_decisions, tuple({"follow_reach_px": reach_px} for reach_px in (1, 5, 20)), n_seeds=10
    ),
    "method.patches.vote": Probe(
        lambda given, _config, side: vote(given[""], n_choices=3, side_px=side), choices, tuple({"side": side} for side in (1, 5, 9))
    ),
    "method.refinement.refine": Probe(run_refinement, sources_and_weights, ({"side": 3}, {"side": 9})),
    "cleanup.dark_border.find_dark_borders": Probe(
        run_dark_borders,
        framed_images,
        ({"dark_border_px": 4}, {"dark_border_px": 20}),
        shape=(150, 230),
        n_seeds=5,
        is_seen_at_its_reach=False,
    ),
    "cleanup.frame_ends.FrameEnds": Probe(run_frame_ends, missing_pixels, ({}, {"blend_radius_px": 1, "feather_px": 0}), n_seeds=3),
    "cleanup.blending.blend_along_edges": Probe(
        run_blending,
        partly_smooth_images,
        tuple({"blend_radius_px": radius, "feather_px": feather} for radius in (0, 1, 3) for feather in (0, 5, 16)),
        shape=(110, 130),
        n_seeds=4,
        is_seen_at_its_reach=False,
    ),
    "method.fusion.compose": Probe(run_composition, three_images),
    "cleanup.regularization.regularize": Probe(
        run_regularization,
        three_images,
        tuple({"consistency": value} for value in (0.5, 1.0, 2.0)),
        shape=(250, 610),
        n_seeds=2,
        is_seen_at_its_reach=False,  # test_reach_limits.py shows its limits
    ),
}
PROBES |= {
    stage.name: Probe(
        run_clean_up(stage),
        three_images,
        stage.cases,
        shape=(250, 610),
        n_seeds=2,
        is_seen_at_its_reach=stage.attains_reach,  # the others have their limits shown in test_reach_limits.py
    )
    for stage in CLEAN_UP
}
PROBES |= {
    stage.name: Probe(run_measure(measure), cases=({"border_px": 0, "side": 5}, {"border_px": 0, "side": 9}, {"border_px": 4, "side": 5}))
    for measure in FOCUS_MEASURES.values()
    if len(measure.stages) == 1
    for stage in measure.stages
}
CASES = [(name, changes) for name, probe in PROBES.items() for changes in probe.cases]
NEVER_SEEN = [
    ("method.focus.base_focus", {"border_px": 8}),
    ("method.focus.detail_focus", {"border_px": 4, "side": 9}),
    *((measure.stages[0].name, {"border_px": 4, "side": 5}) for measure in FOCUS_MEASURES.values()),
]


# --- the one procedure ---


def settled(changes):
    """The settings and the side of a detail patch of a case."""
    return FusionConfig().replaced({name: value for name, value in changes.items() if name != "side"}), changes.get("side", 9)


def reaches_of(name, changes, inputs):
    """How far the stage looks at each of its inputs; one that it does not list, it never looks at."""
    config, side = settled(changes)
    by_input = {reach.of: reach.px(config, side) for reach in STAGES_BY_NAME[name].reaches}
    return {what: by_input.get(what, by_input.get("", 0)) for what in inputs}


def distance_from(shape, place):
    """The larger distance of rows and columns to a block of pixels (two slices)."""
    is_outside = np.ones(shape, bool)
    is_outside[place] = False
    return ndimage.distance_transform_cdt(is_outside, metric="chessboard")


def places_in(shape):
    """A block in the middle, one at each end, and one on a side."""
    row, column = shape[0] // 2, shape[1] // 2
    middle, side = np.s_[row - 2 : row + 3, column - 3 : column + 3], np.s_[row : row + 1, 0:1]
    return (middle, np.s_[:3, :2], np.s_[shape[0] - 3 :, shape[1] - 2 :], side)


@pytest.mark.parametrize(("name", "changes"), CASES)
def test_what_lies_beyond_the_reach_of_a_stage_does_not_matter(name, changes):
    probe, (config, side) = PROBES[name], settled(changes)
    is_changed = False
    for seed in range(probe.n_seeds):
        given, others = (probe.inputs(probe.shape, number) for number in (seed, seed + 100))
        reaches, expected = reaches_of(name, changes, given), probe.run(given, config, side)
        for place in places_in(probe.shape):
            distance = distance_from(probe.shape, place)
            exchanged = {what: np.where(distance > reaches[what], others[what], values) for what, values in given.items()}
            result = probe.run(exchanged, config, side)
            is_changed |= (result != expected).any()
            tolerance = ROUNDING * np.abs(expected).max()
            np.testing.assert_allclose(result[..., *place], expected[..., *place], rtol=0, atol=tolerance)
    assert is_changed, "nothing was exchanged that the stage looks at"


@pytest.mark.parametrize(("name", "changes"), [case for case in CASES if case not in NEVER_SEEN and PROBES[case[0]].is_seen_at_its_reach])
def test_what_lies_at_the_reach_of_a_stage_matters(name, changes):
    """For some pictures and some pixel: a ring of pixels at exactly that distance is exchanged for something strong.

    Left out are windows around levels mirrored at the border: one looks outwards where the other looks inwards, and they never add up.
    """
    probe, (config, side) = PROBES[name], settled(changes)
    reaches = {what: reach for what, reach in reaches_of(name, changes, probe.inputs(probe.shape, 0)).items() if reach}
    for what, reach in reaches.items():
        assert any(is_seen(probe, config, side, what, reach, seed) for seed in range(20)), what


def is_seen(probe, config, side, what, reach, seed):
    """Whether a ring at the reach of some pixel changes the result there."""
    given, others = (probe.inputs(probe.shape, number) for number in (seed, seed + 100))
    expected = probe.run(given, config, side)
    for rows, columns in places_in(probe.shape):
        row, column = rows.start or 0, columns.start or 0
        distance = distance_from(probe.shape, (slice(row, row + 1), slice(column, column + 1)))
        stronger = 100 * others[what] if others[what].dtype.kind == "f" else np.zeros_like(others[what])
        result = probe.run(given | {what: np.where(distance == reach, stronger, given[what])}, config, side)
        if np.any(np.abs(result - 1.0 * expected)[..., row, column] > ROUNDING * np.abs(expected).max()):
            return True
    return False


def test_every_stage_that_looks_around_has_its_probe():
    assert set(PROBES) == set(STAGES_BY_NAME)
    assert len(STAGES_BY_NAME) == len([stage for stage in STAGES if stage.reaches])


# --- the document ---


def test_the_table_of_the_document_is_that_of_the_list():
    script = runpy.run_path(str(ROOT / "tools" / "write_reach_table.py"))
    text = DOCUMENT.read_text(encoding="utf-8")

    assert text == script["update"](text), "run: python tools/write_reach_table.py"
    stale = text.replace("| `follow_reach_px` | 64 |", "| `follow_reach_px` | 65 |")
    assert stale != text == script["update"](stale)


def test_the_sum_and_the_overlap_in_the_document_are_those_of_the_list():
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    summands, total = re.search(r"(\d+(?: \+ \d+)+) = (\d+) px for the default", text).groups()
    config = FusionConfig()
    side = config.focus.largest_detail_patch_px
    on_the_way = [reach.px(config, side) for stage in STAGES for reach in stage.reaches if reach.adds_up]
    longest_way = [px for px in on_the_way if px]  # stages that the default leaves out are no summands

    assert [int(number) for number in summands.split(" + ")] == longest_way
    assert int(total) == sum(longest_way)
    assert f"; {derive_overlap(config, detail_patch_px=side)} px for the default at s = {side}" in text
