"""Images that can win somewhere in a part of a block: of a deep stack only these are decomposed there.

A quick look, the mean curvature of the brightness in each cell, costs a fiftieth of a decomposition and tells which images are far from
the sharpest everywhere in a part. What the decomposition would say of them changes no decision.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.cell_sums import sum_curvatures
from qmcif_engine.method.cell_grid import cell_grid, count_pixels, mean_around

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.kernels.array_types import BoolArray, FloatArray
    from qmcif_engine.stack.window import Window

FEWEST_IMAGES = 4
"""Of fewer images than this nearly all are contenders, and the quick look would be for nothing."""

HOPELESS_RATIO = 8.0
"""An image whose curvature is this many times less than the largest, in every cell of a part, is no contender there. The decisions give
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
    parts: Sequence[Window],
    *,
    window_px: int,
    n_beside: int,
    is_whole: Callable[[int], BoolArray] | None = None,
) -> BoolArray:
    """Return which images can win somewhere in each part, shape (number of parts, N).

    Parameters
    ----------
    curvatures : sequence of ndarray of float, shape (rows, columns)
        What `look_quickly` returns for each image of a block.
    parts : sequence of Window
        In cells.
    window_px : int
        Side of the window over which focus is compared.
    n_beside : int
        How many neighbors of a contender in the stack are taken along.
    is_whole : callable, optional
        Tells which cells an image has whole, shape (rows, columns): in others it cannot win, and keeps no other from winning.
    """

    def level_of(number: int) -> FloatArray:
        level = mean_around(curvatures[number], side_px=window_px)
        return level if is_whole is None else np.where(is_whole(number), level, np.float32(0))

    best = reduce(np.maximum, map(level_of, range(len(curvatures))))
    found = np.zeros((len(parts), len(curvatures)), bool)
    for image in range(len(curvatures)):
        can_win = (level_of(image) * np.float32(HOPELESS_RATIO) >= best) & (best > 0)
        found[:, image] = [can_win[part.slices].any() for part in parts]
    found[~found.any(axis=1)] = True  # even throughout: the quick look cannot tell
    return _with_neighbors(found, n_beside)


def _with_neighbors(found: BoolArray, n_beside: int) -> BoolArray:
    widened = found.copy()
    for shift in range(1, n_beside + 1):
        widened[:, shift:] |= found[:, :-shift]
        widened[:, :-shift] |= found[:, shift:]
    return widened
