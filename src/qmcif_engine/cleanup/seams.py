"""Seams of a composition: detail that it has only because two images meet, and that none of them shows.

Where a plane of a thick specimen gives way to another, the two differ in brightness as well as in focus, and a border between them is
an edge that the specimen does not have. A border along an edge of the scene adds nothing: that edge is in one of the images already.
None of this is in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.cuts import compare_cut, take_in_image
from qmcif_engine.kernels.gaussians import COARSE_REACH_PX, FINE_REACH_PX, WINDOW_REACH_PX, gaussian_taps
from qmcif_engine.method.patches import cells_of, cut_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray
    from qmcif_engine.stack.window import Window

BAND_PX = (0.8, 1.6)
"""Standard deviations of the two Gaussians whose difference is detail."""

BAND_REACH_PX = (FINE_REACH_PX, COARSE_REACH_PX)
"""How far they look."""

WINDOW_PX = 3.0
"""Standard deviation of the Gaussian window over which the power of detail is averaged."""

REACH_PX = BAND_REACH_PX[1] + WINDOW_REACH_PX
"""How far from a pixel the decisions lie that tell whether there is a seam."""

SEAM_RATIOS = (1.3, 1.6)
"""Detail of the composition over what the images account for: no seam up to the first, a full one from the second on."""

FAINT_POWER = 0.25
"""Power of detail, in squared gray levels, that nobody sees."""

_TAPS = (gaussian_taps(BAND_PX[0], FINE_REACH_PX), gaussian_taps(BAND_PX[1], COARSE_REACH_PX), gaussian_taps(WINDOW_PX, WINDOW_REACH_PX))


def measure_seams(index: IndexArray, blocks: Sequence[FloatArray], band: BoolArray) -> FloatArray:
    """Return how much of a seam there is at each pixel of a band, from 0 to 1, shape (h, w).

    Parameters
    ----------
    index : ndarray of uint16, shape (h, w)
    blocks : sequence of ndarray of float, shape (3, h, w)
        The images on the 0-255 scale.
    band : ndarray of bool, shape (h, w)
        Where to look.

    Notes
    -----
    Compared are root mean squares of detail: of the images cut along the map, against the larger of the sharpest image near and of what
    each pixel's own image has there. The latter lets a border pass that joins two halves, each sharp in one image.
    """
    seams = np.zeros(index.shape, np.float32)
    index, band = np.ascontiguousarray(index), np.ascontiguousarray(band)
    # a rectangle with a single image near has no border, and no seam
    cells = [cell for cell in (_CutCell(index, window) for window in cells_of(band)) if len(cell.sources) > 1]
    # images outside, rectangles inside: each image is read once
    for source in sorted({source for cell in cells for source in cell.sources}):
        block = np.ascontiguousarray(blocks[source])
        for cell in cells:
            if source in cell.sources:
                cell.take_in(source, block)
    for cell in cells:
        at = cell.window.slices
        compare_cut(cell.cut, cell.own, cell.sharpest, _TAPS, FAINT_POWER, SEAM_RATIOS, band[at], seams[at])
    return seams


class _CutCell:
    """What the images have in a rectangle of the fused image and around it, gathered image by image."""

    def __init__(self, index: IndexArray, window: Window) -> None:
        self.window = window
        self.near, self.sources = cut_map(index, window, margin_px=REACH_PX)
        if len(self.sources) > 1:
            margin = 2 * COARSE_REACH_PX
            self.cut = np.empty(self.near.shape, np.float32)
            self.own = np.empty((self.near.shape[0] - margin, self.near.shape[1] - margin), np.float32)
            self.sharpest = np.zeros(window.shape, np.float32)

    def take_in(self, source: int, block: FloatArray) -> None:
        """Add what an image has."""
        corner, is_pair = (self.window.top - REACH_PX, self.window.left - REACH_PX), len(self.sources) == 2
        take_in_image(block, source, corner, self.near, is_pair, _TAPS, self.cut, self.own, self.sharpest)
