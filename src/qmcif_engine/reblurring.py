"""Draw the decision map's edges where the scene has them, by asking which of two images explains the other.

Where an image is in focus, the other one is a blurred copy of it: blurring the sharp image again reproduces the blurred one, but no
blurring of the blurred image reproduces the sharp one. Unlike a focus measure this needs no wide window, and it is not misled by the
halo of a blurred edge, which has more contrast than the sharp but flat surroundings it covers. It needs to know which two images
compete, so it is used within a few pixels of the edges that the focus maps have drawn. Neighbors that disagree then settle on outlines
that are as short as the evidence allows (`qmcif_engine.outlines`).

None of this is in the paper; `edge_band_px` = 0, as in the ``paper`` preset, switches it off.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.filters import local_variance
from qmcif_engine.fusion import select_each
from qmcif_engine.kernels.blurring import add_unexplained
from qmcif_engine.kernels.regions import take_rivals
from qmcif_engine.outlines import ROUNDS, shorten_outlines
from qmcif_engine.patches import FARTHEST_PX, cells_of, cut_reflected, edge_band, window_mean
from qmcif_engine.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import DecisionConfig

BLURS_PX = (1.5, 4.0, 8.0)
"""Standard deviations tried: defocus of a little, of much and of a great deal, without which the halo of a bright object is taken for
focus."""

NOISE_POWER = 12.0
"""Unexplained power on the 0-255 scale that noise leaves in any case: two gray levels in each of three channels."""

COMPARISON_WINDOW_PX = 3

CONTRAST_WINDOW_PX = 5
CONTRAST_SHARE = 0.5
"""What the logarithm of a ratio of variances counts beside that of unexplained power."""

LARGEST_CONTRAST_EVIDENCE = 0.8
"""Contrast may tip the balance, not more: beside a bright object its blurred halo has the most contrast of all."""

CUT_OFF = 3.0
"""Where a Gaussian ends, in standard deviations."""

_LARGEST_RADIUS_PX = int(CUT_OFF * max(BLURS_PX) + 0.5)

MARGIN_PX = COMPARISON_WINDOW_PX // 2 + _LARGEST_RADIUS_PX
"""How far from a pixel the samples lie that its evidence depends on: comparison and blur in turn; contrast looks less far."""


def refine_edges(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> IndexArray:
    """Decide again near the edges of a decision map.

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
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
    looks_px = max(MARGIN_PX, ROUNDS)
    is_looked_at = band | edge_band(band.astype(np.uint16), reach_px=looks_px)
    rival = rival_index(index, is_looked_at, reach_px=math.ceil(math.sqrt(2) * (looks_px + config.edge_band_px)) + 1)
    # one order for both sides of an edge, so that the two pictures compared are continuous across it; where three images meet, they
    # are not, and the comparison is as good as its small window allows
    first, second = np.minimum(index, rival), np.maximum(index, rival)
    pictures = select_each(blocks, (first, second))
    evidence = np.zeros(index.shape, pictures[0].dtype)
    for cell in cells_of(band):
        evidence[cell.slices] = _valid_evidence(*(cut_reflected(picture, cell, margin_px=MARGIN_PX) for picture in pictures))
    inertia = np.asarray(config.edge_inertia, evidence.dtype)
    evidence += np.where(index == second, inertia, -inertia)
    is_second = shorten_outlines(evidence, index == second, band, pairs=(first, second), stiffness=config.edge_stiffness)
    return np.where(band, np.where(is_second, second, first), index)


def rival_index(index: IndexArray, is_asking: BoolArray, *, reach_px: int) -> IndexArray:
    """Return, for the asking pixels, the image on the other side of the nearest edge of the decision map; the index where none is near."""
    rival = index.copy()
    take_rivals(np.ascontiguousarray(index), is_asking, min(reach_px, FARTHEST_PX), rival)
    return rival


def sharpness_evidence(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return by how much better the second image explains the first than the reverse, shape (h, w); above 0 the second is sharper.

    Contrast adds a little, for where neither explains the other.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
        On the 0-255 scale.

    Returns
    -------
    ndarray of float, shape (h, w)
        Logarithm of the ratio of what each leaves unexplained, and a bounded share of that of their variances; near 0 where the images
        are alike.
    """
    whole = Window.whole(first.shape[-2:])
    return _valid_evidence(*(cut_reflected(image, whole, margin_px=MARGIN_PX) for image in (first, second)))


def _valid_evidence(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the evidence for the pixels of two pictures that all windows fit around."""
    left_by_first, left_by_second = unexplained_power(first, second), unexplained_power(second, first)
    evidence = np.log((left_by_first + NOISE_POWER) / (left_by_second + NOISE_POWER))
    inner = (slice(MARGIN_PX, -MARGIN_PX), slice(MARGIN_PX, -MARGIN_PX))
    variances = (local_variance(picture, side_px=CONTRAST_WINDOW_PX)[inner] + NOISE_POWER for picture in (second, first))
    evidence += np.clip(CONTRAST_SHARE * np.log(np.divide(*variances)), -LARGEST_CONTRAST_EVIDENCE, LARGEST_CONTRAST_EVIDENCE)
    return evidence


def unexplained_power(sharp: FloatArray, blurred: FloatArray) -> FloatArray:
    """Return what remains of one image when the other, blurred as well as possible, is taken away: mean power a pixel.

    Parameters
    ----------
    sharp, blurred : ndarray of float, shape (3, h, w)

    Returns
    -------
    ndarray of float, shape (h - 2 m, w - 2 m)
        For the pixels that the widest Gaussian and the window fit around, ``m`` from the border.

    Notes
    -----
    ``min over s of mean |blurred - G_s * sharp|^2`` over a small window, with Gaussians of the standard deviations `BLURS_PX`.
    """
    window = COMPARISON_WINDOW_PX // 2
    height, width = (length - 2 * _LARGEST_RADIUS_PX for length in sharp.shape[-2:])
    least = np.full((height, width), np.inf, sharp.dtype)
    for deviation in BLURS_PX:
        taps = _gaussian_taps(deviation, sharp.dtype.name)
        spare = _LARGEST_RADIUS_PX - (len(taps) - 1)
        near = (slice(None), *[slice(spare, length - spare) for length in sharp.shape[-2:]])
        power = np.zeros_like(least)
        add_unexplained(np.ascontiguousarray(sharp[near]), np.ascontiguousarray(blurred[near]), taps, power)
        np.minimum(least, window_mean(power, side_px=COMPARISON_WINDOW_PX), out=least)
    return least[window:-window, window:-window]


@lru_cache
def _gaussian_taps(deviation: float, dtype_name: str) -> FloatArray:
    """Return the weights of a Gaussian, cut off, from its center on."""
    taps = np.exp(-0.5 * (np.arange(int(CUT_OFF * deviation + 0.5) + 1) / deviation) ** 2)
    normalized: FloatArray = (taps / (2 * taps.sum() - taps[0])).astype(dtype_name)
    return normalized
