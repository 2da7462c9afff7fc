"""Filters whose work depends on how much there is to smooth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method.patches import window_mean

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray


def local_variance(block: FloatArray, *, side_px: int) -> FloatArray:
    """Return the variance over the window around each pixel of a ``(c, h, w)`` block, summed over its planes, shape (h, w)."""
    power = window_mean(np.einsum("chw,chw->hw", block, block), side_px=side_px)
    mean = window_mean(block, side_px=side_px)
    variance: FloatArray = np.maximum(power - np.einsum("chw,chw->hw", mean, mean), 0)
    return variance
