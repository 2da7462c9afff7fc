"""Sums, counts and comparisons over the square window around each pixel; the image continues by reflection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

CELL_PX = 64
"""Side of the squares in which counting looks for a reason to count: most of a decision map is even."""


@compiled
def reflected(position: int, length: int) -> int:
    """Return the position inside a line whose border pixel repeats."""
    # reflection has a period of twice the length: forth and back
    position %= 2 * length
    return position if position < length else 2 * length - 1 - position


@compiled
def slide(sums: FloatArray, side: int, scale: float, out: FloatArray) -> None:
    """Put `scale` times the sum of `side` neighbors, from each position on, into `out`, which is ``side - 1`` shorter than `sums`."""
    total = 0.0
    for x in range(side):
        total += sums[x]
    out[0] = total * scale
    heads, later = sums[side:], out[1:]
    for x in range(later.size):
        total += heads[x] - sums[x]
        later[x] = total * scale


@compiled
def _exchange(sums: FloatArray, entering: FloatArray, leaving: FloatArray) -> None:
    for x in range(sums.size):
        sums[x] += np.float64(entering[x]) - np.float64(leaving[x])


@compiled
def box_mean(plane: FloatArray, side: int, scale: float, out: FloatArray) -> None:
    """Put `scale` times the mean over the window around each pixel into `out`; sums are running ones in float64."""
    h, w = plane.shape
    radius = side // 2
    sums = np.zeros(w + 2 * radius)
    inner = sums[radius : radius + w]
    # the window of the row before the first, so that the loop begins by exchanging a row
    for y in range(-radius - 1, radius):
        row = plane[reflected(y, h)]
        for x in range(w):
            inner[x] += row[x]
    for y in range(h):
        _exchange(inner, plane[reflected(y + radius, h)], plane[reflected(y - radius - 1, h)])
        for x in range(radius):
            # columns are summed already, so reflection across is a copy of few sums
            sums[x] = inner[reflected(x - radius, w)]
            sums[radius + w + x] = inner[reflected(w + x, w)]
        slide(sums, side, scale / (side * side), out[y])


@compiled
def _is_even(index: IndexArray, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> bool:
    """Return whether one value fills a rectangle."""
    value = index[rows[0], columns[0]]
    for y in rows:
        for x in columns:
            if index[y, x] != value:
                return False
    return True


@compiled
def _number_values(index: IndexArray, rows: NDArray[np.intp], columns: NDArray[np.intp], numbers: NDArray[np.intp]) -> NDArray[np.uint16]:
    """Return the values of a rectangle in ascending order, and set the place of each of them in `numbers`."""
    for value in range(numbers.size):
        numbers[value] = -1
    for y in rows:
        for x in columns:
            numbers[index[y, x]] = 0
    values = np.empty(numbers.size, np.uint16)
    n_values = 0
    for value in range(numbers.size):
        if numbers[value] == 0:
            numbers[value] = n_values
            values[n_values] = value
            n_values += 1
    return values[:n_values]


@compiled
def _lead(counts: NDArray[np.int32], side: int, value: int, most: NDArray[np.int32], winner: IndexArray) -> None:
    """Take the pixels of a row over for a value whose count there is at least as large as the largest so far."""
    total = np.int32(0)
    for x in range(side - 1):
        total += counts[x]
    for x in range(winner.size):
        total += counts[x + side - 1]
        # values ascend: the larger of two that are equally frequent wins
        if total >= most[x]:
            most[x] = total
            winner[x] = value
        total -= counts[x]


@compiled
def _count_votes(
    choices: IndexArray, rows: NDArray[np.intp], columns: NDArray[np.intp], side: int, numbers: NDArray[np.intp], out: IndexArray
) -> None:
    """Find the most frequent value of every window of a rectangle; `rows` and `columns` hold its pixels and ``side // 2`` around them."""
    values = _number_values(choices, rows, columns, numbers)
    counts = np.zeros((values.size, columns.size), np.int32)
    most = np.empty(out.shape[1], np.int32)
    for y in range(rows.size):
        for i in range(columns.size):
            counts[numbers[choices[rows[y], columns[i]]], i] += 1
        if y < side - 1:
            continue
        for x in range(most.size):
            most[x] = 0
        for number in range(values.size):
            _lead(counts[number], side, values[number], most, out[y - side + 1])
        for i in range(columns.size):
            # the row that leaves the windows of the next row
            counts[numbers[choices[rows[y - side + 1], columns[i]]], i] -= 1


