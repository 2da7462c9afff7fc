"""Sums over square windows that lie inside a plane, and the texture that such a mean leaves.

No running sums: a window of 33 pixels is 32 and one, and 32 are 16 and 16 and so on, so that its bytes depend on no tile, whole gray levels
are summed exactly, and the loops vectorize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import copy

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

TEXTURE_PX = 5
"""Side of the window whose mean is taken away from an image to leave its texture: slopes and soft shadows are none."""


@compiled
def _add(first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = first[x] + second[x]


@compiled
def accumulate(values: FloatArray, out: FloatArray) -> None:
    """Add values to those of a row."""
    for x in range(out.size):
        out[x] += values[x]


@compiled
def _sum_down(plane: FloatArray, side: int, out: FloatArray) -> None:
    """Put the sums of `side` rows, from each row on, into `out`."""
    height, width = plane.shape
    sums, other = plane, np.empty((height, width), plane.dtype)
    spare = np.empty((height, width), plane.dtype)
    done, length = 0, 1
    while True:
        # the side in binary: of each power of two that it holds one sum is added, behind those already there
        if side & length:
            for y in range(out.shape[0]):
                if done:
                    accumulate(sums[y + done], out[y])
                else:
                    copy(sums[y], out[y])
            done += length
        if done == side:
            return
        # sums of twice as many rows from those of half as many
        for y in range(height - 2 * length + 1):
            _add(sums[y], sums[y + length], other[y])
        # two buffers take turns, and the plane itself is never written
        sums, other, spare = other, spare, other
        length *= 2


@compiled
def _sum_along(row: FloatArray, side: int, sums: FloatArray, other: FloatArray, out: FloatArray) -> None:
    """Put the sums of `side` neighbors, from each position on, into `out`; `sums` and `other` are buffers as long as the row."""
    source, done, length = row, 0, 1
    while True:
        if side & length:
            if done:
                accumulate(source[done:], out)
            else:
                copy(source, out)
            done += length
        if done == side:
            return
        _add(source, source[length:], sums[: row.size - 2 * length + 1])
        source, sums, other = sums, other, sums
        length *= 2


@compiled
def _add_three(first: FloatArray, second: FloatArray, third: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = first[x] + second[x] + third[x]


@compiled
def _sum_nine(plane: FloatArray, out: FloatArray) -> None:
    """Do what `sum_boxes` does for the smallest window, without a plane in between."""
    sums = np.empty(plane.shape[1], plane.dtype)
    for y in range(out.shape[0]):
        _add_three(plane[y], plane[y + 1], plane[y + 2], sums)
        _add_three(sums, sums[1:], sums[2:], out[y])


@compiled
def sum_boxes(plane: FloatArray, side: int, out: FloatArray) -> None:
    """Put the sum over every window of this side that lies in the plane into `out`, which is ``side - 1`` smaller both ways."""
    if side == 3:
        _sum_nine(plane, out)
        return
    columns = np.empty((out.shape[0], plane.shape[1]), plane.dtype)
    _sum_down(plane, side, columns)
    sums, other = np.empty(plane.shape[1], plane.dtype), np.empty(plane.shape[1], plane.dtype)
    for y in range(out.shape[0]):
        _sum_along(columns[y], side, sums, other, out[y])


@compiled
def _sum_five(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, e: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = a[x] + b[x] + c[x] + d[x] + e[x]


@compiled
def _square_rest(row: FloatArray, sums: FloatArray, out: FloatArray) -> None:
    share = np.float32(1 / TEXTURE_PX**2)
    for x in range(out.size):
        rest = row[x + 2] - share * (sums[x] + sums[x + 1] + sums[x + 2] + sums[x + 3] + sums[x + 4])
        out[x] = rest * rest


@compiled
def texture_power(plane: FloatArray, out: FloatArray) -> None:
    """Put the squared difference to the mean over the window of `TEXTURE_PX` into `out`, which is so much less one smaller both ways."""
    sums = np.empty(plane.shape[1], plane.dtype)
    for y in range(out.shape[0]):
        _sum_five(plane[y], plane[y + 1], plane[y + 2], plane[y + 3], plane[y + 4], sums)
        _square_rest(plane[y + 2], sums, out[y])
