"""The numerical stages of the method, in order, on one block of images: the padded window of a tile, or a whole small image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.cleanup import fill
from qmcif_engine.cleanup.blending import blend_along_edges
from qmcif_engine.cleanup.dark_border import exclude_dark_borders
from qmcif_engine.cleanup.decision import Decision, DecisionBasis
from qmcif_engine.cleanup.preference import WeightedLevels, weigh_images
from qmcif_engine.cleanup.regularization import CellEvidence, find_even_focus, regularize, weigh_breadth
from qmcif_engine.config.fusion_config import Aggregation, Preference, ResultScale, StackOrder
from qmcif_engine.kernels.cutting import add_brightness
from qmcif_engine.method.averaging import average_patches
from qmcif_engine.method.cell_grid import sample_cells, spread_cells
from qmcif_engine.method.focus import LEVELS_IN_MEMORY_BYTES, NEGLIGIBLE_LEVEL, WHOLE_IMAGE, Borders, gather_evidence
from qmcif_engine.method.focus_measures import FOCUS_MEASURES, MeasuringTask
from qmcif_engine.method.fusion import select, without_invalid
from qmcif_engine.method.patches import detail_patch_side, padding_to_grid, rank, spread_patches, vote
from qmcif_engine.method.refinement import refine, source_weights
from qmcif_engine.stack.noise import NO_NOISE, NoiseAdaptation, smooth_along_stack
from qmcif_engine.stack.samples import FULL_SCALE
from qmcif_engine.tiles.cell_stages import NEVER_CHOSEN
from qmcif_engine.tiles.spilling import SpilledArrays
from qmcif_engine.tiles.stage_list import CLEAN_UP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.cleanup.frame_ends import FrameEnds
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.method.decomposition import Decomposition
    from qmcif_engine.method.fusion import Blend
    from qmcif_engine.tiles.cell_stages import CellDecision, CellLevels


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes that follow from the shape of the whole image and the settings, never from a part of it."""

    detail_patch_px: int


def plan_geometry(shape: tuple[int, int], config: FusionConfig) -> Geometry:
    """Settle the sizes for an image of this shape."""
    return Geometry(detail_patch_side(shape, config.focus))


@dataclass(frozen=True, slots=True)
class FocusLevels:
    """Focus levels of all images of one block.

    Attributes
    ----------
    base : tuple of ndarray of float, shape (rows, columns)
        One level per base patch, for each image.
    detail : sequence of ndarray of float, shape (h, w)
        One level per pixel and image; 0 where the image has no such pixel.
    fine : tuple of ndarray of float, shape (rows, columns)
        One level of the finest window per cell (`qmcif_engine.cleanup.regularization`), for each image.
    layers : tuple of Decomposition
        Empty unless they were asked for.
    """

    base: tuple[FloatArray, ...]
    detail: Sequence[FloatArray]
    fine: tuple[FloatArray, ...]
    layers: tuple[Decomposition, ...]


@dataclass(frozen=True, slots=True)
class FocusMaps:
    """``M_B`` and ``M_D``: which image is the sharpest around each pixel at either scale, and what its detail patch chose, shape (h, w)."""

    base: IndexArray
    detail: IndexArray
    choices: IndexArray


@dataclass(frozen=True, slots=True)
class TileResult:
    """Decisions on one block: how its pixels are composed, and the probability that the choice is right, shape (h, w)."""

    blend: Blend
    confidence: FloatArray


