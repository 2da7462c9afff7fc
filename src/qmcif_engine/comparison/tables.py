"""Tables of a comparison: the mean scores of each method, the best of each column marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.published import SYMBOLS, PublishedSet
from qmcif_engine.comparison.record import Score

_DECIBEL_PREFIX = "PSNR"
INNER_SUFFIX = "_inner"
"""Of the symbols of figures that leave a border of the image out."""


class Origin(StrEnum):
    """Where a row of figures comes from."""

    MEASURED = "measured here"
    PUBLISHED = "published"


class Mark(StrEnum):
    """How a figure stands in its column."""

    BEST = "best"
    SECOND = "second"
    NONE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The means of one method by symbol; None where there is nothing to average."""

    label: str
    origin: Origin
    means: Mapping[str, float | None]
    is_fused_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTable:
    """The rows of a comparison and the mark of each of their figures, by symbol."""

    symbols: tuple[str, ...]
    rows: tuple[TableRow, ...]
    marks: tuple[Mapping[str, Mark], ...]


def build_table(
    scores: Sequence[Score],
    methods: Sequence[Method],
    published: PublishedSet | None,
    *,
    keep: Callable[[Mapping[str, float | None]], Mapping[str, float | None]] = dict,
) -> ComparisonTable:
    """Average what is kept of the figures over the sets, decibels included, and put the published rows below."""
    rows = [
        TableRow(
            label=method.label,
            origin=Origin.MEASURED,
            means=average(keep(score.figures) for score in scores if score.method == method.name),
            is_fused_here=method.is_fused_here,
        )
        for method in methods
    ]
    printed = {} if published is None else published.means
    rows += [TableRow(label=name, origin=Origin.PUBLISHED, means=means) for name, means in printed.items()]
    return mark_table(rows)


def build_set_table(scores: Sequence[Score]) -> ComparisonTable:
    """Return a row per set, without marks: what is worth seeing where one method stands alone."""
    rows = [TableRow(label=score.set_name, origin=Origin.MEASURED, means=keep_whole(score.figures), is_fused_here=True) for score in scores]
    symbols = mark_table(rows).symbols
    return ComparisonTable(symbols=symbols, rows=tuple(rows), marks=tuple(dict.fromkeys(symbols, Mark.NONE) for _ in rows))


def mark_table(rows: Sequence[TableRow]) -> ComparisonTable:
    """Mark the best and the second best of each column that has any figure."""
    # a dict keeps the order in which symbols first occur, a set would not
    known = {symbol: None for row in rows for symbol, value in row.means.items() if value is not None}
    symbols = tuple(known)
    columns = {symbol: mark_column([row.means.get(symbol) for row in rows], symbol=symbol) for symbol in symbols}
    marks = tuple({symbol: columns[symbol][number] for symbol in symbols} for number in range(len(rows)))
    return ComparisonTable(symbols=symbols, rows=tuple(rows), marks=marks)


def average(figures: Iterable[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the mean of each figure over the images that have it."""
    values: dict[str, list[float]] = {}
    for one in figures:
        for symbol, value in one.items():
            values.setdefault(symbol, [])
            if value is not None:
                values[symbol].append(value)
    # exactly rounded, so that the mean does not depend on the order of the sets
    return {symbol: math.fsum(found) / len(found) if found else None for symbol, found in values.items()}


def mark_column(values: Sequence[float | None], *, symbol: str) -> list[Mark]:
    """Mark the largest and the second largest figure; figures that are printed alike share their mark, and a single one gets none."""
    # ranked as printed, since two equal figures of which one is bold would puzzle the reader
    printed = [None if value is None else float(format_figure(value, symbol=symbol)) for value in values]
    known = [value for value in printed if value is not None]
    ranking = sorted(set(known), reverse=True) if len(known) > 1 else []
    mark_of: dict[float | None, Mark] = dict(zip(ranking, (Mark.BEST, Mark.SECOND), strict=False))
    return [mark_of.get(value, Mark.NONE) for value in printed]


def format_figure(value: float | None, *, symbol: str) -> str:
    """Return a figure as papers print it: four decimals, decibels with two; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:.2f}" if symbol.startswith(_DECIBEL_PREFIX) else f"{value:.4f}"


def keep_symbols(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the six figures that the paper prints."""
    return {symbol: figures[symbol] for symbol in SYMBOLS}


def keep_whole(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the figures of the whole image, the inner PSNR among them."""
    left_out = {f"{symbol}{INNER_SUFFIX}" for symbol in SYMBOLS}
    return {symbol: value for symbol, value in figures.items() if symbol not in left_out}


def keep_inner(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the figures that leave a border out, by the symbols of those of the whole image."""
    return {symbol.removesuffix(INNER_SUFFIX): value for symbol, value in figures.items() if symbol.endswith(INNER_SUFFIX)}


def name_inner(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the six figures that the paper prints, by their symbols where a border is left out."""
    return {f"{symbol}{INNER_SUFFIX}": figures[symbol] for symbol in SYMBOLS}
