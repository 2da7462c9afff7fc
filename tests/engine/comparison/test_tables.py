"""Means and marks are what a careful reader would compute and underline; the printed figures are the paper's, to the last digit."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.tables import (
    ABLATIONS,
    PUBLISHED_SETS,
    SYMBOLS,
    Mark,
    Origin,
    TableRow,
    average,
    build_set_table,
    build_table,
    choose_published,
    format_figure,
    keep_symbols,
    keep_whole,
    mark_column,
    mark_table,
)
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError

SHARED = Path(__file__).parents[4] / "shared"


def make_score(set_name, method, **figures):
    return Score(set_name=set_name, method=method, figures=figures, inputs="", fused="")


def test_decibels_are_averaged_as_decibels_over_the_sets_that_have_them():
    means = average([{"PSNR": 40.0, "Q_G": 0.5}, {"PSNR": None, "Q_G": 0.7}, {"PSNR": 50.0, "Q_G": 0.9}])

    assert means == pytest.approx({"PSNR": 45.0, "Q_G": 0.7})
    assert average([{"PSNR": None}]) == {"PSNR": None}


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0.1, 0.3, 0.2], [Mark.NONE, Mark.BEST, Mark.SECOND]),
        ([0.12341, 0.12344, 0.1], [Mark.BEST, Mark.BEST, Mark.SECOND]),
        ([0.5, 0.4, 0.4, 0.3], [Mark.BEST, Mark.SECOND, Mark.SECOND, Mark.NONE]),
        ([None, 0.4, 0.5], [Mark.NONE, Mark.SECOND, Mark.BEST]),
        ([0.4, None], [Mark.NONE, Mark.NONE]),
        ([0.4, 0.4], [Mark.BEST, Mark.BEST]),
        ([-0.2, 0.0], [Mark.SECOND, Mark.BEST]),
        ([], []),
    ],
)
def test_best_and_second_are_marked_as_they_are_printed(values, marks):
    assert mark_column(values, symbol="Q_G") == marks


def test_figures_have_the_decimals_of_papers():
    assert format_figure(0.98765, symbol="Q_Y") == "0.9877"
    assert format_figure(43.949, symbol="PSNR_inner") == "43.95"
    assert format_figure(None, symbol="PSNR") == "–"


def test_published_rows_stand_below_and_take_part_in_the_marks():
    lytro = PUBLISHED_SETS["lytro"]
    ours = Method(name="default", settings=FusionConfig())
    figures = dict.fromkeys(lytro.means["SR"], 2.0)
    table = build_table([make_score("01", "default", **figures, PSNR=40.0)], [ours], lytro, keep=keep_whole)

    assert [row.origin for row in table.rows] == [Origin.MEASURED] + [Origin.PUBLISHED] * 12
    assert table.rows[0].label == "preset default"
    assert table.symbols == (*figures, "PSNR")
    assert table.rows[0].marks == {**dict.fromkeys(figures, Mark.BEST), "PSNR": Mark.NONE}
    assert table.rows[11].marks["Q_MI"] is Mark.SECOND
    assert table.rows[12].means.get("PSNR") is None


def test_columns_without_any_figure_are_left_out():
    rows = [TableRow(label=name, origin=Origin.MEASURED, means={"Q_G": 0.5, "PSNR": None}) for name in "ab"]

    assert mark_table(rows).symbols == ("Q_G",)


def test_a_method_alone_is_shown_set_by_set_without_marks():
    table = build_set_table([make_score("01", "default", Q_G=0.5), make_score("02", "default", Q_G=0.6)])

    assert [(row.label, row.means["Q_G"]) for row in table.rows] == [("01", 0.5), ("02", 0.6)]
    assert table.symbols == ("Q_G",)
    assert [row.marks for row in table.rows] == [{}, {}]


def test_the_six_figures_of_the_paper_are_kept():
    figures = dict.fromkeys(("PSNR", "Q_CB", "Q_Y", "Q_E", "Q_P", "Q_G", "Q_MI"), 1.0)

    assert list(keep_symbols(figures)) == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]


def test_every_set_has_the_same_twelve_methods():
    names = [tuple(found.means) for found in PUBLISHED_SETS.values()]

    assert len(names) == 3
    assert len(set(names)) == 1
    assert len(names[0]) == 12
    assert names[0][-1] == "QMCIF (paper)"
    assert [found.n_pairs for found in PUBLISHED_SETS.values()] == [20, 13, 30]


def test_all_figures_are_shares_but_mutual_information():
    for found in PUBLISHED_SETS.values():
        for means in found.means.values():
            assert tuple(means) == SYMBOLS
            assert all(0.5 < value < (1.3 if symbol == "Q_MI" else 1) for symbol, value in means.items())


@pytest.mark.parametrize(("name", "total"), [("lytro", 62.5477), ("mffw", 55.4760), ("mfi_whu", 60.9618)])
def test_no_digit_was_lost_on_the_way(name, total):
    """The totals were taken from the paper's table by another way."""
    figures = [value for means in PUBLISHED_SETS[name].means.values() for value in means.values()]

    assert round(sum(figures), 4) == total


@pytest.mark.shared
def test_the_comparison_table_is_the_papers():
    path = SHARED / "metrics" / "paper_table.csv"
    if not path.is_file():
        pytest.skip("the development files are not here")
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))

    assert len(rows) == 36
    for row in rows:
        published = choose_published(None, row["dataset"])
        assert published is not None
        expected = {symbol: float(row[symbol.replace("_", "")]) for symbol in SYMBOLS}
        assert published.means[row["method"]] == expected


@pytest.mark.shared
def test_the_ablation_rows_are_the_papers_in_its_order():
    path = SHARED / "paper" / "qmcif.tex"
    if not path.is_file():
        pytest.skip("the development files are not here")
    text = path.read_text(encoding="utf-8")
    for label, rows in (("tab:table99", TERM_ROWS), ("tab:table100", SETTING_ROWS)):
        end = text.index(rf"\label{{{label}}}")
        table = text[text.rindex(r"\begin{tabular}", 0, end) : end].replace(r"\textbf{", "").replace("}", "")
        printed = [tuple(map(float, re.findall(r"\d\.\d{4}", line))) for line in table.split(r"\\")]
        assert [values for values in printed if values] == [tuple(ABLATIONS[row.label].values()) for row in rows]


@pytest.mark.parametrize(
    ("asked", "folder", "expected"),
    [
        (None, "lytro", "lytro"),
        (None, "MFI-WHU", "mfi_whu"),
        (None, "lytro_triple", None),
        (None, "nyu_d", None),
        ("MFFW", "anything", "mffw"),
        ("none", "lytro", None),
    ],
)
def test_the_set_is_the_one_asked_for_or_the_folders(asked, folder, expected):
    chosen = choose_published(asked, folder)

    assert (None if chosen is None else chosen.name) == expected


def test_an_unknown_set_is_refused():
    with pytest.raises(InvalidConfigError, match="--published 'kodak' is not known; choose one of: lytro, mffw, mfi_whu, none"):
        choose_published("kodak", "lytro")
