"""Relaxation of the screened Poisson equation of one plane, in place and in cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray


@compiled
def relax_row(
    mine: FloatArray, right: FloatArray, left: FloatArray, later: FloatArray, above: FloatArray, below: FloatArray, steps: FloatArray
) -> None:
    """Move the pixels of one color of a row by `steps` of the way to where their own equation, given their neighbors, holds."""
    for i in range(mine.size):
        total = ((left[i] + later[i]) + (above[i] + below[i])) + right[i]
        mine[i] = steps[0] * mine[i] + steps[i + 1] * total


@compiled
def inverse_diagonals(h: int, w: int, screening: float) -> FloatArray:
    """Return 1 / (screening + number of neighbors), shape (2, 2, ceil(w / 2)): inner rows, border rows; even columns, odd columns."""
    result = np.empty((2, 2, (w + 1) // 2))
    for is_border in range(2):
        # neighbors above and below: an image of one row has none
        rows = min(h - 1, 2 - is_border)
        for x in range(w):
            result[is_border, x & 1, x >> 1] = 1 / (screening + rows + (x > 0) + (x < w - 1))
    return result


@compiled
def relax_plane(plane: FloatArray, omegas: FloatArray, screening: float) -> None:
    """Replace the right side by the solution of ``(nabla^T nabla + screening) X = plane``.

    Pixels are colored like a chessboard. Half-sweep ``j`` updates those of one color from the other by over-relaxation ``omegas[j]``. It
    works on row ``t - 1 - j`` when row ``t`` enters, so that a row passes through all half-sweeps while it is in cache. The two colors of
    a row are stored apart, with a zero before and after them, which makes neighbors contiguous and borders no exception.

    Parameters
    ----------
    plane : ndarray of float, shape (h, w)
        Right side and first guess; overwritten.
    omegas : ndarray of float64, shape (half-sweeps,)
    screening : float
    """
    h, w = plane.shape
    n_sweeps = len(omegas)
    # rows in work, in a ring: those between the first and the last half-sweep, and their neighbors
    n_kept = n_sweeps + 3
    inverses = inverse_diagonals(h, w, screening)
    half = (w + 1) // 2
    values = np.zeros((n_kept + 1, 2, half + 2), plane.dtype)  # the last row stays zero: what lies outside
    rights = np.zeros((n_kept, 2, half), plane.dtype)
    steps = np.empty((n_sweeps, 2, 2, half + 1), plane.dtype)
    for j in range(n_sweeps):
        for is_border in range(2):
            for color in range(2):
                steps[j, is_border, color, 0] = 1 - omegas[j]
                for i in range(half):
                    steps[j, is_border, color, i + 1] = omegas[j] * inverses[is_border, color, i]
    for t in range(h + n_sweeps):
        if t < h:
            for x in range(w):
                values[t % n_kept, x & 1, (x >> 1) + 1] = plane[t, x]
                rights[t % n_kept, x & 1, x >> 1] = plane[t, x]
        # half-sweeps whose row exists at this time
        for j in range(max(0, t - h), min(n_sweeps, t)):
            y = t - 1 - j
            color = (y + j) & 1
            # of an odd width there is one odd column fewer
            n = half - (color & w)
            row = y % n_kept
            other = values[row, 1 - color]
            above = values[(y - 1) % n_kept if y > 0 else n_kept, color]
            below = values[(y + 1) % n_kept if y < h - 1 else n_kept, color]
            is_border = int(y == 0 or y == h - 1)
            relax_row(
                values[row, color][1 : n + 1],
                rights[row, color],
                other[color:],
                other[color + 1 :],
                above[1:],
                below[1:],
                steps[j, is_border, color],
            )
        if t >= n_sweeps:
            for x in range(w):
                plane[t - n_sweeps, x] = values[(t - n_sweeps) % n_kept, x & 1, (x >> 1) + 1]
