"""Smooth ground along a border: where a step of brightness between two images shows, because no texture hides it.

None of this is in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.cleanup.blend_reach import reach_of_feather
from qmcif_engine.kernels.boxes import TEXTURE_PX, sum_boxes, texture_power
from qmcif_engine.kernels.roughness import mark_rough
from qmcif_engine.method.patches import cells_of, cut_map, cut_reflected, edge_band

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig
    from qmcif_engine.stack.window import Window

SMOOTH_CONTRAST = (0.7, 2.0)
"""Root mean squares of a channel's texture, in gray levels: below the first ground is smooth, above the second not, in between in part."""

LEAST_VISIBLE_STEP = 1.0
"""Gray levels by which a channel of smooth images must differ for their border to show: less than in texture."""


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

    Brightness has no more texture than the channel with most of it, and the squares of a grid inside a window no more than the window:
    where these have enough, nothing else is looked at.
    """
    smoothness = np.zeros(index.shape, np.float32)
    for window, part in find_smooth_parts(index, blocks, config):
        smoothness[window.slices] = part
    return smoothness


def find_smooth_parts(index: IndexArray, blocks: Sequence[FloatArray], config: DecisionConfig) -> Iterator[tuple[Window, FloatArray]]:
    """Yield the rectangles that may have smooth ground, and how smooth it is; the parameters are those of `measure_smoothness`."""
    reach = reach_of_feather(config)
    index, band = np.ascontiguousarray(index), edge_band(index, reach_px=reach)
    cells = [_GroundCell(index, window, band, reach_px=reach) for window in cells_of(band)]
    # a cheap look that ends most rectangles, then a thorough one at the rest
    for take_in in (_GroundCell.rule_out, _GroundCell.take_in):
        for source in sorted({source for cell in cells for source in cell.sources}):
            block = np.ascontiguousarray(blocks[source])
            for cell in cells:
                if source in cell.sources and not cell.is_done:
                    take_in(cell, source, block)
        cells = [cell for cell in cells if not cell.is_done]
    for cell in cells:
        yield cell.window, cell.measure()


class _GroundCell:
    """What is known of a rectangle of the fused image, gathered image by image.

    Attributes
    ----------
    window : Window
    sources : list of int
        The images near.
    is_done : bool
        Whether there is no pixel left without texture.
    """

    def __init__(self, index: IndexArray, window: Window, band: BoolArray, *, reach_px: int) -> None:
        self.window, self._reach_px, self._side_px = window, reach_px, 2 * reach_px + 1
        self._near, self.sources = cut_map(index, window, margin_px=reach_px)
        self._is_rough = ~band[window.slices]  # or nobody asks
        self.is_done = False
        self._power: FloatArray = np.empty(0, np.float32)
        self._darkest: FloatArray = np.empty(0, np.float32)
        self._brightest: FloatArray = np.empty(0, np.float32)

    def rule_out(self, source: int, block: FloatArray) -> None:
        """Find the pixels around which the brightness of an image alone has enough texture."""
        corner = (self.window.top - self._reach_px, self.window.left - self._reach_px)
        # as a sum over the window, which spares a division per pixel
        enough = SMOOTH_CONTRAST[1] ** 2 * self._side_px**2
        self.is_done = mark_rough(block, source, corner, self._near, len(self.sources) <= 2, enough, self._is_rough) == 0

    def take_in(self, source: int, block: FloatArray) -> None:
        """Add the texture and the mean of every channel, where the image is in reach."""
        if not self._power.size:
            self._power = np.zeros(self.window.shape, np.float32)
            self._darkest = np.full((3, *self.window.shape), np.inf, np.float32)
            self._brightest = -self._darkest
        # means are taken over the same window as power, which is smaller by the window of texture
        counts, inner = self._counts(source), slice(TEXTURE_PX // 2, -(TEXTURE_PX // 2))
        near = cut_reflected(block, self.window, margin_px=self._reach_px + TEXTURE_PX // 2).astype(np.float32, copy=False)
        for plane, darkest, brightest in zip(near, self._darkest, self._brightest, strict=True):
            power = _sum_boxes(_texture_power(plane), self._side_px)
            # the channel and the image with most texture decide
            np.maximum(self._power, power, out=self._power, where=counts)
            total = _sum_boxes(np.ascontiguousarray(plane[inner, inner]), self._side_px)
            np.maximum(brightest, total, out=brightest, where=counts)
            np.minimum(darkest, total, out=darkest, where=counts)

    def measure(self) -> FloatArray:
        """Return how smooth the ground is, of all images taken in."""
        smooth, rough = SMOOTH_CONTRAST
        n_pixels = np.float32(self._side_px**2)
        # sums over the window against the step times its pixels
        is_step = (self._brightest - self._darkest >= LEAST_VISIBLE_STEP * n_pixels).any(axis=0)
        contrast = np.sqrt(self._power / n_pixels)
        part = np.clip((np.float32(rough) - contrast) / np.float32(rough - smooth), 0, 1)
        return np.where(is_step & ~self._is_rough, part, np.float32(0))

    def _counts(self, source: int) -> BoolArray:
        """Return which pixels have an image in reach; where only two meet, the pixels that are looked at have both."""
        if len(self.sources) <= 2:
            return np.ones(self.window.shape, bool)
        found: BoolArray = _sum_boxes((self._near == source).astype(np.float32), self._side_px) > 0
        return found


def _texture_power(plane: FloatArray) -> FloatArray:
    """Return the squared texture of each pixel that the window of the mean fits around."""
    power = np.empty((plane.shape[0] - TEXTURE_PX + 1, plane.shape[1] - TEXTURE_PX + 1), np.float32)
    texture_power(plane, power)
    return power


def _sum_boxes(plane: FloatArray, side_px: int) -> FloatArray:
    sums = np.empty((plane.shape[0] - side_px + 1, plane.shape[1] - side_px + 1), np.float32)
    sum_boxes(plane, side_px, sums)
    return sums
