"""Smooth ground along a border: where a step of brightness between two images shows, because no texture hides it.

None of this is in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.cleanup.blend_reach import reach_of_feather
from qmcif_engine.cleanup.blend_reach import reach_of_feather
from qmcif_engine.kernels.boxes import TEXTURE_PX, sum_blocks, sum_boxes, texture_power
from qmcif_engine.kernels.cutting import cut_brightness
from qmcif_engine.method.patches import cells_of, cut_reflected, edge_band

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.config.fusion_config import DecisionConfig
    from qmcif_engine.config.fusion_config import DecisionConfig
    from qmcif_engine.kernels.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.stack.window import Window

SMOOTH_CONTRAST = (0.7, 2.0)
"""Root mean squares of a channel's texture, in gray levels: below the first ground is smooth, above the second not, in between in part."""

LEAST_VISIBLE_STEP = 1.0
"""Gray levels by which a channel of smooth images must differ for their border to show: less than in texture."""

SQUARE_PX = 4
"""Side of the squares whose power is summed first: those inside a window already tell most windows with texture."""

MARGIN_OF_ERROR = 1.001
"""By how much a bound must exceed what it is compared with, so that roundings decide nothing."""


def measure_smoothness(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> FloatArray:
    """Return 1 where a step between smooth images would show, 0 where an image has structure or none would, shape (h, w).

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    config : DecisionConfig

    Notes
    -----
    An image counts as far as the feather could bring it in.

    An image counts as far as the feather could bring it in.

    Brightness has no more texture than the channel with most of it, and the squares of a grid inside a window no more than the window:
    where these have enough, nothing else is looked at.
    """
    smoothness = np.zeros(index.shape, np.float32)
    reach = reach_of_feather(config)
    band = edge_band(index, reach_px=reach)
    cells = [_Cell(index, window, band, reach_px=reach) for window in cells_of(band)]
    for take_in in (_Cell.rule_out, _Cell.add):
        for source in sorted({source for cell in cells for source in cell.sources}):
            block = np.ascontiguousarray(blocks[source])
            for cell in cells:
                if source in cell.sources and not cell.is_rough.all():
                    take_in(cell, source, block)
        cells = [cell for cell in cells if not cell.is_rough.all()]
    for cell in cells:
        smoothness[cell.window.slices] = cell.measure()
    return smoothness


class _Cell:
    """What is known of a rectangle of the picture, gathered image by image.

    Attributes
    ----------
    window : Window
    sources : list of int
        The images near.
    is_rough : ndarray of bool, shape (h, w)
        Where texture hides any step, or nobody asks.
    """

    def __init__(self, index: IndexArray, window: Window, band: BoolArray, *, reach_px: int) -> None:
        self.window, self._reach_px = window, reach_px
        self._near = cut_reflected(index, window, margin_px=reach_px)
        self.sources = [int(source) for source in np.flatnonzero(np.bincount(self._near.reshape(-1)))]
        self.is_rough = ~band[window.slices]
        self._power = np.zeros(window.shape, np.float32)
        self._darkest = np.full((3, *window.shape), np.inf, np.float32)
        self._brightest = -self._darkest

    @property
    def _n_pixels(self) -> int:
        return (2 * self._reach_px + 1) ** 2

    def rule_out(self, source: int, block: FloatArray) -> None:
        """Find the pixels around which the brightness of an image alone has enough texture."""
        margin = self._reach_px + TEXTURE_PX // 2
        brightness = np.empty(tuple(length + 2 * margin for length in self.window.shape), np.float32)
        cut_brightness(block, self.window.top - margin, self.window.left - margin, brightness)
        power = _texture_power(brightness)
        height, width = power.shape
        squares = np.empty((height // SQUARE_PX, width // SQUARE_PX), np.float32)
        sum_blocks(power, SQUARE_PX, squares)
        # squares that surely lie in the window around a pixel, wherever it lies between the lines of their grid
        n_inside = (2 * self._reach_px + 1 - (SQUARE_PX - 1)) // SQUARE_PX
        if n_inside < 1:
            return
        least = _sum_boxes(squares, n_inside)
        is_enough = least >= MARGIN_OF_ERROR * SMOOTH_CONTRAST[1] ** 2 * self._n_pixels
        rows, columns = (-(-np.arange(length) // SQUARE_PX) for length in self.window.shape)
        self.is_rough |= is_enough[np.ix_(rows, columns)] & self._counts(source)

    def add(self, source: int, block: FloatArray) -> None:
        """Take in the texture and the mean of every channel."""
        side, counts = 2 * self._reach_px + 1, self._counts(source)
        near = cut_reflected(block, self.window, margin_px=self._reach_px + TEXTURE_PX // 2).astype(np.float32, copy=False)
        inner = slice(TEXTURE_PX // 2, -(TEXTURE_PX // 2))
        for channel, plane in enumerate(near):
            power = _sum_boxes(_texture_power(plane), side)
            np.maximum(self._power, power, out=self._power, where=counts)
            total = _sum_boxes(np.ascontiguousarray(plane[inner, inner]), side)
            np.maximum(self._brightest[channel], total, out=self._brightest[channel], where=counts)
            np.minimum(self._darkest[channel], total, out=self._darkest[channel], where=counts)

    def measure(self) -> FloatArray:
        """Return how smooth the ground is, of all images taken in."""
        smooth, rough = SMOOTH_CONTRAST
        is_step = (self._brightest - self._darkest >= LEAST_VISIBLE_STEP * self._n_pixels).any(axis=0)
        contrast = np.sqrt(self._power / np.float32(self._n_pixels))
        part = np.clip((np.float32(rough) - contrast) / np.float32(rough - smooth), 0, 1)
        return np.where(is_step & ~self.is_rough, part, np.float32(0))

    def _counts(self, source: int) -> BoolArray:
        """Return which pixels have an image in reach; where only two meet, the pixels that are looked at have both."""
        if len(self.sources) <= 2:  # noqa: PLR2004
            return np.ones(self.window.shape, bool)
        found: BoolArray = _sum_boxes((self._near == source).astype(np.float32), 2 * self._reach_px + 1) > 0
        return found


def _texture_power(plane: FloatArray) -> FloatArray:
    """Return the squared texture of each pixel that the window of the mean fits around."""
    power = np.empty(tuple(length - TEXTURE_PX + 1 for length in plane.shape), np.float32)
    texture_power(plane, power)
    return power


def _sum_boxes(plane: FloatArray, side_px: int) -> FloatArray:
    sums = np.empty(tuple(length - side_px + 1 for length in plane.shape), np.float32)
    sum_boxes(plane, side_px, sums)
    return sums
