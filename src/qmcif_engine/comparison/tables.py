"""Tables of a comparison: the mean scores of each method, the best of each column marked, beside the figures printed in the paper.

The printed figures: Weihua Yang and Yicong Zhou, *Quaternion Sparse Decomposition for Multi-focus Color Image Fusion*, arXiv 2505.02365v2
(2025), the comparison table of section IV-C, whose means are over the complete data sets, and the two ablation tables of sections IV-B and
IV-D. The names of the methods are the paper's; its own method is "QMCIF (paper)" here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.resources import files

from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Score
from qmcif_engine.errors import InvalidConfigError

SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
NO_PUBLISHED_SET = "none"
PAPER = "Yang and Zhou, Quaternion Sparse Decomposition for Multi-focus Color Image Fusion, arXiv 2505.02365v2"
ABLATION_SET = "mffw"
ABLATION_N_PAIRS = 10
ABLATION_SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_CB")
"""The ablation tables leave Q_Y out."""


@dataclass(frozen=True, slots=True)
class PublishedSet:
    """The printed means of one data set, and over how many pairs they were taken."""

    name: str
    n_pairs: int
    means: Mapping[str, Mapping[str, float]]


def _read_tables() -> dict[str, dict[str, dict[str, float]]]:
    """Return the printed figures by table, row and symbol."""
    tables: dict[str, dict[str, dict[str, float]]] = {}
    with (files(__package__) / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            tables.setdefault(row["table"], {})[row["row"]] = {symbol: float(row[symbol]) for symbol in SYMBOLS if row[symbol]}
    return tables


_TABLES = _read_tables()

PUBLISHED_SETS = {name: PublishedSet(name, n_pairs, _TABLES[name]) for name, n_pairs in {"lytro": 20, "mffw": 13, "mfi_whu": 30}.items()}
"""By the name of the data set; the numbers of pairs are those of section IV-A."""

ABLATIONS = _TABLES["ablation"]
"""By the label of the row in our tables; five rows are the same full method."""

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
    """The means of one method by symbol, None where there is nothing to average, and how they stand in their columns."""

    label: str
    origin: Origin
    means: Mapping[str, float | None]
    is_fused_here: bool = False
    marks: Mapping[str, Mark] = field(default_factory=dict)

    def show(self, symbol: str) -> str:
        """Return one figure as it is printed."""
        return format_figure(self.means.get(symbol), symbol=symbol)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTable:
    """The rows of a comparison and the symbols of its columns."""

    symbols: tuple[str, ...]
    rows: tuple[TableRow, ...]


def build_table(
    scores: Sequence[Score],
    methods: Sequence[Method],
    published: PublishedSet | None,
    *,
    keep: Callable[[Mapping[str, float | None]], Mapping[str, float | None]],
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
    return ComparisonTable(symbols=list_symbols(rows), rows=tuple(rows))


def mark_table(rows: Sequence[TableRow]) -> ComparisonTable:
    """Mark the best and the second best of each column that has any figure."""
    symbols = list_symbols(rows)
    columns = {symbol: mark_column([row.means.get(symbol) for row in rows], symbol=symbol) for symbol in symbols}
    marked = [replace(row, marks={symbol: columns[symbol][number] for symbol in symbols}) for number, row in enumerate(rows)]
    return ComparisonTable(symbols=symbols, rows=tuple(marked))


def list_symbols(rows: Sequence[TableRow]) -> tuple[str, ...]:
    """Return the symbols of the columns that have any figure, in the order of their first one."""
    return tuple(dict.fromkeys(symbol for row in rows for symbol, value in row.means.items() if value is not None))


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


def choose_published(asked: str | None, folder_name: str) -> PublishedSet | None:
    """Return the published set asked for, or the one the folder is named after, or None.

    Raises
    ------
    InvalidConfigError
        When a set is asked for that the paper does not have.
    """
    if asked is None:
        return PUBLISHED_SETS.get(_normalize(folder_name))
    name = _normalize(asked)
    if name == NO_PUBLISHED_SET:
        return None
    if name not in PUBLISHED_SETS:
        msg = f"--published {asked!r} is not known; choose one of: {', '.join(PUBLISHED_SETS)}, {NO_PUBLISHED_SET}"
        raise InvalidConfigError(msg)
    return PUBLISHED_SETS[name]


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")