def measure_focus(
    blocks: Iterable[FloatArray],
    config: FusionConfig,
    *,
    geometry: Geometry,
    borders: Borders = WHOLE_IMAGE,
    adaptation: NoiseAdaptation = NO_NOISE,
    validity: Callable[[int], BoolArray] | None = None,
    keep_layers: bool = False,
    check_cancelled: Callable[[], None] = lambda: None,
    report_image: Callable[[], None] = lambda: None,
) -> FocusLevels:
    """Measure the focus of each image at both scales; images are independent and taken one at a time.

    Parameters
    ----------
    blocks : iterable of ndarray of float, shape (3, h, w)
    config : FusionConfig
    geometry : Geometry
    borders : Borders
        The sides where the block ends because the image does.
    adaptation : NoiseAdaptation
        How the images are smoothed for the noise of the stack.
    validity : callable, optional
        Returns which pixels, shape (h, w), an image really has; all where left out.
    keep_layers : bool
        Keep the layers of every image; a block that is solved in parts has none to keep, nor have measures that do not decompose.
    check_cancelled, report_image : callable
        Called before each iteration of the solve, and after each image.
    """
    base, fine, layers = [], [], []
    detail = SpilledArrays(memory_bytes=LEVELS_IN_MEMORY_BYTES)
    measure = FOCUS_MEASURES[config.focus.measure].measure
    task = MeasuringTask(
        detail_patch_px=geometry.detail_patch_px,
        borders=borders,
        adaptation=adaptation,
        keep_layers=keep_layers,
        check_cancelled=check_cancelled,
    )
    for number, block in enumerate(blocks):
        focus = measure(adaptation.smooth(block) if config.focus.adapts_to_noise else block, config, task)
        base_level, level, fine_level = focus.base, focus.detail, focus.fine
        if validity is not None:
            is_valid = validity(number)
            level[~is_valid] = 0
            fine_level[~is_valid] = 0
            base_level[_any_in_patches(~is_valid, patch_px=config.decomposition.base_patch_px)] = NEVER_CHOSEN
        base.append(base_level)
        detail.append(level)
        fine.append(sample_cells(fine_level))  # needed on cells only, by the regularization
        if focus.layers is not None:
            layers.append(focus.layers)
        report_image()
    return FocusLevels(
        tuple(smooth_along_stack(base, adaptation)),
        smooth_along_stack(detail, adaptation),
        tuple(smooth_along_stack(fine, adaptation)),
        tuple(layers),
    )


