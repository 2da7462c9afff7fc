"""Rectangles that hold what of an image is wanted: few enough that their margins cost less than what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import BoolArray


def cover(is_wanted: BoolArray, *, side_px: int, margin_px: int) -> list[Window]:
    """Return rectangles of square blocks that hold all wanted ones and do not overlap, counted in blocks.

    The smallest rectangle is cut in two wherever both parts, shrunk to what is wanted of them, cost less than the whole: as many pixels as
    they have with their margins. Each part is cut on in the same way.

    Parameters
    ----------
    is_wanted : ndarray of bool, shape (rows, columns)
    side_px : int
        Side of a block.
    margin_px : int
        What every rectangle needs around it.
    """
    box = _box_of(is_wanted)
    if box is None:
        return []

    def cost(window: Window | None) -> int:
        return 0 if window is None else (window.shape[0] * side_px + 2 * margin_px) * (window.shape[1] * side_px + 2 * margin_px)

    inner, least, halves = is_wanted[box.slices], cost(box), None
    for first, second in _cuts(Window.whole(inner.shape)):
        total = cost(_box_of(inner[first.slices])) + cost(_box_of(inner[second.slices]))
        if total < least:
            least, halves = total, (first, second)
    if halves is None:
        return [box]
    return [
        found.moved(box.top + half.top, box.left + half.left)
        for half in halves
        for found in cover(inner[half.slices], side_px=side_px, margin_px=margin_px)
    ]


def _cuts(window: Window) -> list[tuple[Window, Window]]:
    """Return all ways to cut a rectangle in two."""
    across = [(window._replace(bottom=row), window._replace(top=row)) for row in range(window.top + 1, window.bottom)]
    return across + [(window._replace(right=column), window._replace(left=column)) for column in range(window.left + 1, window.right)]


def _box_of(is_wanted: BoolArray) -> Window | None:
    """Return the smallest rectangle that holds everything wanted."""
    rows, columns = (np.flatnonzero(is_wanted.any(axis=axis)) for axis in (1, 0))
    return Window(int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1) if rows.size else None
