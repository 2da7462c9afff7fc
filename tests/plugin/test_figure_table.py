"""Figures are listed with what they mean."""

from napari_qmcif.figure_table import MEANINGS, FigureTable
from qmcif_engine import evaluate


def test_every_figure_of_the_engine_has_its_meaning(pictures):
    symbols = evaluate(list(pictures), pictures[0], truth=pictures[1]).list_by_symbol()

    assert {symbol for symbol, figure in symbols.items() if figure is not None} == set(MEANINGS)


def test_values_are_rounded_and_decibels_named(qtbot):
    table = FigureTable()
    qtbot.addWidget(table)

    table.show_figures({"Q_G": 0.123456, "PSNR": 41.987})

    assert [table.item(row, 1).text() for row in range(2)] == ["0.1235", "41.99 dB"]
    assert table.item(0, 0).toolTip() == MEANINGS["Q_G"]
    assert table.isVisibleTo(table.parentWidget())
    table.show_figures({})
    assert not table.isVisibleTo(table.parentWidget())
