"""Run the numerical stages of the method, in order, on one block of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine import decisions
from qmcif_engine.config import ResultScale
from qmcif_engine.decomposition import Decomposition, decompose
from qmcif_engine.focus import NEGLIGIBLE_LEVEL, base_focus, confidence, detail_focus, gather_evidence
from qmcif_engine.fusion import Blend, select
from qmcif_engine.patches import detail_patch_side, rank, spread_patches, vote
from qmcif_engine.reblurring import refine_edges
from qmcif_engine.refinement import refine, source_weights
from qmcif_engine.samples import FULL_SCALE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray
    from qmcif_engine.config import FusionConfig

LARGEST_ISLAND_SHARE = 0.005
"""In small pictures a few patches can be an object: there no island exceeds this share of the whole image."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Hold the sizes that follow from the shape of the whole image and the settings, never from a part of it.

    Attributes
    ----------
    detail_patch_px : int
    largest_island_px : float
        Area, in pixels.
    longest_island_px : float
        Side of the bounding box.
    """

    detail_patch_px: int
    largest_island_px: float
    longest_island_px: float


def plan_geometry(shape: tuple[int, int], config: FusionConfig) -> Geometry:
    """Settle the sizes for an image of this shape."""
    side = detail_patch_side(shape, config.focus)
    decision = config.decision
    largest = min(decision.island_area_patches * side**2, LARGEST_ISLAND_SHARE * shape[0] * shape[1])
    return Geometry(side, largest, decision.island_side_patches * side)


@dataclass(frozen=True, slots=True)
class FocusLevels:
    """Hold how well the images are in focus.

    Attributes
    ----------
    base : tuple of ndarray of float, shape (rows, columns)
        One level a base patch, an image.
    detail : tuple of ndarray of float, shape (h, w)
        One level a pixel, an image.
    layers : tuple of Decomposition
        Empty unless they were asked for.
    """

    base: tuple[FloatArray, ...]
    detail: tuple[FloatArray, ...]
    layers: tuple[Decomposition, ...]


@dataclass(frozen=True, slots=True)
class TileResult:
    """Hold the decisions on one block; all maps have shape (h, w)."""

    blend: Blend
    base_map: IndexArray
    detail_map: IndexArray
    confidence: FloatArray


def measure_focus(
    blocks: Iterable[FloatArray],
    config: FusionConfig,
    *,
    geometry: Geometry,
    keep_layers: bool,
    check_cancelled: Callable[[], None],
    report_image: Callable[[], None],
) -> FocusLevels:
    """Decompose each image and measure its focus at both scales; images are independent and taken one at a time."""
    base, detail, layers = [], [], []
    for block in blocks:
        parts = decompose(block, config.decomposition, check_cancelled=check_cancelled)
        base.append(base_focus(parts, base_patch_px=config.decomposition.base_patch_px, config=config.focus))
        detail.append(detail_focus(parts.detail, detail_patch_px=geometry.detail_patch_px, config=config.focus))
        if keep_layers:
            layers.append(parts)
        report_image()
    return FocusLevels(tuple(base), tuple(detail), tuple(layers))


def decide(blocks: Sequence[FloatArray], levels: FocusLevels, *, geometry: Geometry, config: FusionConfig) -> TileResult:
    """Decide which image gives each pixel.

    Notes
    -----
    Focus maps ``M_B`` and ``M_D`` [QMCIF, Eqs. (16) and (17)], fusion [QMCIF, Eqs. (18) and (19)], refinement
    [QMCIF, Eqs. (20), (21) and (22)], then our clean-up and blend.

    Departs: where the focus levels of a pixel are equal, both maps follow the decided pixels around it instead of the tie rule; islands
    of the final map are removed (`qmcif_engine.decisions`), its edges drawn anew (`qmcif_engine.reblurring`) and blended. The
    ``paper`` preset does none of it.
    """
    ranking = rank(levels.detail)
    detail_map = _detail_map(levels, geometry=geometry, config=config)
    patch = config.decomposition.base_patch_px
    base_map = spread_patches(rank(levels.base).winner, patch_px=patch)[: detail_map.shape[0], : detail_map.shape[1]]
    if config.decision.follow_reach_px:
        base_map = np.where(ranking.best - ranking.least > NEGLIGIBLE_LEVEL, base_map, detail_map)
    index = _chosen_map(blocks, levels, base_map=base_map, detail_map=detail_map, geometry=geometry, config=config)
    guide = _mean_brightness(blocks)
    index = _cleaned_map(index, blocks, guide=guide, geometry=geometry, config=config)
    blend = decisions.blend_along_edges(index, guide, config.decision)
    return TileResult(blend, base_map, detail_map, confidence(ranking.best, ranking.second).astype(np.float32, copy=False))


def _detail_map(levels: FocusLevels, *, geometry: Geometry, config: FusionConfig) -> IndexArray:
    """Return ``M_D`` after the votes."""
    side = geometry.detail_patch_px
    ranking = rank(gather_evidence(level, detail_patch_px=side, config=config.focus) for level in levels.detail)
    choices = ranking.winner
    if config.decision.follow_reach_px:
        is_decided = ranking.best - ranking.least > NEGLIGIBLE_LEVEL
        tied = np.uint16(len(levels.detail) - 1)  # the tie rule, not the rounding of equal levels
        choices = np.where(is_decided, choices, tied)
        choices = decisions.follow_neighbors(choices, is_decided, reach_px=config.decision.follow_reach_px)
    return vote(choices, n_choices=len(levels.detail), side_px=side)


def _chosen_map(
    blocks: Sequence[FloatArray],
    levels: FocusLevels,
    *,
    base_map: IndexArray,
    detail_map: IndexArray,
    geometry: Geometry,
    config: FusionConfig,
) -> IndexArray:
    """Return the map of the scale that the settings ask for, or the refined choice between both."""
    if config.refinement.result is ResultScale.BASE:
        return base_map
    if config.refinement.result is ResultScale.DETAIL:
        return detail_map
    choice = refine(
        (select(blocks, base_map), select(blocks, detail_map)),
        blocks,
        weights=source_weights(levels.detail, rule=config.refinement.weights, saturation=config.focus.saturation),
        detail_patch_px=geometry.detail_patch_px,
        config=config.refinement,
    )
    return np.where(choice == 0, base_map, detail_map)


def _mean_brightness(blocks: Sequence[FloatArray]) -> FloatArray:
    """Return the mean over images and channels on the 0-1 scale, shape (h, w): what blends and edges are guided by."""
    total = np.zeros(blocks[0].shape[-2:])
    for block in blocks:
        total += block.mean(axis=0, dtype=np.float64)
    return (total / (len(blocks) * FULL_SCALE)).astype(np.float32)


def _cleaned_map(
    index: IndexArray, blocks: Sequence[FloatArray], *, guide: FloatArray, geometry: Geometry, config: FusionConfig
) -> IndexArray:
    """Remove islands, draw the edges anew, and remove what crumbs that leaves."""
    longest = geometry.longest_island_px
    index = decisions.remove_islands(index, largest_area_px=geometry.largest_island_px, longest_side_px=longest)
    if config.decision.edge_band_px == 0:
        return index
    index = refine_edges(index, blocks, guide, config.decision)
    largest_crumb = min(geometry.largest_island_px, geometry.detail_patch_px**2)
    return decisions.remove_islands(index, largest_area_px=largest_crumb, longest_side_px=longest)
