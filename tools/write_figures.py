"""Write the tables of figures in README.md and docs from the result files of the benchmarks.

A table stands between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``. NAME is one of the views below, or a file of
``benchmarks/results`` that is shown whole. Run after a benchmark; ``tests/test_figures.py`` fails while a document differs.
"""

from __future__ import annotations

import re
import sys
from itertools import combinations, groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))  # at the end: benchmarks/profile.py is not that of the standard library

from quality_rows import FLOORS, PRESENT, load_rows, tabulate  # noqa: E402
from result_files import FOLDER, Cell, Result, load_result  # noqa: E402

from qmcif_engine.comparison.ablation import SETTING_ROWS, TERM_ROWS, AblationRow  # noqa: E402
from qmcif_engine.comparison.methods import BASELINES  # noqa: E402
from qmcif_engine.comparison.report import emphasize  # noqa: E402
from qmcif_engine.comparison.tables import (  # noqa: E402
    ABLATION_SYMBOLS,
    ABLATIONS,
    PUBLISHED_SETS,
    SYMBOLS,
    Origin,
    TableRow,
    format_figure,
    mark_table,
)

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FIGURES = re.compile(r"(<!-- figures: ([a-z0-9_ -]+) -->\n).*?(<!-- end of figures -->)", flags=re.DOTALL)
PRESETS = "quality_presets"
SETS = {"lytro": "lytro", "mffw": "mffw", "mfi_whu": "MFI-WHU", "nyu_d": "NYU-D"}
SHIFTS = {
    "lytro": (-0.028, -0.011, 0.004, -0.015, -0.001, -0.002),
    "mffw": (-0.031, 0.005, 0.028, -0.001, 0.001, 0.003),
    "mfi_whu": (-0.027, 0.002, 0.007, 0.003, 0.000, 0.008),
}
"""What our default has on the pairs at hand minus what it has on the complete sets, as those who hold the complete sets measured it."""
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
    if kind == "other-methods":
        return render_other_methods(load_result(PRESETS), load_result(f"other_methods_{argument}"), argument)
    if kind == "rivals":
        return render_rivals(load_result("rival_references"), argument)
    if kind == "paper":
        return render_paper(load_result(PRESETS), load_result("ablation"))
    if kind == "borders":
        return render_borders(load_result("borders"))
    if kind == "ablation":
        return render_ablation(load_result("ablation"))
    if kind == "ablation-orders":
        return render_orders(load_result("ablation"))
    if kind == "floors":
        return render_floors(argument)
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
    return join_table(["set", "", *SYMBOLS, "PSNR, 8-px border left out"], lines) + describe_origin(result)


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
    lines = [[row.label, row.origin.value, *emphasize(row, table.symbols)] for row in table.rows]
    return join_table(["method", "figures", *table.symbols], lines) + describe_origin(result)


def render_other_methods(presets: Result, others: Result, set_name: str) -> str:
    """Return the default below the best of other methods on the same pairs, column by column, the better bold."""
    rows = others.list_rows()
    best = [max(rows, key=lambda row: float(row[symbol] or 0)) for symbol in SYMBOLS]
    own = next(row for row in presets.list_rows() if (row["set"], row["variant"]) == (set_name, "default"))
    pairs = [
        (format_figure(row[symbol], symbol=symbol), format_figure(own[symbol], symbol=symbol))
        for symbol, row in zip(SYMBOLS, best, strict=True)
    ]
    lines = [
        [f"best of {len(rows)} methods", *(f"**{other}**" if other > ours else other for other, ours in pairs)],
        ["which of them", *(str(row["method"]) for row in best)],
        ["default", *(f"**{ours}**" if ours > other else ours for other, ours in pairs)],
    ]
    origin = describe_origin(presets._replace(command=f"{presets.command}`, `{others.command}"))
    return join_table(["", *SYMBOLS], lines) + origin


def render_rivals(references: Result, set_name: str) -> str:
    """Return the methods run here beside their printed rows, shifted to the pairs at hand, and what other programs make of these pairs."""
    lines: list[list[str]] = []
    commands: dict[str, None] = {}
    published = PUBLISHED_SETS[set_name].means
    for rival in BASELINES.values():
        file_name = f"rival_{rival.name.replace('-', '_')}_{set_name}"
        if not (FOLDER / f"{file_name}.json").exists():  # not measured yet
            continue
        result = load_result(file_name)
        rows = result.list_rows()
        measured = average_columns(rows)
        seconds = sum(float(row["CPU s"]) for row in rows) / len(rows)
        pairs = {row["pair"] for row in rows}
        lines.append([rival.label, f"measured here, {len(pairs)} pairs", *show_figures(measured), "", f"{seconds:.1f}"])
        if rival.label in published:
            lines += [compare_figures("printed, shifted", measured, shift_printed(set_name, rival.label))]
        named = [row for row in references.list_rows() if (row["method"], row["set"]) == (rival.name, set_name)]
        others = [row for row in named if row["pair"] in pairs]
        if others:
            lines += [compare_figures("another program", measured, average_columns(others))]
        commands[result.command] = None
    origin = describe_origin(references._replace(command="`, `".join(commands)))
    return join_table(["method", "figures", *SYMBOLS, "mean difference", "CPU s a pair"], lines) + origin


def shift_printed(set_name: str, method: str) -> list[float]:
    """Return the row that the paper prints for a method, shifted to the pairs at hand."""
    printed = PUBLISHED_SETS[set_name].means[method]
    return [printed[symbol] + shift for symbol, shift in zip(SYMBOLS, SHIFTS[set_name], strict=True)]


