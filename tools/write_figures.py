"""Write the tables of figures in README.md and docs from the result files of the benchmarks.

A table stands between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``. NAME is one of the views below, or a file of
``benchmarks/results`` that is shown whole. Run after a benchmark; ``tests/test_figures.py`` fails while a document differs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # at the end: benchmarks/profile.py is not that of the standard library

from result_files import Result, load_result  # noqa: E402

from qmcif_engine.comparison.published import PUBLISHED_SETS  # noqa: E402
from qmcif_engine.comparison.tables import Mark, Origin, TableRow, format_figure, mark_table  # noqa: E402

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FIGURES = re.compile(r"(<!-- figures: ([a-z0-9_ -]+) -->\n).*?(<!-- end of figures -->)", flags=re.DOTALL)
PRESETS = "quality_presets"
SETS = {"lytro": "lytro", "mffw": "mffw", "mfi_whu": "MFI-WHU", "nyu_d": "NYU-D"}
SYMBOLS = ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
DECIBELS = ("PSNR", "PSNR_inner")


def write_all() -> list[Path]:
    """Bring all documents up to date and return those that were changed."""
    changed = [path for path in DOCUMENTS if (text := path.read_text(encoding="utf-8")) != update(text)]
    for path in changed:
        path.write_text(update(path.read_text(encoding="utf-8")), encoding="utf-8")
    return changed


def update(text: str) -> str:
    """Return a document with all its tables of figures as they should be."""
    return FIGURES.sub(lambda found: f"{found[1]}{render(found[2])}{found[3]}", text)


def render(name: str) -> str:
    """Return the table that a marker names."""
    kind, _, argument = name.partition(" ")
    if kind == "quality-overview":
        return render_overview(load_result(PRESETS))
    if kind == "quality-published":
        return render_beside_published(load_result(PRESETS), argument)
    if kind == "variants":
        file_name, _, set_name = argument.partition(" ")
        return render_variants(load_result(file_name), set_name)
    return render_whole(load_result(name))


def render_whole(result: Result) -> str:
    """Return every row and column of a result file, and how it was taken."""
    rows = [[show(value, result.formats.get(column)) for column, value in row.items()] for row in result.list_rows()]
    return join_table(list(result.columns), rows) + describe_origin(result)


def render_overview(result: Result) -> str:
    """Return the means of the default preset beside those that the paper prints for its own method."""
    lines = []
    for row in result.list_rows():
        if row["variant"] != "default":
            continue
        figures = [format_figure(row[symbol], symbol=symbol) for symbol in SYMBOLS]
        inner = "" if row["PSNR_inner"] is None else f"{row['PSNR_inner']:.2f} dB"
        lines.append([SETS[row["set"]], f"ours, {row['pairs']} pairs", *figures, inner])
        published = PUBLISHED_SETS.get(row["set"])
        if published is not None:
            printed = [format_figure(published.means["QMCIF (paper)"][symbol], symbol=symbol) for symbol in SYMBOLS]
            lines.append(["", f"paper, {published.n_pairs} pairs", *printed, ""])
    return join_table(["set", "", *SYMBOLS, "PSNR, 8-px margin left out"], lines) + describe_origin(result)


def render_beside_published(result: Result, set_name: str) -> str:
    """Return our presets above the methods that the paper prints for one set, best figures bold, second best italic."""
    symbols = (*SYMBOLS, *DECIBELS)
    measured = [
        TableRow(label=str(row["variant"]), origin=Origin.MEASURED, means={symbol: row[symbol] for symbol in symbols})
        for row in result.list_rows()
        if row["set"] == set_name
    ]
    published = PUBLISHED_SETS.get(set_name)
    printed = {} if published is None else published.means
    rows = [TableRow(label=name, origin=Origin.PUBLISHED, means=means) for name, means in printed.items()]
    table = mark_table([*measured, *rows])
    lines = []
    for row, marks in zip(table.rows, table.marks, strict=True):
        figures = [(format_figure(row.means.get(symbol), symbol=symbol), marks[symbol]) for symbol in table.symbols]
        wraps = {Mark.BEST: "**", Mark.SECOND: "*", Mark.NONE: ""}
        lines.append([row.label, row.origin.value, *(f"{wraps[mark]}{figure}{wraps[mark]}" for figure, mark in figures)])
    return join_table(["method", "figures", *table.symbols], lines) + describe_origin(result)


def render_variants(result: Result, set_name: str) -> str:
    """Return the variants of one set, without the columns that have no figures."""
    rows = [row for row in result.list_rows() if row["set"] == set_name]
    symbols = [symbol for symbol in (*SYMBOLS, *DECIBELS) if any(row[symbol] is not None for row in rows)]
    lines = [[str(row["variant"]), *(format_figure(row[symbol], symbol=symbol) for symbol in symbols)] for row in rows]
    return join_table(["variant", *symbols], lines) + describe_origin(result)


def show(value: str | float | None, style: str | None) -> str:
    """Return one cell."""
    return "" if value is None else format(value, style) if style and isinstance(value, float) else str(value)


def join_table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def describe_origin(result: Result) -> str:
    """Return the line below a table: command, date, machine, versions."""
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    note = f" {result.note}" if result.note else ""
    return f"\n*By `{result.command}` on {result.date}; {result.machine}; {versions}.{note}*\n\n"


if __name__ == "__main__":
    for document in write_all():
        print(f"written: {document.relative_to(ROOT)}")
