"""A report folder is taken up again or left alone, never mixed up: a digest changes with all that may change a result."""

import json
from dataclasses import replace

import numpy as np
import pytest

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import (
    OUTPUT_NAMES,
    RECORD_NAME,
    Score,
    digest_engine,
    digest_file,
    digest_settings,
    digest_texts,
    fingerprint_inputs,
    open_record,
)
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ImageFileError, InvalidImageError, OutputError
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from tests.scenes import write_set

OURS = Method(name="default", settings=FusionConfig())
CHANGED = Method(name="default", settings=FusionConfig().replaced({"iterations": 2}))
SCORE = Score(set_name="01", method="default", figures={"Q_MI": 0.1 + 0.2, "PSNR": None}, inputs="i", fused="f")


@pytest.fixture
def report(tmp_path):
    folder = tmp_path / "report"
    folder.mkdir()
    return folder


def start(folder, dataset, *, overwrite=False, method=OURS):
    return open_record(folder, dataset, methods=[method], overwrite=overwrite)


def test_a_new_folder_starts_an_empty_record_and_is_not_made(dataset, tmp_path):
    record = start(tmp_path / "new", dataset)

    assert (record.scores, record.dataset) == ({}, str(dataset.folder))
    assert not (tmp_path / "new").exists()


def test_what_was_written_is_read_again_to_the_last_digit_and_readable_by_others(dataset, report):
    record = start(report, dataset)
    for score in (replace(SCORE, inputs="old"), replace(SCORE, set_name="02"), SCORE):
        record.add(score)
    content = json.loads((report / RECORD_NAME).read_text(encoding="utf-8"))
    joined = start(report, dataset, method=Method(name="paper", settings=FusionConfig()))

    assert start(report, dataset) == record
    assert [row["set_name"] for row in content["scores"]] == ["01", "02"]  # a score replaces the older one of the same image
    assert content["scores"][0]["figures"] == {"Q_MI": 0.1 + 0.2, "PSNR": None}
    assert [path.name for path in report.iterdir()] == [RECORD_NAME]
    assert set(joined.settings) == {"default", "paper"}
    assert joined.scores == record.scores


def test_other_settings_and_other_data_are_refused_unless_overwriting(dataset, report, tmp_path):
    (tmp_path / "meadow").mkdir()
    write_set(tmp_path / "meadow", "01")
    other = find_dataset(tmp_path / "meadow")
    start(report, dataset).add(SCORE)

    with pytest.raises(OutputError, match=r"holds results of 'default' with other settings; .* --overwrite"):
        start(report, dataset, method=CHANGED)
    assert start(report, dataset, method=CHANGED, overwrite=True).settings != start(report, dataset).settings
    with pytest.raises(OutputError, match=r"holds a report on .*garden', not .*meadow'; a new folder is needed"):
        start(report, other)
    assert start(report, other, overwrite=True).dataset == str(other.folder)


@pytest.mark.parametrize("name", [*OUTPUT_NAMES, "link"])
def test_files_that_are_no_result_of_ours_are_not_replaced(dataset, report, name):
    if name == "link":  # a dangling one counts as a file
        (report / "report.md").symlink_to(report / "nowhere")
    else:
        (report / name).write_text("precious", encoding="utf-8")

    with pytest.raises(OutputError, match=r"' exists and is no result of a benchmark here; .* --overwrite"):
        start(report, dataset)
    assert start(report, dataset, overwrite=True).scores == {}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "dataset": "x", "settings": {}, "scores": [{}]}'])
def test_a_damaged_record_is_refused_unless_overwriting(dataset, report, content):
    (report / RECORD_NAME).write_text(content, encoding="utf-8")

    with pytest.raises(OutputError, match=r"is no record of a benchmark .*; .* remove it or add --overwrite"):
        start(report, dataset)
    assert start(report, dataset, overwrite=True).scores == {}


@pytest.mark.parametrize("place", [".", "report"])
def test_a_report_among_the_data_is_refused(dataset, place):
    with pytest.raises(OutputError, match="lies in the data folder"):
        start(dataset.folder / place, dataset)


