"""Moments of two pure quaternion blocks over every window that lies whole inside them, from running sums in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

ONE = 6
_POWERS = [(6, c, c, 1) for c in range(3)] + [(7, c + 3, c + 3, 1) for c in range(3)]
_INNER = [(8, c, c + 3, 1) for c in range(3)]
_OUTER = [(9, 2, 4, 1), (9, 1, 5, -1), (10, 0, 5, 1), (10, 2, 3, -1), (11, 1, 3, 1), (11, 0, 4, -1)]
TERMS = np.array([(c, c, ONE, 1) for c in range(6)] + _POWERS + _INNER + _OUTER)
"""What the twelve sums add up: sum number, the numbers of two rows whose product it takes, and the sign.

Rows 0 to 2 are the first block, 3 to 5 the second, 6 is one. Sums 0 to 5 are the components, 6 and 7 the powers, 8 to 11 ``conj(x) y``.
"""

N_SUMS = 12


@compiled
def convert(row: FloatArray, out: FloatArray) -> None:
    """Copy a row into another type."""
    for x in range(out.size):
        out[x] = row[x]


@compiled
def add_product(sums: FloatArray, left: FloatArray, right: FloatArray, sign: float) -> None:
    """Add the product of two rows, or take it away."""
    for x in range(sums.size):
        sums[x] += sign * (left[x] * right[x])


@compiled
def slide_four(sums: FloatArray, side: int, scale: float, out: FloatArray) -> None:
    """Do what `windows.slide` does for four lines at once: each addition waits for the one before, so four lines take the time of one."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for x in range(side):
        a, b, c, d = a + sums[0, x], b + sums[1, x], c + sums[2, x], d + sums[3, x]
    out[0, 0], out[1, 0], out[2, 0], out[3, 0] = a * scale, b * scale, c * scale, d * scale
    for x in range(1, out.shape[1]):
        head = x + side - 1
        # a running sum: what enters minus what leaves
        a += sums[0, head] - sums[0, x - 1]
        b += sums[1, head] - sums[1, x - 1]
        c += sums[2, head] - sums[2, x - 1]
        d += sums[3, head] - sums[3, x - 1]
        out[0, x], out[1, x], out[2, x], out[3, x] = a * scale, b * scale, c * scale, d * scale


@compiled
def compare_row(means: FloatArray, stabilizer: float, is_scalar: bool, out: FloatArray) -> None:
    """Put ``Q_SSIM`` of a row of windows, from the means of the twelve sums over each, into `out`."""
    for x in range(out.size):
        b, c, d, f, g, h = means[0, x], means[1, x], means[2, x], means[3, x], means[4, x], means[5, x]
        first, second = b * b + c * c + d * d, f * f + g * g + h * h
        # conj(x) y of the two means: scalar part, then i, j and k
        product = b * f + c * g + d * h, d * g - c * h, b * h - d * f, c * f - b * g
        structure = means[8, x] - product[0], means[9, x] - product[1], means[10, x] - product[2], means[11, x] - product[3]
        # twice the scalar part and the constant; vector parts have no constant
        light, shape = 2 * product[0] + stabilizer, 2 * structure[0] + stabilizer
        total = (first + second + stabilizer) * (max(means[6, x] - first, 0.0) + max(means[7, x] - second, 0.0) + stabilizer)
        if is_scalar:
            inner = product[1] * structure[1] + product[2] * structure[2] + product[3] * structure[3]
            # scalar part of conj(a) b: the inner product of the two as vectors of four
            out[x] = (light * shape + 4 * inner) / total
        else:
            of_light = light * light + 4 * (product[1] * product[1] + product[2] * product[2] + product[3] * product[3])
            of_shape = shape * shape + 4 * (structure[1] * structure[1] + structure[2] * structure[2] + structure[3] * structure[3])
            out[x] = math.sqrt(of_light * of_shape) / total


@compiled
def compare_windows(first: FloatArray, second: FloatArray, side: int, stabilizer: float, is_scalar: bool, out: FloatArray) -> None:
    """Put the scalar part or the modulus of ``Q_SSIM`` of every window of this side into `out`.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
    side : int
    stabilizer : float
        ``C_1`` and ``C_2``.
    is_scalar : bool
    out : ndarray of float64, shape (h - side + 1, w - side + 1)
    """
    _, h, w = first.shape
    rows = np.ones((ONE + 1, w))
    sums = np.zeros((N_SUMS, w))
    means = np.empty((N_SUMS, w - side + 1))
    for y in range(h):
        # the row that enters the window is added, the one that leaves it is formed again and taken off: no rows of products are kept
        for is_leaving in range(2):
            row = y - side * is_leaving
            if row < 0:
                continue
            for c in range(3):
                convert(first[c, row], rows[c])
                convert(second[c, row], rows[c + 3])
            for number, left, right, sign in TERMS:
                add_product(sums[number], rows[left], rows[right], sign * (1.0 - 2.0 * is_leaving))
        if y < side - 1:
            continue
        for number in range(0, N_SUMS, 4):
            slide_four(sums[number : number + 4], side, 1 / (side * side), means[number : number + 4])
        compare_row(means, stabilizer, is_scalar, out[y - side + 1])
