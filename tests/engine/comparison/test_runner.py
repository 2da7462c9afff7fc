"""Every picture is made and scored once, whatever the number of processes and runs."""

from __future__ import annotations

import errno
import multiprocessing
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import pytest

from qmcif_engine.comparison import runner
from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import RECORD_NAME, Score, fingerprint_inputs, open_record
from qmcif_engine.comparison.runner import Task, fused_path, index_path, make_score, run_everywhere, score_dataset
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import Cancelled, InvalidImageError, OutputError
from qmcif_engine.fusing.in_memory import fuse
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.metrics import evaluate
from qmcif_engine.stack.synthetic import make_focus_stack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

OURS = Method(name="default", settings=FusionConfig())


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "report"
    folder.mkdir()
    return folder


def score(dataset: Dataset, folder: Path, *methods: Method, n_processes: int = 1, overwrite: bool = False) -> tuple[Score, ...]:
    chosen = methods or (OURS,)
    return score_dataset(
        dataset,
        chosen,
        folder=folder,
        record=open_record(folder, dataset, methods=chosen, overwrite=overwrite),
        fingerprints=fingerprint_inputs(dataset, chosen, progress=lambda done, total: None),
        n_processes=n_processes,
        progress=lambda done, total: None,
    )


def test_figures_are_those_of_the_saved_files(dataset: Dataset, report: Path) -> None:
    copies = Method(name="copy", images={image_set.name: image_set.sources[0] for image_set in dataset.sets})
    scores = score(dataset, report, OURS, copies)

    assert [(one.set_name, one.method) for one in scores] == [("01", "default"), ("01", "copy"), ("02", "default"), ("02", "copy")]
    for one in scores:
        image_set = next(found for found in dataset.sets if found.name == one.set_name)
        picture = report / "fused" / "default" / f"{one.set_name}.png" if one.method == "default" else image_set.sources[0]
        sources = [read_image(path).samples for path in image_set.sources]
        assert image_set.truth is not None
        expected = evaluate(sources, read_image(picture).samples, truth=read_image(image_set.truth).samples)
        assert one.figures == expected.list_by_symbol()


def test_pictures_and_index_maps_are_those_of_the_fusion(dataset: Dataset, report: Path) -> None:
    score(dataset, report)

    for image_set in dataset.sets:
        result = fuse([read_image(path).samples for path in image_set.sources])
        np.testing.assert_array_equal(read_image(fused_path(report, OURS, image_set)).samples, result.fused)
        np.testing.assert_array_equal(read_image(index_path(report, OURS, image_set)).samples, result.source_index)


def test_a_second_run_fuses_nothing(dataset: Dataset, report: Path, fusions: list[int]) -> None:
    first = score(dataset, report)
    assert fusions == [2, 2]

    assert score(dataset, report) == first
    assert fusions == [2, 2]


def test_a_changed_input_redoes_its_set_only(dataset: Dataset, report: Path, fusions: list[int], add_set: Callable[..., None]) -> None:
    first = score(dataset, report)
    add_set(dataset.folder, "02", seed=9)
    second = score(dataset, report)

    assert fusions == [2, 2, 2]
    assert second[0] == first[0]
    assert second[1].figures != first[1].figures


def test_a_changed_setting_redoes_everything(dataset: Dataset, report: Path, fusions: list[int]) -> None:
    score(dataset, report)
    score(dataset, report, Method(name="default", settings=FusionConfig().replaced({"iterations": 2})), overwrite=True)

    assert fusions == [2, 2, 2, 2]


def test_a_changed_program_redoes_everything(dataset: Dataset, report: Path, fusions: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    score(dataset, report)
    monkeypatch.setattr("qmcif_engine.comparison.record.digest_engine", lambda: "another program")
    score(dataset, report)

    assert fusions == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["fused", "source_index"])
def test_a_lost_picture_is_made_again(dataset: Dataset, report: Path, fusions: list[int], kind: str) -> None:
    first = score(dataset, report)
    (report / kind / "default" / "01.png").unlink()

    assert score(dataset, report) == first
    assert fusions == [2, 2, 2]
    assert (report / kind / "default" / "01.png").is_file()


def test_a_picture_somebody_changed_is_made_again(dataset: Dataset, report: Path, fusions: list[int]) -> None:
    first = score(dataset, report)
    write_image(report / "fused" / "default" / "01.png", np.zeros((48, 64, 3), np.uint8), overwrite=True)

    assert score(dataset, report) == first
    assert fusions == [2, 2, 2]


