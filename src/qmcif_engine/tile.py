"""Run the numerical stages of the method, in order, on one block of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine import decisions
from qmcif_engine.config import ResultScale
from qmcif_engine.decomposition import Decomposition, decompose
from qmcif_engine.focus import FULL_SCALE, base_focus, confidence, detail_focus, gather_evidence
from qmcif_engine.fusion import Blend, select
from qmcif_engine.patches import detail_patch_side, last_largest, spread_patches, vote
from qmcif_engine.reblurring import refine_edges
from qmcif_engine.refinement import refine, source_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray
    from qmcif_engine.config import FusionConfig

EQUAL_LEVELS = 1e-3
"""Where the confidence of the best level against the least is below this, no image is in focus: float32 rounding differs as much."""

EQUAL_EVIDENCE = 1e-6
"""The same for gathered evidence, where the levels of the patch itself may cancel and only the faint outer windows differ."""

SHARE_OF_IMAGE = 0.005
"""In small pictures an island may not exceed this share of the area: there a few patches can be an object."""


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
    blocks: Sequence[FloatArray],
    config: FusionConfig,
    *,
    keep_layers: bool,
    check_cancelled: Callable[[], None],
    report_image: Callable[[], None],
) -> FocusLevels:
    """Decompose each image and measure its focus at both scales; images are independent and taken one at a time."""
    side = detail_patch_side(blocks[0].shape[-2:], config.focus)
    base, detail, layers = [], [], []
    for block in blocks:
        parts = decompose(block, config.decomposition, check_cancelled=check_cancelled)
        base.append(base_focus(parts, base_patch_px=config.decomposition.base_patch_px, config=config.focus))
        detail.append(detail_focus(parts.detail, detail_patch_px=side, config=config.focus))
        if keep_layers:
            layers.append(parts)
        report_image()
    return FocusLevels(tuple(base), tuple(detail), tuple(layers))


def decide(blocks: Sequence[FloatArray], levels: FocusLevels, config: FusionConfig) -> TileResult:
    """Decide which image gives each pixel.

    Notes
    -----
    Focus maps ``M_B`` and ``M_D`` [QMCIF, Eqs. (16) and (17)], fusion [QMCIF, Eqs. (18) and (19)], refinement
    [QMCIF, Eqs. (20), (21) and (22)], then our clean-up and blend.

    Departs: where the focus levels of a pixel are equal, both maps follow the decided pixels around it instead of the tie rule; islands
    of the final map are removed (`qmcif_engine.decisions`), its edges drawn anew (`qmcif_engine.reblurring`) and blended. The
    ``paper`` preset does none of it.
    """
    shape = blocks[0].shape[-2:]
    side = detail_patch_side(shape, config.focus)
    detail_map = _detail_map(levels, side=side, config=config)
    base_map = spread_patches(last_largest(levels.base), patch_px=config.decomposition.base_patch_px)[: shape[0], : shape[1]]
    if config.decision.follow_reach_px:
        base_map = np.where(_spread(levels.detail) > EQUAL_LEVELS, base_map, detail_map)
    index = _chosen_map(blocks, levels, base_map=base_map, detail_map=detail_map, config=config)
    guide = np.mean([block.mean(axis=0) for block in blocks], axis=0) / np.float32(FULL_SCALE)
    index = _cleaned_map(index, blocks, guide, config)
    blend = decisions.blend_along_edges(index, guide, config.decision)
    return TileResult(blend, base_map, detail_map, confidence(*two_largest(levels.detail)).astype(np.float32, copy=False))


def _cleaned_map(index: IndexArray, blocks: Sequence[FloatArray], guide: FloatArray, config: FusionConfig) -> IndexArray:
    """Remove islands, draw the edges anew, and remove what crumbs that leaves."""
    side = detail_patch_side(index.shape, config.focus)
    largest = min(config.decision.island_area_patches * side**2, SHARE_OF_IMAGE * index.size)
    longest = config.decision.island_side_patches * side
    joined = decisions.remove_islands(index, largest_area_px=largest, longest_side_px=longest)
    redrawn = refine_edges(joined, blocks, guide, config.decision)
    if redrawn is joined:
        return joined
    return decisions.remove_islands(redrawn, largest_area_px=min(largest, side**2), longest_side_px=longest)


def _detail_map(levels: FocusLevels, *, side: int, config: FusionConfig) -> IndexArray:
    """Return ``M_D`` after the votes."""
    evidence = [gather_evidence(level, detail_patch_px=side, config=config.focus) for level in levels.detail]
    choices = decisions.follow_neighbors(
        last_largest(evidence), _spread(evidence) > EQUAL_EVIDENCE, reach_px=config.decision.follow_reach_px
    )
    return vote(choices, n_choices=len(evidence), side_px=side)


def _chosen_map(
    blocks: Sequence[FloatArray], levels: FocusLevels, *, base_map: IndexArray, detail_map: IndexArray, config: FusionConfig
) -> IndexArray:
    """Return the map of the scale that the settings ask for, or the refined choice between both."""
    if config.refinement.result is ResultScale.BASE:
        return base_map
    if config.refinement.result is ResultScale.DETAIL:
        return detail_map
    weights = source_weights(levels.detail, rule=config.refinement.weights, saturation=config.focus.saturation)
    choice = refine(
        (select(blocks, base_map), select(blocks, detail_map)),
        blocks,
        weights=weights,
        detail_patch_px=detail_patch_side(base_map.shape, config.focus),
        config=config.refinement,
    )
    return np.where(choice == 0, base_map, detail_map)


def _spread(levels: Sequence[FloatArray]) -> FloatArray:
    """Return the confidence of the best against the least level: zero only where all images are alike, whatever their number."""
    return confidence(np.maximum.reduce(levels), np.minimum.reduce(levels))


def two_largest(levels: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the second largest level at each pixel, by a fold over the images."""
    best, second = np.maximum(levels[0], levels[1]), np.minimum(levels[0], levels[1])
    for level in levels[2:]:
        second = np.maximum(second, np.minimum(best, level))
        best = np.maximum(best, level)
    return best, second
