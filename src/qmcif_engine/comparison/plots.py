"""Bar plots as SVG that stands inside a page."""

from __future__ import annotations

import math
from html import escape

from qmcif_engine.comparison.tables import ComparisonTable, Mark, Origin, TableRow, format_figure

# in units of the view box, which the page scales; labels stand left of the bars, figures right of them
_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH = 420, 128, 52
_BAR_HEIGHT, _BAR_PITCH = 13, 19
_TOP, _BOTTOM = 6, 24
_MARGIN_SHARE = 0.12
_LONGEST_LABEL = 20
_N_TICKS = 4


def draw_bars(table: ComparisonTable, symbol: str) -> str:
    """Return the bars of one column as SVG, the best on top.

    The bars do not begin at zero, or the differences that matter would not be seen; the axis below them says where they begin.
    """
    rows = [
        (row, marks[symbol], value)
        for row, marks in zip(table.rows, table.marks, strict=True)
        if (value := row.means.get(symbol)) is not None
    ]
    rows.sort(key=lambda item: -item[2])
    low, high, step = choose_axis([value for _, _, value in rows])
    bottom = _TOP + _BAR_PITCH * len(rows)

    def place(value: float) -> float:
        return _LABEL_WIDTH + (value - low) / (high - low) * (_WIDTH - _LABEL_WIDTH - _VALUE_WIDTH)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" aria-label="{escape(symbol)} of all methods">']
    for number in range(round((high - low) / step) + 1):
        tick = low + number * step
        parts.append(f'<line class="grid" x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="{_TOP - 3}" y2="{bottom + 2}"/>')
        parts.append(f'<text class="tick" x="{place(tick):.1f}" y="{bottom + 15}">{_format_tick(tick, step)}</text>')
    for number, (row, mark, value) in enumerate(rows):
        parts.append(_draw_bar(row, mark, y=_TOP + number * _BAR_PITCH, end=place(value), text=format_figure(value, symbol=symbol)))
    return "".join([*parts, "</svg>"])


def choose_axis(values: list[float]) -> tuple[float, float, float]:
    """Return where the axis begins and ends and the distance of its ticks, a round number of which lies between."""
    least, most = min(values), max(values)
    # equal bars, and bars of 0, still need an axis
    span = (most - least) or abs(most) * 0.1 or 1.0
    raw = span * (1 + _MARGIN_SHARE) / _N_TICKS
    power = 10 ** math.floor(math.log10(raw))
    # 0.999: a rounding error must not take the next larger step
    step = next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999) * power
    # begins below the shortest bar, so that this one can be seen too
    low = math.floor((least - _MARGIN_SHARE * span) / step) * step
    high = math.ceil(most / step) * step
    return low, high if high > low else low + step, step


def _format_tick(tick: float, step: float) -> str:
    # one digit more than the step has, for steps of 2.5
    decimals = max(0, 1 - math.floor(math.log10(step)))
    text = f"{tick:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _draw_bar(row: TableRow, mark: Mark, *, y: float, end: float, text: str) -> str:
    kind = "published" if row.origin is Origin.PUBLISHED else "ours" if row.is_fused_here else "other"
    label = row.label if len(row.label) <= _LONGEST_LABEL else f"{row.label[: _LONGEST_LABEL - 1]}…"
    middle = y + _BAR_HEIGHT - 2.5
    return (
        f"<g><title>{escape(row.label)} ({row.origin}): {text}</title>"
        f'<text class="label {kind}" x="{_LABEL_WIDTH - 7}" y="{middle}">{escape(label)}</text>'
        f'<rect class="bar {kind}" x="{_LABEL_WIDTH}" y="{y}" width="{max(end - _LABEL_WIDTH, 0.5):.1f}" height="{_BAR_HEIGHT}" rx="2"/>'
        f'<text class="value {mark}" x="{end + 5:.1f}" y="{middle}">{text}</text></g>'
    )
