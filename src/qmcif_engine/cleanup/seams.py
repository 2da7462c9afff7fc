"""Seams of a composition: detail that it has only because two images meet, and that none of them shows.

Where a plane of a thick specimen gives way to another, the two differ in brightness as well as in focus, and a border between them is
an edge that the specimen does not have. A border along an edge of the scene adds nothing: that edge is in one of the images already.
None of this is in the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from qmcif_engine.method.patches import cells_of, cut_reflected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.kernels.array_types import BoolArray, FloatArray, IndexArray

BAND_PX = (0.8, 1.6)
"""Standard deviations of the two Gaussians whose difference is detail."""

BAND_REACH_PX = (3, 5)
"""How far they look."""

WINDOW_PX, WINDOW_REACH_PX = 3.0, 6
"""Standard deviation and reach of the Gaussian window over which the power of detail is averaged."""

REACH_PX = BAND_REACH_PX[1] + WINDOW_REACH_PX
"""How far from a pixel the decisions lie that tell whether there is a seam."""

SEAM_RATIOS = (1.3, 1.6)
"""Detail of the composition over what the images account for: no seam up to the first, a full one from the second on."""

FAINT_POWER = 0.25
"""Power of detail, in squared gray levels, that nobody sees."""


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
    least, most = SEAM_RATIOS
    for cell in cells_of(band):
        near = cut_reflected(index, cell, margin_px=REACH_PX)
        sources = np.flatnonzero(np.bincount(near.reshape(-1)))
        if len(sources) == 1:
            continue
        cut, own, sharpest = np.empty(near.shape, np.float32), np.empty(near.shape, np.float32), np.zeros(cell.shape, np.float32)
        for source in sources:
            brightness = cut_reflected(blocks[int(source)], cell, margin_px=REACH_PX).mean(axis=0)
            power = _detail_power(brightness)
            np.copyto(cut, brightness, where=near == source)
            np.copyto(own, power, where=near == source)
            # other pixels of the cell may have images near that this one has not
            is_near = ndimage.maximum_filter(near == source, 2 * REACH_PX + 1)[REACH_PX:-REACH_PX, REACH_PX:-REACH_PX]
            np.maximum(sharpest, _window_mean(power), out=sharpest, where=is_near)
        accounted = np.maximum(sharpest, _window_mean(own)) + FAINT_POWER
        ratio = np.sqrt(_window_mean(_detail_power(cut)) / accounted)
        seams[cell.slices] = np.where(band[cell.slices], np.clip((ratio - least) / (most - least), 0, 1), 0)
    return seams


def _detail_power(brightness: FloatArray) -> FloatArray:
    """Return the squared detail of each pixel, summed by itself and not in a running sum, so that its bytes depend on no tile."""
    fine, coarse = (ndimage.gaussian_filter(brightness, sigma, radius=radius) for sigma, radius in zip(BAND_PX, BAND_REACH_PX, strict=True))
    power: FloatArray = (fine - coarse) ** 2
    return power


def _window_mean(power: FloatArray) -> FloatArray:
    """Return the mean over the window around each pixel of a cell, of a plane that has `REACH_PX` more on every side."""
    mean: FloatArray = ndimage.gaussian_filter(power, WINDOW_PX, radius=WINDOW_REACH_PX)[REACH_PX:-REACH_PX, REACH_PX:-REACH_PX]
    return mean
