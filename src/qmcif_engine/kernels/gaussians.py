"""Gaussian means, and the detail between two of them, of the pixels that the kernels fit around.

Every pixel is summed by itself in a fixed order, and not in a running sum, so that its bytes depend on no tile. Where speed counts most,
all weights of a row are written out: the compiler then keeps the sums in registers, and does several pixels at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

FINE_REACH_PX, COARSE_REACH_PX, WINDOW_REACH_PX = 3, 5, 6
"""How far the Gaussians look."""


def gaussian_taps(sigma_px: float, reach_px: int, *, dtype: type[np.floating[Any]] = np.float32) -> FloatArray:
    """Return the weights of a Gaussian from its center on; with those of the other side they add up to one."""
    weights = np.exp(-0.5 * (np.arange(-reach_px, reach_px + 1) / sigma_px) ** 2)
    taps: FloatArray = (weights / weights.sum())[reach_px:].astype(dtype)
    return taps


@compiled
def _average_rows(rows: FloatArray, fine: FloatArray, coarse: FloatArray, finer: FloatArray, coarser: FloatArray) -> None:
    """Put both means over eleven rows, around the middle one, into `finer` and `coarser`."""
    # scalars in front of the loop, so that the compiler need not ask whether writing changes them
    f0, f1, f2, f3 = fine[0], fine[1], fine[2], fine[3]
    c0, c1, c2, c3, c4, c5 = coarse[0], coarse[1], coarse[2], coarse[3], coarse[4], coarse[5]
    a5, a4, a3, a2, a1, a0 = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    b1, b2, b3, b4, b5 = rows[6], rows[7], rows[8], rows[9], rows[10]
    for x in range(finer.size):
        # rows at the same distance above and below share a weight, and both Gaussians the sums of such rows
        one, two, three = a1[x] + b1[x], a2[x] + b2[x], a3[x] + b3[x]
        finer[x] = f0 * a0[x] + f1 * one + f2 * two + f3 * three
        coarser[x] = c0 * a0[x] + c1 * one + c2 * two + c3 * three + c4 * (a4[x] + b4[x]) + c5 * (a5[x] + b5[x])


@compiled
def _square_detail(finer: FloatArray, coarser: FloatArray, fine: FloatArray, coarse: FloatArray, out: FloatArray) -> None:
    """Put the squared difference of the means along a row into `out`."""
    f0, f1, f2, f3 = fine[0], fine[1], fine[2], fine[3]
    c0, c1, c2, c3, c4, c5 = coarse[0], coarse[1], coarse[2], coarse[3], coarse[4], coarse[5]
    for x in range(out.size):
        first = (
            f0 * finer[x + 5] + f1 * (finer[x + 4] + finer[x + 6]) + f2 * (finer[x + 3] + finer[x + 7]) + f3 * (finer[x + 2] + finer[x + 8])
        )
        second = c0 * coarser[x + 5] + c1 * (coarser[x + 4] + coarser[x + 6]) + c2 * (coarser[x + 3] + coarser[x + 7])
        second += c3 * (coarser[x + 2] + coarser[x + 8]) + c4 * (coarser[x + 1] + coarser[x + 9]) + c5 * (coarser[x] + coarser[x + 10])
        out[x] = (first - second) * (first - second)


@compiled
def detail_power(plane: FloatArray, fine: FloatArray, coarse: FloatArray, out: FloatArray) -> None:
    """Put the squared difference of two means into `out`, which is `COARSE_REACH_PX` smaller on every side.

    `fine` and `coarse` are the weights of the Gaussians from their center on.
    """
    finer, coarser = np.empty(plane.shape[1], np.float32), np.empty(plane.shape[1], np.float32)
    for y in range(out.shape[0]):
        _average_rows(plane[y : y + 2 * COARSE_REACH_PX + 1], fine, coarse, finer, coarser)
        _square_detail(finer, coarser, fine, coarse, out[y])


@compiled
def _average_thirteen_rows(rows: FloatArray, taps: FloatArray, sums: FloatArray) -> None:
    t0, t1, t2, t3, t4, t5, t6 = taps[0], taps[1], taps[2], taps[3], taps[4], taps[5], taps[6]
    a6, a5, a4, a3, a2, a1, a0 = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6]
    b1, b2, b3, b4, b5, b6 = rows[7], rows[8], rows[9], rows[10], rows[11], rows[12]
    for x in range(sums.size):
        near = t0 * a0[x] + t1 * (a1[x] + b1[x]) + t2 * (a2[x] + b2[x]) + t3 * (a3[x] + b3[x])
        sums[x] = near + t4 * (a4[x] + b4[x]) + t5 * (a5[x] + b5[x]) + t6 * (a6[x] + b6[x])


@compiled
def _average_thirteen(row: FloatArray, taps: FloatArray, out: FloatArray) -> None:
    t0, t1, t2, t3, t4, t5, t6 = taps[0], taps[1], taps[2], taps[3], taps[4], taps[5], taps[6]
    for x in range(out.size):
        near = t0 * row[x + 6] + t1 * (row[x + 5] + row[x + 7]) + t2 * (row[x + 4] + row[x + 8]) + t3 * (row[x + 3] + row[x + 9])
        out[x] = near + t4 * (row[x + 2] + row[x + 10]) + t5 * (row[x + 1] + row[x + 11]) + t6 * (row[x] + row[x + 12])


@compiled
def smooth_inside(plane: FloatArray, taps: FloatArray, out: FloatArray) -> None:
    """Put the mean of a plane into `out`, which is `WINDOW_REACH_PX` smaller on every side; `taps` as in `detail_power`."""
    sums = np.empty(plane.shape[1], np.float32)
    for y in range(out.shape[0]):
        _average_thirteen_rows(plane[y : y + 2 * WINDOW_REACH_PX + 1], taps, sums)
        _average_thirteen(sums, taps, out[y])


@compiled
def _start_mean(values: FloatArray, tap: float, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = tap * values[x]


@compiled
def _add_both(before: FloatArray, after: FloatArray, tap: float, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] += tap * (before[x] + after[x])


@compiled
def average_inside(plane: FloatArray, taps: FloatArray, out: FloatArray) -> None:
    """Put the mean of a plane by any symmetric weights into `out`, which is as much smaller on every side as the weights look.

    Parameters
    ----------
    plane : ndarray of float64, shape (h, w)
    taps : ndarray of float64, shape (r + 1,)
        The weights from their center on.
    out : ndarray of float64, shape (h - 2 r, w - 2 r)
    """
    reach = taps.size - 1
    # down, then along: a Gaussian is the product of the two
    sums = np.empty(plane.shape[1], plane.dtype)
    for y in range(out.shape[0]):
        _start_mean(plane[y + reach], taps[0], sums)
        for k in range(1, reach + 1):
            _add_both(plane[y + reach - k], plane[y + reach + k], taps[k], sums)
        _start_mean(sums[reach:], taps[0], out[y])
        for k in range(1, reach + 1):
            _add_both(sums[reach - k :], sums[reach + k :], taps[k], out[y])
