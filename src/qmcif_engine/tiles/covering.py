"""Rectangles that hold what of an image is wanted: few enough that their margins cost less than what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray


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
    # from here on what is not wanted around it is off
    inner = is_wanted[box.slices]
    n_rows = len(inner) - 1
    sizes = {"side_px": side_px, "margin_px": margin_px}
    # cuts between rows, then cuts between columns of the same rectangle
    totals = np.concatenate([_price_cuts(inner, **sizes), _price_cuts(inner.T, **sizes)])
    cut = int(np.argmin(totals)) if totals.size else 0
    # a single block cannot be cut, and a cut that saves nothing only costs margins
    if not totals.size or totals[cut] >= _price(np.array(inner.shape), **sizes):
        return [box]
    whole = Window.whole(inner.shape)
    if cut < n_rows:
        halves = whole._replace(bottom=cut + 1), whole._replace(top=cut + 1)
    else:
        halves = whole._replace(right=cut - n_rows + 1), whole._replace(left=cut - n_rows + 1)
    return [found.moved(box.top + half.top, box.left + half.left) for half in halves for found in cover(inner[half.slices], **sizes)]


def _price(sides: NDArray[np.int64], *, side_px: int, margin_px: int) -> NDArray[np.int64]:
    """Return what rectangles cost whose height and width, in blocks, are the rows of `sides`."""
    height, width = sides * side_px + 2 * margin_px
    cost: NDArray[np.int64] = height * width
    return cost


def _price_cuts(is_wanted: BoolArray, **sizes: int) -> NDArray[np.int64]:
    """Return what both parts cost together, shrunk to what is wanted of them, for a cut below each row but the last."""
    # all cuts at once: prices of what lies above each row, and, from below, of what lies under it
    above, below = _price(_grow(is_wanted), **sizes), _price(_grow(is_wanted[::-1]), **sizes)[::-1]
    totals: NDArray[np.int64] = above[:-1] + below[1:]
    return totals


def _grow(is_wanted: BoolArray) -> NDArray[np.int64]:
    """Return height and width of the smallest rectangle that holds all wanted blocks down to each row; the first row has some."""
    n_rows, n_columns = is_wanted.shape
    is_filled = is_wanted.any(axis=1)
    # rows without anything wanted must not widen the rectangle: their first lies beyond the last column, their last at 0
    first = np.where(is_filled, is_wanted.argmax(axis=1), n_columns)
    last = np.where(is_filled, n_columns - is_wanted[:, ::-1].argmax(axis=1), 0)
    height = np.maximum.accumulate(np.where(is_filled, np.arange(1, n_rows + 1), 0))
    return np.stack([height, np.maximum.accumulate(last) - np.minimum.accumulate(first)])


def _box_of(is_wanted: BoolArray) -> Window | None:
    """Return the smallest rectangle that holds everything wanted."""
    rows, columns = (np.flatnonzero(is_wanted.any(axis=axis)) for axis in (1, 0))
    return Window(int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1) if rows.size else None
