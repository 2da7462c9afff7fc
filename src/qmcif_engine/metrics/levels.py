"""The 8-bit gray levels that all six fusion metrics are defined on."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .sliding_windows import iterate_strips

Levels: TypeAlias = NDArray[np.uint8]
"""Checked 8-bit samples: gray, shape (H, W), unless a function says otherwise."""

LARGEST_LEVEL = 255
LARGEST_WHOLE_PX = 4 << 20
"""Pixels up to which images are evaluated whole: beyond, block by block, since whole-image transforms take some 200 bytes per pixel."""

SMALLEST_BLOCK_SIDE_PX = 64
"""A narrower image is evaluated whole, however long it is."""

PIXELS_IN_DOUBLE_PRECISION = 4 << 20  # larger images come here whole only if one of their sides is very short
# the 15 digits of MATLAB's rgb2gray: shorter weights flip single pixels by one level
LUMA_OF_RED, LUMA_OF_GREEN, LUMA_OF_BLUE = 0.298936021293776, 0.587043074451121, 0.114020904255103


def convert_to_eight_bits(samples: NDArray[Any], limits: tuple[float, float]) -> Levels:
    """Map samples to levels 0..255, as saving to an 8-bit file would.

    Parameters
    ----------
    samples : ndarray, shape (H, W) or (H, W, 3)
        Finite samples.
    limits : tuple of float
        Samples that become 0 and 255; what lies outside is clipped.

    Returns
    -------
    ndarray of uint8
        Levels of the same shape; the array itself where it already holds them.

    Notes
    -----
    ``level = floor(255 (x - black) / (white - black) + 1/2)``, the rounding of the specification, section 0.
    """
    if samples.dtype == np.uint8 and limits == (0.0, 255.0):
        return samples
    black, white = limits
    levels = np.empty(samples.shape, np.uint8)
    for rows in iterate_strips(samples.shape):
        clipped = samples[rows].astype(np.float64).clip(black, white)
        # half a level is rounded up, as MATLAB does; np.rint would round it to even
        levels[rows] = np.floor((clipped - black) / (white - black) * LARGEST_LEVEL + 0.5)
    return levels


def convert_to_gray(levels: Levels) -> Levels:
    """Weigh red, green and blue levels into one gray level.

    Parameters
    ----------
    levels : ndarray of uint8, shape (H, W) or (H, W, 3)
        Gray images are returned as they are.

    Returns
    -------
    ndarray of uint8, shape (H, W)
        Gray levels, rounded.

    Notes
    -----
    ``Y = floor(0.2989.. R + 0.5870.. G + 0.1140.. B + 1/2)`` with the 15-digit weights of the specification, section 0; they add up to
    exactly 1, so that gray pixels keep their level.
    """
    if levels.ndim == 2:
        return levels
    gray = np.empty(levels.shape[:2], np.uint8)
    for rows in iterate_strips(levels.shape):
        red, green, blue = np.moveaxis(levels[rows].astype(np.float64), 2, 0)
        gray[rows] = np.floor(LUMA_OF_RED * red + LUMA_OF_GREEN * green + LUMA_OF_BLUE * blue + 0.5)
    return gray


def stretch_levels(gray: Levels) -> Levels:
    """Stretch an image to the whole range 0..255, as Q_MI and Q_CB demand.

    Parameters
    ----------
    gray : ndarray of uint8, shape (H, W)
        Gray levels.

    Returns
    -------
    ndarray of uint8, shape (H, W)
        Levels whose smallest is 0 and largest 255; all 0 for a constant image, which has nothing to stretch (the reference divides
        0 by 0 there, except for a black image, which it leaves alone: the same 0).

    Notes
    -----
    ``x' = floor(((x - min) / (max - min)) 255 + 1/2)``, ``normalize1`` of the specification, section 0, by a table of 256 entries.
    """
    # 256 divisions and a look-up in place of one division per pixel
    levels: Levels = tabulate_stretching(int(gray.min()), int(gray.max()))[gray]
    return levels


def tabulate_stretching(smallest: int, largest: int) -> Levels:
    """Return what `stretch_levels` makes of each of the 256 levels of an image whose extremes are these."""
    if smallest == largest:
        return np.zeros(LARGEST_LEVEL + 1, np.uint8)
    table = np.floor((np.arange(LARGEST_LEVEL + 1.0) - smallest) / (largest - smallest) * LARGEST_LEVEL + 0.5)
    # entries beyond the extremes stand for no pixel, but must not wrap around in 8 bits
    stretched: Levels = table.clip(0, LARGEST_LEVEL).astype(np.uint8)
    return stretched


def choose_precision(shape: tuple[int, ...]) -> np.dtype[np.floating[Any]]:
    """Choose the type of whole-image maps: single above 4 megapixels, to halve their memory.

    Only Q_P and Q_CB hold such maps. On lytro pairs single precision moves them by less than 3e-7.
    """
    return np.dtype(np.float64 if shape[0] * shape[1] <= PIXELS_IN_DOUBLE_PRECISION else np.float32)
