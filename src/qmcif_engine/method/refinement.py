"""The choice between the base-scale and the detail-scale result, patch by patch: QSSR, section III-D of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import WeightRule
from qmcif_engine.method.focus import saturate
from qmcif_engine.method.patches import count_in_windows
from qmcif_engine.method.similarity import quaternion_similarity, window_moments
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray
    from qmcif_engine.config.fusion_config import SimilarityPart

SMALL_WEIGHT = 1e-6
"""``epsilon`` of the adaptive weights."""

COMPARED_PX = 256
"""Side of the squares that are compared at once, so that memory stays small."""


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
    # float64: the sum does not depend on the order of the images
    total = np.full(levels[0].shape, SMALL_WEIGHT)
    for level in levels:
        total += saturate(level, saturation=saturation)
    for level in levels:
        # saturated a second time rather than kept: N maps would be
        yield (saturate(level, saturation=saturation) / total).astype(level.dtype)


def refine(
    candidates: tuple[FloatArray, FloatArray],
    sources: Iterable[FloatArray],
    *,
    weights: Iterable[FloatArray],
    detail_patch_px: int,
    part: SimilarityPart,
) -> BoolArray:
    """Return which pixels are taken from the detail-scale result, shape (h, w); the others are from the base-scale result.

    Parameters
    ----------
    candidates : tuple of two ndarray of float, shape (3, h, w)
        ``F_1`` and ``F_2``.
    sources : iterable of ndarray of float, shape (3, h, w)
    weights : iterable of ndarray of float, shape (h, w)
        ``tau_n``, one for each source.
    detail_patch_px : int
    part : SimilarityPart

    Notes
    -----
    ``WQ_SSIM(f) = sum tau_n Q_SSIM(f, p_n)`` [QMCIF, Eq. (20)]; the larger wins and the detail scale takes ties [QMCIF, Eq. (22)]. Only
    patches in which the candidates differ are compared: the others tie. Each patch votes for the pixels that it contains.
    """
    base, detail = candidates
    shape = (base.shape[-2], base.shape[-1])
    is_compared = count_in_windows((base != detail).any(axis=0), side_px=detail_patch_px) > 0
    squares = tuple(_boxes_of(is_compared))
    # only the difference of the two sums is kept, so memory does not grow with the number of sources
    leads = [np.zeros(square.shape) for square in squares]
    for source, weight in zip(sources, weights, strict=True):
        for square, lead in zip(squares, leads, strict=True):
            near = square.grown(detail_patch_px // 2, shape)
            inner = square.relative_to(near).slices
            of_source, *of_candidates = (
                window_moments(image[:, *near.slices], side_px=detail_patch_px) for image in (source, base, detail)
            )
            of_base, of_detail = (
                quaternion_similarity(candidate, of_source, side_px=detail_patch_px, part=part)[inner] for candidate in of_candidates
            )
            lead += weight[square.slices] * (of_detail - of_base)
    chooses_detail = np.ones(shape, bool)
    for square, lead in zip(squares, leads, strict=True):
        chooses_detail[square.slices] = (lead >= 0) | ~is_compared[square.slices]
    return 2 * count_in_windows(chooses_detail, side_px=detail_patch_px) >= detail_patch_px**2


def _boxes_of(is_marked: BoolArray) -> Iterator[Window]:
    """Yield the box of the marked pixels in each square of a grid that has any."""
    for top in range(0, is_marked.shape[0], COMPARED_PX):
        for left in range(0, is_marked.shape[1], COMPARED_PX):
            square = is_marked[top : top + COMPARED_PX, left : left + COMPARED_PX]
            rows, columns = (np.flatnonzero(square.any(axis=axis)) for axis in (1, 0))
            if rows.size:
                yield Window(top + int(rows[0]), left + int(columns[0]), top + int(rows[-1]) + 1, left + int(columns[-1]) + 1)
