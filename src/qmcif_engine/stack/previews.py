"""Read images reduced in size, in bands of rows, so that what is estimated from them takes little memory whatever their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.stack.samples import LUMINANCE
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray, SampleArray
    from qmcif_engine.stack.stack import Stack

_BAND_ROWS = 256


def choose_reduction(shape: tuple[int, ...], *, largest_px: int) -> int:
    """Return the smallest whole factor that brings an image of shape (H, W, ...) down to so many pixels."""
    factor = 1
    while (shape[0] // factor) * (shape[1] // factor) > largest_px:
        factor += 1
    return factor


def read_preview(stack: Stack, number: int, *, factor: int) -> FloatArray:
    """Return the means of squares of pixels of one image, read band by band.

    Parameters
    ----------
    stack : Stack
    number : int
        Which image, 0-based.
    factor : int
        Side of the squares; rows and columns that fill none are left out.

    Returns
    -------
    ndarray of float32, shape (H // factor, W // factor, C)
        A gray image has one channel.
    """
    height, width = (side // factor for side in stack.image_shape[:2])
    band_rows = max(1, _BAND_ROWS // factor)
    bands = [
        _reduce(stack.read(number, Window(top * factor, 0, min(top + band_rows, height) * factor, width * factor)), factor)
        for top in range(0, height, band_rows)
    ]
    return np.concatenate(bands)


def _reduce(band: SampleArray, factor: int) -> FloatArray:
    """Return the means of squares of a band; rows are summed first because they are contiguous."""
    height, width = band.shape[0] // factor, band.shape[1] // factor
    n_channels = band.size // (band.shape[0] * band.shape[1])
    kind = np.float64 if band.dtype == np.float64 else np.float32
    rows = band.reshape(height, factor, -1).sum(axis=1, dtype=kind)
    sums = rows.reshape(height, width, factor, n_channels).sum(axis=2)
    return np.asarray(sums / factor**2, np.float32)


def to_gray(preview: FloatArray) -> FloatArray:
    """Return one plane (h, w) from a preview (h, w, C): the luminance of a color, the mean of any other number of channels."""
    n_channels = preview.shape[-1]
    weights = np.array(LUMINANCE if n_channels == len(LUMINANCE) else [1 / n_channels] * n_channels, np.float32)
    return np.asarray(preview @ weights)