def render_paper(presets: Result, ablation: Result) -> str:
    """Return the rows of the preset ``paper`` above the printed ones of its method, shifted, and the mean difference over all cells.

    Of mffw, for which the paper has a beta of its own, the full method of the ablation is shown.
    """
    full = [row for row in ablation.list_rows() if row["row"] == "full"]
    own = {
        str(row["set"]): (row["pairs"], "0.5", average_columns([row])) for row in presets.list_rows() if row["variant"] == "preset paper"
    }
    own["mffw"] = (len(full), "2", average_columns(full))
    lines: list[list[str]] = []
    gaps: list[float] = []
    for set_name in PUBLISHED_SETS:
        n_pairs, beta, measured = own[set_name]
        expected = shift_printed(set_name, "QMCIF (paper)")
        lines.append([SETS[set_name], f"measured, {n_pairs} pairs, beta {beta}", *show_figures(measured), ""])
        lines.append(compare_figures("printed, shifted", measured, expected)[:-1])
        gaps += [abs(one - other) for one, other in zip(measured, expected, strict=True)]
    lines.append(["all", f"{len(gaps)} cells", *[""] * len(SYMBOLS), f"**{sum(gaps) / len(gaps):.4f}**"])
    origin = describe_origin(presets._replace(command=f"{presets.command}`, `{ablation.command}"))
    return join_table(["set", "figures", *SYMBOLS, "mean difference"], lines) + origin


def render_borders(result: Result) -> str:
    """Return the means of whole images and of what lies inside the border, the best of either bold, the second best italic."""
    symbols = (*SYMBOLS, "PSNR")
    lines: list[list[str]] = []
    for scored, rows in groupby(result.list_rows(), key=lambda row: f"{row['scored']}, {row['pairs']} pairs"):
        own = [
            TableRow(label=str(row["method"]), origin=Origin.MEASURED, means={symbol: row[symbol] for symbol in symbols}) for row in rows
        ]
        lines += [[scored, row.label, *emphasize(row, symbols)] for row in mark_table(own).rows]
    return join_table(["scored", "method", *symbols], lines) + describe_origin(result)


def average_columns(rows: Sequence[Mapping[str, Cell]]) -> list[float]:
    """Return the mean of each metric."""
    return [sum(float(row[symbol] or 0) for row in rows) / len(rows) for symbol in SYMBOLS]


def show_figures(values: Sequence[float]) -> list[str]:
    """Return the cells of the six metrics."""
    return [format_figure(value, symbol=symbol) for symbol, value in zip(SYMBOLS, values, strict=True)]


def compare_figures(title: str, measured: Sequence[float], expected: Sequence[float]) -> list[str]:
    """Return a row of figures that others have, each with how far ours lie above it, and the mean of the moduli."""
    gaps = [one - other for one, other in zip(measured, expected, strict=True)]
    cells = [f"{figure} ({gap:+.3f})" for figure, gap in zip(show_figures(expected), gaps, strict=True)]
    return ["", title, *cells, f"{sum(map(abs, gaps)) / len(gaps):.4f}", ""]


def render_ablation(result: Result) -> str:
    """Return the rows of both ablation tables, each above the one that the paper prints, the best measured of a group bold."""
    lines: list[list[str]] = []
    for rows in group_ablations():
        means = [average_columns([row for row in result.list_rows() if row["row"] == one.name]) for one in rows]
        best = [max(f"{value:.4f}" for value in column) for column in zip(*means, strict=True)]
        for one, own in zip(rows, means, strict=True):
            cells = [f"**{cell}**" if cell == top else cell for cell, top in zip(show_figures(own), best, strict=True)]
            printed = ABLATIONS[one.label]
            lines.append([one.full_label, "measured here", *cells])
            lines.append(["", "published", *(format_figure(printed.get(symbol), symbol=symbol) for symbol in SYMBOLS)])
    return join_table(["setting", "figures", *SYMBOLS], lines) + describe_origin(result)


def render_orders(result: Result) -> str:
    """Return how many pairs of rows of each group stand in the printed order, metric by metric, on all pairs and on either half."""
    halves = {"all pairs": (0, 1), "odd pairs": (1,), "even pairs": (0,)}
    lines = []
    for rows in group_ablations():
        cells = []
        for kept in halves.values():
            counted = [row for row in result.list_rows() if int(str(row["pair"])) % 2 in kept]
            cells.append(count_orders(rows, [average_columns([row for row in counted if row["row"] == one.name]) for one in rows]))
        lines.append([rows[0].group or "terms of QFED", *cells])
    return join_table(["group", *halves], lines) + describe_origin(result)


def group_ablations() -> list[tuple[AblationRow, ...]]:
    """Return the rows that the paper compares with each other."""
    return [tuple(rows) for _, rows in groupby((*TERM_ROWS, *SETTING_ROWS), key=lambda row: row.group)]


def count_orders(rows: Sequence[AblationRow], means: Sequence[Sequence[float]]) -> str:
    """Return the number of comparisons of two rows that come out as printed, of how many, and the metrics in which one does not."""
    agreeing, total, wrong = 0, 0, []
    for symbol in ABLATION_SYMBOLS:
        printed = [ABLATIONS[row.label][symbol] for row in rows]
        own = [mean[SYMBOLS.index(symbol)] for mean in means]
        signs = [(printed[a] - printed[b]) * (own[a] - own[b]) > 0 for a, b in combinations(range(len(rows)), 2)]
        agreeing, total = agreeing + sum(signs), total + len(signs)
        wrong += [symbol] * (not all(signs))
    return f"{agreeing} of {total}" + (f" (not in {', '.join(wrong)})" if wrong else "")


def render_floors(part: str) -> str:
    """Return one part of the report of stacks: the present default beside its floors and other programs."""
    present = load_rows(PRESENT)
    return join_table(*tabulate(part, present, load_rows(FLOORS))) + describe_origin(load_result(PRESENT if present else FLOORS))


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
