"""The choice between the base-scale and the detail-scale result, patch by patch: QSSR, section III-D of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import WeightRule
from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.cell_sums import CELL_PX
from qmcif_engine.method.focus import saturate
from qmcif_engine.method.patches import cells_of, cut_reflected, edge_band, spread_patches, vote
from qmcif_engine.method.similarity import moments_of_cells, moments_of_pair, quaternion_similarity, similarity_of_cells
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from qmcif_engine.arrays import FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import RefinementConfig, SimilarityPart
    from qmcif_engine.stack.samples import PlaneStack

SMALL_WEIGHT = 1e-6
"""``epsilon`` of the adaptive weights."""


def source_weights(levels: Sequence[FloatArray], *, rule: WeightRule, saturation: float) -> Iterator[FloatArray]:
    """Yield how much the patches of each source count, shape (h, w), one image after the other.

    Notes
    -----
    ``tau_n = l_D,n / (sum of l_D + epsilon)`` [QMCIF, Eq. (21)], carried over from two images to N.

    Departs: the last weight does not take what epsilon leaves to one, so that the order of the images does not matter.
    """
    if rule is WeightRule.EQUAL:
        for level in levels:
            yield np.full_like(level, 1 / len(levels))
        return
    total = np.zeros(levels[0].shape)  # float64: the sum does not depend on the order of the images
    for level in levels:
        total += saturate(level, saturation=saturation)
    total += SMALL_WEIGHT
    for level in levels:
        # saturated a second time rather than kept: N maps would be
        weight = saturate(level, saturation=saturation)
        # back to the dtype of the levels
        np.divide(weight, total, out=weight, casting="same_kind")
        yield weight


def refine(
    candidates: tuple[FloatArray, FloatArray],
    sources: Iterable[FloatArray],
    *,
    weights: Iterable[FloatArray],
    detail_patch_px: int,
    config: RefinementConfig,
) -> IndexArray:
    """Return which candidate each pixel is taken from: 0 for the base-scale result, 1 for the detail-scale result.

    Parameters
    ----------
    candidates : tuple of two ndarray of float, shape (3, h, w)
        ``F_1`` and ``F_2``.
    sources : iterable of ndarray of float, shape (3, h, w)
    weights : iterable of ndarray of float, shape (h, w)
        ``tau_n``, one for each source.
    detail_patch_px : int
    config : RefinementConfig

    Notes
    -----
    ``WQ_SSIM(f) = sum tau_n Q_SSIM(f, p_n)`` [QMCIF, Eq. (20)]; the larger wins and the detail scale takes ties [QMCIF, Eq. (22)]. Only
    patches in which the candidates differ are compared: the others tie.
    """
    base, detail = candidates
    is_different = (base != detail).any(axis=0)
    # where both candidates fill a window alike, nothing can tell them apart
    is_open = is_different | edge_band(is_different.astype(np.uint16), reach_px=detail_patch_px // 2)
    cells = tuple(cells_of(is_open))
    # only the difference of the two sums is kept, so memory does not grow with the number of sources
    leads = [np.zeros(cell.shape) for cell in cells]
    # sources outside, cells inside: each source is computed once
    for source, weight in zip(sources, weights, strict=True):
        for cell, lead in zip(cells, leads, strict=True):
            of_base, of_detail = _similarities(candidates, source, cell, side_px=detail_patch_px, part=config.similarity)
            lead += weight[cell.slices] * (of_detail - of_base)
    choice = np.ones(is_open.shape, np.uint16)
    for cell, lead in zip(cells, leads, strict=True):
        choice[cell.slices] = (lead >= 0) | ~is_open[cell.slices]
    return vote(choice, n_choices=2, side_px=detail_patch_px)


LEAST_WEIGHT = 0.05
"""A source that weighs less than this in a whole block of cells is not compared there."""

COMPARED_CELLS = 64
"""Side of the blocks of cells that are compared at once."""


def refine_cells(
    maps: tuple[IndexArray, IndexArray],
    sources: PlaneStack,
    shape: tuple[int, int],
    *,
    weights: Sequence[FloatArray],
    side_cells: int,
    config: RefinementConfig,
) -> IndexArray:
    """Return which map each cell is taken from: 0 for the base-scale map, 1 for the detail-scale map.

    Parameters
    ----------
    maps : tuple of two ndarray of uint16, shape (rows, columns)
        Which image gives each cell of ``F_1`` and of ``F_2``.
    sources : PlaneStack
        Only what is compared is embedded.
    shape : tuple of int
        Height and width of a source.
    weights : sequence of ndarray of float, shape (rows, columns)
        ``tau_n``, one for each source.
    side_cells : int
        Side of the windows compared, odd.
    config : RefinementConfig

    Notes
    -----
    As `refine`, [QMCIF, Eqs. (20) and (22)].

    Departs: windows lie on cells, and sources that weigh next to nothing are left out.
    """
    is_open = edge_band((maps[0] != maps[1]).astype(np.uint16), reach_px=side_cells // 2) | (maps[0] != maps[1])
    choice = np.ones(is_open.shape, np.uint16)
    for block in cells_of(is_open, cell_px=COMPARED_CELLS):
        # windows of the outermost cells look beyond the block
        near = _NearPixels(block, margin_cells=side_cells // 2, shape=shape)
        indices = [near.cells(index) for index in maps]
        # cost grows with the sources compared, and of a deep stack few are in focus in one place
        wanted = [number for number, weight in enumerate(weights) if weight[block.slices].max() >= LEAST_WEIGHT]
        # those that candidates consist of are needed too, though they may not be compared
        used = sorted({*wanted, *(int(one) for index in indices for one in np.unique(index))})
        moments = _moments_beside({number: near.cut(sources, number) for number in used}, indices)
        lead = np.zeros(block.shape)
        for number in wanted:
            of_base, of_detail = (
                1.0
                if (index == number).all()  # an image is like itself
                else similarity_of_cells(moments(candidate, number), side_cells=side_cells, part=config.similarity)
                for candidate, index in enumerate(indices)
            )
            lead += weights[number][block.slices] * (of_detail - of_base)
        # a tie goes to the detail scale; closed cells have nothing to choose
        choice[block.slices] = (lead >= 0) | ~is_open[block.slices]
    return vote(choice, n_choices=2, side_px=side_cells)


def _moments_beside(seen: Mapping[int, FloatArray], indices: Sequence[IndexArray]) -> Callable[[int, int], FloatArray]:
    """Return what gives the sums of a candidate, named by its number, beside a source.

    Of two images every cell of a candidate is one of theirs, so that the sums of the two beside each other say it all.
    """
    # the common case: one pass over the pixels in place of four
    if len(seen) == 2:
        first, second = seen
        of_pair = moments_of_pair(moments_of_cells(seen[first], seen[second]))
        is_second = [(index == second)[:, None] for index in indices]
        return lambda candidate, number: np.where(is_second[candidate], of_pair[1][number == second], of_pair[0][number == second])
    candidates = [select_near(seen, spread_patches(index, patch_px=CELL_PX)) for index in indices]
    return lambda candidate, number: moments_of_cells(candidates[candidate], seen[number])


def select_near(blocks: Mapping[int, FloatArray], index: IndexArray) -> FloatArray:
    """Take each pixel from the block that its index names."""
    fused: FloatArray = np.zeros_like(next(iter(blocks.values())))
    for number, block in blocks.items():
        np.copyto(fused, block, where=index == number)
    return fused


class _NearPixels:
    """The pixels of a block of cells and of some cells around it; beyond the border of the image they continue by reflection."""

    def __init__(self, block: Window, *, margin_cells: int, shape: tuple[int, int]) -> None:
        self._block, self._margin_cells = block, margin_cells
        bottom, right = (min(side * CELL_PX, length) for side, length in zip((block.bottom, block.right), shape, strict=True))
        self._window = Window(block.top * CELL_PX, block.left * CELL_PX, bottom, right)
        self._grown = self._window.grown(margin_cells * CELL_PX, shape)

    def cut(self, sources: PlaneStack, number: int) -> FloatArray:
        planes = sources.cut(number, self._grown)
        near = cut_reflected(planes, self._window.relative_to(self._grown), margin_px=self._margin_cells * CELL_PX)
        # at the lower and right border of the image, where cells are cut off
        rows, columns = (-length % CELL_PX for length in near.shape[-2:])
        return np.pad(near, ((0, 0), (0, rows), (0, columns)), mode="symmetric") if rows or columns else near

    def cells(self, index: IndexArray) -> IndexArray:
        return cut_reflected(index, self._block, margin_px=self._margin_cells)


def _similarities(
    candidates: tuple[FloatArray, FloatArray], source: FloatArray, cell: Window, *, side_px: int, part: SimilarityPart
) -> Iterator[FloatArray]:
    """Yield the similarity of each candidate over the window around each pixel of a cell."""
    near_source = cut_reflected(source, cell, margin_px=side_px // 2)
    for candidate in candidates:
        near_candidate = cut_reflected(candidate, cell, margin_px=side_px // 2)
        yield quaternion_similarity(near_candidate, near_source, side_px=side_px, part=part)


REFINEMENT = Stage(
    name="method.refinement.refine",
    reaches=(Reach(lambda _config, side: side - 1, "s − 1: similarity, then votes", adds_up=True),),
    overlap_px=lambda _config, side: side - 1,
    working_bytes=bytes_per_pixel(32),
)
