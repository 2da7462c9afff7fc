"""What the written report says can be repeated and computed again."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import qmcif_engine
from qmcif_engine.comparison.datasets import Dataset, ImageSet
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.published import PUBLISHED_SETS
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.report import Comparison, draw_table, escape, list_notes, name_symbol, write_markdown, write_scores
from qmcif_engine.comparison.tables import Origin, TableRow, mark_table
from qmcif_engine.config.fusion_config import FusionConfig

if TYPE_CHECKING:
    from qmcif_engine.comparison.published import PublishedSet

SIX = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")


def make_comparison(*, published: PublishedSet | None = None, has_truth: bool = False, other: str = "cnn") -> Comparison:
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


def test_the_report_starts_with_what_is_needed_to_repeat_it() -> None:
    lines = write_markdown(make_comparison()).splitlines()

    assert lines[0] == "- Command: `qmcif benchmark 'my data' -o report`"
    assert lines[1] == f"- Version: napari-qmcif {qmcif_engine.__version__}"
    assert lines[2] == "- Data: my\\_data: 2 sets (2 of 2 images; none with a truth)"
    assert lines[3] == "- Preset default: changed: iterations=7"


def test_best_is_bold_and_second_italic() -> None:
    text = write_markdown(make_comparison())

    assert "| preset default | measured here | **0.9000** |" in text
    assert "| cnn | measured here | *0.8000* |" in text


def test_published_rows_are_marked_as_such_with_their_source() -> None:
    text = write_markdown(make_comparison(published=PUBLISHED_SETS["mffw"]))

    assert "| SAMF | published | **1.0863** |" not in text
    assert "| SAMF | published | *1.0863* | 0.7310 |" in text
    assert "| QMCIF (paper) | published | **1.0887** |" in text
    assert text.count("| published |") == 12
    assert "complete mffw set of 13 pairs" in text
    assert "arXiv 2505.02365v2" in text
    assert "published" not in write_markdown(make_comparison())


def test_truth_figures_come_with_their_definition() -> None:
    with_truth, without = (list_notes(make_comparison(has_truth=has_truth)) for has_truth in (True, False))

    assert any("averaged in dB; PSNR inner leaves out a border of 8 px" in note for note in with_truth)
    assert not any("PSNR" in note for note in without)
    assert "| 01 | preset default | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 0.9000 | 40.00 |" in write_markdown(
        make_comparison(has_truth=True)
    )


def test_scores_have_a_row_a_set_and_method_with_all_digits() -> None:
    value = 0.1 + 0.2
    scores = [Score(set_name="01", method='a,"b"', figures={"Q_MI": value, "PSNR": None}, inputs="", fused="")]
    (row,) = csv.DictReader(io.StringIO(write_scores("garden", scores)))

    assert row == {"dataset": "garden", "set": "01", "method": 'a,"b"', "Q_MI": repr(value), "PSNR": ""}
    assert float(row["Q_MI"]) == value


def test_a_hostile_method_name_stays_text() -> None:
    text = write_markdown(make_comparison(other="<img src=x>|**b**`c`"))

    assert r"\<img src=x\>\|\*\*b\*\*\`c\`" in text
    assert "<img" not in text.replace(r"\<img", "")


@pytest.mark.parametrize(("text", "shown"), [("a_b", r"a\_b"), ("a\nb", "a b"), ("1.5 (x)", "1.5 (x)"), ("[x](y)", r"\[x\](y)")])
def test_markdown_signs_are_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_a_command_with_backticks_stays_code() -> None:
    comparison = make_comparison()
    odd = Comparison(**{name: getattr(comparison, name) for name in Comparison.__slots__} | {"command": "qmcif `x`"})

    assert write_markdown(odd).startswith("- Command: `` qmcif `x` ``\n")


def test_a_table_has_a_dash_where_there_is_no_figure() -> None:
    rows = [TableRow(label="a", origin=Origin.MEASURED, means={"PSNR": 40.0}), TableRow(label="b", origin=Origin.PUBLISHED, means={})]

    assert draw_table(mark_table(rows), heading="setting").splitlines() == [
        "| setting | figures | PSNR |",
        "| --- | --- | --: |",
        "| a | measured here | 40.00 |",
        "| b | published | – |",
    ]


def test_columns_are_headed_as_in_papers() -> None:
    assert [name_symbol(symbol) for symbol in ("Q_MI", "PSNR_inner", "right_source")] == ["Q_MI", "PSNR inner", "right source"]