def test_digests_tell_texts_files_and_settings_apart(tmp_path):
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    first, same, other = (digest_file(tmp_path / name) for name in "abc")
    methods = [OURS, CHANGED, *(Method(name="other", baseline=name) for name in (None, "sr", "csr"))]

    assert first == same != other
    assert digest_texts(["ab", "c"]) != digest_texts(["a", "bc"])
    assert len({digest_settings(method) for method in methods}) == len(methods)
    assert digest_settings(OURS) == digest_settings(Method(name="alike", settings=FusionConfig()))
    with pytest.raises(ImageFileError, match="cannot be read"):
        digest_file(tmp_path / "gone")


def test_the_program_counts_without_its_command_line(tmp_path, monkeypatch):
    package = tmp_path / "package"
    without_effect, with_effect = ("cli/parser.py", "comparison/report.py"), ("comparison/baselines/matting.py", "focus.py")
    for name in ("__init__.py", *without_effect, *with_effect):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("a", encoding="utf-8")
    monkeypatch.setattr("qmcif_engine.__file__", str(package / "__init__.py"))
    digests = [digest_engine.__wrapped__()]
    for name in (*without_effect, *with_effect):
        (package / name).write_text("b", encoding="utf-8")
        digests.append(digest_engine.__wrapped__())

    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests)) == 3


def inspect(dataset, *methods):
    steps = []
    fingerprints = fingerprint_inputs(dataset, methods, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 2), (2, 2)]
    return fingerprints


def brighten(path):
    samples = read_image(path).samples.copy()
    samples[0, 0] ^= 1
    write_image(path, samples, overwrite=True)


def test_a_fingerprint_follows_sources_truth_settings_and_other_images(dataset, tmp_path):
    image = tmp_path / "other.png"
    write_image(image, read_image(dataset.sets[0].sources[0]).samples)
    other = Method(name="other", images={"01": image, "02": dataset.sets[1].sources[0]})
    before = inspect(dataset, OURS, other)

    def list_changed(method=OURS):
        changed = inspect(dataset, method, other)
        return {key for key in before if before[key] != changed[key]}

    assert len(set(before.values())) == 4
    assert list_changed() == set()
    assert list_changed(CHANGED) == {("01", "default"), ("02", "default")}
    brighten(image)
    assert list_changed() == {("01", "other")}
    for path in (dataset.sets[0].sources[1], dataset.sets[0].truth):
        before = inspect(dataset, OURS, other)
        brighten(path)
        assert list_changed() == {("01", "default"), ("01", "other")}


@pytest.mark.parametrize(
    ("name", "image", "error", "words"),
    [
        (
            "01_b",
            np.zeros((48, 63, 3), np.uint8),
            InvalidImageError,
            r"01_b.png' is 63 x 48 px RGB and .*01_a.png' 64 x 48 px RGB; .* crop",
        ),
        ("01_truth", np.zeros((8, 8, 3), np.uint8), InvalidImageError, r"01_truth.png' is 8 x 8 px RGB"),
        ("02_a", np.zeros((48, 64), np.uint8), InvalidImageError, "64 x 48 px gray"),
        ("01_a", np.zeros((48, 64, 3), np.uint16), InvalidImageError, "uint16 samples"),
        ("01_a", None, ImageFileError, "a PNG, JPEG or TIFF file is needed"),
    ],
)
def test_images_that_do_not_fit_their_set_or_are_broken_are_refused(dataset, name, image, error, words):
    path = dataset.folder / f"{name}.png"
    if image is None:
        path.write_bytes(b"no image")
    else:
        write_image(path, image, overwrite=True)

    with pytest.raises(error, match=words):
        inspect(dataset, OURS)


def test_another_size_of_another_methods_image_is_refused(dataset, tmp_path):
    write_image(tmp_path / "small.png", np.zeros((8, 8, 3), np.uint8))
    other = Method(name="other", images=dict.fromkeys(("01", "02"), tmp_path / "small.png"))

    with pytest.raises(InvalidImageError, match=r"small.png' is 8 x 8 px RGB"):
        inspect(dataset, other)
