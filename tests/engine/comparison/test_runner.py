"""Every image is made and scored once, whatever the number of processes and runs."""

from __future__ import annotations

import errno
import multiprocessing
import sys
from importlib import import_module

import numpy as np
import pytest

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import RECORD_NAME
from qmcif_engine.comparison.runner import Task, fused_path, index_path, make_score, run_everywhere
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled, InvalidImageError, OutputError
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.pipeline.in_memory import fuse
from tests.scenes import write_set

OURS = Method(name="default", settings=FusionConfig())


def test_images_and_index_maps_are_those_of_the_fusion_and_the_better_image_has_the_better_figures(dataset, compare):
    copies = Method(name="copy", images={image_set.name: image_set.sources[0] for image_set in dataset.sets})
    comparison = compare(dataset, OURS, copies)
    ours, copy = comparison.scores[:2]

    for image_set in dataset.sets:
        result = fuse([read_image(path).samples for path in image_set.sources])
        np.testing.assert_array_equal(read_image(fused_path(comparison.folder, OURS, image_set)).samples, result.fused)
        np.testing.assert_array_equal(read_image(index_path(comparison.folder, OURS, image_set)).samples, result.source_index)
    assert ours.figures["PSNR"] > copy.figures["PSNR"] + 3


def test_a_second_run_makes_what_is_lost_or_changed_and_counts_what_was_done_before(dataset, compare, fusions, monkeypatch):
    first, steps = compare(dataset, OURS), []
    assert compare(dataset, OURS, progress=lambda *step: steps.append(step)).scores == first.scores
    assert (fusions, steps) == ([2, 2], [(2, 2)])

    for kind in ("fused", "source_index"):
        path = first.folder / kind / "default" / "01.png"
        path.unlink()
        assert compare(dataset, OURS).scores == first.scores
        assert path.is_file()
    write_image(path.parents[2] / "fused" / "default" / "01.png", np.zeros((48, 64, 3), np.uint8), overwrite=True)
    assert compare(dataset, OURS, progress=lambda *step: steps.append(step)).scores == first.scores
    assert (fusions, steps[1:]) == ([2, 2, 2, 2, 2], [(1, 2), (2, 2)])

    monkeypatch.setattr("qmcif_engine.comparison.record.digest_engine", lambda: "another program")
    compare(dataset, OURS)
    assert len(fusions) == 7


def test_the_number_of_processes_changes_nothing(dataset, compare):
    alone, several = (compare(dataset, OURS, n_processes=number, name=f"of {number}") for number in (1, 2))

    assert several.scores == alone.scores
    for path in alone.folder.rglob("*"):
        assert (
            path.is_dir() or path.name == RECORD_NAME or path.read_bytes() == (several.folder / path.relative_to(alone.folder)).read_bytes()
        )


def test_sets_of_three_and_more_are_fused_whole(dataset, compare, fusions):
    write_set(dataset.folder, "03", n_images=4, has_truth=False)
    comparison = compare(find_dataset(dataset.folder), OURS)

    assert fusions == [2, 2, 4]
    assert comparison.scores[2].figures["Q_MI"] is not None
    assert comparison.scores[2].figures["PSNR"] is None
    assert read_image(comparison.folder / "source_index" / "default" / "03.png").samples.max() == 3


def test_a_folder_that_cannot_be_made_is_refused(dataset, compare, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "fused").write_text("", encoding="utf-8")

    with pytest.raises(OutputError, match="cannot be written"):
        compare(dataset, OURS, overwrite=True)


def test_scoring_ends_when_cancelled(dataset, tmp_path):
    copies = Method(name="copy", images={"01": dataset.sets[0].sources[0]})

    with pytest.raises(Cancelled, match="the scoring was cancelled"):
        make_score(Task(image_set=dataset.sets[0], method=copies, folder=tmp_path, inputs=""), lambda: True)


SPAWNED = """
import os, signal, time
from qmcif_engine.errors import InvalidImageError, OutputError

def square(number, is_stopped):
    return os.getpid(), number**2

def fail(task, is_stopped):
    error = OutputError("the disk is full")
    error.errno = task
    raise error

def refuse(task, is_stopped):
    raise InvalidImageError("too small")

def die(task, is_stopped):
    os._exit(3)

def wait(task, is_stopped):
    while task != 0 and not is_stopped():
        time.sleep(0.01)
    return task

def press_interrupt_key(is_pressed, is_stopped):
    if is_pressed:
        os.kill(os.getppid(), signal.SIGINT)
    return wait(1, is_stopped)
"""


@pytest.fixture
def spawned(tmp_path, monkeypatch):
    """A module that worker processes can import."""
    (tmp_path / "spawned_work.py").write_text(SPAWNED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spawned_work", raising=False)
    return import_module("spawned_work")


def test_processes_return_what_one_process_returns(spawned):
    here, elsewhere = [], []
    run_everywhere(spawned.square, range(5), n_processes=1, on_result=here.append)
    run_everywhere(spawned.square, range(5), n_processes=2, on_result=elsewhere.append)

    assert [value for _, value in here] == [0, 1, 4, 9, 16]
    assert sorted(value for _, value in elsewhere) == [0, 1, 4, 9, 16]
    assert len({process for process, _ in here}) == 1
    assert not {process for process, _ in here} & {process for process, _ in elsewhere}


def test_no_work_starts_no_process():
    run_everywhere(pytest.fail, [], n_processes=8, on_result=pytest.fail)


def test_a_full_disk_is_still_known_as_such_in_the_parent(spawned):
    with pytest.raises(OutputError, match="the disk is full") as refusal:
        run_everywhere(spawned.fail, [errno.ENOSPC] * 2, n_processes=2, on_result=pytest.fail)

    assert refusal.value.errno == errno.ENOSPC


def test_other_errors_arrive_as_they_are_with_the_place_they_come_from_beside_the_message(spawned):
    with pytest.raises(InvalidImageError) as refusal:
        run_everywhere(spawned.refuse, [1, 2], n_processes=2, on_result=pytest.fail)

    assert type(refusal.value) is InvalidImageError
    assert str(refusal.value) == "too small"
    assert "in refuse" in str(refusal.value.__cause__)


def test_a_lost_worker_is_reported(spawned):
    with pytest.raises(ChildProcessError, match=r"a worker process was lost.*run the same command again, it resumes"):
        run_everywhere(spawned.die, [1, 2], n_processes=2, on_result=pytest.fail)


def test_the_interrupt_key_ends_work_in_progress(spawned):
    with pytest.raises(KeyboardInterrupt):
        run_everywhere(spawned.press_interrupt_key, [True, False], n_processes=2, on_result=pytest.fail)

    assert multiprocessing.active_children() == []
