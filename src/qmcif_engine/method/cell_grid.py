"""The grid of cells, `CELL_PX` pixels a side, on which decisions are made before their edges are drawn to the pixel.

Focus levels are means over windows much larger than a cell, so one level per cell tells as much as one per pixel, for a sixteenth of
the work. Cells cut off by the border of a block hold fewer pixels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy import ndimage

from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.patches import spread_patches, window_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

_Sample = TypeVar("_Sample", bound=np.generic)

SMALL_WINDOW = 5.0
"""Windows of fewer cells a side may end within a cell; larger ones have an odd number of whole cells."""


def cell_grid(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of cells of a block of this height and width."""
    return -(-shape[0] // CELL_PX), -(-shape[1] // CELL_PX)


def count_pixels(shape: tuple[int, int], *, row_step: int = 1) -> FloatArray:
    """Return how many pixels each cell has, shape (rows, columns), in every `row_step`-th row."""
    rows, columns = (
        np.bincount(np.arange(0, side, step) // CELL_PX, minlength=-(-side // CELL_PX))
        for side, step in zip(shape, (row_step, 1), strict=True)
    )
    counts: FloatArray = np.multiply.outer(rows, columns).astype(np.float32)
    return counts


def average_cells(plane: FloatArray) -> FloatArray:
    """Return the mean over each cell, shape (rows, columns)."""
    starts = [np.arange(0, side, CELL_PX) for side in plane.shape]
    # `reduceat` also sums the shorter cells at the lower and right border
    sums = np.add.reduceat(np.add.reduceat(plane, starts[0], axis=0), starts[1], axis=1)
    means: FloatArray = sums / count_pixels((plane.shape[0], plane.shape[1])).astype(plane.dtype)
    return means


def sample_cells(plane: NDArray[_Sample]) -> NDArray[_Sample]:
    """Return the values at the centers of the cells; a cell cut off by the border gives its nearest pixel."""
    # the pixel below and right of the exact center, which lies between pixels
    rows, columns = (np.minimum(np.arange(-(-side // CELL_PX)) * CELL_PX + CELL_PX // 2, side - 1) for side in plane.shape)
    return plane[np.ix_(rows, columns)]


def all_in_cells(plane: BoolArray) -> BoolArray:
    """Return in which cells all pixels are true, shape (rows, columns)."""
    rows, columns = (side * CELL_PX - length for side, length in zip(cell_grid(plane.shape), plane.shape, strict=True))
    # what lies beyond the border does not count against a cell
    padded = np.pad(plane, ((0, rows), (0, columns)), constant_values=True)
    return np.asarray(padded.reshape(padded.shape[0] // CELL_PX, CELL_PX, -1, CELL_PX).all(axis=(1, 3)))


def spread_cells(cells: NDArray[_Sample], shape: tuple[int, ...]) -> NDArray[_Sample]:
    """Give every pixel of a block of this height and width the value of its cell."""
    return np.ascontiguousarray(spread_patches(cells, patch_px=CELL_PX)[: shape[0], : shape[1]])


def odd_cells(side_px: int) -> int:
    """Return the odd number of cells whose side is nearest to so many pixels, at least one."""
    return max(1, 2 * round((side_px / CELL_PX - 1) / 2) + 1)


def mean_around(levels: FloatArray, *, side_px: int, scale: float = 1.0) -> FloatArray:
    """Average levels, one per cell, over the window of about this side around each cell, times `scale`; they continue by reflection."""
    side = max(1.0, side_px / CELL_PX)
    if side >= SMALL_WINDOW:
        return window_mean(levels, side_px=odd_cells(side_px), scale=scale)
    # on either side of the central cell: whole ones, and the part of one more that the window reaches into
    n_whole = int((side - 1) / 2)
    ends = (side - 1) / 2 - n_whole
    taps = np.array([ends, *[1.0] * (2 * n_whole + 1), ends])
    # both passes together multiply by the scale once
    taps *= math.sqrt(scale) / taps.sum()
    averaged: FloatArray = ndimage.correlate1d(ndimage.correlate1d(levels, taps, axis=0, mode="reflect"), taps, axis=1, mode="reflect")
    return averaged
