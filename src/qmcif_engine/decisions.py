"""Turn raw patch decisions into a map that follows the scene: fill the undecided, remove islands.

None of this is in the paper; each step can be switched off, and the ``paper`` preset does so. Every step has a bounded reach in
pixels, so that a tile with a halo sees what the whole image would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.regions import mark_small_regions
from qmcif_engine.patches import nearest_values

if TYPE_CHECKING:
    from qmcif_engine.array_types import BoolArray, IndexArray


def follow_neighbors(index: IndexArray, is_decided: BoolArray, *, reach_px: int) -> IndexArray:
    """Give undecided pixels the decision of the nearest decided one, as far as the reach; beyond it they keep what `index` says.

    Saturated and textureless areas carry no evidence of their own: what is around them is the best guess.
    """
    if reach_px == 0 or is_decided.all() or not is_decided.any():
        return index
    return nearest_values(index, is_decided, ~is_decided, reach_px=reach_px)


def remove_islands(index: IndexArray, *, largest_area_px: float, longest_side_px: float) -> IndexArray:
    """Let small islands of the decision map join the nearest pixels around them.

    An island is a 4-connected region of one decision whose area and bounding box both lie within the limits. Longer ones are kept:
    thin structures are real more often than not. An island farther from other ground than the longest side stays too, so that what
    lies farther away can never matter.
    """
    if largest_area_px < 1:
        return index
    is_island = np.empty(index.shape, bool)
    mark_small_regions(np.ascontiguousarray(index), largest_area_px, longest_side_px, is_island)
    return follow_neighbors(index, ~is_island, reach_px=int(longest_side_px))
