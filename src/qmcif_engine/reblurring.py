"""Draw the decision map's edges where the scene has them, by asking which of two images explains the other.

Where an image is in focus, the other one is a blurred copy of it: blurring the sharp image again reproduces the blurred one, but no
blurring of the blurred image reproduces the sharp one. Unlike a focus measure this needs no wide window, and it is not misled by the
halo of a blurred edge, which has more contrast than the sharp but flat surroundings it covers. It needs to know which two images
compete, so it is used within a few pixels of the edges that the focus maps have drawn.

None of this is in the paper; `edge_band_px` = 0, as in the ``paper`` preset, switches it off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.filters import guided_filter
from qmcif_engine.fusion import select
from qmcif_engine.patches import edge_band, window_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.array_types import FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig

BLURS_PX = (1.5, 4.0)
"""Standard deviations tried: defocus of a little and of much. More of them changed no figure."""

NOISE_POWER = 12.0
"""Unexplained power on the 0-255 scale that noise leaves in any case: two gray levels in each of three channels."""

COMPARISON_WINDOW_PX = 3
SMOOTHING_RADIUS_PX = 2


def refine_edges(index: IndexArray, blocks: Sequence[FloatArray], guide: FloatArray, config: DecisionConfig) -> IndexArray:
    """Decide again near the edges of a decision map.

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    guide : ndarray of float, shape (h, w)
        Mean of the images on the 0-1 scale: evidence is smoothed along its edges, not across them.
    config : DecisionConfig

    Returns
    -------
    ndarray of uint16, shape (h, w)

    Notes
    -----
    Departs: the paper keeps the edges that its focus maps draw, which is `edge_band_px` = 0.
    """
    band = edge_band(index, reach_px=config.edge_band_px)
    if not band.any():
        return index
    rival = rival_index(index)
    # one order for both sides of an edge, so that the two pictures compared are continuous across it; where three images meet, they
    # are not, and the comparison is as good as its small window allows
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    evidence = sharpness_evidence(select(blocks, first), select(blocks, second))
    evidence = guided_filter(evidence, guide, radius_px=SMOOTHING_RADIUS_PX, edge_contrast=config.blend_edge_contrast)
    evidence += np.where(index == second, config.edge_inertia, -config.edge_inertia)
    return np.where(band, np.where(evidence > 0, second, first), index)


def rival_index(index: IndexArray) -> IndexArray:
    """Return, for each pixel, the image on the other side of the nearest edge of the decision map; the map must have an edge."""
    across = index.copy()
    is_edge = np.zeros(index.shape, bool)
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        neighbor = np.roll(index, shift, axis)
        # what is rolled in from the opposite border is no neighbor
        border = [slice(None), slice(None)]
        border[axis] = slice(0, 1) if shift == 1 else slice(-1, None)
        neighbor[tuple(border)] = index[tuple(border)]
        differs = neighbor != index
        across[differs] = neighbor[differs]
        is_edge |= differs
    nearest = tuple(ndimage.distance_transform_edt(~is_edge, return_distances=False, return_indices=True))
    # the nearest edge pixel may lie on the other side; then it is itself the rival
    rival: IndexArray = np.where(index[nearest] == index, across[nearest], index[nearest])
    return rival


def sharpness_evidence(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return by how much better the second image explains the first than the reverse, shape (h, w); above 0 the second is sharper.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
        On the 0-255 scale.

    Returns
    -------
    ndarray of float, shape (h, w)
        Logarithm of the ratio of what each leaves unexplained; near 0 where the images are alike.
    """
    left_by_first = unexplained_power(first, second)
    left_by_second = unexplained_power(second, first)
    return np.log((left_by_first + NOISE_POWER) / (left_by_second + NOISE_POWER))


def unexplained_power(sharp: FloatArray, blurred: FloatArray) -> FloatArray:
    """Return what remains of one image when the other, blurred as well as possible, is taken away: mean power a pixel, shape (h, w).

    Notes
    -----
    ``min over s of mean |blurred - G_s * sharp|^2`` over a small window, with Gaussians of the standard deviations `BLURS_PX`.
    """
    least = np.full(sharp.shape[-2:], np.inf, sharp.dtype)
    for deviation in BLURS_PX:
        rest = blurred - ndimage.gaussian_filter(sharp, (0, deviation, deviation), mode="reflect", truncate=3)
        power = window_mean(np.einsum("cyx,cyx->yx", rest, rest), side_px=COMPARISON_WINDOW_PX)
        np.minimum(least, power, out=least)
    return least
