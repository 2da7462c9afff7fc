"""Choose between the base-scale and the detail-scale result, patch by patch: QSSR, section III-D of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config import WeightRule
from qmcif_engine.focus import saturate
from qmcif_engine.patches import vote
from qmcif_engine.similarity import quaternion_similarity, window_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray
    from qmcif_engine.config import RefinementConfig

SMALL_WEIGHT = 1e-6
"""``epsilon`` of the adaptive weights."""


def source_weights(levels: Sequence[FloatArray], *, rule: WeightRule, saturation: float) -> list[FloatArray]:
    """Return how much each source patch counts, one (h, w) array an image, adding up to one.

    Notes
    -----
    ``tau_n = l_D,n / (sum of l_D + epsilon)`` [QMCIF, Eq. (21)], carried over from two images to N; the last weight takes what is
    missing to one, as ``tau_2 = 1 - tau_1`` does.
    """
    if rule is WeightRule.EQUAL:
        return [np.full(level.shape, 1 / len(levels), level.dtype) for level in levels]
    saturated = [saturate(level, saturation=saturation) for level in levels]
    total = np.add.reduce(saturated) + np.asarray(SMALL_WEIGHT, saturated[0].dtype)
    weights = [level / total for level in saturated]
    weights[-1] = 1 - np.add.reduce(weights[:-1])
    return weights


def refine(
    candidates: tuple[FloatArray, FloatArray],
    sources: Sequence[FloatArray],
    *,
    weights: Sequence[FloatArray],
    detail_patch_px: int,
    config: RefinementConfig,
) -> IndexArray:
    """Return which candidate each pixel is taken from: 0 for the base-scale result, 1 for the detail-scale result.

    Parameters
    ----------
    candidates : tuple of two ndarray of float, shape (3, h, w)
        ``F_1`` and ``F_2``.
    sources : sequence of ndarray of float, shape (3, h, w)
    weights : sequence of ndarray of float, shape (h, w)
        ``tau_n``.
    detail_patch_px : int
    config : RefinementConfig

    Notes
    -----
    ``WQ_SSIM(f) = sum tau_n Q_SSIM(f, p_n)`` [QMCIF, Eq. (20)]; the larger wins and the detail scale takes ties [QMCIF, Eq. (22)].
    """
    offset: FloatArray = sources[0].mean(axis=(-2, -1), keepdims=True, dtype=np.float64).astype(sources[0].dtype)
    moments = [window_moments(candidate, offset=offset, side_px=detail_patch_px) for candidate in candidates]
    scores = [np.zeros(weights[0].shape, weights[0].dtype) for _ in candidates]
    for source, weight in zip(sources, weights, strict=True):
        of_source = window_moments(source, offset=offset, side_px=detail_patch_px)
        for score, of_candidate in zip(scores, moments, strict=True):
            score += weight * quaternion_similarity(of_candidate, of_source, part=config.similarity)
    choice = (scores[0] <= scores[1]).astype(np.uint16)
    return vote(choice, n_choices=2, side_px=detail_patch_px)
