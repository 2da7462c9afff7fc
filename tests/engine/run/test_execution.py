"""Who computes the tiles, in which order and how many at once changes nothing; cancelling ends what is in flight."""

import threading
from dataclasses import replace

import dask
import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled, InvalidConfigError
from qmcif_engine.run import execution
from qmcif_engine.run.execution import FusionProgress, Steps, count_workers, run_tiles, tile_graph
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask

# a focus measure that is quick, since this is about what happens to tiles and not about what is in them
CONFIG = FusionConfig().replaced({"tile_px": 64, "smoothness": 0.0, "measure": "laplacian"})


def make_task(stack):
    focus_range, measured = measure_run(stack, CONFIG, (0, 255))
    return TileTask(stack=stack, config=CONFIG, focus_range=focus_range, measured=measured)


@pytest.fixture(scope="module")
def task():
    images = make_focus_stack(shape=(130, 150), n_images=2, seed=4).images
    return make_task(stack_arrays(images))


@pytest.fixture(scope="module")
def tiles(task):
    return plan_tiles(task.stack.image_shape[:2], CONFIG)


class Kept(dict):
    """Results of tiles by their number."""

    def write(self, tile, result):
        self[tile.number] = result

    def share(self, client):
        return None


def run(task, tiles, *, tiles_at_once=1, on_progress=None, is_cancelled=None):
    kept = Kept()
    steps = Steps(n_tiles=len(tiles), steps_a_tile=3, on_progress=on_progress, is_cancelled=is_cancelled)
    run_tiles(task, tiles, sink=kept, tiles_at_once=tiles_at_once, steps=steps)
    return kept


def assert_same(results, others):
    assert results.keys() == others.keys()
    for number, result in results.items():
        for name in ("fused", "source_index", "base_map", "detail_map", "confidence"):
            np.testing.assert_array_equal(getattr(result, name), getattr(others[number], name))


def test_threads_and_order_change_no_byte(task, tiles):
    assert len(tiles) == 9
    one_by_one = run(task, tiles)

    assert_same(run(task, tiles, tiles_at_once=3), one_by_one)
    assert_same(run(task, tiles[::-1], tiles_at_once=2), one_by_one)


def test_tiles_are_begun_row_by_row(task, tiles):
    assert list(run(task, tiles)) == [tile.number for tile in tiles]
    begun = []
    graph = tile_graph([tiles[0]._replace(number=number) for number in range(250)], lambda tile: begun.append(tile.number), name="t")
    dask.get(graph, list(graph))
    assert begun == list(range(250))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_the_scheduler_that_dask_is_told_to_use_computes_the_same(task, tiles, scheduler):
    with dask.config.set(scheduler=scheduler):
        results = run(task, tiles, tiles_at_once=2)

    assert_same(results, run(task, tiles))


def test_a_scheduler_that_is_none_of_these_is_refused(task, tiles):
    with (
        dask.config.set(scheduler="single-node-magic"),
        pytest.raises(InvalidConfigError, match=r"'single-node-magic' is configured; threads"),
    ):
        run(task, tiles)


def test_batches_change_no_byte(task, tiles, monkeypatch):
    expected = run(task, tiles)
    monkeypatch.setattr(execution, "BATCH_TILES", 4)

    assert_same(run(task, tiles, tiles_at_once=2), expected)


@pytest.mark.parametrize("tiles_at_once", [1, 3])
def test_every_step_is_told_once_and_one_at_a_time(task, tiles, tiles_at_once):
    seen, telling = [], threading.Lock()

    def on_progress(progress):
        assert telling.acquire(blocking=False)
        seen.append(progress)
        telling.release()

    run(task, tiles, tiles_at_once=tiles_at_once, on_progress=on_progress)

    assert seen == [FusionProgress(step, 27) for step in range(1, 28)]


@pytest.mark.parametrize("tiles_at_once", [1, 2])
def test_cancelling_ends_the_run_within_a_tile_and_leaves_no_tile_behind(task, tiles, tiles_at_once):
    kept = Kept()
    steps = Steps(n_tiles=9, steps_a_tile=3, is_cancelled=lambda: len(kept) >= 2)

    with pytest.raises(Cancelled, match="cancelled after"):
        run_tiles(task, tiles, sink=kept, tiles_at_once=tiles_at_once, steps=steps)

    n_kept = len(kept)
    assert 2 <= n_kept <= 2 + tiles_at_once
    steps.stop()  # returns at once: none is computed any more
    assert len(kept) == n_kept


@pytest.mark.parametrize("tiles_at_once", [1, 2])
def test_a_failing_tile_ends_the_run_with_its_error(task, tiles, tiles_at_once):
    def read(number, window):
        if number == 1:
            msg = "broken tile"
            raise OSError(msg)
        return task.stack.read(number, window)

    broken = replace(task, stack=task.stack.replaced(read=read))
    with pytest.raises(OSError, match="broken tile"):
        run(broken, tiles, tiles_at_once=tiles_at_once)


def test_the_number_of_workers_is_at_least_one_and_by_default_that_of_the_cores():
    assert count_workers(3) == 3
    assert count_workers(0) == 1
    assert count_workers() >= 1
