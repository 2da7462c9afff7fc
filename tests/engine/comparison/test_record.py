"""A report folder is taken up again or left alone, never mixed up: a digest changes with all that may change a result."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import (
    OUTPUT_NAMES,
    RECORD_NAME,
    Record,
    Score,
    digest_engine,
    digest_file,
    digest_settings,
    digest_texts,
    fingerprint_inputs,
    open_record,
    write_record,
)
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidImageError, OutputError
from qmcif_engine.io.input.readers import read_image
from qmcif_engine.io.output.writers import write_image

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


def test_the_borders_between_texts_count() -> None:
    assert digest_texts(["ab", "c"]) != digest_texts(["a", "bc"])
    assert digest_texts(["a", "b"]) == digest_texts(iter(["a", "b"]))


def test_files_are_told_by_content_not_by_name(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    first, same, other = (digest_file(tmp_path / name) for name in "abc")

    assert first == same != other


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageFileError, match="cannot be read"):
        digest_file(tmp_path / "gone")


def test_every_setting_counts() -> None:
    settings = FusionConfig()

    assert digest_settings(settings) == digest_settings(FusionConfig())
    assert digest_settings(settings) != digest_settings(settings.replaced({"iterations": 7}))
    assert (
        len({digest_settings(settings), digest_settings(None), digest_settings(None, baseline="sr"), digest_settings(None, baseline="csr")})
        == 4
    )


def test_the_program_counts_without_its_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for folder in ("cli", "comparison/baselines"):
        (package / folder).mkdir(parents=True)
    for name in ("__init__.py", "focus.py", "cli/parser.py", "comparison/report.py", "comparison/baselines/matting.py"):
        (package / name).write_text("a", encoding="utf-8")
    monkeypatch.setattr("qmcif_engine.__file__", str(package / "__init__.py"))

    def digest() -> str:
        digest_engine.cache_clear()
        return digest_engine()

    try:
        before = digest()
        for name in ("cli/parser.py", "comparison/report.py"):
            (package / name).write_text("b", encoding="utf-8")
        assert digest() == before
        (package / "comparison" / "baselines" / "matting.py").write_text("b", encoding="utf-8")
        with_baseline = digest()
        assert with_baseline != before
        (package / "focus.py").write_text("b", encoding="utf-8")
        assert digest() != with_baseline
    finally:
        digest_engine.cache_clear()


OURS = Method(name="default", settings=FusionConfig())


def inspect(dataset: Dataset, *methods: Method) -> dict[tuple[str, str], str]:
    return fingerprint_inputs(dataset, methods, progress=lambda done, total: None)


def brighten(path: Path) -> None:
    samples = read_image(path).samples.copy()
    samples[0, 0] ^= 1
    write_image(path, samples, overwrite=True)


def test_a_fingerprint_follows_sources_truth_settings_and_other_pictures(dataset: Dataset, tmp_path: Path) -> None:
    picture = tmp_path / "other.png"
    write_image(picture, read_image(dataset.sets[0].sources[0]).samples)
    other = Method(name="other", images={"01": picture, "02": dataset.sets[1].sources[0]})
    before = inspect(dataset, OURS, other)

    assert len(set(before.values())) == 4
    assert inspect(dataset, OURS, other) == before
    changed = inspect(dataset, Method(name="default", settings=FusionConfig().replaced({"iterations": 2})), other)
    assert {key for key in before if before[key] != changed[key]} == {("01", "default"), ("02", "default")}
    brighten(picture)
    changed = inspect(dataset, OURS, other)
    assert {key for key in before if before[key] != changed[key]} == {("01", "other")}
    for path in (dataset.sets[0].sources[1], dataset.sets[0].truth):
        assert path is not None
        unchanged = inspect(dataset, OURS)
        brighten(path)
        changed = inspect(dataset, OURS)
        assert {key for key in changed if changed[key] != unchanged[key]} == {("01", "default")}


def test_progress_counts_the_sets(dataset: Dataset) -> None:
    steps: list[tuple[int, int]] = []
    fingerprint_inputs(dataset, [OURS], progress=lambda done, total: steps.append((done, total)))

    assert steps == [(1, 2), (2, 2)]


@pytest.mark.parametrize("name", ["01_b.png", "01_truth.png"])
def test_another_size_within_a_set_is_refused(dataset: Dataset, name: str) -> None:
    write_image(dataset.folder / name, np.zeros((48, 63, 3), np.uint8), overwrite=True)

    with pytest.raises(InvalidImageError, match=rf"{name}' is 63 x 48 px RGB and .*01_a.png' 64 x 48 px RGB; .* crop or convert"):
        inspect(dataset, OURS)


def test_gray_among_color_is_refused(dataset: Dataset) -> None:
    write_image(dataset.folder / "02_a.png", np.zeros((48, 64), np.uint8), overwrite=True)

    with pytest.raises(InvalidImageError, match="64 x 48 px gray"):
        inspect(dataset, OURS)


def test_another_size_of_another_methods_picture_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    write_image(tmp_path / "small.png", np.zeros((8, 8, 3), np.uint8))
    other = Method(name="other", images={"01": tmp_path / "small.png", "02": tmp_path / "small.png"})

    with pytest.raises(InvalidImageError, match=r"small.png' is 8 x 8 px RGB"):
        inspect(dataset, other)


def test_deep_and_broken_pictures_are_refused(dataset: Dataset) -> None:
    write_image(dataset.folder / "01_a.png", np.zeros((48, 64, 3), np.uint16), overwrite=True)
    with pytest.raises(InvalidImageError, match="uint16 samples"):
        inspect(dataset, OURS)

    (dataset.folder / "01_a.png").write_bytes(b"no picture")
    with pytest.raises(ImageFileError, match="a PNG, JPEG or TIFF file is needed"):
        inspect(dataset, OURS)
