"""Smooth without crossing edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.patches import window_mean

if TYPE_CHECKING:
    from qmcif_engine.array_types import FloatArray


def guided_filter(planes: FloatArray, guide: FloatArray, *, radius_px: int, edge_contrast: float) -> FloatArray:
    """Smooth ``(n, h, w)`` planes, keeping the edges of the guide whose contrast exceeds `edge_contrast`.

    Notes
    -----
    In every window the output is ``a guide + b`` with ``a = cov(guide, p) / (var(guide) + eps)``, ``b = mean(p) - a mean(guide)`` and
    ``eps`` the squared contrast; a pixel gets the mean over the windows that contain it (He, Sun and Tang 2013, Eqs. 5 to 8).
    """
    side = 2 * radius_px + 1
    guide_mean = window_mean(guide, side_px=side)
    variance = window_mean(guide * guide, side_px=side) - guide_mean**2
    mean = window_mean(planes, side_px=side)
    covariance = window_mean(planes * guide, side_px=side) - mean * guide_mean
    slope = covariance / (np.maximum(variance, 0) + np.asarray(edge_contrast**2, guide.dtype))
    intercept = mean - slope * guide_mean
    return window_mean(slope, side_px=side) * guide + window_mean(intercept, side_px=side)
