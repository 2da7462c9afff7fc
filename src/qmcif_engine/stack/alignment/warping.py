"""Resampling of a window of an image under a transform; a pixel has the same value whichever window it is asked for with."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import ndimage

from qmcif_engine.stack.alignment.resampling import N_PHASES, PHASE_BITS, TAPS_AFTER, TAPS_BEFORE, resample, tabulate_weights
from qmcif_engine.stack.alignment.transforms import apply_matrix, is_affine
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, SampleArray

_BLOCK_ROWS, _BLOCK_COLUMNS = 256, 1024
"""Blocks resampled at a time: they bound memory."""


class _Places(NamedTuple):
    """Where the pixels of a block lie in the source: the pixel before, and the phase in between; each shape (h, w)."""

    column: NDArray[np.int64]
    row: NDArray[np.int64]
    column_phase: NDArray[np.int64]
    row_phase: NDArray[np.int64]


def warp_window(
    read: Callable[[Window], SampleArray], window: Window, *, matrix: NDArray[np.float64], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> SampleArray:
    """Return the samples of one window, resampled by a 6 x 6 Lanczos kernel in float64.

    Parameters
    ----------
    read : callable
        Returns the samples of a window of the source image.
    window : Window
        In the coordinates of the result.
    matrix : ndarray of float64, shape (3, 3)
        Maps (x, y, 1) of the result to a multiple of (x, y, 1) in the source.
    shape : tuple of int
        (H, W) or (H, W, C) of the source.
    dtype : dtype

    Returns
    -------
    ndarray, shape (h, w) or (h, w, C)
        Positions outside the source take the nearest sample on its edge. Integers are rounded and clipped.
    """
    shift = find_whole_shift(matrix)
    if shift is not None:
        right, down = shift
        moved = Window(window.top + down, window.left + right, window.bottom + down, window.right + right)
        return _read_extended(read, moved, shape=shape)
    samples: SampleArray = np.empty((*window.shape, *shape[2:]), dtype)
    for block in _split(window):
        outer = _surround(block, matrix)
        source = _read_extended(read, outer, shape=shape).astype(np.float64)
        # float64: rounding to the type of the samples happens once, at the end
        values = np.empty((*block.shape, source[0, 0].size))
        corner = np.array([block.top, block.left, outer.top, outer.left])
        resample(np.ascontiguousarray(source.reshape(*source.shape[:2], -1)), _weights(), matrix, corner, values)
        samples[block.relative_to(window).slices] = to_samples(values, dtype).reshape(*block.shape, *shape[2:])
    return samples


def find_valid(
    window: Window, *, matrix: NDArray[np.float64], shape: tuple[int, ...], read_valid: Callable[[Window], BoolArray] | None = None
) -> BoolArray:
    """Return which pixels of a window are computed from valid samples inside the source alone.

    Parameters
    ----------
    window : Window
        In the coordinates of the result.
    matrix : ndarray of float64, shape (3, 3)
        Maps (x, y, 1) of the result to the source.
    shape : tuple of int
        (H, W, ...) of the source.
    read_valid : callable, optional
        Returns which samples of a window of the source are valid; all of them where it is left out.

    Returns
    -------
    ndarray of bool, shape (h, w)
    """
    is_valid = np.empty(window.shape, bool)
    for block in _split(window):
        places = _locate(block, matrix)
        is_inside = _has_support(places.column, places.column_phase, shape[1]) & _has_support(places.row, places.row_phase, shape[0])
        if read_valid is not None:
            outer = _surround(block, matrix)
            has_all = _erode(_read_extended(read_valid, outer, shape=shape[:2]))
            is_inside &= has_all[places.row - outer.top, places.column - outer.left]
        is_valid[block.relative_to(window).slices] = is_inside
    return is_valid


@cache
def _weights() -> NDArray[np.float64]:
    return tabulate_weights()


def _split(window: Window) -> Iterator[Window]:
    for top in range(window.top, window.bottom, _BLOCK_ROWS):
        for left in range(window.left, window.right, _BLOCK_COLUMNS):
            yield Window(top, left, min(top + _BLOCK_ROWS, window.bottom), min(left + _BLOCK_COLUMNS, window.right))


def find_whole_shift(matrix: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return how far the samples move right and down if they only move, and by whole pixels."""
    # rounded as `resample` rounds, so that both agree on which shifts are whole
    phases = np.floor(matrix[:2, 2] * N_PHASES + 0.5).astype(np.int64)
    if not (is_affine(matrix) and np.array_equal(matrix[:2, :2], np.eye(2))) or (phases % N_PHASES).any():
        return None
    return int(phases[0] >> PHASE_BITS), int(phases[1] >> PHASE_BITS)


def _locate(block: Window, matrix: NDArray[np.float64]) -> _Places:
    """Return the places that `resample` takes."""
    x = np.arange(block.left, block.right, dtype=np.float64)
    y = np.arange(block.top, block.bottom, dtype=np.float64)[:, np.newaxis]
    distance = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
    right, down = (np.floor((line[0] * x + line[1] * y + line[2]) / distance * N_PHASES + 0.5).astype(np.int64) for line in matrix[:2])
    return _Places(right >> PHASE_BITS, down >> PHASE_BITS, right % N_PHASES, down % N_PHASES)


def _has_support(pixel: NDArray[np.int64], phase: NDArray[np.int64], side_px: int) -> BoolArray:
    is_between = phase > 0
    # at phase 0 all weights but one are zero: the pixel itself is enough
    before, after = np.where(is_between, TAPS_BEFORE, 0), np.where(is_between, TAPS_AFTER, 0)
    return np.asarray((pixel - before >= 0) & (pixel + after < side_px))


def _erode(is_valid: BoolArray) -> BoolArray:
    """Return where every sample under a kernel is valid, whether or not its weight is zero."""
    n_taps = TAPS_BEFORE + TAPS_AFTER + 1
    return np.asarray(ndimage.minimum_filter(is_valid, size=n_taps, origin=TAPS_BEFORE - n_taps // 2, mode="nearest"))


def _surround(block: Window, matrix: NDArray[np.float64]) -> Window:
    """Return the window of the source that the kernels of a block reach; it may leave the frame."""
    last_row, last_column = block.bottom - 1, block.right - 1
    ends = [(block.left, block.top), (last_column, block.top), (block.left, last_row), (last_column, last_row)]
    corners = apply_matrix(matrix, np.array(ends, np.float64))
    # one pixel more than the taps reach, for what rounding may add
    left, top = (int(value) - TAPS_BEFORE - 1 for value in np.floor(corners.min(axis=0)))
    right, bottom = (int(value) + TAPS_AFTER + 2 for value in np.floor(corners.max(axis=0)))
    return Window(top, left, bottom, right)


def _read_extended(read: Callable[[Window], NDArray[Any]], outer: Window, *, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a window that may reach beyond the source, its edge samples repeated there."""
    height, width = shape[:2]
    # a window that lies outside altogether still needs the edge nearest to it
    top, left = (min(max(first, 0), side - 1) for first, side in ((outer.top, height), (outer.left, width)))
    bottom, right = (max(min(last, side), 1) for last, side in ((outer.bottom, height), (outer.right, width)))
    inside = read(Window(top, left, bottom, right))
    if outer == (top, left, bottom, right):
        return inside
    rows = np.clip(np.arange(outer.top, outer.bottom), top, bottom - 1) - top
    columns = np.clip(np.arange(outer.left, outer.right), left, right - 1) - left
    return np.asarray(inside[rows[:, np.newaxis], columns])
