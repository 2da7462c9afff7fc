"""The rule ``energy``: evidence of focus, halos and borders in one energy, minimized over cells and drawn to the pixel."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.config.fusion_config import Effort, NoiseHandling, Preference, StackOrder
from qmcif_engine.decision.cleaning import CLEANING_REACH_PX, LIGHT_CELL_PX, clip_outliers, measure_light, raise_clipped
from qmcif_engine.decision.composition import compose_samples, composition_reach_px, list_labels
from qmcif_engine.decision.edges import CLOSED, LABEL_REACH_PX, PART_MARGIN_PX, WIDE_MARGIN_CELLS, blur_series, draw_edges, find_rivals
from qmcif_engine.decision.evidence import (
    BLOCK_PX,
    CELL_PX,
    EVIDENCE_REACH_PX,
    MISSING,
    Candidates,
    find_candidates,
    scale_energies,
    store_evidence,
)
from qmcif_engine.decision.filters import average_cells, interpolate_cells, largest_of_cells, repeat_cells
from qmcif_engine.decision.posterior import find_confidence, find_position
from qmcif_engine.decision.propagation import PROPAGATION_REACH_PX, far_apart, propagate
from qmcif_engine.decision.reblur import CELL_PX as HALO_CELL_PX
from qmcif_engine.decision.reblur import HALO_REACH_PX, fine_energy, halo_costs
from qmcif_engine.rules import Decision, Rule
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, IndexArray, SampleArray
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.rules import Planes, Samples, StackStatistics, TileSteps

GRID_PX = 16
"""What sides of tiles are multiples of: a whole number of all cells."""

PART_PX = 256
"""Side of the parts in which edges are drawn, so that memory does not grow with the tile."""

IN_MEMORY_BYTES = 192 * 2**20
"""Evidence beyond this size lies in a temporary file."""


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
    candidates = find_candidates(images.evidence, _prior(config, planes.n_images), n_planes=planes.n_planes)
    cost = candidates.cost
    if settings.effort is Effort.FULL:
        halos = halo_costs(images.cells, images.detail, _repeat_labels(candidates.label, BLOCK_PX // HALO_CELL_PX, images.detail.shape[1:]))
        cost = cost + repeat_cells(halos.transpose(2, 0, 1), HALO_CELL_PX // CELL_PX, cost.shape[:2]).transpose(1, 2, 0)
    steps.check_cancelled()
    far = far_apart(planes.n_images, is_ordered=statistics.is_ordered)
    beliefs = propagate(candidates, cost, images.cells, far=far, smoothness=settings.smoothness)
    steps.check_cancelled()
    labels = _CellLabels.of(candidates, beliefs)
    window = core.grown(composition_reach_px(settings), planes.window.shape)
    index, trust = _draw(labels, images, window, far=far, config=config, steps=steps)
    is_ordered = statistics.is_ordered
    confidence = find_confidence(labels.beliefs, labels.label, labels.index, is_ordered=is_ordered, n_images=planes.n_images)
    position = find_position(images.evidence, labels.index) if with_position else None
    return Decision(
        window=window,
        index=_keep_choosable(index, labels.index, planes, window),
        confidence=_to_pixels(confidence, window),
        position=None if position is None else _to_pixels(interpolate_cells(position, CELL_PX, planes.window.shape), window, side=1),
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

    `evidence` has the shape (scales, N, rows, columns) of cells of `CELL_PX`; `cells`, shape (N, c, rows, columns), and `detail`, shape
    (N, rows, columns), are means and fine detail on cells of `HALO_CELL_PX`.
    """

    planes: Planes
    noise: float
    is_cleaned: bool
    lights: NDArray[Any] | None
    evidence: NDArray[np.uint16]
    cells: FloatArray
    detail: FloatArray

    def read(self, image: int, part: Window | None = None) -> FloatArray:
        """Return planes in units of the noise, without outliers and with clipped light raised; a part starts on cells of 4 px."""
        block = self.planes.block(image, part)
        cleaned = (clip_outliers(block) if self.is_cleaned else block) / np.float32(self.noise)
        if self.lights is None or self.planes.highest is None:
            return cleaned
        lights = self.lights if part is None else self.lights[:, :, *_cells_of(part, LIGHT_CELL_PX).slices]
        return raise_clipped(cleaned, image, lights, self.planes.highest / self.noise)

    def blur(self, image: int, part: Window) -> FloatArray:
        """Return `blur_series` of a part that starts on cells of 4 px."""
        inner = _cells_of(part, HALO_CELL_PX)
        outer = inner.grown(WIDE_MARGIN_CELLS, self.detail.shape[1:])
        return blur_series(self.read(image, part), self.cells[image, :, *outer.slices], inner.relative_to(outer).slices)


