"""Gaussian filters and changes of resolution; cells are squares of pixels counted from the corner of a tile, which lies on their grid."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import cv2
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

    _Sample = TypeVar("_Sample", bound=np.generic)

CUT_OFF = 3.0
"""Standard deviations at which Gaussians end, so that their reach is finite."""


LARGEST_EXPONENT = 500
"""Squares of larger powers of two, and sums of them, are near the end of double precision."""


def reach_of(sigma: float) -> int:
    """Return the radius of a Gaussian filter, in the unit of its standard deviation."""
    return int(CUT_OFF * sigma + 0.5)


@lru_cache(maxsize=64)
def _gaussian(sigma: float) -> FloatArray:
    radius = reach_of(sigma)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    result: FloatArray = weights / weights.sum()
    return result


def smooth(planes: FloatArray, sigma: float) -> FloatArray:
    """Return planes, shape (..., h, w), smoothed by a Gaussian; borders are mirrored."""
    weights = _gaussian(sigma)
    # contiguous, whatever the layout of the planes is
    result = np.empty(planes.shape, planes.dtype)
    for plane, out in zip(planes.reshape(-1, *planes.shape[-2:]), result.reshape(-1, *planes.shape[-2:]), strict=True):
        cv2.sepFilter2D(plane, -1, weights, weights, dst=out, borderType=cv2.BORDER_REFLECT)
    return result


def unit_of(samples: Iterable[NDArray[Any]]) -> float:
    """Return the power of two in whose unit squares of floats stay finite; 1 for samples of usual size and for integers."""
    largest = max((float(np.abs(block).max()) for block in samples if block.dtype.kind == "f" and block.size), default=0.0)
    return 2.0 ** max(math.frexp(largest)[1] - LARGEST_EXPONENT, 0)


def average_cells(planes: FloatArray, side: int) -> FloatArray:
    """Return the means over cells of planes, shape (..., rows, columns); incomplete cells are completed by repeating the border."""
    padded = _complete(planes, side)
    rows, columns = padded.shape[-2] // side, padded.shape[-1] // side
    if side == 2:
        # OpenCV adds four samples in another order in the last columns, so that they would depend on the width of a tile
        pairs = padded[..., ::2, :] + padded[..., 1::2, :]
        quarters: FloatArray = ((pairs[..., ::2] + pairs[..., 1::2]) / 4).astype(np.float32, copy=False)
        return quarters
    cells = np.empty((*planes.shape[:-2], rows, columns), np.float32)
    for plane, out in zip(padded.reshape(-1, rows * side, columns * side), cells.reshape(-1, rows, columns), strict=True):
        cv2.resize(np.ascontiguousarray(plane, np.float32), (columns, rows), dst=out, interpolation=cv2.INTER_AREA)
    return cells


def largest_of_cells(planes: NDArray[_Sample], side: int) -> NDArray[_Sample]:
    """Return the largest value in each cell of planes, shape (..., rows, columns)."""
    padded = _complete(planes, side)
    rows, columns = padded.shape[-2] // side, padded.shape[-1] // side
    result: NDArray[_Sample] = padded.reshape(*planes.shape[:-2], rows, side, columns, side).max(axis=(-3, -1))
    return result


def interpolate_cells(cells: FloatArray, side: int, shape: tuple[int, int]) -> FloatArray:
    """Return cells, shape (..., rows, columns), interpolated bilinearly between their centers and cut to a shape."""
    rows, columns = cells.shape[-2:]
    planes = np.empty((*cells.shape[:-2], rows * side, columns * side), np.float32)
    for plane, out in zip(cells.reshape(-1, rows, columns), planes.reshape(-1, rows * side, columns * side), strict=True):
        cv2.resize(np.ascontiguousarray(plane, np.float32), (columns * side, rows * side), dst=out, interpolation=cv2.INTER_LINEAR)
    return planes[..., : shape[0], : shape[1]]


def repeat_cells(cells: NDArray[_Sample], side: int, shape: tuple[int, int]) -> NDArray[_Sample]:
    """Return cells, shape (..., rows, columns), repeated over their pixels and cut to a shape."""
    return np.repeat(np.repeat(cells, side, axis=-2), side, axis=-1)[..., : shape[0], : shape[1]]


def _complete(planes: NDArray[Any], side: int) -> NDArray[Any]:
    rows, columns = (-length % side for length in planes.shape[-2:])
    if rows == columns == 0:
        return planes
    return np.pad(planes, ((0, 0),) * (planes.ndim - 2) + ((0, rows), (0, columns)), mode="edge")
