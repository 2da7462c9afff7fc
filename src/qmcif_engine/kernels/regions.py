"""Regions of a decision map: the nearest marked pixel, the value across the nearest border, and the samples that are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray


@compiled
def _step(distances: NDArray[np.int16], is_marked: BoolArray, farthest: NDArray[np.int16]) -> None:
    """Count one row on: zero where a pixel is marked, else one more, up to the farthest."""
    for x in range(distances.size):
        distances[x] = min(distances[x], farthest[0]) + farthest[1]
        if is_marked[x]:
            distances[x] = 0


@compiled
def _take_nearer(rows: NDArray[np.int16], below: NDArray[np.int16]) -> None:
    for x in range(rows.size):
        rows[x] = -rows[x] if rows[x] <= below[x] else below[x]


@compiled
def _rows_to_marked(is_marked: BoolArray, reach: int) -> NDArray[np.int16]:
    """Return how many rows up (negative) or down the nearest marked pixel of the column lies, up where both are as near.

    Farther ones than the reach count as ``reach + 1`` up.
    """
    h, w = is_marked.shape
    rows = np.empty((h, w), np.int16)
    farthest = np.array([reach, 1], np.int16)
    # nothing marked above the first row: as if beyond the reach
    distances = np.full(w, reach, np.int16)
    for y in range(h):
        _step(distances, is_marked[y], farthest)
        for x in range(w):
            rows[y, x] = distances[x]
    for x in range(w):
        distances[x] = reach
    for y in range(h - 1, -1, -1):
        # a second pass from below; of both distances the smaller one stays, with its sign
        _step(distances, is_marked[y], farthest)
        _take_nearer(rows[y], distances)
    return rows


@compiled
def _square(rows: NDArray[np.int16], out: NDArray[np.int64]) -> None:
    for x in range(rows.size):
        out[x] = np.int64(rows[x]) * np.int64(rows[x])


@compiled
def _nearest_column(squares: NDArray[np.int64], x: int, reach: int) -> int:
    """Return the column of the marked pixel nearest to `x`; -1 where none lies within the reach.

    `squares` are those of a row of `_rows_to_marked`, between as many large numbers as the reach on both sides.
    """
    best, column = reach * reach + 1, -1
    right = squares[x + reach :]
    for shift in range(reach + 1):
        beside = shift * shift
        # columns farther away than the best pixel so far cannot have a nearer one
        if beside >= best:
            break
        on_the_left, on_the_right = beside + squares[x + reach - shift], beside + right[shift]
        if on_the_left < best:
            best, column = on_the_left, x - shift
        if on_the_right < best:
            best, column = on_the_right, x + shift
    return column


@compiled
def take_nearest(values: IndexArray, is_marked: BoolArray, is_asking: BoolArray, reach: int, out: IndexArray) -> None:
    """Give the asking pixels the value of the marked pixel nearest to them, where one lies within the reach; `out` starts as a copy.

    Of several equally near pixels the one in the nearest column counts, then the one on the left, then the upper one: a rule that depends
    on nothing but where they lie.
    """
    rows = _rows_to_marked(is_marked, reach)
    h, w = values.shape
    squares = np.full(w + 2 * reach, reach * reach + 1, np.int64)
    for y in range(h):
        _square(rows[y], squares[reach : reach + w])
        for x in range(w):
            if is_asking[y, x]:
                column = _nearest_column(squares, x, reach)
                if column >= 0:
                    out[y, x] = values[y + rows[y, column], column]


@compiled
def _mark_borders(index: IndexArray) -> BoolArray:
    """Return which pixels have a neighbor of another value above, below, left or right."""
    h, w = index.shape
    is_border = np.zeros((h, w), np.bool_)
    for y in range(h):
        for x in range(w):
            is_right, is_below = x < w - 1 and index[y, x + 1] != index[y, x], y < h - 1 and index[y + 1, x] != index[y, x]
            if is_right:
                is_border[y, x] = is_border[y, x + 1] = True
            if is_below:
                is_border[y, x] = is_border[y + 1, x] = True
    return is_border


@compiled
def _value_across(index: IndexArray, y: int, x: int) -> int:
    """Return another value beside a pixel that has one: right, left, below or above, the first that there is."""
    h, w = index.shape
    value = index[y, x]
    if x < w - 1 and index[y, x + 1] != value:
        return int(index[y, x + 1])
    if x > 0 and index[y, x - 1] != value:
        return int(index[y, x - 1])
    if y < h - 1 and index[y + 1, x] != value:
        return int(index[y + 1, x])
    return int(index[y - 1, x])


@compiled
def take_rivals(index: IndexArray, is_asking: BoolArray, reach: int, out: IndexArray) -> None:
    """Give the asking pixels the value on the other side of the nearest border between values, where one lies within the reach."""
    h, w = index.shape
    rows = _rows_to_marked(_mark_borders(index), reach)
    squares = np.full(w + 2 * reach, reach * reach + 1, np.int64)
    for y in range(h):
        _square(rows[y], squares[reach : reach + w])
        for x in range(w):
            column = _nearest_column(squares, x, reach) if is_asking[y, x] else -1
            if column < 0:
                continue
            row = y + rows[y, column]
            # the nearest pixel at a border may lie on the other side; then it is itself the rival
            out[y, x] = index[row, column] if index[row, column] != index[y, x] else _value_across(index, row, column)


@compiled
def _holds(row: IndexArray, number: IndexArray) -> bool:
    is_found, wanted = False, number[0]
    for x in range(row.size):
        is_found |= row[x] == wanted
    return is_found


@compiled
def _take_row(source: FloatArray, choice: IndexArray, number: IndexArray, out: FloatArray) -> None:
    wanted = number[0]
    for x in range(out.size):
        new, old = source[x], out[x]
        out[x] = new if choice[x] == wanted else old


@compiled
def take_chosen(block: FloatArray, index: IndexArray, number: IndexArray, side: int, out: FloatArray) -> None:
    """Copy the pixels of a block that a map takes from it; most parts of a row hold few of the map's values.

    Parameters
    ----------
    block, out : ndarray of float, shape (c, h, w)
    index : ndarray of uint16, shape (h, w)
    number : ndarray of uint16, shape (1,)
        What stands for the block in the map.
    side : int
        Length of these parts.
    """
    h, w = index.shape
    for y in range(h):
        for left in range(0, w, side):
            right = min(left + side, w)
            # parts of a row: looking for the value is a vector loop, and most parts need no more
            choice = index[y, left:right]
            if _holds(choice, number):
                for c in range(block.shape[0]):
                    _take_row(block[c, y, left:right], choice, number, out[c, y, left:right])
