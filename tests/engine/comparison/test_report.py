"""What the written reports say can be repeated and computed again; the ablation tables have the paper's rows."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

import qmcif_engine
from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS, draw_tables, plan_ablation, write_ablation
from qmcif_engine.comparison.datasets import Dataset, ImageSet
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.report import Comparison, draw_table, escape, list_notes, name_symbol, write_markdown, write_scores
from qmcif_engine.comparison.tables import PUBLISHED_SETS, Origin, TableRow, mark_table
from qmcif_engine.config.fusion_config import FusionConfig, preset

SIX = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
PAPER = preset("paper")
METHODS, FILLED_BY = plan_ablation(PAPER)


def make_comparison(*, published=None, has_truth=False, other="cnn"):
    sets = tuple(ImageSet(name=name, sources=(Path("a"), Path("b")), truth=Path("t") if has_truth else None) for name in ("01", "02"))
    truth = 40.0 if has_truth else None
    scores = tuple(
        Score(set_name=image_set.name, method=method, figures={**dict.fromkeys(SIX, value), "PSNR": truth}, inputs="", fused="")
        for image_set in sets
        for method, value in (("default", 0.9), (other, 0.8))
    )
    return Comparison(
        command="qmcif benchmark 'my data' -o report",
        dataset=Dataset(folder=Path("/data/my_data"), sets=sets),
        methods=(Method(name="default", settings=FusionConfig()), Method(name=other)),
        changes={"default": "iterations=7"},
        scores=scores,
        published=published,
        folder=Path("report"),
    )


def test_the_report_starts_with_what_is_needed_to_repeat_it():
    lines = write_markdown(make_comparison()).splitlines()

    assert lines[0] == "- Command: `qmcif benchmark 'my data' -o report`"
    assert lines[1] == f"- Version: napari-qmcif {qmcif_engine.__version__}"
    assert lines[2] == "- Data: my\\_data: 2 sets (2 of 2 images; none with a truth)"
    assert lines[3] == "- Preset default: changed: iterations=7"


def test_best_is_bold_and_second_italic():
    text = write_markdown(make_comparison())

    assert "| preset default | measured here | **0.9000** |" in text
    assert "| cnn | measured here | *0.8000* |" in text


def test_published_rows_are_marked_as_such_with_their_source():
    text = write_markdown(make_comparison(published=PUBLISHED_SETS["mffw"]))

    assert "| SAMF | published | **1.0863** |" not in text
    assert "| SAMF | published | *1.0863* | 0.7310 |" in text
    assert "| QMCIF (paper) | published | **1.0887** |" in text
    assert text.count("| published |") == 12
    assert "complete mffw set of 13 pairs" in text
    assert "arXiv 2505.02365v2" in text
    assert "published" not in write_markdown(make_comparison())


def test_truth_figures_come_with_their_definition():
    with_truth, without = (list_notes(make_comparison(has_truth=has_truth)) for has_truth in (True, False))

    assert any("averaged in dB; PSNR inner leaves out a border of 8 px" in note for note in with_truth)
    assert not any("PSNR" in note for note in without)
    assert "| 01 | preset default | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 40.00 |" in write_markdown(
        make_comparison(has_truth=True)
    )


def test_scores_have_a_row_a_set_and_method_with_all_digits():
    value = 0.1 + 0.2
    score = Score(set_name="01", method='a,"b"', figures={"Q_MI": value, "PSNR": None}, inputs="", fused="")
    (row,) = csv.DictReader(io.StringIO(write_scores(replace(make_comparison(), scores=(score,)))))

    assert row == {"dataset": "my_data", "set": "01", "method": 'a,"b"', "Q_MI": repr(value), "PSNR": ""}
    assert float(row["Q_MI"]) == value


def test_a_hostile_method_name_stays_text():
    text = write_markdown(make_comparison(other="<img src=x>|**b**`c`"))

    assert r"\<img src=x\>\|\*\*b\*\*\`c\`" in text
    assert "<img" not in text.replace(r"\<img", "")


@pytest.mark.parametrize(("text", "shown"), [("a_b", r"a\_b"), ("a\nb", "a b"), ("1.5 (x)", "1.5 (x)"), ("[x](y)", r"\[x\](y)")])
def test_markdown_signs_are_escaped(text, shown):
    assert escape(text) == shown


def test_a_command_with_backticks_stays_code():
    assert write_markdown(replace(make_comparison(), command="qmcif `x`")).startswith("- Command: `` qmcif `x` ``\n")


def test_a_table_has_a_dash_where_there_is_no_figure():
    rows = [TableRow(label="a", origin=Origin.MEASURED, means={"PSNR": 40.0}), TableRow(label="b", origin=Origin.PUBLISHED, means={})]

    assert draw_table(mark_table(rows), heading="setting").splitlines() == [
        "| setting | figures | PSNR |",
        "| --- | --- | --: |",
        "| a | measured here | 40.00 |",
        "| b | published | – |",
    ]


def test_columns_are_headed_as_in_papers():
    assert [name_symbol(symbol) for symbol in ("Q_MI", "PSNR_inner", "right_source")] == ["Q_MI", "PSNR inner", "right source"]


def ablate(published=None):
    """Score the methods 0.01, 0.02, … in the order of the plan."""
    scores = tuple(
        Score(set_name="01", method=method.name, figures={**dict.fromkeys(SIX, number / 100), "PSNR": 40.0}, inputs="", fused="")
        for number, method in enumerate(METHODS, start=1)
    )
    sets = (ImageSet(name="01", sources=(Path("a"), Path("b"))),)
    return Comparison(
        command="qmcif benchmark mffw -o report --ablation",
        dataset=Dataset(folder=Path("/data/mffw"), sets=sets),
        methods=METHODS,
        changes={"paper": ""},
        scores=scores,
        published=published,
        folder=Path("report"),
    )


def rows_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]


def test_rows_that_are_the_full_method_are_run_once():
    full = [row.name for row in (*TERM_ROWS, *SETTING_ROWS) if FILLED_BY[row.name] == "ablation-full"]

    assert len(METHODS) == 10
    assert METHODS[0].settings == PAPER
    assert full == ["full", "patch-8", "refined", "adaptive", "quaternion"]
    assert all(Path(method.name).name == method.name for method in METHODS)


def test_every_row_changes_what_its_label_says():
    settings = {
        row.name: next(method.settings for method in METHODS if method.name == FILLED_BY[row.name]) for row in (*TERM_ROWS, *SETTING_ROWS)
    }
    expected = {
        "alpha-0": PAPER.replaced({"base_smoothness": 0.0}),
        "beta-0": PAPER.replaced({"detail_sparsity": 0.0}),
        "lambda-0": PAPER.replaced({"noise_weight": 0.0}),
        "patch-5": PAPER.replaced({"base_patch_px": 5}),
        "patch-10": PAPER.replaced({"base_patch_px": 10}),
        "base": PAPER.replaced({"result": "base"}),
        "detail": PAPER.replaced({"result": "detail"}),
        "equal": PAPER.replaced({"weights": "equal"}),
        "real": PAPER.replaced({"representation": "gray"}),
    } | dict.fromkeys(("full", "patch-8", "refined", "adaptive", "quaternion"), PAPER)

    assert settings == expected


def test_a_base_that_differs_keeps_the_labels_true():
    methods, filled_by = plan_ablation(PAPER.replaced({"base_patch_px": 5}))
    settings = {method.name: method.settings for method in methods}

    assert filled_by["patch-5"] == "ablation-full"
    eight = settings[filled_by["patch-8"]]
    assert eight is not None
    assert eight.method.base_patch_px == 8


def test_both_tables_have_the_rows_of_the_paper_in_its_order():
    text = write_ablation(ablate(), FILLED_BY)
    rows = rows_of(text)
    labels = [row[0] for row in rows if row[1] == "measured here"]

    assert text.startswith("- Command: `qmcif benchmark mffw -o report --ablation`\n")
    assert "## Terms of QFED" in text
    assert "## Settings of QMCIF" in text
    assert rows[0] == ["setting", "figures", *SIX]
    assert labels == [
        "alpha = 0",
        "beta = 0",
        "lambda = 0",
        "QFED",
        "patch size: 5 x 5",
        "patch size: 10 x 10",
        "patch size: 8 x 8",
        "fusion: QBDF base scale",
        "fusion: QBDF detail scale",
        "fusion: QSSR",
        "weight tau: equal",
        "weight tau: adaptive",
        "representation: real",
        "representation: quaternion",
    ]


def test_figures_stand_in_the_row_they_belong_to_and_the_best_of_each_group_is_bold():
    figures = {row[0]: row[2] for row in rows_of(draw_tables(ablate(), FILLED_BY)) if row[1] == "measured here"}

    assert figures == {
        "alpha = 0": "0.0200",
        "beta = 0": "0.0300",
        "lambda = 0": "**0.0400**",
        "QFED": "0.0100",
        "patch size: 5 x 5": "0.0500",
        "patch size: 10 x 10": "**0.0600**",
        "patch size: 8 x 8": "0.0100",
        "fusion: QBDF base scale": "0.0700",
        "fusion: QBDF detail scale": "**0.0800**",
        "fusion: QSSR": "0.0100",
        "weight tau: equal": "**0.0900**",
        "weight tau: adaptive": "0.0100",
        "representation: real": "**0.1000**",
        "representation: quaternion": "0.0100",
    }


def test_the_papers_own_figures_stand_below_each_row_on_its_data_set_only():
    text = draw_tables(ablate(PUBLISHED_SETS["mffw"]), FILLED_BY)
    rows = [row for row in rows_of(text) if row[1] == "published"]

    assert rows[0] == ["alpha = 0", "published", "1.0580", "0.7359", "0.7488", "0.8240", "–", "0.7298"]
    assert rows[-1] == ["representation: quaternion", "published", "1.0685", "0.7374", "0.7832", "0.8234", "–", "0.7508"]
    assert len(rows) == 14
    assert "first 10 pairs of mffw" in text
    assert "published" not in draw_tables(ablate(PUBLISHED_SETS["lytro"]), FILLED_BY)
