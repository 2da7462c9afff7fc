"""Sums over the cells of a fixed grid, each `CELL_PX` pixels a side: gradients of a layer, and the moments of two images."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.gradients import add_root, add_step_power
from qmcif_engine.kernels.moments import N_SUMS, compare_row, slide_four
from qmcif_engine.kernels.windows import reflected

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

ThreeRows: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"

CELL_PX = 4
"""Side of a cell: half a base patch."""


@compiled
def _sum_columns(row: FloatArray, out: FloatArray) -> None:
    """Put the sum of each four neighbors into `out`; the last may be fewer."""
    whole = row.size // CELL_PX
    for i in range(whole):
        # pairs first: fixed order, and two additions that need not wait for each other
        out[i] = (row[4 * i] + row[4 * i + 1]) + (row[4 * i + 2] + row[4 * i + 3])
    if whole < out.size:
        total = row[4 * whole]
        for x in range(4 * whole + 1, row.size):
            total += row[x]
        out[whole] = total


@compiled
def sum_gradients(planes: FloatArray, out: FloatArray) -> None:
    """Sum ``|nabla_1 d| + |nabla_2 d|`` of planes (c, h, w) over each cell into `out`, shape (rows, columns); last differences are 0."""
    n_planes, h, w = planes.shape
    power, level = np.zeros(w, planes.dtype), np.zeros(w, planes.dtype)
    for y in range(h):
        if y < h - 1:
            for c in range(n_planes):
                add_step_power(power, planes[c, y], planes[c, y + 1])
            add_root(power, level)
        for c in range(n_planes):
            add_step_power(power, planes[c, y], planes[c, y][1:])
        add_root(power, level)
        # the last row of a cell, or of a block that ends within one
        if y % CELL_PX == CELL_PX - 1 or y == h - 1:
            _sum_columns(level, out[y // CELL_PX])
            for x in range(w):
                level[x] = 0


@compiled
def _add_row(total: FloatArray, row: FloatArray) -> None:
    for x in range(row.size):
        total[x] += row[x]


@compiled
def _subtract(first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    for x in range(first.size):
        out[x] = first[x] - second[x]


@compiled
def _add_far_power(power: FloatArray, before: FloatArray, after: FloatArray) -> None:
    for x in range(power.size):
        step = after[x] - before[x]
        power[x] += step * step


@compiled
def _add_square(power: FloatArray, values: FloatArray) -> None:
    for x in range(power.size):
        power[x] += values[x] * values[x]


@compiled
def _reflect_ends(line: FloatArray, margin: int) -> None:
    """Continue what lies between two margins by reflection into them."""
    w = line.size - 2 * margin
    for i in range(margin):
        line[i] = line[margin + reflected(i - margin, w)]
        line[margin + w + i] = line[margin + reflected(w + i, w)]


@compiled
def sum_amplified_gradients(planes: FloatArray, radius: int, out: FloatArray) -> None:
    """Sum, over each cell, the gradients of what a window sum of this radius makes of planes (c, h, w), in every other row.

    The difference of two neighboring window sums is that of the lines in which the windows differ, so the sums themselves need not be
    formed. Every other row is enough, because a window sum changes little from row to row.
    """
    n_planes, h, w = planes.shape
    # a forward difference needs one column more than the window
    margin = radius + 1
    line, box = np.zeros(w + 2 * margin, planes.dtype), np.zeros(w, planes.dtype)
    across, down, level = np.zeros(w, planes.dtype), np.zeros(w, planes.dtype), np.zeros(w, planes.dtype)
    inner = line[margin : margin + w]
    for y in range(0, h, 2):
        for c in range(n_planes):
            for x in range(w):
                inner[x] = 0
            for shift in range(-radius, radius + 1):
                _add_row(inner, planes[c, reflected(y + shift, h)])
            _reflect_ends(line, margin)
            # neighboring windows share all columns but the first of the one and the last of the other
            _add_far_power(across, line[1:], line[2 * margin :])
            # likewise the row that enters below and the one that leaves above, then summed along the window
            _subtract(planes[c, reflected(y + radius + 1, h)], planes[c, reflected(y - radius, h)], inner)
            _reflect_ends(line, margin)
            for x in range(w):
                box[x] = 0
            for shift in range(2 * radius + 1):
                _add_row(box, line[1 + shift : 1 + shift + w])
            _add_square(down, box)
        add_root(across, level)
        add_root(down, level)
        # of the rows looked at, the last of a cell
        if y % CELL_PX == CELL_PX - 2 or y >= h - 2:
            _sum_columns(level, out[y // CELL_PX])
            for x in range(w):
                level[x] = 0


@compiled
def _add_bend(level: FloatArray, before: FloatArray, here: FloatArray, after: FloatArray) -> None:
    for x in range(level.size):
        level[x] += abs((before[x] - here[x]) + (after[x] - here[x]))


@compiled
def sum_curvatures(planes: FloatArray, out: FloatArray) -> None:
    """Sum the moduli of both second differences of the sum of planes (c, h, w) over each cell; those at the border of a block are 0."""
    n_planes, h, w = planes.shape
    rows, level = np.zeros((3, w), planes.dtype), np.zeros(w, planes.dtype)
    for y in range(h + 1):
        if y < h:
            # three rows take turns, since a second difference needs one before and one after
            entering = rows[y % 3]
            for x in range(w):
                entering[x] = 0
            for c in range(n_planes):
                _add_row(entering, planes[c, y])
        if y == 0:
            continue
        here = rows[(y - 1) % 3]
        # the first and the last row have no neighbor on one side
        if 1 < y < h:
            _add_bend(level, rows[(y - 2) % 3], here, rows[y % 3])
        _add_bend(level[1 : w - 1], here, here[1:], here[2:])
        if y % CELL_PX == 0 or y == h:
            _sum_columns(level, out[(y - 1) // CELL_PX])
            for x in range(w):
                level[x] = 0


@compiled
def _add_powers(rows: ThreeRows, red: FloatArray, green: FloatArray, blue: FloatArray, power: FloatArray) -> None:
    """Add the components and the power of a row, in float64."""
    first, second, third = rows
    for x in range(power.size):
        b, c, d = np.float64(first[x]), np.float64(second[x]), np.float64(third[x])
        red[x] += b
        green[x] += c
        blue[x] += d
        power[x] = power[x] + b * b + c * c + d * d


@compiled
def _add_products(rows: ThreeRows, others: ThreeRows, sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray]) -> None:
    """Add ``conj(x) y`` of two rows, in float64."""
    (first, second, third), (other_first, other_second, other_third), (scalar, i, j, k) = rows, others, sums
    for x in range(scalar.size):
        b, c, d = np.float64(first[x]), np.float64(second[x]), np.float64(third[x])
        f, g, h = np.float64(other_first[x]), np.float64(other_second[x]), np.float64(other_third[x])
        scalar[x] = scalar[x] + b * f + c * g + d * h
        i[x] = i[x] + d * g - c * h
        j[x] = j[x] + b * h - d * f
        k[x] = k[x] + c * f - b * g


@compiled
def sum_moments(first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    """Put the sums over each cell that `compare_moments` needs into `out`.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
        Whole cells.
    out : ndarray of float64, shape (rows, 12, columns)
    """
    _, h, w = first.shape
    sums = np.zeros((N_SUMS, w))
    for y in range(h):
        _add_powers((first[0, y], first[1, y], first[2, y]), sums[0], sums[1], sums[2], sums[6])
        _add_powers((second[0, y], second[1, y], second[2, y]), sums[3], sums[4], sums[5], sums[7])
        _add_products(
            (first[0, y], first[1, y], first[2, y]),
            (second[0, y], second[1, y], second[2, y]),
            (sums[8], sums[9], sums[10], sums[11]),
        )
        if y % CELL_PX == CELL_PX - 1:
            for number in range(N_SUMS):
                _sum_columns(sums[number], out[y // CELL_PX, number])
                for x in range(w):
                    sums[number, x] = 0


@compiled
def compare_moments(moments: FloatArray, side: int, stabilizer: float, is_scalar: bool, out: FloatArray) -> None:
    """Put the scalar part or the modulus of ``Q_SSIM`` of every window of `side` by `side` cells into `out`.

    Parameters
    ----------
    moments : ndarray of float64, shape (rows, 12, columns)
        What `sum_moments` puts there.
    side : int
    stabilizer : float
        ``C_1`` and ``C_2``.
    is_scalar : bool
    out : ndarray of float64, shape (rows - side + 1, columns - side + 1)
    """
    n_rows, _, n_columns = moments.shape
    total, means = np.zeros((N_SUMS, n_columns)), np.empty((N_SUMS, n_columns - side + 1))
    for row in range(n_rows):
        for number in range(N_SUMS):
            for i in range(n_columns):
                total[number, i] += moments[row, number, i]
                # a running sum: the row that leaves the window is taken off again, which float64 allows for
                if row >= side:
                    total[number, i] -= moments[row - side, number, i]
        if row < side - 1:
            continue
        for number in range(0, N_SUMS, 4):
            slide_four(total[number : number + 4], side, 1 / (side * CELL_PX) ** 2, means[number : number + 4])
        compare_row(means, stabilizer, is_scalar, out[row - side + 1])
