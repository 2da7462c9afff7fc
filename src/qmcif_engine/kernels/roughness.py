"""A quick look at the texture of an image: most ground that has enough of it to hide a step is found by little work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.boxes import TEXTURE_PX, accumulate, sum_boxes, texture_power
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.cutting import cut_brightness

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

SQUARE_PX = 4
"""Side of the squares whose power is summed: those inside a window have no more than the window."""

ROUNDINGS = 1.001
"""By how much they must have more than enough, so that roundings decide nothing."""


@compiled
def sum_squares(plane: FloatArray, out: FloatArray) -> None:
    """Put the sums over squares of `SQUARE_PX` that lie side by side into `out`."""
    sums = np.empty(plane.shape[1], plane.dtype)
    for row in range(out.shape[0]):
        for x in range(sums.size):
            sums[x] = 0
        for y in range(row * SQUARE_PX, (row + 1) * SQUARE_PX):
            accumulate(plane[y], sums)
        for column in range(out.shape[1]):
            total = sums[column * SQUARE_PX]
            for x in range(column * SQUARE_PX + 1, (column + 1) * SQUARE_PX):
                total += sums[x]
            out[row, column] = total


@compiled
def mark_rough(
    block: FloatArray, source: int, corner: tuple[int, int], near: IndexArray, is_pair: bool, enough: float, is_rough: BoolArray
) -> int:
    """Mark the pixels around which the brightness of an image has enough texture, and return how many remain unmarked.

    Parameters
    ----------
    block : ndarray of float, shape (3, H, W)
    source : int
        The number of the image.
    corner : tuple of int
        Row and column where `near` begins, which may lie outside the image.
    near : ndarray of uint16, shape (h + 2 r, w + 2 r)
        Decisions: the image counts where it is chosen in the window around a pixel, which reaches r.
    is_pair : bool
        Whether `near` has at most two values, of which either counts everywhere.
    enough : float
        Power summed over a window.
    is_rough : ndarray of bool, shape (h, w)
    """
    height, width = is_rough.shape
    beyond, side = TEXTURE_PX // 2, near.shape[0] - height + 1
    n_inside = (side - SQUARE_PX + 1) // SQUARE_PX  # squares in a row that lie in the window wherever it is on their grid
    # a window smaller than a square of the grid holds none for certain
    if n_inside > 0:
        brightness = np.empty((near.shape[0] + 2 * beyond, near.shape[1] + 2 * beyond), np.float32)
        cut_brightness(block, corner[0] - beyond, corner[1] - beyond, brightness)
        power = np.empty(near.shape, np.float32)
        texture_power(brightness, power)
        squares = np.empty((near.shape[0] // SQUARE_PX, near.shape[1] // SQUARE_PX), np.float32)
        sum_squares(power, squares)
        least = np.empty((squares.shape[0] - n_inside + 1, squares.shape[1] - n_inside + 1), np.float32)
        sum_boxes(squares, n_inside, least)
        counts = np.ones((1, 1), np.float32)
        if not is_pair:
            counts = np.empty(is_rough.shape, np.float32)
            sum_boxes((near == source).astype(np.float32), side, counts)
        for y in range(height):
            row = least[-(-y // SQUARE_PX)]
            for column in range(row.size):
                if row[column] >= ROUNDINGS * enough:  # for the pixels whose windows begin in the square before, or where this one does
                    for x in range(max((column - 1) * SQUARE_PX + 1, 0), min(column * SQUARE_PX + 1, width)):
                        is_rough[y, x] |= is_pair or counts[y, x] > 0
    # counted without a branch, hence by itself
    n_left = 0
    for y in range(height):
        row_marks = is_rough[y]
        for x in range(width):
            n_left += 1 - row_marks[x]
    return n_left
