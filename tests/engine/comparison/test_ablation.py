"""The ablation tables have the paper's rows, each run with what its label says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS, draw_tables, plan_ablation, write_ablation
from qmcif_engine.comparison.datasets import Dataset, ImageSet
from qmcif_engine.comparison.published import PUBLISHED_SETS
from qmcif_engine.comparison.record import Score
from qmcif_engine.comparison.report import Comparison
from qmcif_engine.config.presets import preset

if TYPE_CHECKING:
    from qmcif_engine.comparison.published import PublishedSet

SIX = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
PAPER = preset("paper")
METHODS, FILLED_BY = plan_ablation(PAPER)


def make_comparison(published: PublishedSet | None = None) -> Comparison:
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


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]


def test_rows_that_are_the_full_method_are_run_once() -> None:
    full = [row.name for row in (*TERM_ROWS, *SETTING_ROWS) if FILLED_BY[row.name] == "ablation-full"]

    assert len(METHODS) == 10
    assert METHODS[0].settings == PAPER
    assert full == ["full", "patch-8", "refined", "adaptive", "quaternion"]
    assert all(Path(method.name).name == method.name for method in METHODS)


def test_every_row_changes_what_its_label_says() -> None:
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


def test_a_base_that_differs_keeps_the_labels_true() -> None:
    methods, filled_by = plan_ablation(PAPER.replaced({"base_patch_px": 5}))
    settings = {method.name: method.settings for method in methods}

    assert filled_by["patch-5"] == "ablation-full"
    eight = settings[filled_by["patch-8"]]
    assert eight is not None
    assert eight.method.base_patch_px == 8


def test_both_tables_have_the_rows_of_the_paper_in_its_order() -> None:
    text = write_ablation(make_comparison(), FILLED_BY)
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


def test_figures_stand_in_the_row_they_belong_to_and_the_best_of_each_group_is_bold() -> None:
    figures = {row[0]: row[2] for row in rows_of(draw_tables(make_comparison(), FILLED_BY)) if row[1] == "measured here"}

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


def test_the_papers_own_figures_stand_below_each_row_on_its_data_set_only() -> None:
    text = draw_tables(make_comparison(PUBLISHED_SETS["mffw"]), FILLED_BY)
    rows = [row for row in rows_of(text) if row[1] == "published"]

    assert rows[0] == ["alpha = 0", "published", "1.0580", "0.7359", "0.7488", "0.8240", "–", "0.7298"]
    assert rows[-1] == ["representation: quaternion", "published", "1.0685", "0.7374", "0.7832", "0.8234", "–", "0.7508"]
    assert len(rows) == 14
    assert "first 10 pairs of mffw" in text
    assert "published" not in draw_tables(make_comparison(PUBLISHED_SETS["lytro"]), FILLED_BY)
