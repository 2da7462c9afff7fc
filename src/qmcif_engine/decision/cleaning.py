"""Samples that would mislead decisions: lone outliers, and light that is cut off at the end of the range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from qmcif_engine.decision.filters import average_cells, interpolate_cells, reach_of, smooth

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray

LIGHT_PX = 8.0
"""Standard deviation of the window within which defocus is taken to conserve light."""

LIGHT_CELL_PX = 4
LIGHT_CELL_SIGMA = (LIGHT_PX**2 - 3.9) ** 0.5 / LIGHT_CELL_PX
"""With the mean over a cell and the interpolation, whose variances add up to 3.9 px^2, a Gaussian of `LIGHT_PX`."""

LEAST_SHARE = 0.01
"""Share of clipped samples in the window, about 4 px, below which nothing is raised: lone clipped samples are noise."""

CLIPPED = 254 / 255
"""Share of the largest sample from which samples count as clipped: lossy compression moves them by a gray level."""

LARGEST_LIFT = 64
"""Light is raised to at most so many times the largest sample, so that it stays a number of single precision."""

CLEANING_REACH_PX = 1
LIGHT_REACH_PX = LIGHT_CELL_PX * (reach_of(LIGHT_CELL_SIGMA) + 2)


def clip_outliers(planes: FloatArray) -> FloatArray:
    """Return planes, shape (c, h, w), in which a sample outside the range of its eight neighbors is clipped to it, as hot pixels are."""
    ring = np.ones((3, 3), np.uint8)
    ring[1, 1] = 0
    result = np.empty_like(planes)
    for plane, out in zip(planes, result, strict=True):
        low, high = (edge(plane, ring, borderType=cv2.BORDER_REPLICATE) for edge in (cv2.erode, cv2.dilate))
        np.minimum(np.maximum(plane, low), high, out=out)
    return result


def find_clipped(planes: FloatArray, highest: float) -> BoolArray:
    """Return which samples count as cut off at the largest one of their type."""
    clipped: BoolArray = planes >= highest * CLIPPED
    return clipped


def measure_light(planes: FloatArray, highest: float) -> FloatArray:
    """Return the light of an image and the share of clipped samples around each cell of `LIGHT_CELL_PX`, shape (c + 1, rows, columns)."""
    share = find_clipped(planes, highest).mean(axis=0, dtype=np.float32)
    return smooth(average_cells(np.concatenate([planes, share[None]]), LIGHT_CELL_PX), LIGHT_CELL_SIGMA)


def add_light(most: FloatArray, light: FloatArray) -> None:
    """Raise the largest light so far, shape (c, rows, columns), to that of an image where next to none of it is clipped."""
    np.maximum(most, light[:-1], out=most, where=np.broadcast_to(light[-1] <= LEAST_SHARE, most.shape))


def raise_clipped(planes: FloatArray, most: FloatArray, highest: float) -> FloatArray:
    """Return planes in which clipped samples are raised by the light that their surroundings lack.

    Parameters
    ----------
    planes : ndarray of float32, shape (c, h, w)
    most : ndarray of float32, shape (c, rows, columns)
        The largest light of the images in which next to none of it is clipped (`add_light`), on cells of `LIGHT_CELL_PX`.
    highest : float

    Notes
    -----
    Defocus conserves light: a reflection that is cut off at the end of the range where it is sharp, or nearly so, lacks beside an image in
    which it is spread and not clipped what was cut off. With ``G`` a Gaussian of `LIGHT_PX`, clipped samples of image ``l`` are raised by
    ``(max_k G*I_k - G*I_l) / (G*c_l)``, ``c_l`` being 1 where image ``l`` is clipped, and ``k`` the images with ``G*c_k`` of at most
    `LEAST_SHARE` there. Without it a reflection has its hardest rim where it is a little out of focus, and grows.
    """
    clipped = find_clipped(planes, highest)
    if not clipped.any():
        return planes
    light = measure_light(planes, highest)
    own, share = light[:-1], light[-1]
    lift = np.where(share > LEAST_SHARE, np.clip((most - own) / np.maximum(share, LEAST_SHARE), 0, LARGEST_LIFT * highest), 0)
    raised = interpolate_cells(lift.astype(np.float32), LIGHT_CELL_PX, planes.shape[-2:]) * clipped
    raised += planes
    return raised