@compiled
def majority(choices: IndexArray, side: int, n_choices: int, out: IndexArray) -> None:
    """Put the most frequent value of the window around each pixel into `out`, the largest of those equally frequent."""
    h, w = choices.shape
    radius = side // 2
    numbers = np.empty(n_choices, np.intp)
    for top in range(0, h, CELL_PX):
        bottom = min(top + CELL_PX, h)
        rows = np.empty(bottom - top + 2 * radius, np.intp)
        for i in range(rows.size):
            rows[i] = reflected(top - radius + i, h)
        for left in range(0, w, CELL_PX):
            right = min(left + CELL_PX, w)
            columns = np.empty(right - left + 2 * radius, np.intp)
            for i in range(columns.size):
                columns[i] = reflected(left - radius + i, w)
            # most squares of a decision map have one value, which then wins everywhere in it
            if not _is_even(choices, rows, columns):
                _count_votes(choices, rows, columns, side, numbers, out[top:bottom, left:right])
                continue
            for y in range(top, bottom):
                for x in range(left, right):
                    out[y, x] = choices[rows[0], columns[0]]


@compiled
def _note_changes(row: IndexArray, above: IndexArray, number: NDArray[np.int32], last: NDArray[np.int32]) -> None:
    """Remember in which row the value of each column changed last."""
    here = number[0]
    for x in range(last.size):
        before = last[x]
        last[x] = here if row[x] != above[x] else before


@compiled
def _find_steps(row: IndexArray, last: NDArray[np.int32], since: NDArray[np.int32], out: NDArray[np.uint8]) -> None:
    """Mark the gaps between neighbors of a row that differ, or one of which has changed since some row."""
    top = since[0]
    for x in range(out.size):
        is_change = (last[x] >= top) | (last[x + 1] >= top) | (row[x] != row[x + 1])
        out[x] = 1 if is_change else 0


@compiled
def _join(marks: NDArray[np.uint8], others: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    for x in range(out.size):
        out[x] = marks[x] | others[x]


@compiled
def _mark_around(steps: NDArray[np.uint8], spread: NDArray[np.uint8], reach: int, out: BoolArray) -> None:
    """Mark the pixels of a row with a step among the ``2 reach`` gaps from each position on; windows double until they are wide enough."""
    covered, n = 1, steps.size
    # by doubling; the rest is covered by two windows that overlap, which does not harm an "or"
    while 2 * covered <= 2 * reach:
        n -= covered
        _join(steps, steps[covered:], spread[:n])
        steps, spread = spread, steps
        covered *= 2
    rest = steps[2 * reach - covered :]
    for x in range(out.size):
        out[x] = (steps[x] | rest[x]) != 0


@compiled
def mark_edges(index: IndexArray, reach: int, out: BoolArray) -> None:
    """Mark the pixels around which a square of this reach holds more than one value.

    It does where a column of the square has changed within it, or two neighbors in its middle row differ.
    """
    h, w = index.shape
    last, numbers = np.full(w, -1, np.int32), np.zeros(1, np.int32)
    steps, spread = np.zeros(w + 2 * reach, np.uint8), np.zeros(w + 2 * reach, np.uint8)
    for y in range(-reach, h):
        below = y + reach
        if 0 < below < h:
            numbers[0] = below
            _note_changes(index[below], index[below - 1], numbers, last)
        if y < 0:
            continue
        # a change is noted in the lower of its two rows: the topmost row of the square cannot be one
        numbers[0] = max(y - reach, 0) + 1
        for x in range(steps.size):
            steps[x] = 0
        if reach == 0:
            for x in range(w):
                out[y, x] = False
            continue
        # one column has no gaps: its changes stand in the place of one
        if w > 1:
            _find_steps(index[y], last, numbers, steps[reach : reach + w - 1])
        else:
            steps[reach] = last[0] >= numbers[0]
        _mark_around(steps, spread, reach, out[y])
