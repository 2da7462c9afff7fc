"""Choose between the base-scale and the detail-scale result, patch by patch: QSSR, section III-D of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import WeightRule
from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.method.focus import saturate
from qmcif_engine.method.patches import cells_of, cut_reflected, edge_band, vote
from qmcif_engine.method.similarity import quaternion_similarity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qmcif_engine.config.fusion_config import RefinementConfig, SimilarityPart
    from qmcif_engine.kernels.array_types import FloatArray, IndexArray
    from qmcif_engine.stack.window import Window

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
        weight = saturate(level, saturation=saturation)
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
    leads = [np.zeros(cell.shape) for cell in cells]
    for source, weight in zip(sources, weights, strict=True):
        for cell, lead in zip(cells, leads, strict=True):
            of_base, of_detail = _similarities(candidates, source, cell, side_px=detail_patch_px, part=config.similarity)
            lead += weight[cell.slices] * (of_detail - of_base)
    choice = np.ones(is_open.shape, np.uint16)
    for cell, lead in zip(cells, leads, strict=True):
        choice[cell.slices] = (lead >= 0) | ~is_open[cell.slices]
    return vote(choice, n_choices=2, side_px=detail_patch_px)


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
    halo_px=lambda _config, side: side - 1,
    working_bytes=bytes_per_pixel(32),
)
