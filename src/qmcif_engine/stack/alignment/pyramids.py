"""Pyramids for matching: the detail of an image, without its brightness, at several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.stack.alignment.matching import SEARCH_PX, WINDOW_PX
from qmcif_engine.stack.alignment.opencv import load_opencv
from qmcif_engine.stack.previews import choose_reduction, read_preview, to_gray

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.stack.stack import Stack

FINEST_PX = 5 * 2**20
"""Pixels of the finest level: images up to this size are matched at full resolution, and 240 MB are enough whatever theirs (measured)."""

COARSEST_SIDE_PX = 192
"""The shorter side is halved while it is longer."""

_DETAIL_SIGMA_PX, _GROUND_SIGMA_PX = 1.0, 5.0
"""Band of sizes matched at each level: noise is below it, brightness and large blurs are above."""

_RANGE_PERCENTILES = (0.5, 99.5)
_LARGEST_LEVEL = 1e6
"""Extremes beyond the range of an image are cut there: their squares are still numbers."""


class Level(NamedTuple):
    """The detail of one image at one size.

    Attributes
    ----------
    factor : int
        How many pixels of the image one pixel here stands for, along a side.
    detail : ndarray of float32, shape (h, w)
        On a scale where the image's range is 1.
    """

    factor: int
    detail: FloatArray


def can_match(image_shape: tuple[int, ...], *, largest_px: int = FINEST_PX) -> bool:
    """Return whether images of this shape, reduced to so many pixels, have room for a window and the search for it."""
    factor = choose_reduction(image_shape, largest_px=largest_px)
    return min(image_shape[:2]) // factor >= WINDOW_PX + 2 * SEARCH_PX


def plan_factors(image_shape: tuple[int, ...], *, largest_px: int) -> tuple[int, ...]:
    """Return the factors of the levels for images of this shape, the coarsest first."""
    factors = [choose_reduction(image_shape, largest_px=largest_px)]
    while min(image_shape[:2]) // factors[-1] > COARSEST_SIDE_PX:
        factors.append(2 * factors[-1])
    return tuple(reversed(factors))


def read_pyramid(stack: Stack, number: int, *, largest_px: int = FINEST_PX) -> tuple[Level, ...]:
    """Return the levels of one image, the coarsest first; the image is read once, in bands."""
    factors = plan_factors(stack.image_shape, largest_px=largest_px)
    gray = to_gray(read_preview(stack, number, factor=factors[-1]))
    low, high = _find_range(gray)
    gray = (gray - np.float32(low)) / np.float32(high - low if high > low else 1)
    gray = np.clip(gray, -_LARGEST_LEVEL, _LARGEST_LEVEL)
    levels = []
    for factor in reversed(factors):
        levels.append(Level(factor, _extract_detail(gray)))
        gray = _halve(gray)
    return tuple(reversed(levels))


def _find_range(gray: FloatArray) -> tuple[float, float]:
    """Return the range of an image without its extremes, unless there is nothing else: few bright beads on dark ground."""
    low, high = (float(bound) for bound in np.percentile(gray, _RANGE_PERCENTILES))
    if high - low > np.finfo(np.float32).eps * max(abs(low), abs(high)):
        return low, high
    return float(gray.min()), float(gray.max())


def _halve(gray: FloatArray) -> FloatArray:
    height, width = gray.shape[0] // 2, gray.shape[1] // 2
    return np.asarray(gray[: 2 * height, : 2 * width].reshape(height, 2, width, 2).mean(axis=(1, 3)))


def _extract_detail(gray: FloatArray) -> FloatArray:
    cv2 = load_opencv()
    # a difference of Gaussians: brightness as a whole drops out
    detail, ground = (cv2.GaussianBlur(gray, (0, 0), sigma) for sigma in (_DETAIL_SIGMA_PX, _GROUND_SIGMA_PX))
    return np.asarray(detail - ground)