def test_an_interrupted_run_goes_on_where_it_ended(
    dataset: Dataset, report: Path, fusions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = runner.make_score

    def interrupt_at_the_second(task: Task, is_cancelled: Callable[[], bool]) -> Score:
        if task.image_set.name == "02":
            raise KeyboardInterrupt
        return whole(task, is_cancelled)

    monkeypatch.setattr(runner, "make_score", interrupt_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        score(dataset, report)
    monkeypatch.setattr(runner, "make_score", whole)
    score(dataset, report)

    assert fusions == [2, 2]
    assert not list(report.rglob("*.tmp"))


def test_the_number_of_processes_changes_nothing(dataset: Dataset, report: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    alone = score(dataset, report, n_processes=1)

    assert score(dataset, tmp_path / "other", n_processes=2) == alone
    for image_set in dataset.sets:
        for path in (fused_path(report, OURS, image_set), index_path(report, OURS, image_set)):
            assert (tmp_path / "other" / path.relative_to(report)).read_bytes() == path.read_bytes()
    assert (report / RECORD_NAME).is_file()


def test_sets_of_three_and_more_are_fused_whole(dataset: Dataset, report: Path, fusions: list[int], add_set: Callable[..., None]) -> None:
    add_set(dataset.folder, "03", n_images=4, has_truth=False)
    scores = score(find_dataset(dataset.folder), report)

    assert fusions == [2, 2, 4]
    assert scores[2].figures["Q_MI"] is not None
    assert scores[2].figures["PSNR"] is None
    assert read_image(report / "source_index" / "default" / "03.png").samples.max() == 3


def test_progress_counts_what_was_done_before(dataset: Dataset, report: Path) -> None:
    steps: list[tuple[int, int]] = []
    fingerprints = fingerprint_inputs(dataset, [OURS], progress=lambda done, total: None)
    for _ in range(2):
        score_dataset(
            dataset,
            [OURS],
            folder=report,
            record=open_record(report, dataset, methods=[OURS], overwrite=False),
            fingerprints=fingerprints,
            n_processes=1,
            progress=lambda done, total: steps.append((done, total)),
        )

    assert steps == [(0, 2), (1, 2), (2, 2), (2, 2)]


@pytest.mark.parametrize("link", ["fused", "fused/default", "source_index"])
def test_a_link_that_leads_out_of_the_report_is_refused(dataset: Dataset, report: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (report / link).parent.mkdir(exist_ok=True)
    (report / link).symlink_to(outside)

    with pytest.raises(OutputError, match=r"is or lies in a link; .* remove the link"):
        score(dataset, report, overwrite=True)
    assert list(outside.rglob("*")) == []


def test_a_folder_that_cannot_be_made_is_refused(dataset: Dataset, report: Path) -> None:
    (report / "fused").write_text("", encoding="utf-8")

    with pytest.raises(OutputError, match="cannot be made"):
        score(dataset, report, overwrite=True)


def test_scoring_ends_when_cancelled(dataset: Dataset, report: Path) -> None:
    copies = Method(name="copy", images={"01": dataset.sets[0].sources[0]})
    task = Task(image_set=dataset.sets[0], method=copies, folder=report, inputs="")

    with pytest.raises(Cancelled, match="the scoring was cancelled"):
        make_score(task, lambda: True)


def test_the_figures_know_a_good_picture_from_a_bad_one(dataset: Dataset, report: Path) -> None:
    copies = Method(name="copy", images={image_set.name: image_set.sources[0] for image_set in dataset.sets})
    ours, copy = score(dataset, report, OURS, copies)[:2]
    truth = make_focus_stack(n_images=2, shape=(48, 64), seed=1).truth

    assert read_image(dataset.folder / "01_truth.png").samples.tobytes() == truth.tobytes()
    assert (ours.figures["PSNR"] or 0) > (copy.figures["PSNR"] or 0) + 3


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
def spawned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that worker processes can import."""
    (tmp_path / "spawned_work.py").write_text(SPAWNED, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spawned_work", raising=False)
    return import_module("spawned_work")


def test_processes_return_what_one_process_returns(spawned: ModuleType) -> None:
    here: list[tuple[int, int]] = []
    elsewhere: list[tuple[int, int]] = []
    run_everywhere(spawned.square, range(5), n_processes=1, on_result=here.append)
    run_everywhere(spawned.square, range(5), n_processes=2, on_result=elsewhere.append)

    assert [value for _, value in here] == [0, 1, 4, 9, 16]
    assert sorted(value for _, value in elsewhere) == [0, 1, 4, 9, 16]
    assert len({process for process, _ in here}) == 1
    assert not {process for process, _ in here} & {process for process, _ in elsewhere}


def test_no_work_starts_no_process() -> None:
    run_everywhere(pytest.fail, [], n_processes=8, on_result=pytest.fail)


def test_a_full_disk_is_still_known_as_such_in_the_parent(spawned: ModuleType) -> None:
    with pytest.raises(OutputError, match="the disk is full") as refusal:
        run_everywhere(spawned.fail, [errno.ENOSPC] * 2, n_processes=2, on_result=pytest.fail)

    assert refusal.value.errno == errno.ENOSPC


def test_other_errors_arrive_as_they_are_with_the_place_they_come_from_beside_the_message(spawned: ModuleType) -> None:
    with pytest.raises(InvalidImageError) as refusal:
        run_everywhere(spawned.refuse, [1, 2], n_processes=2, on_result=pytest.fail)

    assert type(refusal.value) is InvalidImageError
    assert str(refusal.value) == "too small"
    assert "in refuse" in str(refusal.value.__cause__)


def test_a_lost_worker_is_reported(spawned: ModuleType) -> None:
    with pytest.raises(ChildProcessError, match=r"a worker process was lost.*run the same command again, it resumes"):
        run_everywhere(spawned.die, [1, 2], n_processes=2, on_result=pytest.fail)


def test_an_interruption_ends_work_that_has_no_end_of_its_own(spawned: ModuleType) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_everywhere(spawned.wait, [0, 1, 0, 0], n_processes=2, on_result=interrupt)

    assert multiprocessing.active_children() == []


def test_the_interrupt_key_ends_work_in_progress(spawned: ModuleType) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_everywhere(spawned.press_interrupt_key, [True, False], n_processes=2, on_result=pytest.fail)

    assert multiprocessing.active_children() == []
