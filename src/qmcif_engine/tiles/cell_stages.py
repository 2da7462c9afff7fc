"""Decisions on one block, cell by cell: focus levels, focus maps, refinement and regularization, before edges are drawn to the pixel.

The stages are those of `qmcif_engine.tiles.stages`, which computes the same maps pixel by pixel for the ``paper`` preset and for whoever
asks for them. Windows here consist of whole cells (`qmcif_engine.method.cell_grid`), and the base layer is relaxed instead of solved for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np

from qmcif_engine.cleanup import fill
from qmcif_engine.cleanup.preference import WeightedLevels, weigh_images
from qmcif_engine.cleanup.regularization import CellEvidence, regularize, weigh_breadth
from qmcif_engine.config.fusion_config import Preference, ResultScale, StackOrder
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.cell_grid import all_in_cells, cell_grid, mean_around, odd_cells, spread_cells
from qmcif_engine.method.focus import LEVELS_IN_MEMORY_BYTES, NEGLIGIBLE_LEVEL, WHOLE_IMAGE, Borders, gather_evidence
from qmcif_engine.method.focus_measures import FOCUS_MEASURES, MeasuringTask
from qmcif_engine.method.patches import rank, spread_patches, vote, window_mean
from qmcif_engine.method.refinement import refine_cells, source_weights
from qmcif_engine.stack.noise import NO_NOISE, NoiseAdaptation, smooth_along_stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.contenders import FEWEST_IMAGES, find_contenders, look_quickly
from qmcif_engine.tiles.covering import cover
from qmcif_engine.tiles.spilling import SpilledArrays
from qmcif_engine.tiles.tile_parts import block_side, cut_parts, in_cells, part_margin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig
    from qmcif_engine.stack.samples import PlaneStack

KINDS_IN_MEMORY_BYTES = LEVELS_IN_MEMORY_BYTES // 4
"""Levels of one kind beyond this wait in a temporary file, so that memory hardly grows with the number of images."""

_BLURRED_ALONG = 3.0
"""How far levels are smoothed along a stack, in standard deviations."""

NEVER_CHOSEN = -1.0
"""Focus level where an image has no pixels, or a cell not whole."""


class Cropped(Sequence["FloatArray"]):
    """A window of each of some arrays, cut when it is asked for."""

    def __init__(self, arrays: Sequence[FloatArray], window: Window) -> None:
        self._arrays, self._window = arrays, window

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._arrays)

    @overload
    def __getitem__(self, number: int) -> FloatArray: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[FloatArray]: ...

    def __getitem__(self, number: int | slice) -> FloatArray | Sequence[FloatArray]:
        """Return the window of one array, or of some."""
        return Cropped(self._arrays[number], self._window) if isinstance(number, slice) else self._arrays[number][self._window.slices]


@dataclass(frozen=True, slots=True)
class CellLevels:
    """Focus levels of all images of one block.

    Attributes
    ----------
    base : sequence of ndarray of float, shape (rows of patches, columns of patches)
        One level per base patch, for each image.
    detail, fine : sequence of ndarray of float, shape (rows, columns)
        One level per cell, for each image; 0 where the image does not have the whole cell.
    is_whole : tuple of ndarray of bool, shape (rows, columns), or None
        Which cells each image has whole; None where every image has all.
    """

    base: Sequence[FloatArray]
    detail: Sequence[FloatArray]
    fine: Sequence[FloatArray]
    is_whole: tuple[BoolArray, ...] | None = None

    def eligible(self, levels: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """Yield levels with those of cells that an image does not have below any other."""
        for number, level in enumerate(levels):
            yield level if self.is_whole is None else np.where(self.is_whole[number], level, np.asarray(NEVER_CHOSEN, level.dtype))

    def spread_detail(self, shape: tuple[int, int]) -> Iterator[FloatArray]:
        """Yield the detail levels of each image, one per pixel of a block of this shape, without steps between cells."""
        for level in self.detail:
            # one pixel wider than a cell, so that every window straddles two and levels run from one to the next
            yield window_mean(spread_cells(level, shape), side_px=CELL_PX + 1)

    def cropped(self, window: Window) -> CellLevels:
        """Return the levels of a window of cells; those of base patches, which do not matter any more, stay as they are."""
        detail, fine = (Cropped(levels, window) for levels in (self.detail, self.fine))
        is_whole = None if self.is_whole is None else tuple(cells[window.slices] for cells in self.is_whole)
        return CellLevels(self.base, detail, fine, is_whole)

    def preferred(self, config: DecisionConfig) -> CellLevels:
        """Return the levels that decide: those of the preferred end of the stack raised, where one is preferred."""
        if config.preference is Preference.NONE:
            return self
        weights = weigh_images(len(self.base), config)
        base, detail, fine = (WeightedLevels(levels, weights) for levels in (self.base, self.detail, self.fine))
        return replace(self, base=base, detail=detail, fine=fine)

    def without(self, validity: Callable[[int], BoolArray] | None) -> CellLevels:
        """Return levels that know which cells images have."""
        if validity is None:
            return self
        return replace(self, is_whole=tuple(all_in_cells(validity(number)) for number in range(len(self.base))))


def measure_cells(
    blocks: PlaneStack,
    shape: tuple[int, int],
    config: FusionConfig,
    *,
    detail_patch_px: int,
    borders: Borders = WHOLE_IMAGE,
    adaptation: NoiseAdaptation = NO_NOISE,
    validity: Callable[[int], BoolArray] | None = None,
    choosable: Callable[[int], BoolArray] | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    report_image: Callable[[], None] = lambda: None,
) -> CellLevels:
    """Measure the focus of each image at both scales, one level per cell.

    Parameters
    ----------
    blocks : PlaneStack
    shape : tuple of int
        Height and width of a block; it is embedded and decomposed part by part.
    config, detail_patch_px, borders, adaptation, validity, check_cancelled, report_image
        As those of `qmcif_engine.tiles.stages.measure_focus`.
    choosable : callable, optional
        Tells which pixels of an image may be chosen, where these are not all: others keep no image from being measured.
    """
    base, detail, fine = (SpilledArrays(memory_bytes=KINDS_IN_MEMORY_BYTES) for _ in range(3))
    measure = FOCUS_MEASURES[config.focus.measure]
    task = MeasuringTask(detail_patch_px=detail_patch_px, borders=borders, adaptation=adaptation, check_cancelled=check_cancelled)
    cells_of_a_patch = config.decomposition.base_patch_px // CELL_PX
    parts_of = _choose_parts(blocks, shape, config, task, choosable)
    for number in range(len(blocks)):
        # image by image: levels of one are a sixteenth of its pixels, and the rest of it need not be kept
        averages = _average_parts(blocks, number, shape, parts_of(number), config, task)
        focus = measure.level_cells(averages, config, task)
        if validity is not None:
            is_whole = all_in_cells(validity(number))
            focus.detail[~is_whole] = 0
            focus.fine[~is_whole] = 0
            # a base patch that is partly missing must not win either, since it gives all its pixels
            focus.base[~_all_in_patches(is_whole, n_cells=cells_of_a_patch)] = NEVER_CHOSEN
        base.append(focus.base)
        detail.append(focus.detail)
        fine.append(focus.fine)
        report_image()
    return CellLevels(smooth_along_stack(base, adaptation), smooth_along_stack(detail, adaptation), smooth_along_stack(fine, adaptation))


def _choose_parts(
    blocks: PlaneStack, shape: tuple[int, int], config: FusionConfig, task: MeasuringTask, choosable: Callable[[int], BoolArray] | None
) -> Callable[[int], list[Window]]:
    """Return what tells the parts in which an image is measured: all of a few images, those with a chance of the images of a deep stack."""
    parts = cut_parts(Window.whole(shape), config)
    if len(blocks) < FEWEST_IMAGES:
        return lambda _number: parts
    curvatures = SpilledArrays(memory_bytes=KINDS_IN_MEMORY_BYTES)
    for number in range(len(blocks)):
        task.check_cancelled()
        curvature = np.empty(cell_grid(shape), np.float32)
        for part in parts:
            # parts without margins: at their borders second differences are left out, which hardly matters to a mean
            curvature[in_cells(part).slices] = look_quickly(blocks.cut(number, part)[: blocks.n_different])
        curvatures.append(curvature)
    side_px = block_side(config)
    wanted = find_contenders(
        curvatures,
        block_cells=side_px // CELL_PX,
        window_px=task.detail_patch_px,
        # smoothing along the stack brings levels of neighbors in, and positions between images need both
        n_beside=0 if config.decision.order is StackOrder.NONE else 1 + math.ceil(_BLURRED_ALONG * task.adaptation.stack_blur),
        is_whole=None if choosable is None else lambda number: all_in_cells(choosable(number)),
    )

    def parts_of(number: int) -> list[Window]:
        found = cover(wanted[number], side_px=side_px, margin_px=part_margin(config, task.adaptation))
        # blocks to pixels, cut where the image ends within a block
        scaled = (Window(*(side_px * side for side in window)).grown(0, shape) for window in found)
        return [part.moved(window.top, window.left) for window in scaled for part in cut_parts(Window.whole(window.shape), config)]

    return parts_of


def _average_parts(
    blocks: PlaneStack, number: int, shape: tuple[int, int], parts: Sequence[Window], config: FusionConfig, task: MeasuringTask
) -> tuple[FloatArray, ...]:
    """Return what the focus measure looks at in each cell of one image, from parts of it that stay in the cache; 0 in all others."""
    averages: tuple[FloatArray, ...] = ()
    measure = FOCUS_MEASURES[config.focus.measure]
    margin_px = part_margin(config, task.adaptation)
    for part in parts:
        near = part.grown(margin_px, shape)
        # of a gray image one plane, not three equal ones
        block = blocks.cut(number, near)[: blocks.n_different]
        smoothed = task.adaptation.smooth(block) if config.focus.adapts_to_noise else block
        found = measure.average_cells(smoothed, config, task)
        # zeros where nothing is measured: an image without a chance has level 0 there
        averages = averages or tuple(np.zeros(cell_grid(shape), plane.dtype) for plane in found)
        inner = in_cells(part.relative_to(near)).slices
        for plane, values in zip(averages, found, strict=True):
            plane[in_cells(part).slices] = values[inner]
    return averages or tuple(np.zeros(cell_grid(shape), np.float32) for _ in range(measure.n_averages))


def _all_in_patches(is_whole: BoolArray, *, n_cells: int) -> BoolArray:
    rows, columns = (-length % n_cells for length in is_whole.shape)
    padded = np.pad(is_whole, ((0, rows), (0, columns)), constant_values=True)
    return np.asarray(padded.reshape(padded.shape[0] // n_cells, n_cells, -1, n_cells).all(axis=(1, 3)))


@dataclass(frozen=True, slots=True)
class CellDecision:
    """Which image gives each cell, and the probability that this is right; shape (rows, columns)."""

    index: IndexArray
    confidence: FloatArray

    def cropped(self, window: Window) -> CellDecision:
        """Return the decisions on a window of cells."""
        return CellDecision(self.index[window.slices], self.confidence[window.slices])


def decide_cells(
    blocks: PlaneStack,
    shape: tuple[int, int],
    levels: CellLevels,
    *,
    detail_patch_px: int,
    config: FusionConfig,
    adaptation: NoiseAdaptation = NO_NOISE,
) -> CellDecision:
    """Decide which image gives each cell.

    Notes
    -----
    Focus maps ``M_B`` and ``M_D`` [QMCIF, Eqs. (16) and (17)], refinement [QMCIF, Eqs. (20), (21) and (22)], then regularization.

    Departs: as `qmcif_engine.tiles.stages.decide`, and with windows that consist of cells.
    """
    detail_map, evidence = _detail_map(levels, detail_patch_px=detail_patch_px, config=config, adaptation=adaptation)
    # what the ablations of the paper ask for: one scale alone, or the refined choice
    chosen = detail_map
    if config.refinement.result is not ResultScale.DETAIL:
        base_map = _base_map(levels, detail_map, config)
        chosen = base_map
        if config.refinement.result is ResultScale.REFINED:
            # blocks of cells are looked at one after the other, each with the weights of all images
            weights = SpilledArrays(memory_bytes=KINDS_IN_MEMORY_BYTES)
            for weight in source_weights(levels.detail, rule=config.refinement.weights, saturation=config.focus.saturation):
                weights.append(weight)
            side = odd_cells(detail_patch_px)
            choice = refine_cells((base_map, detail_map), blocks, shape, weights=weights, side_cells=side, config=config.refinement)
            chosen = np.where(choice == 0, base_map, detail_map)
    return CellDecision(*regularize(chosen, evidence, noise_level=adaptation.level, config=config.decision))


def _base_map(levels: CellLevels, detail_map: IndexArray, config: FusionConfig) -> IndexArray:
    """Return ``M_B``; where no image has detail to tell, it follows the other map."""
    n_cells = config.decomposition.base_patch_px // CELL_PX
    rows, columns = detail_map.shape
    base_map = spread_patches(rank(levels.base).winner, patch_px=n_cells)[:rows, :columns]
    if config.decision.follow_reach_px:
        ranking = rank(levels.eligible(levels.detail))
        is_decided = np.maximum(ranking.best, 0) - np.maximum(ranking.least, 0) > NEGLIGIBLE_LEVEL
        base_map = np.where(is_decided, base_map, detail_map)
    return base_map


def _detail_map(
    levels: CellLevels, *, detail_patch_px: int, config: FusionConfig, adaptation: NoiseAdaptation
) -> tuple[IndexArray, CellEvidence]:
    """Return ``M_D`` after the votes, and the evidence of both scales."""
    cells = CellEvidence(noise_level=adaptation.remaining_level)
    breadth = np.float32(weigh_breadth(len(levels.fine), adaptation.level))

    # evidence is added to the cells as the ranking asks for it: one pass over the levels, one plane at a time
    def gathered() -> Iterator[FloatArray]:
        for level, fine_level in zip(levels.detail, levels.fine, strict=True):
            evidence = gather_evidence(level, detail_patch_px=detail_patch_px, config=config.focus, mean=mean_around)
            cells.add(breadth * evidence + fine_level)
            yield evidence

    ranking = rank(levels.eligible(gathered()))
    choices = ranking.winner
    if config.decision.follow_reach_px:
        is_decided = ranking.best - np.maximum(ranking.least, 0) > NEGLIGIBLE_LEVEL
        tied = np.uint16(len(levels.detail) - 1)  # the tie rule, not the rounding of equal levels
        choices = np.where(is_decided, choices, tied)
        choices = fill.follow_neighbors(choices, is_decided, reach_px=-(-config.decision.follow_reach_px // CELL_PX))
    return vote(choices, n_choices=len(levels.detail), side_px=odd_cells(detail_patch_px)), cells
