"""What follows from the list of stages: the overlap and the memory of a tile."""

import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from qmcif_engine import fuse, make_focus_stack
from qmcif_engine.cleanup.decision import Decision, DecisionBasis
from qmcif_engine.config.fusion_config import FocusMeasureName, FusionConfig
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.config.stage import Stage, TileSize, bytes_per_pixel
from qmcif_engine.tiles import stage_list, stages
from qmcif_engine.tiles.stage_list import CLEAN_UP, STAGES, derive_overlap, estimate_stage_bytes, stages_of

SIZE = TileSize(padded_px=1000, n_images=2)


@pytest.fixture
def with_one_more(monkeypatch):
    """Return a function that puts one more stage behind the others."""

    def put(stage):
        monkeypatch.setattr(stage_list, "AFTER_FOCUS", (*stage_list.AFTER_FOCUS, stage))

    return put


def test_a_stage_that_acts_on_every_pixel_adds_to_the_overlap_and_one_that_acts_far_counts_only_if_it_is_the_largest(with_one_more):
    overlap = derive_overlap(FusionConfig(), detail_patch_px=17)
    with_one_more(Stage(name="near", overlap_px=lambda _config, _side: 5))
    assert derive_overlap(FusionConfig(), detail_patch_px=17) == overlap + 5
    with_one_more(Stage(name="far", overlap_px=lambda _config, _side: 71, acts_far=True))
    assert derive_overlap(FusionConfig(), detail_patch_px=17) == overlap + 5
    with_one_more(Stage(name="farther", overlap_px=lambda _config, _side: 100, acts_far=True))
    assert derive_overlap(FusionConfig(), detail_patch_px=17) == overlap + 5 + 100 - 71


def test_memory_that_is_kept_adds_up_and_of_working_memory_the_largest_counts(with_one_more):
    amount = estimate_stage_bytes(FusionConfig(), SIZE)
    with_one_more(Stage(name="keeping", kept_bytes=bytes_per_pixel(3), working_bytes=bytes_per_pixel(80)))
    assert estimate_stage_bytes(FusionConfig(), SIZE) == amount + 3000
    with_one_more(Stage(name="working", working_bytes=bytes_per_pixel(81)))
    assert estimate_stage_bytes(FusionConfig(), SIZE) == amount + 3000 + 1000


@pytest.mark.parametrize("name", FocusMeasureName)
def test_a_run_has_the_stages_of_its_measure_and_of_no_other(name):
    own = stage_list.FOCUS_MEASURES[name].stages
    others = {stage.name for other, measure in stage_list.FOCUS_MEASURES.items() if other is not name for stage in measure.stages}

    used = stages_of(FusionConfig().replaced({"measure": name}))

    assert set(own) <= set(used) <= set(STAGES)
    assert not others & {stage.name for stage in used}


def test_the_overlap_of_a_measure_without_a_solve_is_smaller():
    plain = FusionConfig().replaced({"measure": "laplacian"})

    assert derive_overlap(FusionConfig(), detail_patch_px=17) == 162
    assert derive_overlap(plain, detail_patch_px=17) == 162 - 24 - 3


def test_every_stage_names_code_that_is_there():
    for stage in STAGES:
        *path, name = stage.name.split(".")
        holders = [sys.modules.get(f"qmcif_engine.{'.'.join(path)}"), sys.modules.get(f"qmcif_engine.{'.'.join(path[:-1])}")]
        holder = holders[0] or getattr(holders[1], path[-1])
        assert callable(getattr(holder, name)), stage.name


def test_clean_up_stages_run_in_their_order_each_on_what_the_last_one_made(monkeypatch):
    images = list(make_focus_stack(n_images=2, shape=(64, 80), seed=0).images)

    def turned(decision, _basis, _config):
        return replace(decision, index=1 - decision.index)

    plain = PRESETS["paper"].replaced({"iterations": 2, "is_low_rank": False, "aggregation": "vote"})
    expected = fuse(images, plain).source_index
    monkeypatch.setattr(stages, "CLEAN_UP", (*CLEAN_UP, replace(CLEAN_UP[0], clean_up=turned)))

    np.testing.assert_array_equal(fuse(images, plain).source_index, 1 - expected)


@pytest.mark.parametrize("stage", CLEAN_UP, ids=lambda stage: stage.name)
def test_the_paper_preset_cleans_up_nothing(stage):
    generator = np.random.default_rng(0)
    index = np.kron(generator.integers(0, 2, (6, 8)), np.ones((12, 12))).astype(np.uint16)
    basis = DecisionBasis(generator.uniform(0, 255, (2, 3, 72, 96)).astype(np.float32), 0.0)
    decision = Decision(index, np.ones(index.shape, np.float32))

    np.testing.assert_array_equal(stage.clean_up(decision, basis, PRESETS["paper"]).index, index)


def measured(function, peaks, name):
    """Wrap a function so that the memory it holds at its peak, beyond what was there before, is taken down."""

    def wrapped(*values, **options):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        result = function(*values, **options)
        peaks[name] = max(peaks.get(name, 0), tracemalloc.get_traced_memory()[1] - before)
        return result

    return wrapped


@pytest.mark.parametrize("measure", FocusMeasureName)
def test_stages_work_within_the_memory_that_they_state(monkeypatch, measure):
    config, shape = FusionConfig().replaced({"measure": measure}), (600, 700)
    size, peaks = TileSize(padded_px=shape[0] * shape[1], n_images=3), {}
    images = list(make_focus_stack(n_images=3, shape=shape, seed=1).images)
    stating = [stage for stage in stages_of(config) if stage.working_bytes(config, size)]
    modules = [module for name, module in sys.modules.items() if name.startswith("qmcif_engine")]
    for stage in stating:
        name = stage.name.rpartition(".")[2]
        holders = [module for module in modules if name in vars(module)]
        for holder in holders:
            monkeypatch.setattr(holder, name, measured(getattr(holder, name), peaks, stage.name))

    tracemalloc.start()
    try:
        fuse(images, config, with_maps=True)
    finally:
        tracemalloc.stop()

    assert len(peaks) >= 4
    stated = {stage.name: stage.working_bytes(config, size) for stage in stating}
    assert {name: peak for name, peak in peaks.items() if peak > stated[name]} == {}
