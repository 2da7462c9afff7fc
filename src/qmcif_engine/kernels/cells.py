"""Small rectangles of an image: where something is wanted in them, and copies of them that fit into the cache.

A copy is flat: one row after the other, so that a loop over all its pixels, shifted by whole rows or by single pixels, runs without a
stop. What it gives near the left and right side of the copy mixes the ends of two rows and is not used; margins are made for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.windows import reflected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray

_Sample = TypeVar("_Sample", bound=np.generic)

GRID_PX = 4
"""Boxes begin and end on multiples of this, so that an image of a quarter of the resolution lies alike in all of them."""


@compiled
def join_row(columns: BoolArray, row: BoolArray) -> bool:
    """Note the wanted pixels of a row, and say whether there are any."""
    is_any = False
    for x in range(row.size):
        is_any |= row[x]
    # most rows have nothing, and are then read once only
    if is_any:
        for x in range(row.size):
            columns[x] |= row[x]
    return is_any


@compiled
def list_boxes(is_wanted: BoolArray, side: int) -> NDArray[np.int64]:
    """Return top, left, bottom and right of the rectangles that hold the wanted pixels in the cells of a fixed grid, shape (n, 4).

    They begin and end on multiples of `GRID_PX`, which may lie outside the image.
    """
    h, w = is_wanted.shape
    boxes, n_boxes = np.empty((-(-h // side) * -(-w // side), 4), np.int64), 0
    columns = np.empty(side, np.bool_)
    for cell_top in range(0, h, side):
        for cell_left in range(0, w, side):
            width, top, bottom = min(side, w - cell_left), h, -1
            for x in range(width):
                columns[x] = False
            for y in range(cell_top, min(cell_top + side, h)):
                if join_row(columns, is_wanted[y, cell_left : cell_left + width]):
                    top, bottom = min(top, y), y
            if bottom < 0:
                continue
            left, right = 0, width - 1
            while not columns[left]:
                left += 1
            while not columns[right]:
                right -= 1
            box = boxes[n_boxes]
            box[0], box[1], box[2], box[3] = top, cell_left + left, bottom, cell_left + right
            for k in range(4):
                # beginnings down to the grid; ends are the last pixel so far, and go beyond it, up to the grid
                box[k] += -(box[k] % GRID_PX) if k < 2 else GRID_PX - box[k] % GRID_PX
            n_boxes += 1
    return boxes[:n_boxes]


@compiled
def largest_size(boxes: NDArray[np.int64], margin: int) -> int:
    """Return how many pixels the largest of some boxes has, with a margin around it."""
    size = 0
    for box in boxes:
        size = max(size, (box[2] - box[0] + 2 * margin) * (box[3] - box[1] + 2 * margin))
    return size


@compiled
def copy_cell(plane: NDArray[_Sample], top: int, left: int, width: int, out: NDArray[_Sample]) -> None:
    """Copy rows of a plane, from a corner on, into a flat array; the plane continues by reflection."""
    h, w = plane.shape
    # columns that lie in the image are copied in one loop, those beside it pixel by pixel
    first, last = min(max(0, -left), width), max(min(width, w - left), 0)
    for y in range(out.size // width):
        row, target = plane[reflected(top + y, h)], out[y * width : (y + 1) * width]
        for x in range(first):
            target[x] = row[reflected(left + x, w)]
        inner, source = target[first:last], row[left + first : left + last]
        for x in range(inner.size):
            inner[x] = source[x]
        for x in range(max(last, first), width):
            target[x] = row[reflected(left + x, w)]
