"""Evidence that one of two images is the sharp one, because the fused image, blurred, does not explain it, for pixels in small boxes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.blurring import SPLINE, blur_cell, expand_cell
from qmcif_engine.kernels.cells import copy_cell, largest_size
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.flat import choose, fill, measure_difference, sum_seventeen, sum_three, take_least, take_where_less

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

MARGIN_PX = 16
"""Around a box: the widest blur that is made in full resolution, and the window. A multiple of four, as the next one."""

NEAR_PX = 8
"""The part of that in which only the window is left."""

_N_PIXELS = 17 * 17
"""In the window in which one blur is sought."""


@compiled
def measure_rests(
    planes: tuple[FloatArray, FloatArray, FloatArray],
    coarse: FloatArray,
    taps: tuple[FloatArray, ...],
    place: tuple[int, int, int],
    blur: int,
    buffers: FloatArray,
    rests: FloatArray,
) -> None:
    """Put what the fused image, blurred in one way, leaves of two images into `rests`.

    Parameters
    ----------
    planes : tuple of three ndarray of float, shape (3, n)
        Flat: fused image, first and second image.
    coarse : ndarray of float, shape (s, 3, h / 4, w / 4)
    taps : tuple of ndarray of float
    place : tuple of int
        Top and left of the flat images in the whole one, and their width.
    blur : int
        Which: the narrow ones, then the coarse ones.
    buffers : ndarray of float, shape (4, n)
    rests : ndarray of float, shape (2, m)
        Without the outermost ``MARGIN_PX - NEAR_PX`` rows.
    """
    fused, first, second = planes
    top, left, width = place
    found, rows = buffers[:3], buffers[3]
    n, skipped = rows.size, (MARGIN_PX - NEAR_PX) * width
    spline = SPLINE.astype(fused.dtype)
    for c in range(3):
        if blur < len(taps):
            blur_cell(fused[c], width, taps[blur], rows, found[c])
        else:
            expand_cell(coarse[blur - len(taps), c], top + MARGIN_PX - NEAR_PX, left, width, spline, rows, found[c][skipped : n - skipped])
    measure_difference(first, found, skipped, rests[0])
    measure_difference(second, found, skipped, rests[1])


@compiled
def weigh_rests(
    images: tuple[FloatArray, FloatArray],
    is_first: BoolArray,
    coarse: FloatArray,
    taps: tuple[FloatArray, ...],
    is_wanted: BoolArray,
    boxes: NDArray[np.int64],
    limits: FloatArray,
    out: FloatArray,
    trust: FloatArray,
) -> None:
    """Put the evidence that the second of two images is the sharp one into `out`, by what the fused image, blurred, leaves of them.

    Parameters
    ----------
    images : tuple of two ndarray of float, shape (3, h, w)
    is_first : ndarray of bool, shape (h, w)
        Where the fused image is taken from the first image.
    coarse : ndarray of float, shape (s, 3, h / 4, w / 4)
        The fused image under wide blurs, in a quarter of the resolution and with a border.
    taps : tuple of ndarray of float
        The narrow blurs from their center on, of the dtype of the images.
    is_wanted : ndarray of bool, shape (h, w)
    boxes : ndarray of int64, shape (n, 4)
    limits : ndarray of float64, shape (4,)
        The noise power, the share of the difference that is unexplained in any case, and the shares between which evidence fades.
    out, trust : ndarray of float, shape (h, w)
        The evidence, and how far the blurred image is trusted, from 0 to 1, by which it is multiplied.
    """
    h, w = out.shape
    noise_power, least_rest, well, badly = limits
    # one buffer for all boxes: nine planes and four buffers of the whole copy, eight of its inner rows
    size = largest_size(boxes, MARGIN_PX)
    room, room_for_choice = np.zeros(21 * size, images[0].dtype), np.empty(size, np.bool_)
    for box in boxes:
        top, left, width = box[0] - MARGIN_PX, box[1] - MARGIN_PX, box[3] - box[1] + 2 * MARGIN_PX
        n, skipped = (box[2] - box[0] + 2 * MARGIN_PX) * width, (MARGIN_PX - NEAR_PX) * width
        m, is_chosen = n - 2 * skipped, room_for_choice[:n]
        whole, near = room[: 13 * n].reshape(13, n), room[13 * n : 13 * n + 8 * m].reshape(8, m)
        fused, first, second, buffers = whole[:3], whole[3:6], whole[6:9], whole[9:]
        rests, fitting, least, left_over, sums, small_sums = near[:2], near[2:4], near[4], near[5], near[6], near[7]
        fours, rows = buffers[0][:m], buffers[1][:m]
        copy_cell(is_first, top, left, width, is_chosen)
        for c in range(3):
            copy_cell(images[0][c], top, left, width, first[c])
            copy_cell(images[1][c], top, left, width, second[c])
            choose(is_chosen, first[c], second[c], fused[c])
        fill(least, np.inf)
        for blur in range(len(taps) + coarse.shape[0]):
            measure_rests((fused, first, second), coarse, taps, (top, left, width), blur, buffers, rests)
            # one blur for both images and for all pixels of a neighborhood: flat ground is explained by any blur, its surroundings are not
            choose(is_chosen[skipped:], rests[1], rests[0], left_over)
            sum_seventeen(left_over, width, fours, rows, sums)
            take_where_less(sums, least, rests[0], fitting[0])
            take_where_less(sums, least, rests[1], fitting[1])
            take_least(sums, least)
        measure_difference(first, second, skipped, left_over)
        sum_seventeen(left_over, width, fours, rows, sums)
        sum_three(left_over, width, rows, small_sums)
        for y in range(box[0], min(box[2], h)):
            start = (y - box[0] + NEAR_PX) * width - left
            for x in range(box[1], min(box[3], w)):
                if is_wanted[y, x]:
                    at = start + x
                    share = least[at] / (sums[at] + _N_PIXELS * 2.5 * noise_power)
                    # from 1 to 0 in between, without a step
                    gate = min(max((badly - share) / (badly - well), 0), 1)
                    trust[y, x] = gate
                    # a share of the difference near the pixel counts as unexplained in any case
                    floor = noise_power + least_rest * small_sums[at] / 9
                    out[y, x] = gate * math.log((fitting[1, at] + floor) / (fitting[0, at] + floor)) if gate > 0 else 0
