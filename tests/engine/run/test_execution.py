"""Who computes the tiles, in which order and how many at once changes nothing; cancelling ends what is in flight."""

import threading

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled
from qmcif_engine.run.execution import count_workers, run_tiles
from qmcif_engine.run.steps import FusionProgress, Steps
from qmcif_engine.stack.samples import FocusRange
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

CONFIG = FusionConfig().replaced({"tile_px": 64, "evidence_scales": 1, "follow_reach_px": 0, "consistency": 0.0, "iterations": 2})


@pytest.fixture(scope="module")
def task():
    images = make_focus_stack(shape=(130, 150), n_images=2, seed=4).images
    return TileTask(ArrayStack(images), CONFIG, FocusRange(0, 255))


@pytest.fixture(scope="module")
def tiles(task):
    return plan_tiles(task.stack.image_shape[:2], CONFIG).tiles


def run(task, tiles, **options):
    kept = {}
    steps = Steps(
        n_tiles=len(tiles), steps_a_tile=3, on_progress=options.pop("on_progress", None), is_cancelled=options.pop("cancelled", None)
    )
    run_tiles(task, tiles, steps=steps, keep=lambda tile, result: kept.__setitem__(tile.number, result), **options)
    return kept


def assert_same(results, others):
    assert results.keys() == others.keys()
    for number, result in results.items():
        for name in ("fused", "source_index", "base_map", "detail_map", "confidence"):
            np.testing.assert_array_equal(getattr(result, name), getattr(others[number], name))


def test_threads_and_order_change_no_byte(task, tiles):
    assert len(tiles) == 9
    one_by_one = run(task, tiles, n_workers=1)

    assert_same(run(task, tiles, n_workers=3), one_by_one)
    assert_same(run(task, tiles[::-1], n_workers=2), one_by_one)


@pytest.mark.parametrize("n_workers", [1, 3])
def test_every_step_is_told_once_and_in_the_calling_thread(task, tiles, n_workers):
    seen = []
    run(task, tiles, n_workers=n_workers, on_progress=lambda progress: seen.append((progress, threading.get_ident())))

    assert [progress for progress, _ in seen] == [FusionProgress(step, 27) for step in range(1, 28)]
    assert {thread for _, thread in seen} == {threading.get_ident()}


@pytest.mark.parametrize("n_workers", [1, 2])
def test_cancelling_ends_the_run_within_a_tile_and_leaves_no_thread(task, tiles, n_workers):
    kept = {}
    steps = Steps(n_tiles=9, steps_a_tile=3, is_cancelled=lambda: len(kept) >= 2)

    with pytest.raises(Cancelled, match="cancelled after"):
        run_tiles(task, tiles, n_workers=n_workers, steps=steps, keep=lambda tile, result: kept.__setitem__(tile.number, result))

    assert 2 <= len(kept) <= 2 + n_workers
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("qmcif-tile")]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_failing_tile_ends_the_run_with_its_error(task, tiles, n_workers):
    class Broken(ArrayStack):
        def read(self, number, window):
            if window.top > 0:
                msg = "broken tile"
                raise OSError(msg)
            return super().read(number, window)

    broken = TileTask(Broken([task.stack.read(number, tiles[0].padded) for number in range(2)] * 2), CONFIG, FocusRange(0, 255))
    with pytest.raises(OSError, match="broken tile"):
        run(broken, tiles, n_workers=n_workers)


def test_the_number_of_workers_is_at_least_one_and_by_default_that_of_the_cores():
    assert count_workers(3) == 3
    assert count_workers(0) == 1
    assert count_workers() >= 1
