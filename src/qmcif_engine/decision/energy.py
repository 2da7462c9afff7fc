"""The rule ``energy``: evidence of focus, halos and borders in one energy, minimized over cells and drawn to the pixel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.config.fusion_config import Effort, NoiseHandling, Preference, StackOrder
from qmcif_engine.decision.cleaning import CLEANING_REACH_PX, LIGHT_CELL_PX, add_light, clip_outliers, measure_light, raise_clipped
from qmcif_engine.decision.composition import compose_samples, composition_reach_px, list_labels
from qmcif_engine.decision.edges import CLOSED, LABEL_REACH_PX, PART_MARGIN_PX, WIDE_MARGIN_CELLS, blur_series, draw_edges, find_rivals
from qmcif_engine.decision.evidence import (
    BLOCK_PX,
    CELL_PX,
    EVIDENCE_REACH_PX,
    FINE_REACH_PX,
    MISSING,
    Candidates,
    find_candidates,
    scale_energies,
    store_evidence,
)
from qmcif_engine.decision.filters import average_cells, interpolate_cells, largest_of_cells, repeat_cells
from qmcif_engine.decision.posterior import average_peaks, find_confidence, find_peaks
from qmcif_engine.decision.propagation import PROPAGATION_REACH_PX, far_apart, price_borders, propagate
from qmcif_engine.decision.reblur import CELL_PX as HALO_CELL_PX
from qmcif_engine.decision.reblur import HALO_REACH_PX, MARGIN_CELLS, fine_energy, halo_costs
from qmcif_engine.rules import Decision, Rule
from qmcif_engine.stack.spilling import SpilledArrays
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import Planes, Samples, StackStatistics, TileSteps

GRID_PX = 16
"""What sides of tiles are multiples of: a whole number of all cells."""

PART_PX = 256
"""Side of the parts in which edges are drawn, so that memory does not grow with the tile."""

MOST_LABELS, LEAST_PART_PX = 8, 64
"""Parts in which more labels meet are halved, down to this side."""

IN_MEMORY_BYTES = 32 * 2**20
"""Evidence, means and detail of more images than this holds, each, wait in a temporary file."""

BAND_PX, BAND_IMAGES = 128, 16
"""Rows of a tile whose candidates are compared at once, for so many images; fewer rows for more."""


def decide(
    planes: Planes, core: Window, statistics: StackStatistics, config: FusionConfig, *, with_position: bool, steps: TileSteps
) -> Decision:
    """Decide which image gives each pixel of the core of a tile.

    Notes
    -----
    Minimizes ``E(x) = sum_p [U + H](x_p) + sum_pq V(x_p, x_q)`` over the labels of all cells: evidence ``U``
    (`qmcif_engine.decision.evidence`), halos ``H`` (`qmcif_engine.decision.reblur`) and borders ``V``
    (`qmcif_engine.decision.propagation`); then draws depth edges to the pixel (`qmcif_engine.decision.edges`).

    Departs: replaces [QMCIF, Eqs. (13) to (22)]; the color model and the detail layer are the paper's.
    """
    settings = config.decision
    images = _measure_images(planes, statistics, config, steps)
    far = far_apart(planes.n_images, is_ordered=statistics.is_ordered)
    candidates, cost, prices = _weigh_candidates(images, config, far=far, steps=steps)
    beliefs = propagate(candidates.label, cost, prices, far=far, smoothness=settings.smoothness)
    steps.check_cancelled()
    labels = _CellLabels.of(candidates, beliefs)
    window = core.grown(composition_reach_px(settings), planes.window.shape)
    index, trust = _draw(labels, images, window, far=far, config=config, steps=steps)
    index = _keep_choosable(index, labels.index, planes, window)
    is_ordered = statistics.is_ordered
    confidence = find_confidence(labels.beliefs, labels.label, labels.index, is_ordered=is_ordered, n_images=planes.n_images)
    return Decision(
        window=window,
        index=index,
        confidence=_to_pixels(confidence, window),
        position=_find_position(images, labels.index, index, window, far=far) if with_position else None,
        maps={"base_map": _to_pixels(candidates.winner[-1], window), "detail_map": _to_pixels(candidates.winner[0], window)},
        blend=trust,
    )


def compose(images: Samples, decision: Decision, *, inner: Window, noise: float, config: FusionConfig) -> SampleArray:
    """Return samples of the inner window, composed part by part."""
    settings = config.decision
    far = far_apart(len(images), is_ordered=settings.order is StackOrder.ORDERED)
    trust = np.zeros(decision.index.shape, np.float32) if decision.blend is None else decision.blend
    parts: list[list[Any]] = []
    for row in _cut_parts(inner):
        parts.append([])
        for part in row:
            seen = part.grown(composition_reach_px(settings), decision.index.shape)
            composed = compose_samples(
                {int(label): images.read(int(label), seen) for label in list_labels(decision.index[seen.slices])},
                decision.index[seen.slices],
                trust[seen.slices],
                noise=noise,
                far=far,
                feather_px=settings.blend_px,
                wide_feather_px=settings.feather_px if settings.blend_px else 0.0,
            )
            parts[-1].append(composed[part.relative_to(seen).slices])
    result: SampleArray = np.concatenate([np.concatenate(row, axis=1) for row in parts])
    return result


@dataclass(frozen=True, slots=True)
class _Images:
    """The images of a tile as decisions see them, and what was measured of them.

    There is one array for each image in `evidence`, shape (rows, scales, columns) on cells of `CELL_PX`, and in `cells` and `detail`, shape
    (rows, c, columns) and (rows, columns), the means and fine detail on cells of `HALO_CELL_PX`. `is_open` is where any image has a whole
    cell, `is_complete` where all have, and `light` the largest light where samples are clipped
    (`qmcif_engine.decision.cleaning.add_light`).
    """

    planes: Planes
    statistics: StackStatistics
    is_cleaned: bool
    light: FloatArray | None
    evidence: SpilledArrays
    cells: SpilledArrays
    detail: SpilledArrays
    is_open: BoolArray
    is_complete: BoolArray

    def read(self, image: int, part: Window | None = None) -> FloatArray:
        """Return planes in units of the noise, without outliers and with clipped light raised; a part starts on cells of 4 px."""
        block = self.planes.block(image, part)
        cleaned = self.statistics.even(clip_outliers(block) if self.is_cleaned else block, image)
        if self.light is None:
            return cleaned
        light = self.light if part is None else self.light[:, *_cells_of(part, LIGHT_CELL_PX).slices]
        return raise_clipped(cleaned, light, _highest(self.planes, self.statistics, image))

    def blur(self, image: int, part: Window) -> FloatArray:
        """Return `blur_series` of a part that starts on cells of 4 px."""
        inner = _cells_of(part, HALO_CELL_PX)
        shape = (-(-self.planes.window.shape[0] // HALO_CELL_PX), -(-self.planes.window.shape[1] // HALO_CELL_PX))
        outer = inner.grown(WIDE_MARGIN_CELLS, shape)
        cells = self.cells.read_rows(image, outer.top, outer.bottom)[..., outer.left : outer.right].transpose(1, 0, 2)
        return blur_series(self.read(image, part), np.ascontiguousarray(cells), inner.relative_to(outer).slices)

    def read_evidence(self, rows: slice) -> NDArray[np.uint16]:
        """Return the evidence of all images in some rows of cells, shape (scales, N, rows, columns)."""
        bands = [self.evidence.read_rows(number, rows.start, rows.stop) for number in range(self.planes.n_images)]
        evidence = np.ascontiguousarray(np.stack(bands).transpose(2, 0, 1, 3))
        # where no image has a whole cell, all compete, and pixels are looked at one by one in the end
        evidence[:, :, ~self.is_open[rows]] = 0
        return evidence


def _measure_images(planes: Planes, statistics: StackStatistics, config: FusionConfig, steps: TileSteps) -> _Images:
    """Measure the evidence of all images, one at a time."""
    settings = config.decision
    n_scales = 1 if settings.effort is Effort.FAST else len(statistics.floors)
    shape = tuple(-(-length // CELL_PX) for length in planes.window.shape)
    images = _Images(
        planes,
        statistics,
        settings.noise is NoiseHandling.AUTO,
        _find_light(planes, statistics, steps) if planes.has_clipped() else None,
        SpilledArrays(memory_bytes=IN_MEMORY_BYTES),
        SpilledArrays(memory_bytes=IN_MEMORY_BYTES),
        SpilledArrays(memory_bytes=IN_MEMORY_BYTES),
        np.zeros(shape, np.bool_),
        np.ones(shape, np.bool_),
    )
    for number in range(planes.n_images):
        steps.check_cancelled()
        block = images.read(number)
        evidence = store_evidence(scale_energies(block, settings.measure, n_scales=n_scales), statistics.floors)
        choosable = planes.choosable(number)
        is_missing = np.zeros_like(images.is_open) if choosable is None else largest_of_cells(~choosable, CELL_PX)
        evidence[:, is_missing] = MISSING
        images.is_open[~is_missing] = True
        images.is_complete[is_missing] = False
        images.evidence.append(np.ascontiguousarray(evidence.transpose(1, 0, 2)))
        images.cells.append(np.ascontiguousarray(average_cells(block, HALO_CELL_PX).transpose(1, 0, 2)))
        images.detail.append(fine_energy(block))
        steps.report_image()
    return images


def _find_light(planes: Planes, statistics: StackStatistics, steps: TileSteps) -> FloatArray:
    """Return the largest light of all images in which it is not clipped, in units of the noise."""
    most: FloatArray | None = None
    for number in range(planes.n_images):
        steps.check_cancelled()
        light = measure_light(statistics.even(planes.block(number), number), _highest(planes, statistics, number))
        most = np.zeros_like(light[:-1]) if most is None else most
        add_light(most, light)
    assert most is not None
    return most


def _highest(planes: Planes, statistics: StackStatistics, image: int) -> float:
    """Return the largest sample of an image in units of the noise."""
    return float(statistics.even(np.array([planes.highest or 0.0], np.float32), image)[0])


def _weigh_candidates(
    images: _Images, config: FusionConfig, *, far: float, steps: TileSteps
) -> tuple[Candidates, FloatArray, list[FloatArray]]:
    """Return the candidates of all blocks, their costs with those of halos, and the prices of borders between them.

    Bands of rows are in work, the lower the more images there are, so that memory does not grow with their number.
    """
    n, height = images.planes.n_images, images.planes.window.shape[0]
    side = max(BAND_PX * BAND_IMAGES // max(n, BAND_IMAGES) // GRID_PX, 1) * GRID_PX
    prior, bands = _prior(config, n), []
    for top in range(0, height, side):
        steps.check_cancelled()
        bottom = min(top + side, height)
        candidates = find_candidates(images.read_evidence(slice(top // CELL_PX, -(-bottom // CELL_PX))), prior)
        first, last = top // HALO_CELL_PX, -(-bottom // HALO_CELL_PX)
        above = max(first - MARGIN_CELLS, 0)
        below = min(last + MARGIN_CELLS, -(-height // HALO_CELL_PX))
        cells = np.stack([images.cells.read_rows(number, above, below) for number in range(n)]).transpose(0, 2, 1, 3)
        inner = np.ascontiguousarray(cells[:, :, first - above : last - above])
        cost = candidates.cost
        if config.decision.effort is Effort.FULL:
            detail = np.stack([images.detail.read_rows(number, first, last) for number in range(n)])
            labels = _repeat_labels(candidates.label, BLOCK_PX // HALO_CELL_PX, detail.shape[1:])
            halos = halo_costs(np.ascontiguousarray(cells), detail, labels, top=first - above)
            cost = cost + repeat_cells(halos.transpose(2, 0, 1), HALO_CELL_PX // CELL_PX, cost.shape[:2]).transpose(1, 2, 0)
        # steps that show are those of the samples as they are
        gains = np.array(images.statistics.gains or (1.0,) * n, np.float32)
        bands.append((candidates, cost, price_borders(inner * gains[:, None, None, None], candidates, far)))
    # winners have the scales first
    joined = Candidates(
        *(
            np.concatenate([getattr(band[0], name) for band in bands], axis=axis)
            for name, axis in zip(Candidates._fields, (0, 0, 1, 0), strict=True)
        )
    )
    prices = [np.concatenate(grids) for grids in zip(*(band[2] for band in bands), strict=True)]
    return joined, np.concatenate([band[1] for band in bands]), prices


def _find_position(images: _Images, cells: IndexArray, index: IndexArray, window: Window, *, far: float) -> FloatArray:
    """Return where along the stack the pixels of a window are sharpest, no farther than one image from the one chosen.

    Between two images nothing is interpolated.
    """
    chosen = index.astype(np.float32)
    if images.planes.n_images < 3:
        return chosen
    step = max(BAND_PX * BAND_IMAGES // max(images.planes.n_images, BAND_IMAGES), 1)
    bands = [slice(top, min(top + step, len(cells))) for top in range(0, len(cells), step)]
    peaks = [find_peaks(images.read_evidence(rows), cells[rows]) for rows in bands]
    place, weight = (np.concatenate(planes) for planes in zip(*peaks, strict=True))
    averaged = average_peaks(place, weight, cells, far)
    position = interpolate_cells(averaged, CELL_PX, images.planes.window.shape)[window.slices]
    return np.clip(position, np.maximum(chosen - 1, 0), np.minimum(chosen + 1, images.planes.n_images - 1))


def _prior(config: FusionConfig, n_images: int) -> FloatArray:
    """Return what is added to the log energies of each image: the preferred end counts as sharper, linearly along the stack."""
    settings = config.decision
    if settings.preference is Preference.NONE:
        return np.zeros(n_images, np.float32)
    weight = np.linspace(1, 0, n_images, dtype=np.float32)
    # energies are squares of sharpness
    return np.float32(2 * math.log(settings.preference_ratio)) * (weight if settings.preference is Preference.FRONT else weight[::-1])


@dataclass(frozen=True, slots=True)
class _CellLabels:
    """The candidates of each cell with their beliefs, shape (rows, columns, K), and the label with the least one, shape (rows, columns)."""

    label: NDArray[np.int32]
    beliefs: FloatArray
    index: IndexArray

    @classmethod
    def of(cls, candidates: Candidates, beliefs: FloatArray) -> _CellLabels:
        label = _repeat_labels(candidates.label, BLOCK_PX // CELL_PX, beliefs.shape[:2])
        bounded = np.where(label < 0, np.float32(CLOSED), np.minimum(beliefs - beliefs.min(axis=-1, keepdims=True), np.float32(CLOSED)))
        index = np.take_along_axis(label, bounded.argmin(axis=-1)[..., None], -1)[..., 0].astype(np.uint16)
        return cls(label, bounded, index)

    def belief(self, label: IndexArray, cells: Window) -> FloatArray:
        """Return the beliefs of one label per cell of a window."""
        is_label = self.label[cells.slices] == label[..., None].astype(np.int32)
        found = np.where(is_label, self.beliefs[cells.slices], 0).sum(axis=-1)
        return np.where(is_label.any(axis=-1), found, np.float32(CLOSED))


def _repeat_labels(label: NDArray[np.int32], side: int, shape: tuple[int, int]) -> NDArray[np.int32]:
    """Return the candidates of blocks for each of their cells, contiguous; `side` is that of a block in cells."""
    return np.ascontiguousarray(repeat_cells(label.transpose(2, 0, 1), side, shape).transpose(1, 2, 0))


def _draw(
    labels: _CellLabels, images: _Images, window: Window, *, far: float, config: FusionConfig, steps: TileSteps
) -> tuple[IndexArray, FloatArray]:
    """Return the labels of the pixels of a window, and how far the edges between them are trusted; edges are drawn part by part."""
    index = _to_pixels(labels.index, window)
    trust = np.zeros(window.shape, np.float32)
    if config.decision.effort is Effort.FAST:
        return index, trust
    rivals, band = find_rivals(labels.index, images.is_complete, far)
    parts = [part for row in _cut_parts(window) for part in row]
    while parts:
        steps.check_cancelled()
        part = parts.pop()
        cells = _cells_of(part, CELL_PX)
        near = band[cells.slices]
        if not near.any():
            continue
        # blurs of all labels are held at once
        n_labels = len(np.union1d(labels.index[cells.slices][near], rivals[cells.slices][near]))
        if n_labels > MOST_LABELS and max(part.shape) > LEAST_PART_PX:
            parts += [one for row in _cut_parts(part, max(part.shape) // 2) for one in row]
            continue
        # on the grid of all cells
        outer = part.grown(PART_MARGIN_PX, images.planes.window.shape)
        seen = Window(outer.top // GRID_PX * GRID_PX, outer.left // GRID_PX * GRID_PX, outer.bottom, outer.right)
        around = _cells_of(seen, CELL_PX)
        drawn = draw_edges(
            labels.index[around.slices],
            rivals[around.slices],
            band[around.slices],
            partial(labels.belief, cells=around),
            partial(images.blur, part=seen),
            shape=seen.shape,
            smoothness=config.decision.smoothness,
        )
        for whole, found in zip((index, trust), drawn, strict=True):
            whole[part.relative_to(window).slices] = found[part.relative_to(seen).slices]
    return index, trust


def _keep_choosable(index: IndexArray, cells: IndexArray, planes: Planes, window: Window) -> IndexArray:
    """Return labels with those of pixels that their image may not give replaced by an image that may."""
    if planes.choosable(0, window) is None:
        return index
    result, is_open = index.copy(), np.zeros(index.shape, np.bool_)
    for label in np.unique(index):
        is_open |= (index == label) & np.asarray(planes.choosable(int(label), window))
    for label in (*np.unique(cells), *range(planes.n_images)):
        if is_open.all():
            break
        is_better = ~is_open & np.asarray(planes.choosable(int(label), window))
        result[is_better] = label
        is_open |= is_better
    return result


def _to_pixels(cells: NDArray[Any], window: Window, *, side: int = CELL_PX) -> NDArray[Any]:
    """Return a window of cells, repeated over their pixels."""
    inner = _cells_of(window, side)
    pixels = repeat_cells(cells[inner.slices], side, (inner.shape[0] * side, inner.shape[1] * side))
    return np.ascontiguousarray(pixels[window.relative_to(Window(inner.top * side, inner.left * side, 0, 0)).slices])


def _cells_of(window: Window, side: int) -> Window:
    return Window(window.top // side, window.left // side, -(-window.bottom // side), -(-window.right // side))


def _cut_parts(window: Window, side: int = PART_PX) -> list[list[Window]]:
    """Return rows of parts of a window."""
    tops, lefts = range(window.top, window.bottom, side), range(window.left, window.right, side)
    return [[Window(top, left, min(top + side, window.bottom), min(left + side, window.right)) for left in lefts] for top in tops]


DECISION_REACH_PX = max(HALO_REACH_PX, EVIDENCE_REACH_PX) + PROPAGATION_REACH_PX + LABEL_REACH_PX
"""How far decisions look: through halos, messages between cells, and the edges that are drawn between the labels."""


def _reach_px(config: FusionConfig, _shape: tuple[int, int]) -> int:
    """Return how far a tile looks beyond its core."""
    far = CLEANING_REACH_PX + FINE_REACH_PX + PROPAGATION_REACH_PX if config.decision.effort is Effort.FAST else DECISION_REACH_PX
    return far + composition_reach_px(config.decision)


def _working_bytes(config: FusionConfig, n_px: int, n_images: int) -> int:
    del config
    stored = min(3 * IN_MEMORY_BYTES, 2 * n_px * n_images)
    labels = min(n_images, 8)
    return stored + n_px * (60 + 22 * labels)


RULE = Rule(decide=decide, compose=compose, reach_px=_reach_px, working_bytes=_working_bytes, has_statistics=True)
