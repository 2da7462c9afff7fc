"""Blurs of small flat copies of a picture (`qmcif_engine.kernels.cells`): narrow ones by their taps, wide ones from a quarter of the resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.cells import reflected
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import choose

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import BoolArray, FloatArray

COARSE_PX = 4
"""Pixels of the picture in one of a quarter of its resolution, in rows and in columns."""

COARSE_BORDER = 5
"""Pixels by which a coarse picture continues, by reflection, beyond the picture."""

PHASES = np.array([0.125, 0.375, 0.625, 0.875])
"""Where, between two coarse pixels, the pixels of the picture lie."""


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
    """Blur a flat picture along one axis, whose pixels lie `step` apart; `out` is shorter by the radius at both ends."""
    radius, n = taps.size - 1, out.size
    center = radius * step
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
    """Blur a flat picture; right where the kernel fits around a pixel. `rows` is a buffer, all three have the same size."""
    radius = taps.size - 1
    n, skipped = values.size, (taps.size - 1) * width
    _blur_along(values, width, taps, rows[skipped : n - skipped])
    _blur_along(rows[skipped : n - skipped], 1, taps, out[skipped + radius : n - skipped - radius])


@compiled
def _expand(line: FloatArray, phases: FloatArray, out: FloatArray) -> None:
    """Put four pixels between each two coarse ones."""
    first, second, third, fourth = phases
    for x in range(line.size - 1):
        start, slope = line[x], line[x + 1] - line[x]
        out[4 * x] = start + first * slope
        out[4 * x + 1] = start + second * slope
        out[4 * x + 2] = start + third * slope
        out[4 * x + 3] = start + fourth * slope


@compiled
def _mix(above: FloatArray, below: FloatArray, phase: float, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = above[x] + phase * (below[x] - above[x])


@compiled
def expand_cell(coarse: FloatArray, top: int, left: int, width: int, phases: FloatArray, lines: FloatArray, out: FloatArray) -> None:
    """Enlarge a part of a coarse plane, bilinearly, to a flat picture.

    Parameters
    ----------
    coarse : ndarray of float, shape (h, w)
        With `COARSE_BORDER` pixels around it.
    top, left : int
        Where the flat picture begins in the whole one: two pixels before a multiple of four, where a coarse pixel ends.
    width : int
        A multiple of four, as the number of rows.
    phases : ndarray of float, shape (4,)
        `PHASES` in the dtype of the planes.
    lines : ndarray of float, shape (>= 2 width,)
        A buffer.
    out : ndarray of float, shape (n,)
    """
    row, column = (top - 2) // COARSE_PX + COARSE_BORDER, (left - 2) // COARSE_PX + COARSE_BORDER
    n_columns = width // COARSE_PX + 1
    _expand(coarse[row][column : column + n_columns], phases, lines[:width])
    for number in range(out.size // width // COARSE_PX):
        above, below = lines[:width], lines[width : 2 * width]
        if number % 2:
            above, below = below, above
        _expand(coarse[row + number + 1][column : column + n_columns], phases, below)
        for phase in range(COARSE_PX):
            start = (COARSE_PX * number + phase) * width
            _mix(above, below, phases[phase], out[start : start + width])


@compiled
def _add_four(sums: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> None:
    for x in range(sums.size):
        sums[x] = (a[x] + b[x]) + (c[x] + d[x])


@compiled
def _join_four(sums: FloatArray, weight: float, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = weight * ((sums[4 * x] + sums[4 * x + 1]) + (sums[4 * x + 2] + sums[4 * x + 3]))


@compiled
def shrink(plane: FloatArray, out: FloatArray) -> None:
    """Put the mean of each square of four by four pixels into `out`, squares at the lower and right side filled up by reflection."""
    h, w = plane.shape
    sums, weight = np.empty(COARSE_PX * out.shape[1], plane.dtype), plane.dtype.type(1 / COARSE_PX**2)
    for y in range(out.shape[0]):
        top = COARSE_PX * y
        a, b = plane[top], plane[reflected(top + 1, h)]
        c, d = plane[reflected(top + 2, h)], plane[reflected(top + 3, h)]
        _add_four(sums[:w], a, b, c, d)
        for x in range(w, sums.size):
            sums[x] = sums[reflected(x, w)]
        _join_four(sums, weight, out[y])


@compiled
def shrink_choice(is_first: BoolArray, first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    """Do the same with a plane that is taken from the one or the other of two."""
    h, w = is_first.shape
    rows = np.empty((COARSE_PX, w), first.dtype)
    for y in range(out.shape[0]):
        for shift in range(COARSE_PX):
            row = reflected(COARSE_PX * y + shift, h)
            choose(is_first[row], first[row], second[row], rows[shift])
        shrink(rows, out[y : y + 1])
