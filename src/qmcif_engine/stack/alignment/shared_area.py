"""The part of the frame that all images of an aligned stack have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.resampling import TAPS_AFTER, TAPS_BEFORE
from qmcif_engine.stack.alignment.warping import find_whole_shift
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.stack.alignment.transforms import Transforms

_N_COARSE_ROWS = 256
_ROUNDING_PX = 1.0
"""Added to what the kernels reach: positions are rounded to phases."""


def find_shared_area(transforms: Transforms) -> Window:
    """Return the largest rectangle, or nearly so, in which every image has all of its samples.

    The part of the frame that an image has is convex, and so is what all have in common: a rectangle lies in it where the ends of its
    first and of its last row do.

    Raises
    ------
    InvalidConfigError
        When the images have no pixel in common.
    """
    lefts, rights = _find_row_ends(transforms)
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


def _find_row_ends(transforms: Transforms) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the common pixels of each row begin and end (half-open), shape (H,) each; equal or crossed where there are none."""
    height, width = transforms.image_shape
    rows = np.arange(height, dtype=np.float64)
    lefts, rights = np.zeros(height), np.full(height, float(width - 1))
    for number, matrix in enumerate(transforms.matrices):
        is_copied = find_whole_shift(transforms.matrix(number)) is not None
        before, after = (0.0, 0.0) if is_copied else (TAPS_BEFORE + _ROUNDING_PX, TAPS_AFTER + _ROUNDING_PX)
        for line, side in zip(matrix[:2], (width, height), strict=True):
            low, high = before, side - 1 - after
            # low <= position <= high, multiplied with the distance, which is above 0 all over the frame: linear in the column
            for bound, sign in ((low, 1.0), (high, -1.0)):
                slope, offset, constant = (sign * (entry - bound * last) for entry, last in zip(line, matrix[2], strict=True))
                begin, end = _solve_rows(slope, offset * rows + constant, width=width)
                lefts, rights = np.maximum(lefts, begin), np.minimum(rights, end)
    # whole pixels inside, the end being exclusive
    return np.ceil(lefts).astype(np.int64), np.floor(rights).astype(np.int64) + 1


def _solve_rows(slope: float, at_zero: NDArray[np.float64], *, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and last column of each row where slope times column plus the value at column 0 is not negative."""
    before, behind = np.full_like(at_zero, -1.0), np.full_like(at_zero, float(width))
    if slope == 0:
        return np.where(at_zero < 0, behind, before), behind
    ends = np.clip(-at_zero / slope, -1.0, float(width))
    return (ends, behind) if slope > 0 else (before, ends)
