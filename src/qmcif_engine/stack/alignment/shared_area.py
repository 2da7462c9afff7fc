"""The part of the frame that all images of an aligned stack have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.stack.alignment.warping import find_row_ends
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.stack.alignment.transforms import Transforms

_N_COARSE_ROWS = 256


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
