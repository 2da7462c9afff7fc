"""What the images have in a part of an image, compared with what they have when cut along a map (`qmcif_engine.cleanup.seams`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.boxes import sum_boxes
from qmcif_engine.kernels.compilation import compiled
from qmcif_engine.kernels.cutting import cut_brightness
from qmcif_engine.kernels.gaussians import COARSE_REACH_PX, WINDOW_REACH_PX, detail_power, smooth_inside

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

REACH_PX = COARSE_REACH_PX + WINDOW_REACH_PX
"""How far from a pixel it is looked."""


@compiled
def _take_over(values: FloatArray, owners: IndexArray, source: int, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = values[x] if owners[x] == source else out[x]


@compiled
def _raise_to(values: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = max(out[x], values[x])


@compiled
def _raise_near(values: FloatArray, counts: FloatArray, out: FloatArray) -> None:
    for x in range(out.size):
        out[x] = max(out[x], values[x]) if counts[x] > 0 else out[x]


@compiled
def take_in_image(
    block: FloatArray,
    source: int,
    corner: tuple[int, int],
    near: IndexArray,
    is_pair: bool,
    taps: tuple[FloatArray, FloatArray, FloatArray],
    cut: FloatArray,
    own: FloatArray,
    sharpest: FloatArray,
) -> None:
    """Add what one image has in a part of the image.

    Parameters
    ----------
    block : ndarray of float, shape (3, H, W)
    source : int
        The number of the image.
    corner : tuple of int
        Row and column where `near` begins, which may lie outside the image.
    near : ndarray of uint16, shape (h, w)
        Decisions in the part and `REACH_PX` around it.
    is_pair : bool
        Whether `near` has two values only.
    taps : tuple of ndarray of float32
        Weights of the fine and the coarse Gaussian, and of the window.
    cut : ndarray of float32, shape (h, w)
        Brightness of the composition, to be filled in where the image is chosen.
    own : ndarray of float32, shape (h - 10, w - 10)
        Power of detail of each pixel's own image, to be filled in likewise.
    sharpest : ndarray of float32, shape (h - 22, w - 22)
        Mean power of the sharpest image near, raised where this one is near; of two images that meet, either counts everywhere: where
        only one is near there is no seam.
    """
    fine, coarse, window = taps
    brightness, power, mean = np.empty(near.shape, np.float32), np.empty(own.shape, np.float32), np.empty(sharpest.shape, np.float32)
    cut_brightness(block, corner[0], corner[1], brightness)
    detail_power(brightness, fine, coarse, power)
    smooth_inside(power, window, mean)
    for y in range(near.shape[0]):
        _take_over(brightness[y], near[y], source, cut[y])
    for y in range(own.shape[0]):
        _take_over(power[y], near[y + COARSE_REACH_PX, COARSE_REACH_PX:], source, own[y])
    # no need to ask who is near: of a pair both are, wherever a seam can be
    if is_pair:
        for y in range(sharpest.shape[0]):
            _raise_to(mean[y], sharpest[y])
        return
    counts = np.empty(sharpest.shape, np.float32)
    # above 0 where the image is chosen anywhere within reach
    sum_boxes((near == source).astype(np.float32), 2 * REACH_PX + 1, counts)
    for y in range(sharpest.shape[0]):
        _raise_near(mean[y], counts[y], sharpest[y])


@compiled
def _is_less(found: FloatArray, sharpest: FloatArray, factor: np.float32, faint: np.float32) -> bool:
    n_more = 0
    for y in range(found.shape[0]):
        row, other = found[y], sharpest[y]
        for x in range(row.size):
            n_more += row[x] > factor * (other[x] + faint)
    return n_more == 0


@compiled
def compare_cut(
    cut: FloatArray,
    own: FloatArray,
    sharpest: FloatArray,
    taps: tuple[FloatArray, FloatArray, FloatArray],
    faint: float,
    ratios: tuple[float, float],
    is_wanted: BoolArray,
    out: FloatArray,
) -> None:
    """Put how much of a seam there is into the wanted pixels of `out`, from what `take_in_image` gathered of all images."""
    fine, coarse, window = taps
    # ratios of amplitudes, while powers are compared: hence the squares and roots
    least, most = np.float32(ratios[0]), np.float32(ratios[1])
    power, found, owned = np.empty(own.shape, np.float32), np.empty(sharpest.shape, np.float32), np.empty(sharpest.shape, np.float32)
    detail_power(cut, fine, coarse, power)
    smooth_inside(power, window, found)
    if _is_less(found, sharpest, least * least, np.float32(faint)):  # what each pixel's own image has can only account for more
        return
    smooth_inside(own, window, owned)
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            if is_wanted[y, x]:
                accounted = max(sharpest[y, x], owned[y, x]) + np.float32(faint)
                out[y, x] = min(max((math.sqrt(found[y, x] / accounted) - least) / (most - least), np.float32(0)), np.float32(1))
