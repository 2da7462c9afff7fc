"""Drive ``qmcif benchmark`` as a person would: reports, resuming, ablation and every refusal."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from qmcif_engine.cli import main
from qmcif_engine.comparison.baselines import fuse_with
from qmcif_engine.comparison.methods import BASELINES
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.metrics import evaluate
from tests.scenes import write_set


@pytest.fixture
def data(tmp_path):
    """A pair and a triple."""
    folder = tmp_path / "garden"
    folder.mkdir()
    write_set(folder, "01", seed=1)
    write_set(folder, "02", seed=2, n_images=3)
    return folder


@pytest.fixture
def others(data, tmp_path):
    """Another method's images: the first source of each set."""
    folder = tmp_path / "others"
    folder.mkdir()
    for name in ("01", "02"):
        write_image(folder / f"garden_{name}_copy.png", read_image(data / f"{name}_a.png").samples)
    return folder


def run(*arguments):
    return main(["benchmark", *map(str, arguments), "--jobs", "1"])


def refused(capsys, *arguments):
    """Run the command, check that it refuses in one line without a traceback, and return the line."""
    assert main(["benchmark", *map(str, arguments)]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def finished_sets(report):
    """Names of the sets that the record of a run holds a score of."""
    path = report / "benchmark.json"
    return [score["set_name"] for score in json.loads(path.read_text(encoding="utf-8"))["scores"]] if path.exists() else []


def test_a_report_has_tables_pages_and_scores_of_the_saved_files(data, others, tmp_path, capsys):
    report = tmp_path / "new" / "report"
    assert run(data, "-o", report, "--fused-by", f"copy={others}", "--published", "lytro") == 0

    shown = capsys.readouterr().out
    assert "preset default" in shown
    assert str(report / "report.html") in shown
    text = (report / "report.md").read_text(encoding="utf-8")
    assert text.startswith(f"- Command: `qmcif benchmark {data} -o {report} --fused-by copy={others} --published lytro --jobs 1`\n")
    assert "garden: 2 sets (1 of 2 images, 1 of 3 images; all with a truth)" in text
    assert "- Preset default: unchanged" in text
    assert text.count("| published |") == 12
    assert (report / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with (report / "scores.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["set"], row["method"]) for row in rows] == [("01", "default"), ("01", "copy"), ("02", "default"), ("02", "copy")]
    for row in rows:
        name = row["set"]
        fused = report / "fused" / "default" / f"{name}.png" if row["method"] == "default" else others / f"garden_{name}_copy.png"
        sources = [read_image(path).samples for path in sorted(data.glob(f"{name}_?.png"))]
        expected = evaluate(sources, read_image(fused).samples, truth=read_image(data / f"{name}_truth.png").samples).list_by_symbol()
        assert {symbol: row[symbol] for symbol in expected} == {
            symbol: "" if value is None else repr(value) for symbol, value in expected.items()
        }
    assert not list(report.rglob("*.tmp"))


def test_rivals_are_run_beside_ours_and_only_once(data, tmp_path, capsys, monkeypatch):
    report, names = tmp_path / "report", ("guided-filter", "laplacian-pyramid")
    request = [data, "-o", report, *(word for name in names for word in ("--method", name))]
    assert run(*request) == 0

    shown = capsys.readouterr().out
    assert "guided filter" in shown
    assert "Laplacian pyramid" in shown
    assert "--method guided-filter --method laplacian-pyramid" in (report / "report.md").read_text(encoding="utf-8")
    assert "guided filter" in (report / "report.html").read_text(encoding="utf-8")
    for name in names:
        sources = [read_image(path).samples for path in sorted(data.glob("01_?.png"))]
        np.testing.assert_array_equal(read_image(report / "fused" / name / "01.png").samples, fuse_with(BASELINES[name], sources))
    assert {path.name for path in (report / "source_index").iterdir()} == {"default"}

    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("qmcif_engine.comparison.runner.fuse_with", refuse)
    assert run(*request) == 0


def test_the_second_run_fuses_nothing_and_writes_the_same(data, tmp_path, fusions):
    report = tmp_path / "report"
    assert run(data, "-o", report) == 0
    first = {path: path.read_bytes() for path in report.rglob("*") if path.is_file()}
    assert fusions == [2, 3]

    assert run(data, "-o", report) == 0
    assert fusions == [2, 3]
    assert {path: path.read_bytes() for path in report.rglob("*") if path.is_file()} == first


def test_a_changed_image_is_done_again_and_a_changed_setting_needs_permission(data, tmp_path, fusions, capsys):
    report = tmp_path / "report"
    assert run(data, "-o", report) == 0
    write_set(data, "01", seed=7)
    assert run(data, "-o", report) == 0
    assert fusions == [2, 3, 2]

    before = (report / "report.md").read_bytes()
    capsys.readouterr()
    assert "with other settings" in refused(capsys, data, "-o", report, "--set", "smoothness=2")
    assert (report / "report.md").read_bytes() == before
    assert run(data, "-o", report, "--set", "smoothness=2", "--overwrite") == 0
    assert fusions == [2, 3, 2, 2, 3]
    assert "- Preset default: changed: smoothness=2.0" in (report / "report.md").read_text(encoding="utf-8")


def test_a_border_is_left_out_in_a_table_of_its_own_without_fusing_again(data, others, tmp_path, fusions, capsys):
    report = tmp_path / "report"
    request = [data, "-o", report, "--fused-by", f"copy={others}", "--published", "lytro"]
    assert run(*request) == 0
    assert run(*request, "--border", 5) == 0

    assert len(fusions) == 2  # two sets, once each
    assert "\nWithout the outer 5 px:\n" in capsys.readouterr().out
    whole, _, inner = (report / "report.md").read_text(encoding="utf-8").partition("\n## Without the outer 5 px\n")
    assert "--border 5 --jobs 1`" in whole
    assert "PSNR inner leaves out a border of 5 px" in whole
    assert "| published |" in whole
    assert "| published |" not in inner
    assert "<h2>Without the outer 5 px</h2>" in (report / "report.html").read_text(encoding="utf-8")
    with (report / "scores.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        name = row["set"]
        fused = report / "fused" / "default" / f"{name}.png" if row["method"] == "default" else others / f"garden_{name}_copy.png"
        paths = [*sorted(data.glob(f"{name}_?.png")), fused, data / f"{name}_truth.png"]
        *sources, image, truth = (read_image(path).samples[5:-5, 5:-5] for path in paths)
        expected = evaluate(sources, image, truth=truth).list_by_symbol()
        for symbol in ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB", "PSNR"):
            assert row[f"{symbol}_inner"] == repr(expected[symbol])
    means = {method: np.mean([float(row["Q_CB_inner"]) for row in rows if row["method"] == method]) for method in ("default", "copy")}
    table = inner.partition("\n## ")[0]
    assert all(f"{mean:.4f}" in table for mean in means.values())

    assert run(*request) == 0
    assert len(fusions) == 2
    assert "Without the outer" not in (report / "report.md").read_text(encoding="utf-8")
    assert "Q_MI_inner" not in (report / "scores.csv").read_text(encoding="utf-8")


def test_presets_are_compared_and_a_later_one_joins(data, tmp_path, fusions):
    report = tmp_path / "report"
    assert run(data, "-o", report, "--set", "smoothness=2") == 0
    assert run(data, "-o", report, "--preset", "paper", "--preset", "default", "--set", "smoothness=2") == 0

    assert fusions == [2, 3, 2, 3]
    text = (report / "report.md").read_text(encoding="utf-8")
    assert text.index("| preset paper |") < text.index("| preset default |")
    assert {path.name for path in (report / "fused").iterdir()} == {"default", "paper"}


def test_ablation_prints_and_writes_both_tables_once(data, tmp_path, fusions, capsys):
    report = tmp_path / "report"
    assert run(data, "-o", report, "--ablation", "--set", "iterations=1") == 0
    shown = capsys.readouterr().out
    written = (report / "ablation.md").read_text(encoding="utf-8")

    assert len(fusions) == 2 * 10
    assert shown.count("| measured here |") == written.count("| measured here |") == 14
    assert "- Preset paper: changed: iterations=1" in written
    assert len((report / "ablation.csv").read_text(encoding="utf-8").splitlines()) == 1 + 2 * 10
    assert not (report / "report.md").exists()
    assert run(data, "-o", report, "--ablation", "--set", "iterations=1") == 0
    assert len(fusions) == 2 * 10


def test_bad_requests_are_refused_before_anything_is_written(data, others, tmp_path, capsys):
    report = tmp_path / "report"
    for name in ("empty", "lonely", "uneven", "small_truth", "gap"):
        (tmp_path / name).mkdir()
    write_image(tmp_path / "lonely" / "01_a.png", np.zeros((48, 64, 3), np.uint8))
    for name, cut in (("uneven", "01_b"), ("small_truth", "01_truth")):
        write_set(tmp_path / name, "01", seed=1)
        write_image(tmp_path / name / f"{cut}.png", np.zeros((40, 64, 3), np.uint8), overwrite=True)
    write_image(tmp_path / "gap" / "01.png", np.zeros((48, 64, 3), np.uint8))
    (tmp_path / "file").write_text("", encoding="utf-8")
    requests = {
        "gone' cannot be read": [tmp_path / "gone"],
        "empty' holds no image": [tmp_path / "empty"],
        "set '01' has only 01_a.png": [tmp_path / "lonely"],
        "01_b.png' is 64 x 40 px RGB and": [tmp_path / "uneven"],
        "01_truth.png' is 64 x 40 px RGB and": [tmp_path / "small_truth"],
        "preset 'sharp' is not known; choose one of: default, fast, paper": [data, "--preset", "sharp"],
        "method 'default' was given twice": [data, "--preset", "default", "--preset", "default"],
        "method 'paper' was given twice": [data, "--preset", "paper", "--fused-by", f"paper={others}"],
        "sharpness": [data, "--set", "sharpness=1"],
        "gap' has no image of 02": [data, "--fused-by", f"gap={tmp_path / 'gap'}"],
        "--method 'cnn' is not known; choose one of: sr, csr,": [data, "--method", "cnn"],
        "method 'sr' was given twice": [data, "--method", "sr", "--method", "SR"],
        "nothing else": [data, "--ablation", "--method", "sr"],
        "lacks a part": [data, "--fused-by", "copy"],
        "--published 'kodak' is not known": [data, "--published", "kodak"],
        "--jobs: '0' was given, a whole number of at least 1 is needed": [data, "--jobs", "0"],
        "--border: '0' was given": [data, "--border", "0"],
        "--border: '-3' was given": [data, "--border", "-3"],
        "--border 24 leaves nothing of": [data, "--border", "24"],
        "for this image 23 is the most": [data, "--border", "9000"],
        "scores whole images": [data, "--ablation", "--border", "8"],
        "it varies one preset": [data, "--ablation", "--fused-by", f"copy={others}"],
    }
    before = set(tmp_path.rglob("*"))
    for expected, arguments in requests.items():
        assert expected in refused(capsys, *arguments, "-o", report)
    assert "lies in the data folder" in refused(capsys, data, "-o", data / "report")
    assert "cannot be written" in refused(capsys, data, "-o", tmp_path / "file")

    assert set(tmp_path.rglob("*")) == before


def test_an_interruption_keeps_what_is_finished_and_nothing_else(tmp_path):
    data, report = tmp_path / "data", tmp_path / "report"
    data.mkdir()
    write_set(data, "01", seed=1)
    write_set(data, "02", seed=2, shape=(1200, 1500))
    settings = ["--set", "rule=paper", "--set", "iterations=1000"]
    command = [sys.executable, "-m", "qmcif_engine", "benchmark", "data", "-o", "report", *settings, "--jobs", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        try:
            while process.poll() is None and finished_sets(report) != ["01"]:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            _, message = process.communicate()
        finally:
            process.kill()

    assert "Traceback" not in message
    assert "interrupted" in message
    assert process.returncode == 130
    assert finished_sets(report) == ["01"]
    assert {path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file()} == {
        "benchmark.json",
        "fused/default/01.png",
        "source_index/default/01.png",
    }


def test_a_full_disk_is_a_failure_and_not_a_refusal(data, tmp_path, capsys, monkeypatch):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert run(data, "-o", tmp_path / "report") == 1
    assert "No space left" in capsys.readouterr().err
    assert not [path for path in (tmp_path / "report").rglob("*") if path.is_file()]
