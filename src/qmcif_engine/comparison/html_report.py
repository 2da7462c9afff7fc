"""A comparison as one HTML page that needs no other file and no network."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from qmcif_engine.comparison.html_sets import draw_set
from qmcif_engine.comparison.plots import draw_bars
from qmcif_engine.comparison.report import describe_comparison, head_inner, list_notes, name_symbol
from qmcif_engine.comparison.tables import Mark, Origin, build_set_table, format_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qmcif_engine.comparison.report import Comparison
    from qmcif_engine.comparison.tables import ComparisonTable, TableRow


def write_html(comparison: Comparison, *, progress: Callable[[int, int], None]) -> str:
    """Return the report as HTML; every text from outside is escaped, every image is inside.

    Parameters
    ----------
    comparison : Comparison
    progress : callable
        Receives the sets drawn and the sets in all.
    """
    title = f"{comparison.dataset.name}: comparison of fusion methods"
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    table = comparison.table
    sections = []
    for number, image_set in enumerate(comparison.dataset.sets, start=1):
        sections.append(draw_set(comparison, image_set))
        progress(number, len(comparison.dataset.sets))
    body = [
        f"<h1>{escape(title)}</h1>",
        _draw_facts(comparison),
        "<h2>Means</h2>",
        _draw_table(table),
        _draw_notes(comparison),
        *_draw_inner(comparison),
        *_draw_bars(comparison, table),
        "<h2>Set by set</h2>",
        '<p class="lead">Inputs, the truth where there is one, and each method’s image. Boxes mark the places shown enlarged below.</p>',
        *sections,
        _draw_scores(comparison),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def head_symbol(symbol: str) -> str:
    """Return the heading of a column, with the index of Q_MI set low."""
    base, separator, index = symbol.partition("_")
    return f"{escape(base)}<sub>{escape(index)}</sub>" if separator and base == "Q" else escape(name_symbol(symbol))


def _draw_facts(comparison: Comparison) -> str:
    facts = [
        f"<dt>{escape(heading)}</dt><dd>{f'<code>{escape(text)}</code>' if heading == 'Command' else escape(text)}</dd>"
        for heading, text in describe_comparison(comparison).items()
    ]
    return f'<dl class="card">{"".join(facts)}</dl>'


def _draw_table(table: ComparisonTable) -> str:
    heads = "".join(f'<th scope="col">{head_symbol(symbol)}</th>' for symbol in table.symbols)
    kinds = [_kind(row) for row in table.rows]
    lines = []
    # a line is drawn above the first published row, unless the table begins with it: hence "published" before the first
    for row, marks, kind, before in zip(table.rows, table.marks, kinds, ["published", *kinds], strict=False):
        is_border = kind == "published" != before
        cells = "".join(_draw_cell(row, symbol, marks) for symbol in table.symbols)
        lines.append(
            f'<tr class="{kind}{" first-published" if is_border else ""}"><td>{escape(row.label)}</td>'
            f'<td><span class="origin">{row.origin}</span></td>{cells}</tr>'
        )
    return (
        f'<div class="card wide"><table><thead><tr><th scope="col">method</th><th scope="col">figures</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(row: TableRow) -> str:
    if row.origin is Origin.PUBLISHED:
        return "published"
    return "ours" if row.is_fused_here else "other"


def _draw_cell(row: TableRow, symbol: str, marks: Mapping[str, Mark]) -> str:
    text = format_figure(row.means.get(symbol), symbol=symbol)
    shown = {Mark.BEST: f"<b>{text}</b>", Mark.SECOND: f"<i>{text}</i>", Mark.NONE: text}[marks[symbol]]
    return f'<td class="{marks[symbol]}">{shown}</td>' if marks[symbol] else f"<td>{shown}</td>"


def _draw_notes(comparison: Comparison) -> str:
    notes = list_notes(comparison)
    if len(comparison.table.rows) > 1:
        notes.insert(0, "The best figure of a column stands on a warm ground, the second best is underlined.")
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>'


def _draw_inner(comparison: Comparison) -> list[str]:
    """Show the means without the border, where they were asked for."""
    if comparison.border_px is None:
        return []
    return [f"<h2>{head_inner(comparison.border_px)}</h2>", _draw_table(comparison.inner_table)]


def _draw_bars(comparison: Comparison, table: ComparisonTable) -> list[str]:
    """Compare the methods; of a single one, show the sets."""
    if len(table.rows) > 1:
        return ["<h2>Bars</h2>", _draw_plots(table)]
    return ["<h2>Bars, one per set</h2>", _draw_plots(build_set_table(comparison.scores))]


def _draw_plots(table: ComparisonTable) -> str:
    kinds = {_kind(row) for row in table.rows}
    names = {"ours": "fused and measured here", "other": "another program’s images, measured here", "published": "published in the paper"}
    key = "".join(f'<span class="origin {kind}">{name}</span>' for kind, name in names.items() if kind in kinds)
    plots = "".join(f'<div class="card"><h3>{head_symbol(symbol)}</h3>{draw_bars(table, symbol)}</div>' for symbol in table.symbols)
    return f'<p class="lead">Bars begin where their axis does, not at zero.</p><div class="key">{key}</div><div class="plots">{plots}</div>'


def _draw_scores(comparison: Comparison) -> str:
    symbols = [symbol for symbol in comparison.table.symbols if any(score.figures.get(symbol) is not None for score in comparison.scores)]
    label_of = {method.name: method.label for method in comparison.methods}
    heads = "".join(f'<th scope="col">{head_symbol(symbol)}</th>' for symbol in symbols)
    lines = []
    for score in comparison.scores:
        cells = "".join(f"<td>{format_figure(score.figures.get(symbol), symbol=symbol)}</td>" for symbol in symbols)
        lines.append(f"<tr><td>{escape(score.set_name)}</td><td>{escape(label_of[score.method])}</td>{cells}</tr>")
    head = f'<thead><tr><th scope="col">set</th><th scope="col">method</th>{heads}</tr></thead>'
    return (
        "<h2>All figures</h2><details><summary>Every set and method (scores.csv has more digits)</summary>"
        f'<div class="card wide"><table>{head}<tbody>{"".join(lines)}</tbody></table></div></details>'
    )