def _measure_images(planes: Planes, statistics: StackStatistics, config: FusionConfig, steps: TileSteps) -> _Images:
    """Measure the evidence of all images, one at a time."""
    n, settings = planes.n_images, config.decision
    n_scales = 1 if settings.effort is Effort.FAST else len(statistics.floors)
    fine, coarse = (tuple(-(-length // side) for length in planes.window.shape) for side in (CELL_PX, HALO_CELL_PX))
    images = _Images(
        planes,
        statistics.noise,
        settings.noise is NoiseHandling.AUTO,
        _measure_lights(planes, statistics.noise, steps) if planes.has_clipped() else None,
        _allocate((n_scales, n, *fine), np.uint16),
        _allocate((n, planes.n_planes, *coarse), np.float32),
        _allocate((n, *coarse), np.float32),
    )
    is_open = np.zeros(fine, np.bool_)
    for number in range(n):
        steps.check_cancelled()
        block = images.read(number)
        images.evidence[:, number] = store_evidence(scale_energies(block, settings.measure, n_scales=n_scales), statistics.floors)
        images.cells[number] = average_cells(block, HALO_CELL_PX)
        images.detail[number] = fine_energy(block)
        choosable = planes.choosable(number)
        is_missing = None if choosable is None else largest_of_cells(~choosable, CELL_PX)
        if is_missing is not None:
            images.evidence[:, number, is_missing] = MISSING
        is_open |= True if is_missing is None else ~is_missing
        steps.report_image()
    # where no image has a whole cell, all compete, and pixels are looked at one by one in the end
    images.evidence[:, :, ~is_open] = 0
    return images


def _measure_lights(planes: Planes, noise: float, steps: TileSteps) -> NDArray[Any]:
    lights = None
    for number in range(planes.n_images):
        steps.check_cancelled()
        block = planes.block(number)
        light = measure_light(block / np.float32(noise), (planes.highest or 0.0) / noise)
        lights = _allocate((planes.n_images, *light.shape), np.float32) if lights is None else lights
        lights[number] = light
    assert lights is not None
    return lights


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
    rivals, band = find_rivals(labels.index, far)
    for part in (part for row in _cut_parts(window) for part in row):
        steps.check_cancelled()
        if not band[_cells_of(part, CELL_PX).slices].any():
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


def _cut_parts(window: Window) -> list[list[Window]]:
    """Return rows of parts of a window."""
    tops, lefts = range(window.top, window.bottom, PART_PX), range(window.left, window.right, PART_PX)
    return [[Window(top, left, min(top + PART_PX, window.bottom), min(left + PART_PX, window.right)) for left in lefts] for top in tops]


def _allocate(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:  # noqa: ANN401
    """Return an empty array, in a temporary file where it is large: it grows with the number of images."""
    if math.prod(shape) * np.dtype(dtype).itemsize <= IN_MEMORY_BYTES:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="qmcif-") as file:  # the array keeps it open
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


DECISION_REACH_PX = HALO_REACH_PX + PROPAGATION_REACH_PX + LABEL_REACH_PX
"""How far decisions look: through halos, messages between cells, and the edges that are drawn between the labels."""


def _reach_px(config: FusionConfig, _shape: tuple[int, int]) -> int:
    """Return how far a tile looks beyond its core."""
    far = CLEANING_REACH_PX + EVIDENCE_REACH_PX + PROPAGATION_REACH_PX if config.decision.effort is Effort.FAST else DECISION_REACH_PX
    return far + composition_reach_px(config.decision)


def _working_bytes(config: FusionConfig, n_px: int, n_images: int) -> int:
    del config
    stored = min(3 * IN_MEMORY_BYTES, 3 * n_px * n_images)
    labels = min(n_images, 8)
    return stored + n_px * (60 + 22 * labels)


RULE = Rule(decide=decide, compose=compose, reach_px=_reach_px, working_bytes=_working_bytes, has_statistics=True)
