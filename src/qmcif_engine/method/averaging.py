"""Chosen detail patches put together by averaging them where they overlap, as the paper's figures suggest it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from qmcif_engine.config.fusion_config import ResultScale
from qmcif_engine.kernels.cutting import values_of
from qmcif_engine.method.fusion import Blend, select
from qmcif_engine.method.patches import window_mean
from qmcif_engine.method.refinement import refine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import RefinementConfig

WHOLE_SHARE = 1 - 1e-4
"""An image with a larger share gives the pixel alone: no sample would show the rest."""


def average_patches(
    blocks: Sequence[FloatArray],
    choices: IndexArray,
    base_map: IndexArray,
    *,
    weights: Iterable[FloatArray],
    detail_patch_px: int,
    config: RefinementConfig,
) -> Blend:
    """Average the patches that were chosen at the detail scale, and refine the result against the base-scale one.

    Parameters
    ----------
    blocks : sequence of ndarray of float, shape (3, h, w)
    choices : ndarray of uint16, shape (h, w)
        Which image gives the patch centered on each pixel.
    base_map : ndarray of uint16, shape (h, w)
        ``M_B``.
    weights : iterable of ndarray of float, shape (h, w)
        ``tau_n``, one for each image.
    detail_patch_px : int
    config : RefinementConfig

    Notes
    -----
    ``F_2`` of [QMCIF, Eq. (19)] where patches overlap: at each pixel the mean of the patches that contain it, so that an image's share is
    the share of patches that chose it. ``F_1`` and the choice between both are as in `qmcif_engine.method.refinement.refine`.
    """
    shares = {
        number: share_patches(choices, number, side_px=detail_patch_px) for number in values_of(np.ascontiguousarray(choices)).tolist()
    }
    # the detail scale alone needs no comparison
    if config.result is not ResultScale.DETAIL:
        mixed: FloatArray = np.zeros_like(blocks[0])
        for number, share in shares.items():
            mixed += share * blocks[number]
        candidates = (select(blocks, base_map), mixed)
        is_detail = refine(candidates, blocks, weights=weights, detail_patch_px=detail_patch_px, config=config) == 1
        shares = _refine_shares(shares, base_map, is_detail=is_detail)
    return _as_blend(shares)


def _refine_shares(shares: dict[int, FloatArray], base_map: IndexArray, *, is_detail: BoolArray) -> dict[int, FloatArray]:
    """Return the shares with those pixels given whole to the image of the base map that the refinement takes from it."""
    numbers = sorted({*shares, *values_of(np.ascontiguousarray(base_map)).tolist()})
    nothing = np.zeros(base_map.shape, np.float32)
    return {number: np.where(is_detail, shares.get(number, nothing), base_map == number) for number in numbers}


def share_patches(choices: IndexArray, number: int, *, side_px: int) -> FloatArray:
    """Return which share of the patches over each pixel an image has, shape (h, w), float32."""
    return window_mean((choices == number).astype(np.float32), side_px=side_px)


def _as_blend(shares: dict[int, FloatArray]) -> Blend:
    """Return the blend of these shares; the later image leads where two are equal, as for votes."""
    shape = next(iter(shares.values())).shape
    leading, largest = np.zeros(shape, np.uint16), np.zeros(shape, np.float32)
    for number, share in shares.items():
        # numbers ascend, so that "not smaller" lets the later of two win
        is_larger = share >= largest
        leading[is_larger], largest[is_larger] = number, share[is_larger]
    # outside of it one image has all of the pixel, and its samples are copied
    band = largest < WHOLE_SHARE
    sources = tuple(number for number, share in shares.items() if share[band].any())
    weights = csr_array(np.stack([shares[number][band] for number in sources])) if sources else csr_array((0, 0), dtype=np.float32)
    # no entries: brightness is mixed with the same shares as detail
    return Blend(leading, band, sources, weights, csr_array(weights.shape, dtype=weights.dtype))
