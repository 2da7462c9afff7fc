"""A comparison as one HTML page that needs no other file and no network, with plots and enlarged places."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple, TypeAlias

import imagecodecs
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.datasets import ImageSet
from qmcif_engine.comparison.images import read_eight_bit
from qmcif_engine.comparison.methods import Method
from qmcif_engine.comparison.report import Comparison, describe_comparison, head_inner, list_notes, list_symbols, name_symbol
from qmcif_engine.comparison.runner import fused_path, index_path
from qmcif_engine.comparison.tables import ComparisonTable, Mark, Origin, TableRow, build_set_table, format_figure
from qmcif_engine.io.input.open import read_image

_Named: TypeAlias = tuple[str, NDArray[np.uint8]]

THUMBNAIL_SIDE_PX = 320
# JPEG qualities: thumbnails only show which image it is, crops are what one judges by
THUMBNAIL_QUALITY = 82
CROP_QUALITY = 93
N_SHOWN_SOURCES = 6
"""Of larger stacks the first ones are shown."""

INDEX_COLORS = np.array(
    [(0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66), (90, 90, 90)], np.uint8
)
"""Colors of the sources in an index map, told apart by color-blind readers too (Okabe and Ito 2008); they repeat after eight."""

# in units of the view box, which the page scales; labels stand left of the bars, figures right of them
_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH = 420, 128, 52
_BAR_HEIGHT, _BAR_PITCH = 13, 19
_TOP, _BOTTOM = 6, 24
_MARGIN_SHARE = 0.12
_LONGEST_LABEL = 20
_N_TICKS = 4

N_PLACES = 2
BORDER_PX = 8
"""Width of the border left out: the dark borders that software left in some data sets would win everywhere."""

# large enough to recognize the place, small enough for a row of methods side by side
_SMALLEST_SIDE_PX, _LARGEST_SIDE_PX = 48, 160
_SHARE_OF_IMAGE = 1 / 8
_SMALLEST_SPREAD = 1e-6
"""Rounding of the running mean leaves less than this where nothing differs; one gray level at one pixel leaves more."""


def write_html(comparison: Comparison, *, progress: Callable[[int, int], None]) -> str:
    """Return the report as HTML; every text from outside is escaped, every image is inside.

    Parameters
    ----------
    comparison : Comparison
    progress : callable
        Receives the sets drawn and the sets in all.
    """
    sets = []
    for number, image_set in enumerate(comparison.dataset.sets, start=1):
        sets.append(_draw_set(comparison, image_set))
        progress(number, len(comparison.dataset.sets))
    table = comparison.table
    # the methods are compared; of a single one, the sets are shown
    is_compared = len(table.rows) > 1
    plotted = table if is_compared else build_set_table(comparison.scores)
    symbols = list_symbols(comparison)
    notes = ["The best figure of a column stands on a warm ground, the second best is underlined."] * is_compared + list_notes(comparison)
    inner = "" if comparison.border_px is None else f"<h2>{head_inner(comparison.border_px)}</h2>\n{_draw_table(comparison.inner_table)}"
    return Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{comparison.dataset.name}: comparison of fusion methods"),
        facts="".join(
            f"<dt>{escape(heading)}</dt><dd>{f'<code>{escape(text)}</code>' if heading == 'Command' else escape(text)}</dd>"
            for heading, text in describe_comparison(comparison).items()
        ),
        means=_draw_table(table),
        notes="".join(f"<li>{escape(note)}</li>" for note in notes),
        inner=inner,
        bars_heading="Bars" if is_compared else "Bars, one per set",
        key=_draw_key(plotted),
        plots="".join(f'<div class="card"><h3>{head_symbol(symbol)}</h3>{draw_bars(plotted, symbol)}</div>' for symbol in plotted.symbols),
        sets="\n".join(sets),
        heads="".join(f'<th scope="col">{head_symbol(symbol)}</th>' for symbol in symbols),
        scores="".join(_draw_scores(comparison, symbols)),
    )


def head_symbol(symbol: str) -> str:
    """Return the heading of a column, with the index of Q_MI set low."""
    base, separator, index = symbol.partition("_")
    return f"{escape(base)}<sub>{escape(index)}</sub>" if separator and base == "Q" else escape(name_symbol(symbol))


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


def _draw_key(table: ComparisonTable) -> str:
    kinds = {_kind(row) for row in table.rows}
    names = {"ours": "fused and measured here", "other": "another program’s images, measured here", "published": "published in the paper"}
    return "".join(f'<span class="origin {kind}">{name}</span>' for kind, name in names.items() if kind in kinds)


def _draw_scores(comparison: Comparison, symbols: Sequence[str]) -> Iterator[str]:
    label_of = {method.name: method.label for method in comparison.methods}
    for score in comparison.scores:
        cells = "".join(f"<td>{format_figure(score.figures.get(symbol), symbol=symbol)}</td>" for symbol in symbols)
        yield f"<tr><td>{escape(score.set_name)}</td><td>{escape(label_of[score.method])}</td>{cells}</tr>"


def _draw_set(comparison: Comparison, image_set: ImageSet) -> str:
    """Return the section of one set as HTML."""
    sources = [(f"input {number}", read_eight_bit(path)) for number, path in enumerate(image_set.sources[:N_SHOWN_SOURCES], start=1)]
    truth = [] if image_set.truth is None else [("truth", read_eight_bit(image_set.truth))]
    fused = [(method.label, read_eight_bit(fused_path(comparison.folder, method, image_set))) for method in comparison.methods]
    reason, compared = _choose_compared(sources, truth=truth, fused=fused)
    places = find_places([image for _, image in compared])
    thumbnails = [_draw_thumbnail(name, image) for name, image in [*sources, *truth]]
    for method, (label, image) in zip(comparison.methods, fused, strict=True):
        thumbnails.append(_draw_thumbnail(label, image, places=places, is_result=True))
        if method.settings is not None:
            thumbnails.append(_draw_index(comparison, method, image_set=image_set))
    rows = [_draw_place(letter, place, images=[*sources, *truth, *fused]) for letter, place in zip("AB", places, strict=False)]
    heading = f"<h4>{reason}</h4>" if rows else "<h4>The images are equal everywhere; nothing is enlarged</h4>"
    n_hidden = len(image_set.sources) - len(sources)
    hidden = f'<p class="lead">{n_hidden} more inputs are not shown.</p>' if n_hidden else ""
    strip = f'<div class="strip">{"".join(thumbnails)}</div>'
    enlarged = f'<div class="places">{"".join(rows)}</div>'
    return f'<section class="card"><h3>{escape(image_set.name)}</h3>{strip}{hidden}{heading}{enlarged}</section>'


def _choose_compared(sources: Sequence[_Named], *, truth: Sequence[_Named], fused: Sequence[_Named]) -> tuple[str, Sequence[_Named]]:
    """Compare the methods; a single one with the truth; and without a truth show where the inputs differ, since it had to choose there."""
    if len(fused) > 1:
        return "Where the methods differ most", fused
    if truth:
        return "Where the image differs most from the truth", [*fused, *truth]
    return "Where the inputs differ most", sources


def _draw_thumbnail(name: str, image: NDArray[np.uint8], *, places: Sequence[Place] = (), is_result: bool = False) -> str:
    uri = encode_data_uri(shrink(image, longest_side_px=THUMBNAIL_SIDE_PX), quality=THUMBNAIL_QUALITY)
    boxes = "".join(_draw_box(letter, place, shape=image.shape) for letter, place in zip("AB", places, strict=False))
    caption = f"<strong>{escape(name)}</strong>" if is_result else escape(name)
    return f'<figure><div class="thumb"><img alt="{escape(name)}" src="{uri}">{boxes}</div><figcaption>{caption}</figcaption></figure>'


def _draw_box(letter: str, place: Place, *, shape: tuple[int, ...]) -> str:
    height, width = shape[:2]
    # in percent of the thumbnail, whatever size the browser shows it in
    left, top = 100 * place.column / width, 100 * place.row / height
    across, down = 100 * place.side_px / width, 100 * place.side_px / height
    style = f"left:{left:.2f}%;top:{top:.2f}%;width:{across:.2f}%;height:{down:.2f}%"
    return f'<div class="box" style="{style}"><span>{letter}</span></div>'


def _draw_index(comparison: Comparison, method: Method, *, image_set: ImageSet) -> str:
    index = read_image(index_path(comparison.folder, method, image_set)).samples
    uri = encode_data_uri(shrink(color_index(index), longest_side_px=THUMBNAIL_SIDE_PX), quality=THUMBNAIL_QUALITY)
    swatches = "".join(
        f'<span class="swatch" style="background:rgb({red},{green},{blue})"></span>{number}'
        for number, (red, green, blue) in enumerate(INDEX_COLORS[: len(image_set.sources)].tolist(), start=1)
    )
    caption = f"source index: {swatches}"
    alt = f"source index of {method.label}"
    return f'<figure><div class="thumb"><img alt="{escape(alt)}" src="{uri}"></div><figcaption>{caption}</figcaption></figure>'


def _draw_place(letter: str, place: Place, *, images: Sequence[_Named]) -> str:
    figures = "".join(
        f'<figure class="crop"><img alt="{letter}, {escape(name)}" src="{encode_data_uri(place.cut(image), quality=CROP_QUALITY)}">'
        f"<figcaption>{letter}: {escape(name)}</figcaption></figure>"
        for name, image in images
    )
    return f'<div class="strip">{figures}</div>'


def shrink(image: NDArray[np.uint8], *, longest_side_px: int) -> NDArray[np.uint8]:
    """Shrink by a whole factor, averaging blocks, until no side is longer.

    Parameters
    ----------
    image : ndarray of uint8, shape (H, W) or (H, W, 3)
    longest_side_px : int

    Returns
    -------
    ndarray of uint8, shape (h, w) or (h, w, 3)
        Rows and columns that fill no block are cut off.
    """
    # rounded up
    factor = max(1, -(-max(image.shape[:2]) // longest_side_px))
    height, width = (max(1, side // factor) for side in image.shape[:2])
    kept = image[: height * factor, : width * factor]
    # a side shorter than the factor is averaged as a whole
    rows, columns = min(factor, image.shape[0]), min(factor, image.shape[1])
    blocks = kept.reshape(height, rows, width, columns, -1)
    means: NDArray[np.uint8] = np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
    return means.reshape(height, width, *image.shape[2:])


def color_index(source_index: NDArray[Any]) -> NDArray[np.uint8]:
    """Show which source each pixel was taken from.

    Parameters
    ----------
    source_index : ndarray of int, shape (H, W)

    Returns
    -------
    ndarray of uint8, shape (H, W, 3)
    """
    return np.take(INDEX_COLORS, source_index % len(INDEX_COLORS), axis=0)


def encode_data_uri(image: NDArray[np.uint8], *, quality: int) -> str:
    """Return the image as a JPEG data URI, so that a page needs no further file.

    Parameters
    ----------
    image : ndarray of uint8, shape (H, W) or (H, W, 3)
    quality : int
        1 to 100.
    """
    # colors at full resolution: halved ones would smear just what crops are looked at for
    encoded = imagecodecs.jpeg8_encode(np.ascontiguousarray(image), level=quality, subsampling="444")
    return f"data:image/jpeg;base64,{base64.b64encode(encoded).decode('ascii')}"


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
    kind = _kind(row)
    label = row.label if len(row.label) <= _LONGEST_LABEL else f"{row.label[: _LONGEST_LABEL - 1]}…"
    middle = y + _BAR_HEIGHT - 2.5
    return (
        f"<g><title>{escape(row.label)} ({row.origin}): {text}</title>"
        f'<text class="label {kind}" x="{_LABEL_WIDTH - 7}" y="{middle}">{escape(label)}</text>'
        f'<rect class="bar {kind}" x="{_LABEL_WIDTH}" y="{y}" width="{max(end - _LABEL_WIDTH, 0.5):.1f}" height="{_BAR_HEIGHT}" rx="2"/>'
        f'<text class="value {mark}" x="{end + 5:.1f}" y="{middle}">{text}</text></g>'
    )


class Place(NamedTuple):
    """A square window of an image: its upper left corner and its side."""

    row: int
    column: int
    side_px: int

    def cut(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the window of an image, shape (side, side) or (side, side, 3)."""
        return image[self.row : self.row + self.side_px, self.column : self.column + self.side_px]


