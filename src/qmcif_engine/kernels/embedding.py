"""Samples of an image as planes on the 0-255 scale of decisions, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray, SampleArray


@compiled
def _embed_row(row: SampleArray, channel: int, scale: FloatArray, out: FloatArray) -> None:
    """Map one channel of a row of pixels, shape (w, c); `scale` holds the lower bound, the width, full scale and the farthest level."""
    for x in range(out.size):
        level = (np.float32(row[x, channel]) - scale[0]) / scale[1] * scale[2]
        out[x] = min(max(level, -scale[3]), scale[3])


@compiled
def embed_planes(image: SampleArray, scales: FloatArray, out: FloatArray) -> None:
    """Put the channels of an image into planes.

    Parameters
    ----------
    image : ndarray of integers, shape (h, w, c)
    scales : ndarray of float32, shape (c, 4)
        For each channel the sample that maps to 0, how many make up the scale, its full length, and where levels are clipped.
    out : ndarray of float32, shape (c, h, w)
    """
    for c in range(out.shape[0]):
        for y in range(out.shape[1]):
            _embed_row(image[y], c, scales[c], out[c, y])
