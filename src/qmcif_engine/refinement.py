"""Choose between the base-scale and the detail-scale result, patch by patch: QSSR, section III-D of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config import WeightRule
from qmcif_engine.focus import saturate
from qmcif_engine.patches import vote
from qmcif_engine.similarity import quaternion_similarity, window_moments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray
    from qmcif_engine.config import RefinementConfig

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
        yield (saturate(level, saturation=saturation) / total).astype(level.dtype, copy=False)


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
    ``WQ_SSIM(f) = sum tau_n Q_SSIM(f, p_n)`` [QMCIF, Eq. (20)]; the larger wins and the detail scale takes ties [QMCIF, Eq. (22)].
    """
    moments = [window_moments(candidate, side_px=detail_patch_px) for candidate in candidates]
    scores = [np.zeros(candidate.shape[-2:]) for candidate in candidates]
    for source, weight in zip(sources, weights, strict=True):
        of_source = window_moments(source, side_px=detail_patch_px)
        for score, of_candidate in zip(scores, moments, strict=True):
            score += weight * quaternion_similarity(of_candidate, of_source, part=config.similarity)
    choice = (scores[0] <= scores[1]).astype(np.uint16)
    return vote(choice, n_choices=2, side_px=detail_patch_px)
