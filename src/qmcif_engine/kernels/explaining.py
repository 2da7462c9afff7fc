"""What of one image another one, blurred, leaves unexplained, and the evidence that follows, for pixels in small boxes of a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.blurring import PHASES, blur_cell, expand_cell
from qmcif_engine.kernels.cells import copy_cell
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat_windows import sum_five, sum_seventeen, sum_three

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.kernels.array_types import BoolArray, FloatArray

MARGIN_PX = 6
"""Around a box: the narrow blur and the comparison. Two more than a multiple of four, as `expand_cell` wants it."""

EXACT_MARGIN_PX = 18
"""The same for what the fused picture explains: the widest blur that is made in full resolution, and the window around."""

_NEAR_PX = 10
"""The part of that in which only the window is left."""


@compiled
def _add_power(power: FloatArray, wanted: FloatArray, found: FloatArray) -> None:
    for x in range(power.size):
        rest = wanted[x] - found[x]
        power[x] += rest * rest


@compiled
def _fill(values: FloatArray, number: float) -> None:
    for x in range(values.size):
        values[x] = number


@compiled
def _take_least(values: FloatArray, least: FloatArray) -> None:
    for x in range(least.size):
        least[x] = min(least[x], values[x])


@compiled
def _center(values: FloatArray, level: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = values[x] - level[0]


@compiled
def _take_square(power: FloatArray, sums: FloatArray, share: FloatArray) -> None:
    for x in range(power.size):
        power[x] -= share[0] * (sums[x] * sums[x])


@compiled
def measure_variance(planes: FloatArray, width: int, constants: FloatArray, buffers: FloatArray, out: FloatArray) -> None:
    """Put 25 times the variance over 5 x 5 pixels, summed over the flat planes of a picture, into `out`.

    `constants` hold a mean level, which keeps the sums small, and 1 / 25; `buffers` have shape (3, n).
    """
    centered, rows, sums = buffers[0], buffers[1], buffers[2]
    power = np.zeros_like(out)
    nothing = np.zeros_like(out)
    for c in range(planes.shape[0]):
        _center(planes[c], constants[:1], centered)
        _add_power(power, centered, nothing)
    sum_five(power, width, rows, out)
    for c in range(planes.shape[0]):
        _center(planes[c], constants[:1], centered)
        sum_five(centered, width, rows, sums)
        _take_square(out, sums, constants[1:])


@compiled
def weigh_explanations(
    pictures: tuple[FloatArray, FloatArray],
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
    pictures : tuple of two ndarray of float, shape (3, h, w)
    coarse : tuple of two ndarray of float, shape (s, 3, h / 4, w / 4)
        Both pictures under wide blurs, in a quarter of the resolution and with a border.
    taps : ndarray of float, shape (r + 1,)
        The narrow blur from its center on, of the dtype of the pictures.
    is_wanted : ndarray of bool, shape (h, w)
    boxes : ndarray of int64, shape (n, 4)
    limits : ndarray of float, shape (3,)
        The noise power, the share of contrast and the most that it may add.
    out : ndarray of float, shape (h, w)
    """
    h, w = out.shape
    n_blurs = coarse[0].shape[0] + 1
    dtype = pictures[0].dtype
    phases, constants = PHASES.astype(dtype), np.array([128.0, 1 / 25]).astype(dtype)
    for box in boxes:
        top, left, width = box[0] - MARGIN_PX, box[1] - MARGIN_PX, box[3] - box[1] + 2 * MARGIN_PX
        n = (box[2] - box[0] + 2 * MARGIN_PX) * width
        planes, variances, least = np.empty((2, 3, n), dtype), np.zeros((2, n), dtype), np.empty((2, n), dtype)
        buffers, lines = np.zeros((4, n), dtype), np.empty((2, width), dtype)
        rows, found, power, sums = buffers[0], buffers[1], buffers[2], buffers[3]
        for number in range(2):
            for c in range(3):
                copy_cell(pictures[number][c], top, left, width, planes[number, c])
        for number in range(2):
            _fill(least[number], np.inf)
            for blur in range(n_blurs):
                _fill(power, 0.0)
                for c in range(3):
                    if blur == 0:
                        blur_cell(planes[number, c], width, taps, rows, found)
                    else:
                        expand_cell(coarse[number][blur - 1, c], top, left, width, phases, lines, found)
                    _add_power(power, planes[1 - number, c], found)
                sum_three(power, width, rows, sums)
                _take_least(sums, least[number])
            measure_variance(planes[number], width, constants, buffers[:3], variances[number])
        for y in range(box[0], min(box[2], h)):
            start = (y - top) * width - left
            for x in range(box[1], min(box[3], w)):
                if is_wanted[y, x]:
                    at = start + x
                    first, second = least[0, at] / 9 + limits[0], least[1, at] / 9 + limits[0]
                    calm, lively = max(variances[0, at], 0) / 25 + limits[0], max(variances[1, at], 0) / 25 + limits[0]
                    contrast = min(max(limits[1] * math.log(lively / calm), -limits[2]), limits[2])
                    out[y, x] = math.log(first / second) + contrast


