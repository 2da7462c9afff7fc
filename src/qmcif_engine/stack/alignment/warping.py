"""Stacks whose images coincide: each window is resampled when it is asked for, and every pixel is the same in whatever window it lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import BoolArray, FloatArray, SampleArray
from qmcif_engine.compiled import compiled
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.transforms import IDENTITY, Transforms, apply_matrix, is_affine
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.stack import FindValid, ReadWindow, Stack
from qmcif_engine.stack.window import Window

TAPS_BEFORE, TAPS_AFTER = 2, 3
"""Samples taken on either side of a position, counted from the pixel before it."""

PHASE_BITS = 11
N_PHASES = 1 << PHASE_BITS
"""Positions between two pixels that there are weights for: rounding to them moves no sample by more than 1/4096 px."""

_N_TAPS = TAPS_BEFORE + TAPS_AFTER + 1
_BLOCK_ROWS, _BLOCK_COLUMNS = 256, 1024
"""Blocks resampled at a time: they bound memory."""

_N_COARSE_ROWS = 256
"""Rows that a shared area is first looked for at."""


def align_stack(stack: Stack, transforms: Transforms) -> Stack:
    """Return the images of a stack as the reference image sees them; shape and type stay, nothing is cropped.

    Alpha and further channels move with them. Images that do not move keep their samples, and shifts by whole pixels copy samples;
    everything else is resampled.

    Parameters
    ----------
    stack : Stack
    transforms : Transforms
        Of this stack, or of another one with as many images of the same height and width.

    Raises
    ------
    InvalidConfigError
        If the transforms belong to another number or size of images.
    """
    (height, width), known = stack.image_shape[:2], transforms.image_shape
    if (transforms.n_images, known) != (stack.n_images, (height, width)):
        msg = (
            f"the transforms are for {transforms.n_images} images of {known[1]} x {known[0]} px and the stack has "
            f"{stack.n_images} of {width} x {height} px; both must be equal: estimate transforms for this stack"
        )
        raise InvalidConfigError(msg)
    return stack.replaced(
        follow=lambda plane: align_stack(plane, transforms),
        read=partial(_read_aligned, stack.read, transforms, stack.image_shape, stack.dtype),
        # moved images leave rows and columns of the frame empty
        find_valid=partial(_find_valid, stack.find_valid, transforms, stack.image_shape),
        transforms=transforms,
    )


def _read_aligned(
    read: ReadWindow, transforms: Transforms, shape: tuple[int, ...], dtype: np.dtype[Any], number: int, window: Window
) -> SampleArray:
    """Return one window of one image; where the image does not reach, the nearest sample on its edge."""
    return warp_window(partial(read, number), window, matrix=transforms.matrix(number), shape=shape, dtype=dtype)


def _find_valid(find_valid: FindValid | None, transforms: Transforms, shape: tuple[int, ...], number: int, window: Window) -> BoolArray:
    """Return which pixels of a window, (h, w), come from samples inside the image alone: no others may be chosen."""
    known = None if find_valid is None else partial(find_valid, number)
    if transforms.matrices[number] == IDENTITY:
        return np.ones(window.shape, bool) if known is None else known(window)
    return find_covered(window, matrix=transforms.matrix(number), shape=shape, read_valid=known)


def warp_window(
    read: Callable[[Window], SampleArray], window: Window, *, matrix: NDArray[np.float64], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> SampleArray:
    """Return the samples of one window, resampled by a 6 x 6 Lanczos kernel.

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
        In float32, the kernel is exact to 1/100 level of 16 bits; float64 and integers of 32 bits are resampled in float64.

    Returns
    -------
    ndarray, shape (h, w) or (h, w, C)
        Positions outside the source take the nearest sample on its edge. Integers are rounded and clipped.
    """
    shift = find_whole_shift(matrix)
    if shift is not None:
        return _read_extended(read, window.moved(shift[1], shift[0]), shape=shape)
    samples: SampleArray = np.empty((*window.shape, *shape[2:]), dtype)
    kind = np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)
    for block in _split(window):
        outer = _surround(block, matrix)
        # one plane after the other: samples under a kernel then lie side by side
        source = _read_extended(read, outer, shape=shape).reshape(*outer.shape, -1)
        planes: FloatArray = np.ascontiguousarray(np.moveaxis(source, -1, 0), kind)
        values = np.empty((*block.shape, len(planes)), kind)
        resample(planes, tabulate_weights(kind), matrix, np.array([block.top, block.left, outer.top, outer.left]), values)
        # rounding to the type of the samples happens once, at the end
        samples[block.relative_to(window).slices] = to_samples(values, dtype).reshape(*block.shape, *shape[2:])
    return samples


@cache
def tabulate_weights(kind: np.dtype[Any]) -> FloatArray:
    """Return the weights of six samples for every phase, shape (N_PHASES, 6).

    Lanczos weights, each row changed as little as makes it exact for constants, slopes and parabolas: plain ones shift slopes by up to
    0.02 px.
    """
    distance = np.arange(N_PHASES)[:, np.newaxis] / N_PHASES + TAPS_BEFORE - np.arange(_N_TAPS)
    weights = np.sinc(distance) * np.sinc(distance / TAPS_AFTER)
    moments = distance[:, np.newaxis] ** np.arange(3)[:, np.newaxis]
    wrong = np.array([1.0, 0.0, 0.0]) - np.einsum("pmt,pt->pm", moments, weights)
    gram = np.einsum("pmt,pnt->pmn", moments, moments)
    weights += np.einsum("pmt,pm->pt", moments, np.linalg.solve(gram, wrong[..., np.newaxis])[..., 0])
    # exactly, so that whole shifts copy samples whichever way they are computed
    weights[0] = np.arange(_N_TAPS) == TAPS_BEFORE
    return weights.astype(kind)


@compiled
def resample(planes: FloatArray, weights: FloatArray, matrix: FloatArray, corner: NDArray[np.int64], out: FloatArray) -> None:
    """Fill a block with samples from between the pixels of a source.

    Parameters
    ----------
    planes : ndarray of float32 or float64, shape (C, h, w)
        All samples of the source that the block needs.
    weights : ndarray of the same type, shape (N_PHASES, 6)
    matrix : ndarray of float64, shape (3, 3)
        Maps (x, y, 1) of the result to a multiple of (x, y, 1) in the source image.
    corner : ndarray of int64, shape (4,)
        Row and column of the block's first pixel in the result, and of the first sample of `planes` in its image.
    out : ndarray of the same type, shape (h', w', C)

    Notes
    -----
    Positions come from absolute coordinates, in float64, and are rounded to phases before anything is subtracted, so that a pixel has
    the same value in whatever block it is computed.
    """
    n_rows, n_columns, n_channels = out.shape
    height, width = planes.shape[1:]
    samples = planes.reshape(-1)
    for row in range(n_rows):
        y = float(corner[0] + row)
        for column in range(n_columns):
            x = float(corner[1] + column)
            distance = matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2]
            right = math.floor((matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]) / distance * N_PHASES + 0.5)
            down = math.floor((matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]) / distance * N_PHASES + 0.5)
            # shifting keeps negative positions right: it rounds downwards
            left = (right >> PHASE_BITS) - TAPS_BEFORE - corner[3]
            top = (down >> PHASE_BITS) - TAPS_BEFORE - corner[2]
            across, along = weights[right & (N_PHASES - 1)], weights[down & (N_PHASES - 1)]
            for channel in range(n_channels):
                start = (channel * height + top) * width + left
                total = along[0] * 0
                for tap in range(_N_TAPS):
                    # written out, and cut first: twice as fast as a loop with indices that may be negative
                    line = samples[start : start + _N_TAPS]
                    near = across[0] * line[0] + across[1] * line[1] + across[2] * line[2]
                    total += along[tap] * (near + (across[3] * line[3] + across[4] * line[4] + across[5] * line[5]))
                    start += width
                out[row, column, channel] = total


def find_whole_shift(matrix: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return how far the samples move right and down if they only move, and by whole pixels."""
    shift = [_find_whole(matrix, axis) for axis in (0, 1)]
    return None if shift[0] is None or shift[1] is None else (shift[0], shift[1])


