"""Overlapping patches of an image: cut on a grid with a step, and put together again by averaging where they overlap."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray


class PatchGrid(NamedTuple):
    """Where the patches of an image begin; the last of each axis end at its border, so that every pixel lies in one.

    Attributes
    ----------
    rows, columns : ndarray of int
    side_px : int
        Side of a patch.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    side_px: int


def plan_patches(shape: tuple[int, int], *, side_px: int, step_px: int) -> PatchGrid:
    """Return the grid of an image at least as large as a patch."""
    starts = []
    for length in shape:
        last = length - side_px
        regular = np.arange(0, last + 1, step_px)
        starts.append(regular if regular[-1] == last else np.append(regular, last))
    return PatchGrid(starts[0], starts[1], side_px)


def pad_to_patch(stack: FloatArray, *, side_px: int) -> FloatArray:
    """Extend ``(..., h, w)`` by reflection at its lower and right side where it is smaller than a patch."""
    missing = [max(0, side_px - length) for length in stack.shape[-2:]]
    return np.pad(stack, [(0, 0)] * (stack.ndim - 2) + [(0, count) for count in missing], mode="symmetric")


def cut_row(planes: FloatArray, grid: PatchGrid, row: int) -> FloatArray:
    """Return the patches that begin in one row of the grid, shape (..., number of columns, side, side)."""
    top = grid.rows[row]
    strip = planes[..., top : top + grid.side_px, :]
    windows = np.lib.stride_tricks.sliding_window_view(strip, grid.side_px, axis=-1)[..., grid.columns, :]
    return np.moveaxis(windows, -3, -2)  # (..., side, count, side) to (..., count, side, side)


class PatchAverage:
    """The running mean of overlapping patches, shape (..., h, w)."""

    def __init__(self, shape: tuple[int, ...], grid: PatchGrid) -> None:
        self._total = np.zeros(shape)
        self._count = np.zeros(shape[-2:])
        self._grid = grid

    def add_row(self, row: int, patches: FloatArray) -> None:
        """Add the patches of one row of the grid, shape (..., number of columns, side, side)."""
        top, side = self._grid.rows[row], self._grid.side_px
        for number, left in enumerate(self._grid.columns):
            place = np.s_[..., top : top + side, left : left + side]
            self._total[place] += patches[..., number, :, :]
            self._count[place] += 1

    def mean(self) -> FloatArray:
        """Return the mean at each pixel."""
        return self._total / self._count