@compiled
def _choose(is_first: BoolArray, first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = first[x] if is_first[x] else second[x]


@compiled
def _take_better(
    left: FloatArray, rests: tuple[FloatArray, FloatArray], least: FloatArray, fitting: tuple[FloatArray, FloatArray]
) -> None:
    """Keep what a blur leaves of both images where it explains the neighborhood better than those before."""
    first, second = rests
    fitting_first, fitting_second = fitting
    for x in range(least.size):
        is_better = left[x] < least[x]
        least[x] = left[x] if is_better else least[x]
        fitting_first[x] = first[x] if is_better else fitting_first[x]
        fitting_second[x] = second[x] if is_better else fitting_second[x]


@compiled
def _measure_rests(
    planes: tuple[FloatArray, FloatArray, FloatArray],
    coarse: FloatArray,
    taps: tuple[FloatArray, FloatArray],
    corner: tuple[int, int, int],
    blur: int,
    buffers: FloatArray,
    rests: FloatArray,
) -> None:
    """Put what the fused picture, blurred in one way, leaves of both images into `rests`, shape (2, n)."""
    fused, first, second = planes
    top, left, width = corner
    skipped = (EXACT_MARGIN_PX - _NEAR_PX) * width
    rows, found = buffers[0], buffers[1]
    near = found[skipped : found.size - skipped]
    phases = PHASES.astype(found.dtype)
    lines = np.empty((2, width), found.dtype)
    _fill(rests[0], 0.0)
    _fill(rests[1], 0.0)
    for c in range(3):
        if blur == 0:
            blur_cell(fused[c], width, taps[0], rows, found)
        elif blur == 1:
            blur_cell(fused[c], width, taps[1], rows, found)
        else:
            expand_cell(coarse[blur - 2, c], top, left, width, phases, lines, near)
        _add_power(rests[0], first[c], near)
        _add_power(rests[1], second[c], near)


@compiled
def weigh_rests(
    pictures: tuple[FloatArray, FloatArray],
    is_first: BoolArray,
    coarse: FloatArray,
    taps: tuple[FloatArray, FloatArray],
    is_wanted: BoolArray,
    boxes: NDArray[np.int64],
    limits: FloatArray,
    out: FloatArray,
) -> None:
    """Put the evidence that the second of two images is the sharp one into `out`, by what the fused picture, blurred, leaves of them.

    Parameters
    ----------
    pictures : tuple of two ndarray of float, shape (3, h, w)
    is_first : ndarray of bool, shape (h, w)
        Where the fused picture is taken from the first image.
    coarse : ndarray of float, shape (s, 3, h / 4, w / 4)
        The fused picture under wide blurs, in a quarter of the resolution and with a border.
    taps : tuple of two ndarray of float
        Two narrow blurs from their center on, of the dtype of the pictures.
    is_wanted : ndarray of bool, shape (h, w)
    boxes : ndarray of int64, shape (n, 4)
    limits : ndarray of float, shape (4,)
        The noise power, the share of the difference that is unexplained in any case, and the shares between which evidence fades.
    out : ndarray of float, shape (h, w)
    """
    h, w = out.shape
    dtype = pictures[0].dtype
    for box in boxes:
        top, left, width = box[0] - EXACT_MARGIN_PX, box[1] - EXACT_MARGIN_PX, box[3] - box[1] + 2 * EXACT_MARGIN_PX
        n, skipped = (box[2] - box[0] + 2 * EXACT_MARGIN_PX) * width, (EXACT_MARGIN_PX - _NEAR_PX) * width
        n_near = n - 2 * skipped
        whole, near, is_chosen = np.empty((3, 3, n), dtype), slice(skipped, n - skipped), np.empty(n, np.bool_)
        copy_cell(is_first, top, left, width, is_chosen)
        for c in range(3):
            copy_cell(pictures[0][c], top, left, width, whole[1, c])
            copy_cell(pictures[1][c], top, left, width, whole[2, c])
            _choose(is_chosen, whole[1, c], whole[2, c], whole[0, c])
        planes = (whole[0], whole[1][:, near], whole[2][:, near])
        buffers, sums, rests = np.zeros((3, n), dtype), np.zeros((4, n_near), dtype), np.empty((2, n_near), dtype)
        left_over, least, fitting = np.empty(n_near, dtype), np.full(n_near, np.inf, dtype), np.zeros((2, n_near), dtype)
        for blur in range(2 + coarse.shape[0]):
            _measure_rests(planes, coarse, taps, (top + EXACT_MARGIN_PX - _NEAR_PX, left, width), blur, buffers, rests)
            # one blur for both images and for all pixels of a neighborhood: flat ground is explained by any blur, its surroundings are not
            _choose(is_chosen[near], rests[1], rests[0], left_over)
            sum_seventeen(left_over, width, sums[:2], sums[2])
            _take_better(sums[2], (rests[0], rests[1]), least, (fitting[0], fitting[1]))
        difference = left_over
        _fill(difference, 0.0)
        for c in range(3):
            _add_power(difference, planes[1][c], planes[2][c])
        sum_seventeen(difference, width, sums[:2], sums[2])
        sum_three(difference, width, sums[0], sums[3])
        for y in range(box[0], min(box[2], h)):
            start = (y - box[0] + _NEAR_PX) * width - left
            for x in range(box[1], min(box[3], w)):
                if is_wanted[y, x]:
                    at = start + x
                    share = least[at] / (sums[2, at] + 289 * 2.5 * limits[0])
                    gate = min(max((limits[3] - share) / (limits[3] - limits[2]), 0), 1)
                    floor = limits[0] + limits[1] * sums[3, at] / 9
                    out[y, x] = gate * math.log((fitting[1, at] + floor) / (fitting[0, at] + floor)) if gate > 0 else 0
