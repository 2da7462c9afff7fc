"""Gaussian blurs that are tried on images near the edges of a decision map, the wide ones in a quarter of the resolution."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.blurring import COARSE_BORDER, COARSE_PX, blur_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray

CUT_OFF = 3.0
COARSE_CUT_OFF = 2.6
"""Where a Gaussian ends, in standard deviations, in full resolution and in a quarter of it."""

COARSE_WIDENING = 1.05
"""Variance of a blur in a quarter of the resolution beside that of its Gaussian: its tails end early. Which halos of bright objects are
explained depends on it; from 1.03 to 1.05 they are, on average over lenses, about as often as by Gaussians in full resolution."""

COARSE_VARIANCE = 5.25
"""What shrinking to a quarter of the resolution and enlarging again blur by themselves, in square pixels: means over squares 1.25, and
a quadratic spline 4."""

SHRUNK_BORDER = COARSE_BORDER + 5
"""Pixels that an image of a quarter of the resolution has around it before it is blurred: the radius of its widest blur more."""


def shrunk_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a shrunk image with its border."""
    return tuple(-(-length // COARSE_PX) + 2 * SHRUNK_BORDER for length in shape)


def blur_coarsely(planes: FloatArray, deviations: Sequence[float]) -> FloatArray:
    """Blur a shrunk image so that, enlarged again, it has the standard deviations given, in pixels of the image.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h + 2 b, w + 2 b)
        With a border of ``b = SHRUNK_BORDER`` pixels.
    deviations : sequence of float

    Returns
    -------
    ndarray of float, shape (s, c, h + 2 `COARSE_BORDER`, w + 2 `COARSE_BORDER`)
    """
    # what the blur itself needs of the border; the rest is for enlarging
    spare = SHRUNK_BORDER - COARSE_BORDER
    rows, found = np.empty((2, *planes.shape[1:]), planes.dtype)
    blurred = np.empty((len(deviations), len(planes), *found[spare:-spare, spare:-spare].shape), planes.dtype)
    for by_plane, deviation in zip(blurred, deviations, strict=True):
        taps = _coarse_taps(deviation, planes.dtype.name)
        for plane, result in zip(planes, by_plane, strict=True):
            blur_cell(plane.reshape(-1), plane.shape[1], taps, rows.reshape(-1), found.reshape(-1))
            result[:] = found[spare:-spare, spare:-spare]
    return blurred


@lru_cache
def gaussian_taps(deviation: float, dtype_name: str) -> FloatArray:
    """Return the weights of a Gaussian, cut off, from its center on."""
    return _sample_gaussian(deviation, int(CUT_OFF * deviation + 0.5)).astype(dtype_name)


@lru_cache
def _coarse_taps(deviation: float, dtype_name: str) -> FloatArray:
    """Return the weights, in a quarter of the resolution, of the Gaussian whose variance is the one wanted after it has been cut off."""
    # variances of blurs in a row add up: what shrinking and enlarging do already is taken off
    radius = math.ceil(COARSE_CUT_OFF * math.sqrt(deviation**2 - COARSE_VARIANCE) / COARSE_PX)
    wanted = (COARSE_WIDENING * deviation**2 - COARSE_VARIANCE) / COARSE_PX**2
    low, high = 0.1, float(deviation)
    # bisection: cutting a Gaussian off makes it narrower, and there is no formula for which one has the variance wanted after it
    for _ in range(60):
        middle = (low + high) / 2
        variance = 2 * np.sum(_sample_gaussian(middle, radius) * np.arange(radius + 1) ** 2)
        low, high = (middle, high) if variance < wanted else (low, middle)
    return _sample_gaussian(low, radius).astype(dtype_name)


def _sample_gaussian(deviation: float, radius: int) -> FloatArray:
    taps = np.exp(-0.5 * (np.arange(radius + 1) / deviation) ** 2)
    # half of a symmetric filter: the center counts once, all others twice
    normalized: FloatArray = taps / (2 * taps.sum() - taps[0])
    return normalized
