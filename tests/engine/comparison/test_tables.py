"""Means and marks are what a careful reader would compute and underline."""

from __future__ import annotations

import pytest

from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.published import PUBLISHED_SETS
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.tables import (
    Mark,
    Origin,
    TableRow,
    average,
    build_set_table,
    build_table,
    format_figure,
    keep_symbols,
    mark_column,
    mark_table,
)
from qmcif_engine.config.fusion_config import FusionConfig


def make_score(set_name: str, method: str, **figures: float | None) -> Score:
    return Score(set_name=set_name, method=method, figures=figures, inputs="", fused="")


def test_decibels_are_averaged_as_decibels_over_the_sets_that_have_them() -> None:
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
def test_best_and_second_are_marked_as_they_are_printed(values: list[float | None], marks: list[Mark]) -> None:
    assert mark_column(values, symbol="Q_G") == marks


def test_figures_have_the_decimals_of_papers() -> None:
    assert format_figure(0.98765, symbol="Q_Y") == "0.9877"
    assert format_figure(43.949, symbol="PSNR_inner") == "43.95"
    assert format_figure(None, symbol="PSNR") == "–"


def test_published_rows_stand_below_and_take_part_in_the_marks() -> None:
    lytro = PUBLISHED_SETS["lytro"]
    ours = Method(name="default", settings=FusionConfig())
    figures = dict.fromkeys(lytro.means["SR"], 2.0)
    table = build_table([make_score("01", "default", **figures, PSNR=40.0)], [ours], lytro)

    assert [row.origin for row in table.rows] == [Origin.MEASURED] + [Origin.PUBLISHED] * 12
    assert table.rows[0].label == "preset default"
    assert table.symbols == (*figures, "PSNR")
    assert table.marks[0] == {**dict.fromkeys(figures, Mark.BEST), "PSNR": Mark.NONE}
    assert table.marks[11]["Q_MI"] is Mark.SECOND
    assert table.rows[12].means.get("PSNR") is None


def test_columns_without_any_figure_are_left_out() -> None:
    rows = [TableRow(label=name, origin=Origin.MEASURED, means={"Q_G": 0.5, "PSNR": None}) for name in "ab"]

    assert mark_table(rows).symbols == ("Q_G",)


def test_a_method_alone_is_shown_set_by_set_without_marks() -> None:
    table = build_set_table([make_score("01", "default", Q_G=0.5), make_score("02", "default", Q_G=0.6)])

    assert [(row.label, row.means["Q_G"]) for row in table.rows] == [("01", 0.5), ("02", 0.6)]
    assert table.marks == ({"Q_G": Mark.NONE},) * 2


def test_the_six_figures_of_the_paper_are_kept() -> None:
    figures = dict.fromkeys(("PSNR", "Q_CB", "Q_Y", "Q_E", "Q_P", "Q_G", "Q_MI"), 1.0)

    assert list(keep_symbols(figures)) == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]
