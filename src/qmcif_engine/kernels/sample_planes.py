"""Samples of an image as planes on the 0-255 scale of decisions, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray


@compiled
def _embed_row(row: NDArray[Any], channel: int, n_channels: int, scale: FloatArray, out: FloatArray) -> None:
    """Map one channel of a row of interleaved samples; `scale` holds the lower bound, the width, full scale and the farthest level."""
    low, width, full, farthest = scale[0], scale[1], scale[2], scale[3]
    for x in range(out.size):
        # single precision throughout, and divided as NumPy would, so that the bytes are those of the plain version
        level = (np.float32(row[n_channels * x + channel]) - low) / width * full
        out[x] = min(max(level, -farthest), farthest)


@compiled
def _embed_color_row(row: NDArray[Any], scales: FloatArray, red: FloatArray, green: FloatArray, blue: FloatArray) -> None:
    """Do so for three channels at once, which reads the samples in order."""
    for x in range(red.size):
        first = (np.float32(row[3 * x]) - scales[0, 0]) / scales[0, 1] * scales[0, 2]
        second = (np.float32(row[3 * x + 1]) - scales[1, 0]) / scales[1, 1] * scales[1, 2]
        third = (np.float32(row[3 * x + 2]) - scales[2, 0]) / scales[2, 1] * scales[2, 2]
        red[x] = min(max(first, -scales[0, 3]), scales[0, 3])
        green[x] = min(max(second, -scales[1, 3]), scales[1, 3])
        blue[x] = min(max(third, -scales[2, 3]), scales[2, 3])


@compiled
def embed_planes(image: NDArray[Any], scales: FloatArray, out: FloatArray) -> None:
    """Put the channels of an image into planes.

    Parameters
    ----------
    image : ndarray of integers, shape (h, w * c)
    scales : ndarray of float32, shape (c, 4)
        For each channel the sample that maps to 0, how many make up the scale, its full length, and where levels are clipped.
    out : ndarray of float32, shape (c, h, w)
    """
    n_channels, h, _ = out.shape
    for y in range(h):
        if n_channels == 3:
            _embed_color_row(image[y], scales, out[0, y], out[1, y], out[2, y])
        else:
            for c in range(n_channels):
                _embed_row(image[y], c, n_channels, scales[c], out[c, y])
