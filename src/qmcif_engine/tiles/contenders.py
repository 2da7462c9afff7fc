"""Images that can win somewhere in a block of a tile: of a deep stack only these are decomposed there.

A quick look, the mean curvature of the brightness in each cell, costs a fiftieth of a decomposition and tells which images are far from
the sharpest everywhere in a block. What the decomposition would say of them changes no decision.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.kernels.cell_sums import sum_curvatures
from qmcif_engine.method.cell_grid import cell_grid, count_pixels, mean_around, odd_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray

FEWEST_IMAGES = 4
"""Of fewer images than this nearly all are contenders, and the quick look would be for nothing."""

HOPELESS_RATIO = 5.0
"""An image whose curvature is this many times less than the largest, in every cell of a block, is no contender there. The decisions give
images up whose focus level is a quarter of the best (`qmcif_engine.cleanup.regularization.HOPELESS_COST`)."""


def look_quickly(planes: FloatArray) -> FloatArray:
    """Return the mean curvature of the brightness in each cell, shape (rows, columns), in gray levels.

    Noise counts as everything else: where it is all there is, no image is far behind, and none is left out.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
    """
    shape = (planes.shape[-2], planes.shape[-1])
    curvature = np.empty(cell_grid(shape), planes.dtype)
    sum_curvatures(np.ascontiguousarray(planes), curvature)
    curvature /= len(planes) * count_pixels(shape)
    return curvature


def find_contenders(
    curvatures: Sequence[FloatArray],
    *,
    block_cells: int,
    window_px: int,
    n_beside: int,
    is_whole: Callable[[int], BoolArray] | None = None,
) -> BoolArray:
    """Return which images can win somewhere in each block, shape (N, rows of blocks, columns of blocks).

    Parameters
    ----------
    curvatures : sequence of ndarray of float, shape (rows, columns)
        What `look_quickly` returns for each image.
    block_cells : int
        Side of a block.
    window_px : int
        Side of the window over which focus is compared: what lies as near to a contender's cells as that is measured, too.
    n_beside : int
        How many neighbors of a contender in the stack are taken along.
    is_whole : callable, optional
        Tells which cells an image has whole, shape (rows, columns): in others it cannot win, and keeps no other from winning.
    """

    def level_of(number: int) -> FloatArray:
        level = mean_around(curvatures[number], side_px=window_px)
        return level if is_whole is None else np.where(is_whole(number), level, np.float32(0))

    # levels are formed twice rather than kept: N planes would be
    best = reduce(np.maximum, map(level_of, range(len(curvatures))))
    window_cells = odd_cells(window_px)
    found = np.stack(
        [
            _any_in_blocks(
                # beyond the cells where it may win, too: their focus is compared over windows
                ndimage.maximum_filter((level_of(image) * np.float32(HOPELESS_RATIO) >= best) & (best > 0), window_cells),
                block_cells,
            )
            for image in range(len(curvatures))
        ]
    )
    found |= ~found.any(axis=0)  # even throughout: the quick look cannot tell
    return _with_neighbors(found, n_beside)


def _any_in_blocks(is_found: BoolArray, side: int) -> BoolArray:
    # padded by False: what lies beyond the image has no contender
    rows, columns = (-length % side for length in is_found.shape)
    padded = np.pad(is_found, ((0, rows), (0, columns)))
    return np.asarray(padded.reshape(padded.shape[0] // side, side, -1, side).any(axis=(1, 3)))


def _with_neighbors(found: BoolArray, n_beside: int) -> BoolArray:
    widened = found.copy()
    for shift in range(1, n_beside + 1):
        widened[shift:] |= found[:-shift]
        widened[:-shift] |= found[shift:]
    return widened
