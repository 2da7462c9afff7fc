"""One set of the HTML report: a strip of small images, and enlarged places where they differ."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from qmcif_engine.comparison.crops import Place, find_places
from qmcif_engine.comparison.report_images import INDEX_COLORS, color_index, encode_data_uri, read_eight_bit, shrink
from qmcif_engine.comparison.runner import fused_path, index_path
from qmcif_engine.io.input.readers import read_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    from qmcif_engine.comparison.datasets import ImageSet
    from qmcif_engine.comparison.methods import Method
    from qmcif_engine.comparison.report import Comparison

    _Named: TypeAlias = tuple[str, NDArray[np.uint8]]

THUMBNAIL_SIDE_PX = 320
# JPEG qualities: thumbnails only show which image it is, crops are what one judges by
THUMBNAIL_QUALITY = 82
CROP_QUALITY = 93
N_SHOWN_SOURCES = 6
"""Of larger stacks the first ones are shown."""


def draw_set(comparison: Comparison, image_set: ImageSet) -> str:
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