def find_places(images: Sequence[NDArray[np.uint8]], *, n_places: int = N_PLACES) -> list[Place]:
    """Find the windows with the largest mean spread between the images, the largest first, without overlap.

    Parameters
    ----------
    images : sequence of ndarray of uint8, shape (H, W) or (H, W, 3)
        Two or more of one scene.
    n_places : int
        How many to return at most.

    Returns
    -------
    list of Place
        Fewer where the image has no room for more; none where the images are equal.

    Notes
    -----
    The spread of a pixel is its largest minus its smallest sample over the images, largest over the channels.
    """
    spread = _measure_spread(images)
    shortest = min(spread.shape)
    side = min(shortest, int(np.clip(shortest * _SHARE_OF_IMAGE, _SMALLEST_SIDE_PX, _LARGEST_SIDE_PX)))
    if shortest >= side + 2 * BORDER_PX:
        # zeros in place of the border keep the coordinates of the image
        spread = np.pad(spread[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX], BORDER_PX)
    means = ndimage.uniform_filter(spread, side, mode="constant")
    before = side // 2
    # only windows that lie in the image, indexed by their upper left corner
    means = means[before : before + spread.shape[0] - side + 1, before : before + spread.shape[1] - side + 1]
    places: list[Place] = []
    while len(places) < n_places and means.max() > _SMALLEST_SPREAD:
        row, column = (int(position) for position in np.unravel_index(np.argmax(means), means.shape))
        places.append(Place(row, column, side))
        # all windows that would overlap this one are out
        means[max(0, row - side + 1) : row + side, max(0, column - side + 1) : column + side] = 0
    return places


def _measure_spread(images: Sequence[NDArray[np.uint8]]) -> FloatArray:
    """Keep running extremes, so that many large images need no more memory than three."""
    low, high = images[0], images[0]
    for image in images[1:]:
        low, high = np.minimum(low, image), np.maximum(high, image)
    spread = (high - low).astype(np.float64)
    return spread.max(axis=2) if spread.ndim == 3 else spread
