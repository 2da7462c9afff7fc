"""Bars are as long as their figures say, on an axis that says where they begin."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from qmcif_engine.comparison.html import choose_axis, draw_bars
from qmcif_engine.comparison.tables import ComparisonTable, Origin, TableRow, mark_table


def make_table(**values: float | None) -> ComparisonTable:
    return mark_table([TableRow(label=label, origin=Origin.MEASURED, means={"Q_G": value}) for label, value in values.items()])


@pytest.mark.parametrize("values", [[0.7, 0.75], [0.5], [0.0], [-1.0, 1.0], [43.2, 47.9], [1.1999, 1.2], [0.3, 0.3], [1e-6, 2e-6]])
def test_the_axis_holds_all_values_between_round_ticks(values: list[float]) -> None:
    low, high, step = choose_axis(values)

    assert low < min(values)
    assert high >= max(values) - 1e-12
    assert (high - low) / step == pytest.approx(round((high - low) / step))
    assert 1 <= round((high - low) / step) <= 8


def test_bars_are_sorted_and_proportional_to_their_distance_from_the_axis() -> None:
    svg = draw_bars(make_table(worst=0.70, best=0.76, middle=0.73, none=None), "Q_G")
    root = ElementTree.fromstring(svg)
    widths = [float(bar.attrib["width"]) for bar in root.iter("rect")]
    labels = [text.text for text in root.iter("text") if "label" in text.attrib["class"]]
    low, _, _ = choose_axis([0.70, 0.73, 0.76])

    assert labels == ["best", "middle", "worst"]
    assert [width / widths[0] for width in widths] == pytest.approx(
        [(value - low) / (0.76 - low) for value in (0.76, 0.73, 0.70)], abs=2e-3
    )
    assert [text.text for text in root.iter("text") if text.attrib["class"].startswith("value")] == ["0.7600", "0.7300", "0.7000"]
    assert f">{low:g}<" in svg


def test_best_and_second_are_marked_in_the_plot_too() -> None:
    svg = draw_bars(make_table(a=0.70, b=0.76, c=0.73), "Q_G")

    assert re.findall(r'class="value (best|second)"[^>]*>([\d.]+)<', svg) == [("best", "0.7600"), ("second", "0.7300")]


def test_hostile_and_long_labels_stay_text() -> None:
    label = "<script>alert('x')</script>\"&"
    root = ElementTree.fromstring(draw_bars(mark_table([TableRow(label=label, origin=Origin.MEASURED, means={"Q_G": 0.5})]), "Q_G"))

    assert not list(root.iter("script"))
    (title,) = root.iter("title")
    assert title.text == f"{label} (measured here): 0.5000"
