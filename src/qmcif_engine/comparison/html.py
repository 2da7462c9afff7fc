"""A comparison as one HTML page that needs no other file and no network, with plots and enlarged places."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple, TypeAlias

import cv2
import imagecodecs
import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.datasets import ImageSet, read_eight_bit
from qmcif_engine.comparison.report import Comparison, describe_comparison, head_inner, list_notes, name_symbol
from qmcif_engine.comparison.runner import fused_path, index_path
from qmcif_engine.comparison.tables import ComparisonTable, Mark, Origin, TableRow, build_set_table
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
"""Colors of the sources in an index map, distinct to color-blind readers too (Okabe and Ito 2008); they repeat after eight."""

_MARGIN_SHARE = 0.12
"""How far below the shortest bar the axis begins, as a share of the spread: this bar can be seen too."""

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
    heads, rows = comparison.list_scores()
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
        heads=_draw_heads(heads),
        scores="".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows),
    )


def head_symbol(symbol: str) -> str:
    """Return the heading of a column, with the index of Q_MI set low."""
    base, separator, index = symbol.partition("_")
    return f"{escape(base)}<sub>{escape(index)}</sub>" if separator and base == "Q" else escape(name_symbol(symbol))


def _draw_heads(symbols: Sequence[str]) -> str:
    return "".join(f'<th scope="col">{head_symbol(symbol)}</th>' for symbol in symbols)


def _draw_table(table: ComparisonTable) -> str:
    lines = []
    kind = "published"
    for row in table.rows:
        # a line is drawn above the first published row, unless the table begins with it
        before, kind = kind, _kind(row)
        border = " first-published" if kind == "published" != before else ""
        cells = "".join(_draw_cell(row.show(symbol), row.marks.get(symbol, Mark.NONE)) for symbol in table.symbols)
        origin = f'<td><span class="origin">{row.origin}</span></td>'
        lines.append(f'<tr class="{kind}{border}"><td>{escape(row.label)}</td>{origin}{cells}</tr>')
    heads = _draw_heads(("method", "figures", *table.symbols))
    return f'<div class="card wide"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _kind(row: TableRow) -> str:
    if row.origin is Origin.PUBLISHED:
        return "published"
    return "ours" if row.is_fused_here else "other"


def _draw_cell(text: str, mark: Mark) -> str:
    shown = {Mark.BEST: f"<b>{text}</b>", Mark.SECOND: f"<i>{text}</i>", Mark.NONE: text}[mark]
    return f'<td class="{mark}">{shown}</td>' if mark else f"<td>{shown}</td>"


def _draw_key(table: ComparisonTable) -> str:
    kinds = {_kind(row) for row in table.rows}
    names = {"ours": "fused and measured here", "other": "another program’s images, measured here", "published": "published in the paper"}
    return "".join(f'<span class="origin {kind}">{name}</span>' for kind, name in names.items() if kind in kinds)


def _draw_set(comparison: Comparison, image_set: ImageSet) -> str:
    """Return the section of one set as HTML."""
    sources = [(f"input {number}", read_eight_bit(path)) for number, path in enumerate(image_set.sources[:N_SHOWN_SOURCES], start=1)]
    truth = [] if image_set.truth is None else [("truth", read_eight_bit(image_set.truth))]
    fused = [(method.label, read_eight_bit(fused_path(comparison.folder, method, image_set))) for method in comparison.methods]
    reason, compared = _choose_compared(sources, truth=truth, fused=fused)
    places = find_places([image for _, image in compared])
    thumbnails = [_draw_thumbnail(name, image) for name, image in [*sources, *truth]]
    for method, (label, image) in zip(comparison.methods, fused, strict=True):
        boxes = "".join(_draw_box(letter, place, shape=image.shape) for letter, place in zip("AB", places, strict=False))
        thumbnails.append(_draw_thumbnail(label, image, caption=f"<strong>{escape(label)}</strong>", boxes=boxes))
        if method.settings is not None:
            index = read_image(index_path(comparison.folder, method, image_set)).samples.astype(np.intp)
            colored = INDEX_COLORS[index % len(INDEX_COLORS)]
            swatches = _draw_swatches(len(image_set.sources))
            thumbnails.append(_draw_thumbnail(f"source index of {label}", colored, caption=f"source index: {swatches}"))
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


def _draw_thumbnail(name: str, image: NDArray[np.uint8], *, caption: str = "", boxes: str = "") -> str:
    factor = max(1, max(image.shape[:2]) / THUMBNAIL_SIDE_PX)
    height, width = (max(1, round(side / factor)) for side in image.shape[:2])
    small = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    uri = encode_data_uri(small, quality=THUMBNAIL_QUALITY)
    picture = f'<div class="thumb"><img alt="{escape(name)}" src="{uri}">{boxes}</div>'
    return f"<figure>{picture}<figcaption>{caption or escape(name)}</figcaption></figure>"


def _draw_swatches(n_sources: int) -> str:
    return "".join(
        f'<span class="swatch" style="background:rgb({red},{green},{blue})"></span>{number}'
        for number, (red, green, blue) in enumerate(INDEX_COLORS[:n_sources].tolist(), start=1)
    )


def _draw_box(letter: str, place: Place, *, shape: tuple[int, ...]) -> str:
    height, width = shape[:2]
    # in percent of the thumbnail, whatever size the browser shows it in
    shares = {
        "left": place.column / width,
        "top": place.row / height,
        "width": place.side_px / width,
        "height": place.side_px / height,
    }
    style = ";".join(f"{name}:{share:.2%}" for name, share in shares.items())
    return f'<div class="box" style="{style}"><span>{letter}</span></div>'


def _draw_place(letter: str, place: Place, *, images: Sequence[_Named]) -> str:
    figures = "".join(
        f'<figure class="crop"><img alt="{letter}, {escape(name)}" src="{encode_data_uri(place.cut(image), quality=CROP_QUALITY)}">'
        f"<figcaption>{letter}: {escape(name)}</figcaption></figure>"
        for name, image in images
    )
    return f'<div class="strip">{figures}</div>'


def encode_data_uri(image: NDArray[np.uint8], *, quality: int) -> str:
    """Return the image as a JPEG data URI, so that a page needs no further file.

    Parameters
    ----------
    image : ndarray of uint8, shape (H, W) or (H, W, 3)
    quality : int
        1 to 100.
    """
    # colors at full resolution: halved ones would smear what crops are to show
    encoded = imagecodecs.jpeg8_encode(np.ascontiguousarray(image), level=quality, subsampling="444")
    return f"data:image/jpeg;base64,{base64.b64encode(encoded).decode('ascii')}"


def draw_bars(table: ComparisonTable, symbol: str) -> str:
    """Return the bars of one column as HTML, the best on top.

    The bars do not begin at zero, or the differences that matter would not be seen; the line below them states where they begin.
    """
    rows = [(value, row) for row in table.rows if (value := row.means.get(symbol)) is not None]
    rows.sort(key=lambda item: -item[0])
    low, high = begin_axis([value for value, _ in rows]), rows[0][0]
    lines = [
        f'<div class="row {_kind(row)}" title="{escape(row.label)} ({row.origin}): {row.show(symbol)}">'
        f'<span class="label">{escape(row.label)}</span>'
        f'<span class="track"><span class="bar" style="width:{(value - low) / (high - low):.2%}"></span></span>'
        f'<span class="value {row.marks.get(symbol, Mark.NONE)}">{row.show(symbol)}</span></div>'
        for value, row in rows
    ]
    return f'<div class="bars">{"".join(lines)}<div class="axis">bars begin at {low:g}</div></div>'


def begin_axis(values: Sequence[float]) -> float:
    """Return a round number below the shortest bar."""
    least, most = min(values), max(values)
    # equal bars, and bars of 0, still need an axis
    span = (most - least) or abs(most) * 0.1 or 1.0
    step = 10.0 ** math.floor(math.log10(span * _MARGIN_SHARE))
    return math.floor((least - _MARGIN_SHARE * span) / step) * step


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