def _find_whole(matrix: NDArray[np.float64], axis: int) -> int | None:
    """Return how far samples move along one axis, 0 being x, if they only move along it, and by whole pixels."""
    # rounded as `resample` rounds, so that both agree on which shifts are whole
    pixel, phase = divmod(math.floor(matrix[axis, 2] * N_PHASES + 0.5), N_PHASES)
    return pixel if phase == 0 and is_affine(matrix) and np.array_equal(matrix[axis, :2], np.eye(2)[axis]) else None


def find_covered(
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
    begin, end = find_row_ends(matrix, shape, np.arange(window.top, window.bottom))
    columns = np.arange(window.left, window.right)
    is_valid = (columns >= begin[:, np.newaxis]) & (columns < end[:, np.newaxis])
    if read_valid is None:
        return np.asarray(is_valid)
    for block in _split(window):
        outer = _surround(block, matrix)
        has_all = _erode(_read_extended(read_valid, outer, shape=shape[:2]))
        y, x = np.mgrid[block.top : block.bottom, block.left : block.right].reshape(2, -1)
        place = np.floor(apply_matrix(matrix, np.column_stack((x, y)).astype(np.float64)) * N_PHASES + 0.5).astype(np.int64) >> PHASE_BITS
        is_valid[block.relative_to(window).slices] &= has_all[place[:, 1] - outer.top, place[:, 0] - outer.left].reshape(block.shape)
    return np.asarray(is_valid)


def find_row_ends(
    matrix: NDArray[np.float64], shape: tuple[int, ...], rows: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the pixels of each row that have all their samples in the source begin and end (half-open).

    The part of the frame that an image has is convex, so that each row has one run of them; both are equal where it has none.

    Parameters
    ----------
    matrix : ndarray of float64, shape (3, 3)
    shape : tuple of int
        (H, W, ...) of the source.
    rows : ndarray of int, shape (n,)
    """
    height, width = shape[:2]
    begin, end = np.zeros(len(rows)), np.full(len(rows), float(width))
    y = rows.astype(np.float64)
    for axis, side in ((0, width), (1, height)):
        is_copied = _find_whole(matrix, axis) is not None
        before, after = (0, 0) if is_copied else (TAPS_BEFORE, TAPS_AFTER)
        # positions are rounded to phases: low - 1/2 phase <= position < high - 1/2 phase, times the distance, which is positive
        low, high = before - 0.5 / N_PHASES, side - after - 0.5 / N_PHASES
        for bound, sign in ((low, 1.0), (high, -1.0)):
            slope, offset, constant = sign * (matrix[axis] - bound * matrix[2])
            rest = offset * y + constant
            if slope == 0:
                end[rest < 0] = 0
            elif slope > 0:
                begin = np.maximum(begin, -rest / slope)
            else:
                end = np.minimum(end, np.floor(-rest / slope) + 1)
    first = np.clip(np.ceil(begin), 0, width).astype(np.int64)
    return first, np.maximum(np.clip(end, 0, width).astype(np.int64), first)


def _split(window: Window) -> Iterator[Window]:
    for top in range(window.top, window.bottom, _BLOCK_ROWS):
        for left in range(window.left, window.right, _BLOCK_COLUMNS):
            yield Window(top, left, min(top + _BLOCK_ROWS, window.bottom), min(left + _BLOCK_COLUMNS, window.right))


def _erode(is_valid: BoolArray) -> BoolArray:
    """Return where every sample under a kernel is valid, whether or not its weight is zero."""
    return np.asarray(ndimage.minimum_filter(is_valid, size=_N_TAPS, origin=TAPS_BEFORE - _N_TAPS // 2, mode="nearest"))


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


def find_shared_area(transforms: Transforms) -> Window:
    """Return the largest rectangle, or nearly so, in which every image has all of its samples.

    The part of the frame that an image has is convex, and so is what all have in common: a rectangle lies in it where the ends of its
    first and of its last row do.

    Raises
    ------
    InvalidConfigError
        When the images have no pixel in common.
    """
    rows = np.arange(transforms.image_shape[0])
    ends = [find_row_ends(transforms.matrix(number), transforms.image_shape, rows) for number in range(transforms.n_images)]
    lefts, rights = np.max([begin for begin, _ in ends], axis=0), np.min([end for _, end in ends], axis=0)
    has_pixels = np.flatnonzero(rights > lefts)
    if len(has_pixels) == 0:
        msg = (
            f"the {transforms.n_images} aligned images have no pixel in common; a part that all of them show is needed: "
            "leave out --crop (crop=False), or the images that lie apart"
        )
        raise InvalidConfigError(msg)
    first, last = int(has_pixels[0]), int(has_pixels[-1])
    step = max(1, (last - first + 1) // _N_COARSE_ROWS)
    # coarse to fine: all pairs of rows of a tall image would be billions
    tops = bottoms = np.unique(np.append(np.arange(first, last + 1, step), last))
    while True:
        top, bottom = _choose_rows(lefts, rights, tops, bottoms)
        if step == 1:
            left, right = max(lefts[top], lefts[bottom]), min(rights[top], rights[bottom])
            return Window(top, int(left), bottom + 1, int(right))
        finer = max(1, step // 8)
        tops, bottoms = (np.unique(np.clip(np.arange(row - step, row + step + 1, finer), first, last)) for row in (top, bottom))
        step = finer


def _choose_rows(lefts: NDArray[np.int64], rights: NDArray[np.int64], tops: NDArray[np.intp], bottoms: NDArray[np.intp]) -> tuple[int, int]:
    """Return the first and the last row of the largest rectangle among those that begin and end at given rows."""
    width = np.minimum(rights[tops][:, np.newaxis], rights[bottoms]) - np.maximum(lefts[tops][:, np.newaxis], lefts[bottoms])
    height = bottoms - tops[:, np.newaxis] + 1
    area = np.where((width > 0) & (height > 0), width * height, 0)
    row, column = np.unravel_index(int(area.argmax()), area.shape)
    return int(tops[row]), int(bottoms[column])