def _any_in_patches(plane: BoolArray, *, patch_px: int) -> BoolArray:
    rows, columns = padding_to_grid((plane.shape[0], plane.shape[1]), patch_px=patch_px)
    padded = np.pad(plane, ((0, rows), (0, columns)))
    return np.asarray(padded.reshape(padded.shape[0] // patch_px, patch_px, -1, patch_px).any(axis=(1, 3)))


def find_focus_maps(
    blocks: Sequence[FloatArray],
    levels: FocusLevels,
    *,
    geometry: Geometry,
    config: FusionConfig,
    borders: Borders = WHOLE_IMAGE,
    adaptation: NoiseAdaptation = NO_NOISE,
    validity: Callable[[int], BoolArray] | None = None,
) -> FocusMaps:
    """Return the maps of both scales, pixel by pixel; the parameters are those of `decide`."""
    validity = exclude_dark_borders(validity, blocks, depth_px=config.focus.dark_border_px, borders=borders)
    return _focus_maps(levels, geometry=geometry, config=config, adaptation=adaptation, validity=validity)[0]


def _focus_maps(
    levels: FocusLevels,
    *,
    geometry: Geometry,
    config: FusionConfig,
    adaptation: NoiseAdaptation,
    validity: Callable[[int], BoolArray] | None,
) -> tuple[FocusMaps, CellEvidence]:
    levels = _preferred(levels, config)
    choices, evidence = _detail_choices(levels, geometry=geometry, config=config, adaptation=adaptation, validity=validity)
    detail_map = vote(choices, n_choices=len(levels.detail), side_px=geometry.detail_patch_px)
    patch = config.decomposition.base_patch_px
    base_map = spread_patches(rank(levels.base).winner, patch_px=patch)[: detail_map.shape[0], : detail_map.shape[1]]
    if config.decision.follow_reach_px:
        ranking = rank(_eligible(levels.detail, validity))
        is_decided = np.maximum(ranking.best, 0) - np.maximum(ranking.least, 0) > NEGLIGIBLE_LEVEL
        base_map = np.where(is_decided, base_map, detail_map)  # where no image has detail, the other map has followed its neighbors
    return FocusMaps(base_map, detail_map, choices), evidence


def draw_cells(
    blocks: Sequence[FloatArray],
    decided: CellDecision,
    levels: CellLevels,
    *,
    config: FusionConfig,
    adaptation: NoiseAdaptation = NO_NOISE,
    validity: Callable[[int], BoolArray] | None = None,
    ends: FrameEnds | None = None,
) -> TileResult:
    """Draw decisions made cell by cell to the pixel, and blend along their edges.

    Parameters
    ----------
    blocks : sequence of ndarray of float, shape (3, h, w)
    decided : CellDecision
    levels : CellLevels
    config, adaptation, validity, ends
        As those of `decide`.
    """
    shape = (blocks[0].shape[-2], blocks[0].shape[-1])
    decision = Decision(spread_cells(decided.index, shape), spread_cells(decided.confidence, shape))

    def fallback() -> IndexArray:
        return rank(_eligible((spread_cells(level, shape) for level in levels.detail), validity)).winner

    return _drawn(decision, blocks, adaptation.level, fine=levels.fine, config=config, validity=validity, fallback=fallback, ends=ends)


def decide(
    blocks: Sequence[FloatArray],
    levels: FocusLevels,
    *,
    geometry: Geometry,
    config: FusionConfig,
    borders: Borders = WHOLE_IMAGE,
    adaptation: NoiseAdaptation = NO_NOISE,
    validity: Callable[[int], BoolArray] | None = None,
    ends: FrameEnds | None = None,
) -> TileResult:
    """Decide which image gives each pixel; one that does not have the pixel never does while another has it.

    Pixels of a dark border count as missing (`qmcif_engine.cleanup.dark_border`). Where frames end inside the fused image, `validity` is
    where images may be chosen, and they are mixed in up to their end (`qmcif_engine.cleanup.frame_ends`).

    Notes
    -----
    Focus maps ``M_B`` and ``M_D`` [QMCIF, Eqs. (16) and (17)], fusion [QMCIF, Eqs. (18) and (19)], refinement
    [QMCIF, Eqs. (20), (21) and (22)], then our clean-up and blend.

    Departs: where focus levels are equal, both maps follow the decided pixels around instead of the tie rule; decisions are made to fit
    together (`cleanup.regularization`), their edges drawn anew (`cleanup.boundaries.reblurring`) and blended; none of it in ``paper``.
    """
    validity = exclude_dark_borders(validity, blocks, depth_px=config.focus.dark_border_px, borders=borders)
    maps, evidence = _focus_maps(levels, geometry=geometry, config=config, adaptation=adaptation, validity=validity)
    averaged = _average(blocks, levels, maps=maps, geometry=geometry, config=config, validity=validity)
    if averaged is not None:
        index = averaged.source_index
    else:
        index = _chosen_map(blocks, _preferred(levels, config), maps=maps, geometry=geometry, config=config)
    decided, confidence = regularize(sample_cells(index), evidence, noise_level=adaptation.level, config=config.decision)
    if config.decision.consistency:  # else the cells only give the confidence
        index = spread_cells(decided, index.shape)

    def fallback() -> IndexArray:
        return rank(_eligible(_preferred(levels, config).detail, validity)).winner

    decision = Decision(index, spread_cells(confidence, index.shape))
    if averaged is not None:
        return TileResult(averaged, decision.confidence)
    return _drawn(decision, blocks, adaptation.level, fine=levels.fine, config=config, validity=validity, fallback=fallback, ends=ends)


def _drawn(
    decision: Decision,
    blocks: Sequence[FloatArray],
    noise_level: float,
    *,
    fine: Sequence[FloatArray],
    config: FusionConfig,
    validity: Callable[[int], BoolArray] | None,
    fallback: Callable[[], IndexArray],
    ends: FrameEnds | None,
) -> TileResult:
    """Draw the edges of the decisions and blend along them."""
    for stage in CLEAN_UP:
        decision = stage.clean_up(decision, DecisionBasis(blocks, noise_level), config)
    index = decision.index
    if validity is not None:
        index = _valid_map(index, fallback(), validity)  # redrawn edges may have moved into what an image lacks
    is_ordered = len(fine) > 2 and config.decision.order is StackOrder.ORDERED  # two images have no slopes
    is_even = find_even_focus(index, fine) if is_ordered else None
    zones = {"is_even": is_even, "is_end": None if ends is None else ends.find(index), "is_exact": decision.is_exact}
    blend = blend_along_edges(index, blocks, _mean_brightness(blocks), config.decision, **zones)
    if validity is not None:
        blend = without_invalid(blend, validity if ends is None else ends.fade)
    return TileResult(blend, decision.confidence)


def _preferred(levels: FocusLevels, config: FusionConfig) -> FocusLevels:
    """Return the levels that decide: those of the preferred end of the stack raised, where one is preferred."""
    if config.decision.preference is Preference.NONE:
        return levels
    weights = weigh_images(len(levels.base), config.decision)
    return replace(
        levels,
        base=tuple(WeightedLevels(levels.base, weights)),
        detail=WeightedLevels(levels.detail, weights),
        fine=tuple(WeightedLevels(levels.fine, weights)),
    )


def _eligible(levels: Iterable[FloatArray], validity: Callable[[int], BoolArray] | None) -> Iterator[FloatArray]:
    """Yield the levels with those of pixels that an image does not have below any other."""
    for number, level in enumerate(levels):
        yield level if validity is None else np.where(validity(number), level, np.asarray(NEVER_CHOSEN, level.dtype))


def _valid_map(index: IndexArray, fallback: IndexArray, validity: Callable[[int], BoolArray]) -> IndexArray:
    """Return the map with the pixels that their image does not have given to the best image that has them."""
    result = index.copy()
    for number in np.unique(index):  # validity is asked for images that were chosen only
        is_missing = (index == number) & ~validity(int(number))
        result[is_missing] = fallback[is_missing]
    return result


def _detail_choices(
    levels: FocusLevels,
    *,
    geometry: Geometry,
    config: FusionConfig,
    adaptation: NoiseAdaptation,
    validity: Callable[[int], BoolArray] | None,
) -> tuple[IndexArray, CellEvidence]:
    """Return which image the patch centered on each pixel chose, and the evidence of both scales in cells."""
    side, cells = geometry.detail_patch_px, CellEvidence(noise_level=adaptation.remaining_level)
    breadth = np.float32(weigh_breadth(len(levels.fine), adaptation.level))

    def gathered() -> Iterator[FloatArray]:
        for level, fine_level in zip(levels.detail, levels.fine, strict=True):
            evidence = gather_evidence(level, detail_patch_px=side, config=config.focus)
            cells.add(breadth * sample_cells(evidence) + fine_level)
            yield evidence

    ranking = rank(_eligible(gathered(), validity))
    choices = ranking.winner
    if config.decision.follow_reach_px:
        is_decided = ranking.best - np.maximum(ranking.least, 0) > NEGLIGIBLE_LEVEL
        tied = np.uint16(len(levels.detail) - 1)  # the tie rule, not the rounding of equal levels
        choices = np.where(is_decided, choices, tied)
        choices = fill.follow_neighbors(choices, is_decided, reach_px=config.decision.follow_reach_px)
    return choices, cells


def _average(
    blocks: Sequence[FloatArray],
    levels: FocusLevels,
    *,
    maps: FocusMaps,
    geometry: Geometry,
    config: FusionConfig,
    validity: Callable[[int], BoolArray] | None,
) -> Blend | None:
    """Return the averaged detail patches, refined; None where patches vote, or the base scale or a clean-up of decisions is asked for."""
    is_voted = config.focus.aggregation is Aggregation.VOTE or config.refinement.result is ResultScale.BASE
    if is_voted or config.decision.consistency or config.decision.edge_band_px or config.decision.blend_radius_px:
        return None
    weights = source_weights(_preferred(levels, config).detail, rule=config.refinement.weights, saturation=config.focus.saturation)
    blend = average_patches(
        blocks, maps.choices, maps.base, weights=weights, detail_patch_px=geometry.detail_patch_px, config=config.refinement
    )
    return blend if validity is None else without_invalid(blend, validity)


def _chosen_map(
    blocks: Sequence[FloatArray],
    levels: FocusLevels,
    *,
    maps: FocusMaps,
    geometry: Geometry,
    config: FusionConfig,
) -> IndexArray:
    """Return the map of the scale that the settings ask for, or the refined choice between both."""
    if config.refinement.result is ResultScale.BASE:
        return maps.base
    if config.refinement.result is ResultScale.DETAIL:
        return maps.detail
    choice = refine(
        (select(blocks, maps.base), select(blocks, maps.detail)),
        blocks,
        weights=source_weights(levels.detail, rule=config.refinement.weights, saturation=config.focus.saturation),
        detail_patch_px=geometry.detail_patch_px,
        config=config.refinement,
    )
    return np.where(choice == 0, maps.base, maps.detail)


def _mean_brightness(blocks: Sequence[FloatArray]) -> FloatArray:
    """Return the mean over images and channels on the 0-1 scale, shape (h, w): what blends are guided by."""
    total = np.zeros(blocks[0].shape[-2:], np.float32)  # one plane, whatever the number of images
    for block in blocks:
        add_brightness(np.ascontiguousarray(block), 1 / (len(blocks) * FULL_SCALE), total)
    return total
