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
from qmcif_engine.patches import edge_band

if TYPE_CHECKING:
    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig


def follow_neighbors(index: IndexArray, is_decided: BoolArray, *, reach_px: int) -> IndexArray:
    """Give undecided pixels the decision of the nearest decided one, as far as the reach; beyond it they keep what `index` says.

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
    thin structures are real more often than not. An island farther from other ground than the longest side stays too, so that what
    lies farther away can never matter.
    """
    if largest_area_px < 1:
        return index
    is_island = np.zeros(index.shape, bool)
    for value in np.unique(index):
        regions, n_regions = ndimage.label(index == value)
        boxes = ndimage.find_objects(regions)
        sides = np.array([max(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in boxes])
        areas = np.bincount(regions.reshape(-1), minlength=n_regions + 1)
        is_small = np.append(False, (areas[1:] <= largest_area_px) & (sides <= longest_side_px))
        is_island |= is_small[regions]
    return follow_neighbors(index, ~is_island, reach_px=int(longest_side_px))


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
    band = edge_band(index, reach_px=2 * radius)
    sources = tuple(int(value) for value in np.unique(index[band]))
    weights = np.empty((len(sources), np.count_nonzero(band)), guide.dtype)
    for row, source in zip(weights, sources, strict=True):
        membership = (index == source).astype(guide.dtype)
        share = guided_filter(membership, guide, radius_px=radius, edge_contrast=config.blend_edge_contrast)
        np.clip(share[band], 0, 1, out=row)
    weights /= weights.sum(axis=0)
    led = index.copy()
    if sources:
        led[band] = np.asarray(sources, np.uint16)[weights.argmax(axis=0)]
    return Blend(led, band, sources, weights)
