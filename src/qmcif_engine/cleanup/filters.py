"""Smooth without crossing edges, and measure how much there is to smooth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method.patches import window_mean

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray


def guided_filter(planes: FloatArray, guide: FloatArray, *, radius_px: int, edge_contrast: float) -> FloatArray:
    """Smooth ``(..., h, w)`` planes, keeping the edges of the guide whose contrast exceeds `edge_contrast`.

    Notes
    -----
    In every window the output is ``a guide + b`` with ``a = cov(guide, p) / (var(guide) + eps)``, ``b = mean(p) - a mean(guide)`` and
    ``eps`` the squared contrast; a pixel gets the mean over the windows that contain it (He, Sun and Tang 2013, Eqs. 5 to 8).
    """
    side = 2 * radius_px + 1
    precise = guide.astype(np.float64)
    guide_mean = window_mean(precise, side_px=side)
    variance = np.maximum(window_mean(precise * precise, side_px=side) - guide_mean**2, 0)
    mean = window_mean(planes.astype(np.float64), side_px=side)
    covariance = window_mean(planes * precise, side_px=side) - mean * guide_mean
    slope = covariance / (variance + edge_contrast**2)
    intercept = mean - slope * guide_mean
    smoothed = window_mean(slope, side_px=side) * precise + window_mean(intercept, side_px=side)
    return smoothed.astype(planes.dtype, copy=False)


def local_variance(block: FloatArray, *, side_px: int) -> FloatArray:
    """Return the variance over the window around each pixel of a ``(c, h, w)`` block, summed over its planes, shape (h, w)."""
    power = window_mean(np.einsum("chw,chw->hw", block, block), side_px=side_px)
    mean = window_mean(block, side_px=side_px)
    variance: FloatArray = np.maximum(power - np.einsum("chw,chw->hw", mean, mean), 0)
    return variance
