"""A comparison as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qmcif_engine import __version__
from qmcif_engine.comparison import tables
from qmcif_engine.comparison.datasets import Dataset
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.record import Score
from qmcif_engine.metrics.truth import DEFAULT_BORDER_PX


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A finished comparison and how it was requested.

    Attributes
    ----------
    command : str
        The command line that makes this report.
    dataset : Dataset
    methods : tuple of Method
    changes : mapping of str to str
        Settings that differ from the preset of that name, in words.
    scores : tuple of Score
        Set by set, in the order of the methods.
    published : tables.PublishedSet or None
    folder : Path
        The report folder.
    border_px : int or None
        Width of the border that a second table leaves out; None where there is no such table.
    """

    command: str
    dataset: Dataset
    methods: tuple[Method, ...]
    changes: Mapping[str, str]
    scores: tuple[Score, ...]
    published: tables.PublishedSet | None
    folder: Path
    border_px: int | None = None

    @property
    def table(self) -> tables.ComparisonTable:
        """Return the means of all methods, with the best marked."""
        return tables.build_table(self.scores, self.methods, self.published, keep=tables.keep_whole)

    @property
    def inner_table(self) -> tables.ComparisonTable:
        """Return the means without the border; those that the paper prints are of whole images and have no row."""
        return tables.build_table(self.scores, self.methods, None, keep=tables.keep_inner)

    def list_scores(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return heading and rows of the table of all figures: set, method, and what was measured."""
        symbols = tables.list_symbols([row for row in self.table.rows if row.origin is tables.Origin.MEASURED])
        label_of = {method.name: method.label for method in self.methods}
        rows = [
            (
                score.set_name,
                label_of[score.method],
                *(tables.format_figure(score.figures.get(symbol), symbol=symbol) for symbol in symbols),
            )
            for score in self.scores
        ]
        return ("set", "method", *symbols), rows


def describe_comparison(comparison: Comparison) -> dict[str, str]:
    """Return what a reader must know to repeat the comparison, by heading."""
    sets = comparison.dataset.sets
    sizes = Counter(len(image_set.sources) for image_set in sets)
    n_truths = sum(image_set.truth is not None for image_set in sets)
    counts = ", ".join(f"{count} of {size} images" for size, count in sorted(sizes.items()))
    truths = f"; {'all' if n_truths == len(sets) else n_truths or 'none'} with a truth"
    return {
        "Command": comparison.command,
        "Version": f"napari-qmcif {__version__}",
        "Data": f"{comparison.dataset.name}: {len(sets)} sets ({counts}{truths})",
        **{f"Preset {name}": f"changed: {changed}" if changed else "unchanged" for name, changed in comparison.changes.items()},
    }


def list_notes(comparison: Comparison) -> list[str]:
    """Return how the tables are to be read."""
    marked = " Best and second best are marked over all rows; figures printed alike share their mark."
    notes = [
        f"Larger is better in every column.{marked if len(comparison.table.rows) > 1 else ''}",
        f"Rows “{tables.Origin.MEASURED}” are means over the {len(comparison.dataset.sets)} sets above, each scored from its 8-bit file.",
    ]
    if comparison.published is not None:
        notes.append(
            f"Rows “{tables.Origin.PUBLISHED}” are copied from the paper ({tables.PAPER}, section IV-C). They are means over the complete "
            f"{comparison.published.name} set of {comparison.published.n_pairs} pairs: a mark means little where ours are measured on "
            "other or fewer pairs."
        )
    if any(image_set.truth is not None for image_set in comparison.dataset.sets):
        notes.append(
            "PSNR is over all 8-bit color samples of an image against the truth, then averaged in dB; PSNR inner leaves out a border of "
            f"{DEFAULT_BORDER_PX if comparison.border_px is None else comparison.border_px} px."
        )
    if comparison.border_px is not None:
        notes.append(
            f"The table “{head_inner(comparison.border_px)}” scores the same images cut by as much on every side, so that what lies there, "
            "such as the dark border of sources that were blurred by software, counts nowhere. scores.csv has these figures set by set."
        )
    return notes


def head_inner(border_px: int) -> str:
    """Return the heading of the table that leaves a border out."""
    return f"Without the outer {border_px} px"


def write_markdown(comparison: Comparison) -> str:
    """Return the report as Markdown."""
    heads, rows = comparison.list_scores()
    inner = [] if comparison.border_px is None else [f"## {head_inner(comparison.border_px)}", draw_table(comparison.inner_table)]
    parts = [
        draw_facts(comparison),
        f"# {escape(comparison.dataset.name)}: comparison of fusion methods",
        draw_table(comparison.table),
        "Best **bold**, second best *italic*.",
        "\n".join(f"- {escape(note)}" for note in list_notes(comparison)),
        *inner,
        "## Set by set",
        _join_rows([name_symbol(head) for head in heads], [(escape(set_name), escape(label), *cells) for set_name, label, *cells in rows]),
    ]
    return "\n\n".join(parts) + "\n"


def draw_facts(comparison: Comparison) -> str:
    """Return what a reader must know to repeat the comparison as a Markdown list."""
    facts = describe_comparison(comparison).items()
    return "\n".join(f"- {heading}: {_as_code(text) if heading == 'Command' else escape(text)}" for heading, text in facts)


def draw_table(table: tables.ComparisonTable, *, heading: str = "method") -> str:
    """Return a table as Markdown, best bold and second best italic; the heading is that of the first column."""
    rows = [(escape(row.label), row.origin, *emphasize(row, table.symbols)) for row in table.rows]
    return _join_rows((heading, "figures", *map(name_symbol, table.symbols)), rows)


def emphasize(row: tables.TableRow, symbols: Sequence[str]) -> list[str]:
    """Return the figures of a row as Markdown, the best of a column bold and the second best italic."""
    wraps = [{tables.Mark.BEST: "**", tables.Mark.SECOND: "*"}.get(row.marks.get(symbol, tables.Mark.NONE), "") for symbol in symbols]
    return [f"{wrap}{row.show(symbol)}{wrap}" for symbol, wrap in zip(symbols, wraps, strict=True)]


def _join_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * 2 + ["--:"] * (len(heads) - 2), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def name_symbol(symbol: str) -> str:
    """Return how a column is headed: Q_MI stays, PSNR_inner and right_source lose their underscore."""
    return symbol if symbol.startswith("Q_") else symbol.replace("_", " ")


def write_scores(comparison: Comparison) -> str:
    """Return all scores as CSV, one row per set and method, at full precision; no figure leaves an empty cell."""
    symbols = list(comparison.scores[0].figures)
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["dataset", "set", "method", *symbols])
    for score in comparison.scores:
        # `repr`: the shortest text that gives back the same float
        figures = ["" if score.figures[symbol] is None else repr(score.figures[symbol]) for symbol in symbols]
        rows.writerow([comparison.dataset.name, score.set_name, score.method, *figures])
    return stream.getvalue()


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", " ".join(text.split()))


def _as_code(text: str) -> str:
    # longer than any run of back quotes within, as CommonMark demands
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if len(fence) > 1 else f"`{text}`"
