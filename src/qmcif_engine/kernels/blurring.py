"""Blurs of flat images (`qmcif_engine.kernels.cells`): narrow ones by their taps, wide ones from a quarter of the resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import choose, copy
from qmcif_engine.kernels.windows import reflected

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray

COARSE_PX = 4
"""Pixels of the image in one of a quarter of its resolution, in rows and in columns."""

COARSE_BORDER = 5
"""Pixels by which a coarse image continues, by reflection, beyond the image."""

SPLINE = np.array([[49, 78, 1], [25, 94, 9], [9, 94, 25], [1, 78, 49]]) / 128
"""What the coarse pixel before, the one around and the one behind count for each of four pixels: a quadratic spline, which blurs all of
them alike; bilinear interpolation would not."""


@compiled
def weigh(sums: FloatArray, values: FloatArray, weight: float) -> None:
    """Put a multiple of some values into `sums`."""
    for x in range(sums.size):
        sums[x] = weight * values[x]


@compiled
def add_pair(sums: FloatArray, before: FloatArray, after: FloatArray, weight: float) -> None:
    """Add a multiple of the sum of two values to `sums`."""
    for x in range(sums.size):
        sums[x] += weight * (before[x] + after[x])


@compiled
def _add_quad(sums: FloatArray, before: FloatArray, after: FloatArray, early: FloatArray, late: FloatArray, weights: FloatArray) -> None:
    inner, outer = weights[0], weights[1]
    for x in range(sums.size):
        sums[x] += inner * (before[x] + after[x]) + outer * (early[x] + late[x])


@compiled
def _blur_along(values: FloatArray, step: int, taps: FloatArray, out: FloatArray) -> None:
    """Blur a flat image along one axis, whose pixels lie `step` apart; `out` is shorter by the radius at both ends."""
    radius, n = taps.size - 1, out.size
    center = radius * step
    # the center first, then rings outwards, two at a time: half as many passes over the sums
    weigh(out, values[center : center + n], taps[0])
    shift = 1
    while shift < radius:
        near, far = shift * step, (shift + 1) * step
        _add_quad(
            out, values[center - near :], values[center + near :], values[center - far :], values[center + far :], taps[shift : shift + 2]
        )
        shift += 2
    if shift == radius:
        add_pair(out, values[center - radius * step :], values[center + radius * step :], taps[radius])


@compiled
def blur_cell(values: FloatArray, width: int, taps: FloatArray, rows: FloatArray, out: FloatArray) -> None:
    """Blur a flat image; right where the kernel fits around a pixel. `rows` is a buffer, all three have the same size."""
    radius = taps.size - 1
    n, skipped = values.size, (taps.size - 1) * width
    # down: pixels of a column lie one width apart, so rows near the top and bottom have no full kernel and are left out
    _blur_along(values, width, taps, rows[skipped : n - skipped])
    _blur_along(rows[skipped : n - skipped], 1, taps, out[skipped + radius : n - skipped - radius])


@compiled
def _expand(line: FloatArray, spline: FloatArray, out: FloatArray) -> None:
    """Put four pixels in the place of each coarse one but the first and the last."""
    # the spline is symmetric: its last two rows are the first two mirrored
    far, near, farthest = spline[0, 0], spline[1, 0], spline[0, 2]
    farther, outer, inner = spline[1, 2], spline[0, 1], spline[1, 1]
    for x in range(line.size - 2):
        before, here, behind = line[x], line[x + 1], line[x + 2]
        out[4 * x] = (far * before + farthest * behind) + outer * here
        out[4 * x + 1] = (near * before + farther * behind) + inner * here
        out[4 * x + 2] = (farther * before + near * behind) + inner * here
        out[4 * x + 3] = (farthest * before + far * behind) + outer * here


@compiled
def _mix(above: FloatArray, here: FloatArray, below: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    first, second, third = weights[0], weights[1], weights[2]
    for x in range(out.size):
        out[x] = (first * above[x] + third * below[x]) + second * here[x]


@compiled
def expand_cell(coarse: FloatArray, top: int, left: int, width: int, spline: FloatArray, lines: FloatArray, out: FloatArray) -> None:
    """Enlarge a part of a coarse plane to a flat image.

    Parameters
    ----------
    coarse : ndarray of float, shape (h, w)
        With `COARSE_BORDER` pixels around it.
    top, left : int
        Where the flat image begins in the whole one: multiples of four.
    width : int
        A multiple of four, as the number of rows.
    spline : ndarray of float, shape (4, 3)
        `SPLINE` in the dtype of the planes.
    lines : ndarray of float, shape (>= 3 width,)
        A buffer.
    out : ndarray of float, shape (n,)
    """
    row, column = top // COARSE_PX + COARSE_BORDER, left // COARSE_PX + COARSE_BORDER
    above, here, below = lines[:width], lines[width : 2 * width], lines[2 * width : 3 * width]
    first, last = column - 1, column + width // COARSE_PX + 1
    # one row ahead of the loop, which begins by passing both rows on
    _expand(coarse[row - 1][first:last], spline, here)
    _expand(coarse[row][first:last], spline, below)
    for number in range(out.size // width // COARSE_PX):
        # three lines take turns: each coarse row is enlarged along its columns once
        above, here, below = here, below, above
        _expand(coarse[row + number + 1][first:last], spline, below)
        for shift in range(COARSE_PX):
            start = (COARSE_PX * number + shift) * width
            _mix(above, here, below, spline[shift], out[start : start + width])


@compiled
def _add_four(sums: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> None:
    for x in range(sums.size):
        sums[x] = (a[x] + b[x]) + (c[x] + d[x])


@compiled
def _join_four(sums: FloatArray, weight: float | np.floating[Any], out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = weight * ((sums[4 * x] + sums[4 * x + 1]) + (sums[4 * x + 2] + sums[4 * x + 3]))


@compiled
def _shrink_rows(rows: FloatArray, border: int, sums: FloatArray, out: FloatArray) -> None:
    """Put the means over four by four pixels of four rows, which continue by reflection, into `out`."""
    w = rows.shape[1]
    # squares that lie whole in the image need no reflection and make a vector loop
    n_whole, weight = w // COARSE_PX, rows.dtype.type(1 / COARSE_PX**2)
    _add_four(sums, rows[0], rows[1], rows[2], rows[3])
    _join_four(sums, weight, out[border : border + n_whole])
    for x in range(out.size):
        if x < border or x >= border + n_whole:
            left = COARSE_PX * (x - border)
            a, b = sums[reflected(left, w)], sums[reflected(left + 1, w)]
            c, d = sums[reflected(left + 2, w)], sums[reflected(left + 3, w)]
            out[x] = weight * ((a + b) + (c + d))


@compiled
def shrink_choice(is_first: BoolArray, first: FloatArray, second: FloatArray, border: int, out: FloatArray) -> None:
    """Put the mean of each square of four by four pixels of a plane that is taken from the one or the other of two into `out`.

    Parameters
    ----------
    is_first : ndarray of bool, shape (h, w)
    first, second : ndarray of float, shape (h, w)
    border : int
        Coarse pixels around the image, which continues by reflection.
    out : ndarray of float, shape (h / 4 + 2 border, w / 4 + 2 border), both quarters rounded up
    """
    h, w = is_first.shape
    rows, sums = np.empty((COARSE_PX, w), first.dtype), np.empty(w, first.dtype)
    for y in range(out.shape[0]):
        for shift in range(COARSE_PX):
            row = reflected(COARSE_PX * (y - border) + shift, h)
            choose(is_first[row], first[row], second[row], rows[shift])
        _shrink_rows(rows, border, sums, out[y])


@compiled
def shrink(plane: FloatArray, border: int, out: FloatArray) -> None:
    """Do the same with one plane."""
    h, w = plane.shape
    rows, sums = np.empty((COARSE_PX, w), plane.dtype), np.empty(w, plane.dtype)
    for y in range(out.shape[0]):
        for shift in range(COARSE_PX):
            copy(plane[reflected(COARSE_PX * (y - border) + shift, h)], rows[shift])
        _shrink_rows(rows, border, sums, out[y])
