"""The printed figures are the paper's, to the last digit."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS
from qmcif_engine.comparison.published import ABLATIONS, PUBLISHED_SETS, SYMBOLS, choose_published
from qmcif_engine.errors import InvalidConfigError

SHARED = Path(__file__).parents[4] / "shared"


def test_every_set_has_the_same_twelve_methods() -> None:
    names = [tuple(found.means) for found in PUBLISHED_SETS.values()]

    assert len(names) == 3
    assert len(set(names)) == 1
    assert len(names[0]) == 12
    assert names[0][-1] == "QMCIF (paper)"
    assert [found.n_pairs for found in PUBLISHED_SETS.values()] == [20, 13, 30]


def test_all_figures_are_shares_but_mutual_information() -> None:
    for found in PUBLISHED_SETS.values():
        for means in found.means.values():
            assert tuple(means) == SYMBOLS
            assert all(0.5 < value < (1.3 if symbol == "Q_MI" else 1) for symbol, value in means.items())


@pytest.mark.parametrize(("name", "total"), [("lytro", 62.5477), ("mffw", 55.4760), ("mfi_whu", 60.9618)])
def test_no_digit_was_lost_on_the_way(name: str, total: float) -> None:
    """The totals were taken from the paper's table by another way."""
    figures = [value for means in PUBLISHED_SETS[name].means.values() for value in means.values()]

    assert round(sum(figures), 4) == total


@pytest.mark.shared
def test_the_comparison_table_is_the_papers() -> None:
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
def test_the_ablation_rows_are_the_papers_in_its_order() -> None:
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
def test_the_set_is_the_one_asked_for_or_the_folders(asked: str | None, folder: str, expected: str | None) -> None:
    chosen = choose_published(asked, folder)

    assert (None if chosen is None else chosen.name) == expected


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="--published 'kodak' is not known; choose one of: lytro, mffw, mfi_whu, none"):
        choose_published("kodak", "lytro")
