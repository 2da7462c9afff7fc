"""The tables of figures in README and documentation are those of the result files, so that no two of them can disagree."""

from __future__ import annotations

import json
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    before = list(sys.path)
    try:
        return runpy.run_path(str(ROOT / "tools" / "write_figures.py"))
    finally:
        sys.path[:] = before


@pytest.fixture
def result_files(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    return import_module("result_files")


def test_every_document_shows_the_figures_of_the_result_files(figures: dict[str, Any]) -> None:
    stale = [path.name for path in figures["DOCUMENTS"] if (text := path.read_text(encoding="utf-8")) != figures["update"](text)]

    assert stale == [], "run: python tools/write_figures.py"


def test_readme_and_quality_page_have_their_figures_from_one_file(figures: dict[str, Any]) -> None:
    markers = {path.name: re.findall(r"<!-- figures: (.+?) -->", path.read_text(encoding="utf-8")) for path in figures["DOCUMENTS"]}

    assert "quality-overview" in markers["README.md"]
    assert {"quality-published lytro", "quality-published mffw"} <= set(markers["quality.md"])
    shown = [line for line in figures["render"]("quality-overview").splitlines() if line.startswith("| lytro |")]
    beside = [line for line in figures["render"]("quality-published lytro").splitlines() if line.startswith("| default |")]
    assert shown[0].split("|")[3].strip() == beside[0].split("|")[3].strip(" *")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_file_says_how_it_was_taken(path: Path, result_files: Any) -> None:
    result = result_files.load_result(path.stem)

    assert re.match(r"(python benchmarks/|qmcif |make )", result.command)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", result.date)
    assert {"Python", "napari-qmcif", "numpy"} <= set(result.versions)
    assert all(len(row) == len(result.columns) for row in result.rows)
    assert set(result.formats) <= set(result.columns)


def test_a_saved_result_is_read_back_and_shown(
    figures: dict[str, Any], result_files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/speed.py", "--edges"])
    result_files.save_result(
        "speed",
        columns=("run", "CPU s", "peak"),
        rows=[("default", 10.94, 678), ("enfuse", 5.6, None)],
        formats={"CPU s": ".1f"},
        folder=tmp_path,
    )

    result = result_files.load_result("speed", folder=tmp_path)
    shown = figures["render_whole"](result)

    assert result.command == "python benchmarks/speed.py --edges"
    assert "| default | 10.9 | 678 |\n| enfuse | 5.6 |  |\n" in shown
    assert "`python benchmarks/speed.py --edges`" in shown
    assert json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))["rows"][0] == ["default", 10.94, 678]


def test_a_table_out_of_date_is_replaced_and_the_rest_of_the_document_kept(figures: dict[str, Any]) -> None:
    text = "before\n<!-- figures: quality-overview -->\n| old |\n<!-- end of figures -->\nafter\n"

    updated = figures["update"](text)

    assert updated.startswith("before\n<!-- figures: quality-overview -->\n")
    assert updated.endswith("<!-- end of figures -->\nafter\n")
    assert "| old |" not in updated
    assert figures["update"](updated) == updated


def test_rows_of_an_ablation_are_counted_that_stand_in_the_printed_order(figures: dict[str, Any]) -> None:
    weights = next(rows for rows in figures["group_ablations"]() if rows[0].group == "weight tau")
    printed = [[1.0690, 0.7346, 0.7556, 0.8183, 0.0, 0.7340], [1.0685, 0.7374, 0.7832, 0.8234, 0.0, 0.7508]]
    turned = [[0.9, *printed[0][1:]], printed[1]]

    assert figures["count_orders"](weights, printed) == "5 of 5"
    assert figures["count_orders"](weights, turned) == "4 of 5 (not in Q_MI)"


def test_the_default_stands_below_the_best_of_other_methods_column_by_column(figures: dict[str, Any], result_files: Any) -> None:
    symbols, taken = figures["SYMBOLS"], ("qmcif x", "2026-01-01", "1 core", {"Python": "3"})
    presets = result_files.Result(*taken, ["set", "variant", *symbols], {}, [["lytro", "default", 1.1, *[0.8] * 5]])
    others = result_files.Result(*taken, ["method", *symbols], {}, [["a", 1.2, *[0.7] * 5], ["b", 1.0, *[0.75] * 5]])

    shown = figures["render_other_methods"](presets, others, "lytro")

    assert "| best of 2 methods | **1.2000** | 0.7500 |" in shown
    assert "| which of them | a | b |" in shown
    assert "| default | 1.1000 | **0.8000** |" in shown


def test_figures_of_others_are_shown_with_how_far_ours_lie_above(figures: dict[str, Any]) -> None:
    row = figures["compare_figures"]("printed, shifted", [1.0, 0.7, 0.8, 0.8, 0.9, 0.7], [0.9, 0.7, 0.8, 0.8, 0.9, 0.72])

    assert row[1:3] == ["printed, shifted", "0.9000 (+0.100)"]
    assert row[-3:] == ["0.7200 (-0.020)", "0.0200", ""]


def test_the_paper_reproduced_has_one_difference_over_all_cells(figures: dict[str, Any], result_files: Any) -> None:
    symbols = figures["SYMBOLS"]
    printed = {name: figures["shift_printed"](name, "QMCIF (paper)") for name in ("lytro", "mffw", "mfi_whu")}
    taken = ("qmcif x", "2026-01-01", "1 core", {"Python": "3"})
    presets = result_files.Result(
        *taken,
        ["set", "pairs", "variant", *symbols],
        {},
        [
            ["lytro", 10, "default", *[0.0] * 6],
            ["lytro", 10, "preset paper", *(value + 0.03 for value in printed["lytro"])],
            ["mffw", 7, "preset paper", *[0.0] * 6],  # with another beta than the paper's
            ["mfi_whu", 15, "preset paper", *printed["mfi_whu"]],
        ],
    )
    rows = [["full", pair, *(value + gap for value in printed["mffw"])] for pair, gap in (("01", 0.02), ("02", -0.02))]
    ablation = result_files.Result(*taken, ["row", "pair", *symbols], {}, [*rows, ["base", "01", *[0.0] * 6]])

    shown = figures["render_paper"](presets, ablation)

    assert "| lytro | measured, 10 pairs, beta 0.5 |" in shown
    assert "| mffw | measured, 2 pairs, beta 2 |" in shown
    assert "| all | 18 cells |  |  |  |  |  |  | **0.0100** |" in shown


def test_best_figures_are_marked_with_and_without_the_border(figures: dict[str, Any], result_files: Any) -> None:
    symbols = (*figures["SYMBOLS"], "PSNR")
    rows = [
        [scored, 1, method, *[value] * 6, 40.0 * value]
        for scored, values in (("whole", (0.9, 1.0)), ("outer 8 px left out", (1.1, 1.0)))
        for method, value in zip(("default", "SR"), values, strict=True)
    ]
    result = result_files.Result("qmcif x", "2026-01-01", "1 core", {"Python": "3"}, ["scored", "pairs", "method", *symbols], {}, rows)

    lines = figures["render_borders"](result).splitlines()

    assert lines[3].startswith("| whole, 1 pairs | default | *0.9000* |")
    assert lines[4].endswith("| **40.00** |")
    assert lines[5].startswith("| outer 8 px left out, 1 pairs | default | **1.1000** |")
