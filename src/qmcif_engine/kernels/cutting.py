"""Parts of planes that may go beyond them: a plane continues by reflection, its border pixel repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import copy
from qmcif_engine.kernels.windows import reflected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray


@compiled
def cut_plane(plane: NDArray[Any], top: int, left: int, out: NDArray[Any]) -> None:
    """Put a plane from a row and a column on into `out`."""
    height, width = plane.shape
    first, last = max(-left, 0), min(width - left, out.shape[1])
    for y in range(out.shape[0]):
        row = plane[reflected(top + y, height)]
        copy(row[left + first : left + last], out[y, first:last])
        for x in range(first):
            out[y, x] = row[reflected(left + x, width)]
        for x in range(last, out.shape[1]):
            out[y, x] = row[reflected(left + x, width)]


@compiled
def _average(a: FloatArray, b: FloatArray, c: FloatArray, out: FloatArray) -> None:
    third = np.float32(1 / 3)
    for x in range(out.size):
        out[x] = (a[x] + b[x] + c[x]) * third


@compiled
def cut_brightness(block: FloatArray, top: int, left: int, out: FloatArray) -> None:
    """Put the mean of the three planes of a block, from a row and a column on, into `out`."""
    _, height, width = block.shape
    first, last = max(-left, 0), min(width - left, out.shape[1])
    for y in range(out.shape[0]):
        row = reflected(top + y, height)
        # pixels outside the image are few; a slice of one pixel lets them share the same loop
        inside = slice(left + first, left + last)
        _average(block[0, row, inside], block[1, row, inside], block[2, row, inside], out[y, first:last])
        for x in range(first):
            pixel = reflected(left + x, width)
            _average(block[0, row, pixel:], block[1, row, pixel:], block[2, row, pixel:], out[y, x : x + 1])
        for x in range(last, out.shape[1]):
            pixel = reflected(left + x, width)
            _average(block[0, row, pixel:], block[1, row, pixel:], block[2, row, pixel:], out[y, x : x + 1])


@compiled
def add_brightness(block: FloatArray, weight: float, total: FloatArray) -> None:
    """Add the mean of the three planes of a block, weighted, to a plane."""
    # float32, or the whole loop would be done in double precision
    share = np.float32(weight / 3)
    for y in range(total.shape[0]):
        a, b, c, row = block[0, y], block[1, y], block[2, y], total[y]
        for x in range(row.size):
            row[x] += share * (a[x] + b[x] + c[x])


@compiled
def _bounds_of(index: IndexArray) -> tuple[int, int, bool]:
    """Return the smallest and the largest value of a map, and whether there are others."""
    low, high = index[0, 0], index[0, 0]
    for y in range(index.shape[0]):
        row = index[y]
        for x in range(row.size):
            low, high = min(low, row[x]), max(high, row[x])
    # a second pass in place of a table: both loops vectorize
    n_others = 0
    for y in range(index.shape[0]):
        row = index[y]
        for x in range(row.size):
            n_others += row[x] != low and row[x] != high
    return low, high, n_others > 0


@compiled
def values_of(index: IndexArray) -> IndexArray:
    """Return the values of a map in ascending order."""
    low, high, has_others = _bounds_of(index)
    if not has_others:
        # nearly all maps of a box have one or two values: no table is needed
        few = np.empty(2, np.uint16)
        few[0], few[1] = low, high
        return few[:1] if low == high else few
    is_there, n_values = np.zeros(high + 1, np.bool_), 0
    for y in range(index.shape[0]):
        row = index[y]
        for x in range(row.size):
            n_values += not is_there[row[x]]
            is_there[row[x]] = True
    values, number = np.empty(n_values, np.uint16), 0
    for value in range(is_there.size):
        if is_there[value]:
            values[number] = value
            number += 1
    return values


@compiled
def find_boxes(is_wanted: BoolArray, side: int) -> NDArray[np.int64]:
    """Return the boxes (top, left, bottom, right) of the marked pixels in the squares of a grid; squares without any have none."""
    height, width = is_wanted.shape
    rows, columns = -(-height // side), -(-width // side)
    boxes = np.empty((rows * columns, 4), np.int64)
    n_boxes = 0
    for row in range(rows):
        for column in range(columns):
            top, left, bottom, right = height, width, 0, 0
            start, end = column * side, min((column + 1) * side, width)
            for y in range(row * side, min((row + 1) * side, height)):
                line = is_wanted[y, start:end]
                # counting without a branch is a vector instruction; most lines have none and are left at once
                n_marked = 0
                for x in range(line.size):
                    n_marked += line[x]
                if n_marked == 0:
                    continue
                top, bottom = min(top, y), y + 1
                x = 0
                while not line[x]:
                    x += 1
                left = min(left, start + x)
                x = line.size
                while not line[x - 1]:
                    x -= 1
                right = max(right, start + x)
            if bottom:
                boxes[n_boxes] = top, left, bottom, right
                n_boxes += 1
    return boxes[:n_boxes]
