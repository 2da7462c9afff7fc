"""Turn raw patch decisions into a map that follows the scene: fill the undecided, remove islands, blend along edges.

None of this is in the paper; each step can be switched off, and the ``paper`` preset does so. Every step has a bounded reach in
pixels, so that a tile with a halo sees what the whole image would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from qmcif_engine.filters import guided_filter
from qmcif_engine.fusion import Blend, lead
from qmcif_engine.kernels.regions import mark_small_regions
from qmcif_engine.patches import cells_of, cut_reflected, edge_band, nearest_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig
    from qmcif_engine.window import Window


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
    band = edge_band(index, reach_px=2 * config.blend_radius_px)
    sources = tuple(int(value) for value in np.flatnonzero(np.bincount(index[band])))
    rows_of = {source: row for row, source in enumerate(sources)}
    number = np.cumsum(band, dtype=np.int32).reshape(band.shape) - 1  # of a pixel of the band among all of them
    rows, pixels, shares = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [np.empty(0, guide.dtype)]
    for cell in cells_of(band):
        is_blended = band[cell.slices]
        for source, share in _shares(index, guide, cell, config=config):
            given = np.clip(share[is_blended], 0, 1)
            is_given = given > 0
            shares.append(given[is_given])
            pixels.append(number[cell.slices][is_blended][is_given])
            rows.append(np.full(len(shares[-1]), rows_of[source], np.int32))
    where, share_of_each = np.concatenate(pixels), np.concatenate(shares)
    n_pixels = int(np.count_nonzero(band))
    total = np.bincount(where, weights=share_of_each, minlength=n_pixels)
    share_of_each = (share_of_each / total[where]).astype(guide.dtype)
    weights = csr_array((share_of_each, (np.concatenate(rows), where)), shape=(len(sources), n_pixels))
    return Blend(lead(index, band, sources=sources, weights=weights), band, sources, weights)


def _shares(index: IndexArray, guide: FloatArray, cell: Window, *, config: DecisionConfig) -> Iterator[tuple[int, FloatArray]]:
    """Yield each image that the filter's windows around a cell contain, and its smoothed membership there."""
    margin = 2 * config.blend_radius_px
    near_index, near_guide = cut_reflected(index, cell, margin_px=margin), cut_reflected(guide, cell, margin_px=margin)
    for source in np.flatnonzero(np.bincount(near_index.reshape(-1))):
        membership = (near_index == source).astype(guide.dtype)
        share = guided_filter(membership, near_guide, radius_px=config.blend_radius_px, edge_contrast=config.blend_edge_contrast)
        yield int(source), share[margin:-margin, margin:-margin]
