"""A report folder is taken up again or left alone, never mixed up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import OUTPUT_NAMES, RECORD_NAME, Record, Score, open_record, write_record
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

METHOD = Method(name="default", settings=FusionConfig())
SCORE = Score(set_name="01", method="default", figures={"Q_MI": 0.1 + 0.2, "PSNR": None}, inputs="i", fused="f")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "report"
    folder.mkdir()
    return folder


def start(folder: Path, dataset: Dataset, *, overwrite: bool = False, method: Method = METHOD) -> Record:
    return open_record(folder, dataset, methods=[method], overwrite=overwrite)


def test_a_new_folder_starts_an_empty_record_and_is_not_made(dataset: Dataset, tmp_path: Path) -> None:
    record = start(tmp_path / "new", dataset)

    assert record.scores == ()
    assert record.dataset == str(dataset.folder)
    assert not (tmp_path / "new").exists()


def test_what_was_written_is_read_again_to_the_last_digit(dataset: Dataset, report: Path) -> None:
    record = start(report, dataset).add(SCORE)
    write_record(report, record)

    assert start(report, dataset) == record


def test_a_score_replaces_the_older_one_of_the_same_picture(dataset: Dataset, report: Path) -> None:
    newer = replace(SCORE, inputs="j")
    record = start(report, dataset).add(SCORE).add(replace(SCORE, set_name="02")).add(newer)

    assert {(score.set_name, score.inputs) for score in record.scores} == {("01", "j"), ("02", "i")}


def test_another_method_joins_the_record(dataset: Dataset, report: Path) -> None:
    write_record(report, start(report, dataset).add(SCORE))
    record = start(report, dataset, method=Method(name="paper", settings=FusionConfig()))

    assert set(record.settings) == {"default", "paper"}
    assert record.scores == (SCORE,)


def test_other_settings_are_refused_unless_overwriting(dataset: Dataset, report: Path) -> None:
    write_record(report, start(report, dataset).add(SCORE))
    changed = Method(name="default", settings=FusionConfig().replaced({"iterations": 2}))

    with pytest.raises(OutputError, match=r"holds results of 'default' with other settings; .* --overwrite"):
        start(report, dataset, method=changed)
    assert start(report, dataset, method=changed, overwrite=True).settings != start(report, dataset).settings


def test_other_data_are_refused_unless_overwriting(dataset: Dataset, report: Path, tmp_path: Path, add_set: Callable[..., None]) -> None:
    (tmp_path / "meadow").mkdir()
    add_set(tmp_path / "meadow", "01")
    write_record(report, start(report, dataset))
    other = find_dataset(tmp_path / "meadow")

    with pytest.raises(OutputError, match=r"holds a report on .*garden'; one on .*meadow' needs a folder of its own"):
        start(report, other)
    assert start(report, other, overwrite=True).dataset == str(other.folder)


@pytest.mark.parametrize("name", OUTPUT_NAMES)
def test_files_that_are_no_result_of_ours_are_not_replaced(dataset: Dataset, report: Path, name: str) -> None:
    (report / name).write_text("precious", encoding="utf-8")

    with pytest.raises(OutputError, match=rf"{name}' exists and is no result of a benchmark here; .* --overwrite"):
        start(report, dataset)
    assert start(report, dataset, overwrite=True).scores == ()


def test_a_dangling_link_counts_as_a_file(dataset: Dataset, report: Path) -> None:
    (report / "report.md").symlink_to(report / "nowhere")

    with pytest.raises(OutputError, match="exists"):
        start(report, dataset)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "dataset": "x", "settings": {}, "scores": [{}]}'])
def test_a_damaged_record_is_refused_unless_overwriting(dataset: Dataset, report: Path, content: str) -> None:
    (report / RECORD_NAME).write_text(content, encoding="utf-8")

    with pytest.raises(OutputError, match=r"is no record of a benchmark .*; .* remove it or add --overwrite"):
        start(report, dataset)
    assert start(report, dataset, overwrite=True).scores == ()


@pytest.mark.parametrize("place", [".", "report"])
def test_a_report_among_the_data_is_refused(dataset: Dataset, place: str) -> None:
    with pytest.raises(OutputError, match="lies in the data folder"):
        start(dataset.folder / place, dataset)


def test_the_record_is_readable_by_others(dataset: Dataset, report: Path) -> None:
    write_record(report, start(report, dataset).add(SCORE))
    content = json.loads((report / RECORD_NAME).read_text(encoding="utf-8"))

    assert content["scores"][0]["figures"] == {"Q_MI": 0.1 + 0.2, "PSNR": None}
    assert [path.name for path in report.iterdir()] == [RECORD_NAME]
