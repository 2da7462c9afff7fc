"""Evidence that one of two images is the sharp one, because it explains the other, for pixels in small boxes of an image."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.kernels.blurring import SPLINE, blur_cell, expand_cell
from qmcif_engine.kernels.cells import copy_cell, largest_size
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import fill, measure_difference, sum_five, sum_three, take_least

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

MARGIN_PX = 8
"""Around a box: the narrow blur and the comparison. A multiple of four, as `expand_cell` wants it."""

_MEAN_LEVEL = 128.0
"""Taken from samples before they are squared, which keeps the sums small and their rounding fine."""

_N_PIXELS = 25
"""In the window that contrast is measured in."""


@compiled
def _take_squares(sums: FloatArray, share: float | np.floating[Any], out: FloatArray) -> None:
    for x in range(out.size):
        out[x] -= share * (sums[x] * sums[x])


@compiled
def _subtract(values: FloatArray, level: float | np.floating[Any], out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = values[x] - level


@compiled
def measure_variance(planes: FloatArray, width: int, buffers: FloatArray, out: FloatArray) -> None:
    """Put 25 times the variance over 5 x 5 pixels, summed over the planes of a flat image, into `out`.

    Parameters
    ----------
    planes : ndarray of float, shape (3, n)
    width : int
    buffers : ndarray of float, shape (5, n)
    out : ndarray of float, shape (n,)
    """
    kind = planes.dtype.type
    # in the type of the planes, so that single precision stays single
    level, share = kind(_MEAN_LEVEL), kind(1 / _N_PIXELS)
    power, rows, level_planes = buffers[0], buffers[1], buffers[2:]
    for c in range(3):
        fill(level_planes[c], level)
    measure_difference(planes, level_planes, 0, power)
    sum_five(power, width, rows, out)
    # the constant planes are not needed any more
    centered, sums = buffers[2], buffers[3]
    for c in range(3):
        _subtract(planes[c], level, centered)
        sum_five(centered, width, rows, sums)
        _take_squares(sums, share, out)


@compiled
def measure_unexplained(
    sharp: FloatArray,
    others: FloatArray,
    coarse: FloatArray,
    taps: FloatArray,
    place: tuple[int, int, int],
    buffers: FloatArray,
    least: FloatArray,
) -> None:
    """Put the power that an image, blurred as well as possible, leaves of another one into `least`, summed over 3 x 3 pixels.

    Parameters
    ----------
    sharp, others : ndarray of float, shape (3, n)
        Flat.
    coarse : ndarray of float, shape (s, 3, h / 4, w / 4)
    taps : ndarray of float, shape (r + 1,)
    place : tuple of int
        Top and left of the flat images in the whole one, and their width.
    buffers : ndarray of float, shape (5, n)
    least : ndarray of float, shape (n,)
    """
    top, left, width = place
    found, rows, power = buffers[:3], buffers[3], buffers[4]
    spline = SPLINE.astype(sharp.dtype)
    # the blur that leaves least is chosen pixel by pixel, after the mean over the window
    fill(least, np.inf)
    for blur in range(coarse.shape[0] + 1):
        for c in range(3):
            # narrow blurs need the full resolution; wide ones come ready, in a quarter of it
            if blur == 0:
                blur_cell(sharp[c], width, taps, rows, found[c])
            else:
                expand_cell(coarse[blur - 1, c], top, left, width, spline, rows, found[c])
        measure_difference(others, found, 0, power)
        sum_three(power, width, rows, found[0])
        take_least(found[0], least)


@compiled
def weigh_explanations(
    images: tuple[FloatArray, FloatArray],
    coarse: tuple[FloatArray, FloatArray],
    taps: FloatArray,
    is_wanted: BoolArray,
    boxes: NDArray[np.int64],
    limits: FloatArray,
    out: FloatArray,
) -> None:
    """Put the evidence that the second of two images is the sharp one into `out`, at the wanted pixels in some boxes.

    Parameters
    ----------
    images : tuple of two ndarray of float, shape (3, h, w)
    coarse : tuple of two ndarray of float, shape (s, 3, h / 4, w / 4)
        Both images under wide blurs, in a quarter of the resolution and with a border.
    taps : ndarray of float, shape (r + 1,)
        The narrow blur from its center on, of the dtype of the images.
    is_wanted : ndarray of bool, shape (h, w)
    boxes : ndarray of int64, shape (n, 4)
    limits : ndarray of float64, shape (3,)
        The noise power, the share of contrast and the most that it may add.
    out : ndarray of float, shape (h, w)
    """
    h, w = out.shape
    noise_power, share, most = limits
    # one buffer for all boxes: 2 x 3 planes, 5 buffers, 2 results of each of two measures
    room = np.zeros(15 * largest_size(boxes, MARGIN_PX), images[0].dtype)
    for box in boxes:
        top, left, width = box[0] - MARGIN_PX, box[1] - MARGIN_PX, box[3] - box[1] + 2 * MARGIN_PX
        n = (box[2] - box[0] + 2 * MARGIN_PX) * width
        cells = room[: 15 * n].reshape(15, n)
        first, second, buffers, least, variance = cells[:3], cells[3:6], cells[6:11], cells[11:13], cells[13:]
        for c in range(3):
            copy_cell(images[0][c], top, left, width, first[c])
            copy_cell(images[1][c], top, left, width, second[c])
        measure_unexplained(first, second, coarse[0], taps, (top, left, width), buffers, least[0])
        measure_unexplained(second, first, coarse[1], taps, (top, left, width), buffers, least[1])
        measure_variance(first, width, buffers, variance[0])
        measure_variance(second, width, buffers, variance[1])
        for y in range(box[0], min(box[2], h)):
            # where column 0 of this row would lie in the flat image
            start = (y - top) * width - left
            for x in range(box[1], min(box[3], w)):
                if is_wanted[y, x]:
                    at = start + x
                    # sums over 3 x 3 pixels; the noise keeps flat ground from deciding
                    by_first, by_second = least[0, at] / 9 + noise_power, least[1, at] / 9 + noise_power
                    of_first, of_second = max(variance[0, at], 0) / _N_PIXELS, max(variance[1, at], 0) / _N_PIXELS
                    contrast = share * math.log((of_second + noise_power) / (of_first + noise_power))
                    out[y, x] = math.log(by_first / by_second) + min(max(contrast, -most), most)
