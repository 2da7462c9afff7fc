"""Turn raw patch decisions into a map that follows the scene: fill the undecided, remove islands, blend along edges.

None of this is in the paper; each step can be switched off, and the ``paper`` preset does so. Every step has a bounded reach in
pixels, so that a tile with a halo sees what the whole image would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.filters import guided_filter
from qmcif_engine.fusion import Blend

if TYPE_CHECKING:
    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig


def follow_neighbors(index: IndexArray, is_decided: BoolArray, *, reach_px: int) -> IndexArray:
    """Give undecided pixels the decision of the nearest decided one, as far as the reach; beyond it the tie rule stays.

    Saturated and textureless areas carry no evidence of their own: what is around them is the best guess.
    """
    if reach_px == 0 or is_decided.all() or not is_decided.any():
        return index
    distance, nearest = ndimage.distance_transform_edt(~is_decided, return_indices=True)
    followed = index[tuple(nearest)]
    return np.where(distance <= reach_px, followed, index)


def remove_islands(index: IndexArray, *, largest_area_px: float, longest_side_px: float) -> IndexArray:
    """Let small islands of the decision map join the nearest pixels around them.

    An island is a 4-connected region of one decision whose area and bounding box both lie within the limits. Longer ones are kept:
    thin structures are real more often than not.
    """
    if largest_area_px < 1:
        return index
    is_island = np.zeros(index.shape, bool)
    for value in np.unique(index):
        regions, _ = ndimage.label(index == value)
        areas = np.bincount(regions.reshape(-1))
        for label, box in enumerate(ndimage.find_objects(regions), start=1):
            height, width = (side.stop - side.start for side in box)
            if areas[label] <= largest_area_px and max(height, width) <= longest_side_px:
                is_island[box] |= regions[box] == label
    if not is_island.any() or is_island.all():
        return index
    nearest = ndimage.distance_transform_edt(is_island, return_distances=False, return_indices=True)
    joined: IndexArray = index[tuple(nearest)]
    return joined


def blend_along_edges(index: IndexArray, guide: FloatArray, config: DecisionConfig) -> Blend:
    """Turn a decision map into shares that change softly across its edges, but not across edges of the picture.

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    guide : ndarray of float, shape (h, w)
        Mean of the images on the 0-1 scale.
    config : DecisionConfig

    Notes
    -----
    A guided filter (He, Sun and Tang 2013) of each image's membership, used only within its reach of a decision edge; everywhere else
    one image gives the pixel whole.
    """
    radius = config.blend_radius_px
    reach = 4 * radius + 1
    band = ndimage.maximum_filter(index, reach) != ndimage.minimum_filter(index, reach)
    sources = tuple(int(value) for value in np.unique(index[band]))
    if radius == 0 or not sources:
        return Blend(index, np.zeros(index.shape, bool), (), np.empty((0, 0), guide.dtype))
    memberships = np.stack([index == source for source in sources]).astype(guide.dtype)
    filtered = guided_filter(memberships, guide, radius_px=radius, edge_contrast=config.blend_edge_contrast)
    weights = np.clip(filtered[:, band], 0, 1)
    weights /= weights.sum(axis=0)
    led = index.copy()
    led[band] = np.asarray(sources, np.uint16)[weights.argmax(axis=0)]
    return Blend(led, band, sources, weights)
