"""Depth edges drawn to the pixel: near them the two labels that meet are decided again, with the reblur test at full resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.decision.evidence import CELL_PX
from qmcif_engine.decision.filters import average_cells, interpolate_cells, reach_of, repeat_cells, smooth
from qmcif_engine.decision.propagation import BORDER
from qmcif_engine.decision.reblur import NOISE_FLOOR, trust_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

BAND_PX = 8
"""How far on either side of a depth edge pixels are decided again: cells of the coarsest grid place it no better."""

FINE_BLURS_PX = (1.0, 2.0)
WIDE_BLURS_PX = (4.0, 8.0, 16.0)
"""Standard deviations of the blurs that are tried; the wide ones on cells of `WIDE_CELL_PX`."""

WIDE_CELL_PX = 4

WINDOW_PX = 0.5
"""Window of the residual at full resolution."""

TRUST_WINDOW_PX = 3.0
"""Window of the residuals whose ratio says how far the test is trusted."""

ROUNDS = 8
"""Rounds of messages between pixels: half the width of the band."""

CLOSED = 50.0
"""Belief in nats per pixel of what is no candidate, and of pixels outside the band."""

EDGE_REACH_PX = BAND_PX + ROUNDS + reach_of(TRUST_WINDOW_PX) + WIDE_CELL_PX * (reach_of(WIDE_BLURS_PX[-1] / WIDE_CELL_PX) + 2)


def find_rivals(index: IndexArray, far: float) -> IndexArray:
    """Return for each cell the label beyond the nearest depth edge within the band, and its own where there is none."""
    across = index.copy()
    for axis in (0, 1):
        first = tuple(slice(None, -1) if a == axis else slice(None) for a in (0, 1))
        second = tuple(slice(1, None) if a == axis else slice(None) for a in (0, 1))
        is_edge = np.abs(index[first].astype(np.int32) - index[second]) >= far
        for mine, its in ((first, second), (second, first)):
            np.copyto(across[mine], index[its], where=is_edge)
    at_edge = across != index
    if not at_edge.any():
        return across
    distance, nearest = cv2.distanceTransformWithLabels(
        (~at_edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5, labelType=cv2.DIST_LABEL_PIXEL
    )
    cell_of = np.zeros(nearest.max() + 1, np.intp)
    cell_of[nearest[at_edge]] = np.flatnonzero(at_edge)
    there = cell_of[nearest]
    # the nearest cell at an edge may lie on this side of it or beyond
    other = np.where(index.reshape(-1)[there] != index, index.reshape(-1)[there], across.reshape(-1)[there])
    is_near = (distance <= BAND_PX / CELL_PX) & (np.abs(other.astype(np.int32) - index) >= far)
    return np.where(is_near, other, index)


def draw_edges(
    index: IndexArray,
    rival: IndexArray,
    belief: Callable[[IndexArray], FloatArray],
    image: Callable[[int], FloatArray],
    *,
    shape: tuple[int, int],
    smoothness: float,
) -> tuple[IndexArray, FloatArray]:
    """Return the labels of pixels, and from 0 to 1 how far their depth edges are trusted to lie where they are drawn.

    Parameters
    ----------
    index, rival : ndarray of uint16, shape (rows, columns)
        Labels of cells, and `find_rivals`.
    belief : callable
        Returns the beliefs of one label per cell.
    image : callable
        Returns the planes of an image, shape (c, h, w), in units of the noise.
    shape : tuple of int
        Height and width in pixels.
    smoothness : float

    Notes
    -----
    With ``a`` the lower and ``b`` the higher of the two labels, ``b`` is taken for a gain above 0: the difference of their beliefs and
    ``trust ln((rho(b|a) + n) / (rho(a|b) + n))`` (`qmcif_engine.decision.reblur`), passed on by messages as cells do.

    Departs: the paper keeps the edges of its patches.
    """
    own, other = repeat_cells(index, CELL_PX, shape), repeat_cells(rival, CELL_PX, shape)
    band = own != other
    if not band.any():
        return own, np.zeros(shape, np.float32)
    a, b = np.minimum(own, other), np.maximum(own, other)
    of_a, of_b = _residuals(a, b, band, image)
    better = np.log((of_b + np.float32(NOISE_FLOOR)) / (of_a + np.float32(NOISE_FLOOR)))
    trust = trust_of(smooth(np.maximum(of_a, of_b), TRUST_WINDOW_PX), smooth(np.minimum(of_a, of_b), TRUST_WINDOW_PX)) * band
    low, high = np.minimum(index, rival), np.maximum(index, rival)
    gain = repeat_cells(belief(low) - belief(high), CELL_PX, shape) + trust * better
    gain = np.where(band, gain, np.where(own == a, -CLOSED, CLOSED)).astype(np.float32)
    messages = np.zeros((4, *shape), np.float32)
    _pass_binary_messages(gain, np.float32(BORDER * smoothness), ROUNDS, messages)
    drawn = np.where(gain + messages.sum(axis=0) > 0, b, a)
    return np.where(band, drawn, own), trust


def _residuals(a: IndexArray, b: IndexArray, band: BoolArray, image: Callable[[int], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return what blurs of image ``b`` leave of image ``a``, and the other way round, where ``a`` and ``b`` change from place to place."""
    c = len(image(int(a.flat[0])))
    n_blurs = len(FINE_BLURS_PX) + len(WIDE_BLURS_PX)
    sharp = np.zeros((2, c, *a.shape), np.float32)
    blurred = np.zeros((2, n_blurs, c, *a.shape), np.float32)
    near = cv2.dilate(band.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    for label in np.union1d(a[near], b[near]):
        planes = image(int(label))
        series = _blur_series(planes)
        for side, labels in enumerate((a, b)):
            np.copyto(sharp[side], planes, where=labels == label)
            np.copyto(blurred[side], series, where=labels == label)
    of_a, of_b = (
        np.min([smooth(((sharp[side] - blurred[1 - side, k]) ** 2).mean(axis=0), WINDOW_PX) for k in range(n_blurs)], axis=0)
        for side in (0, 1)
    )
    return of_a, of_b


def _blur_series(planes: FloatArray) -> FloatArray:
    """Return an image (c, h, w) blurred by all widths, shape (blurs, c, h, w)."""
    cells = average_cells(planes, WIDE_CELL_PX)
    fine = [smooth(planes, sigma) for sigma in FINE_BLURS_PX]
    # the mean over a cell and the interpolation blur, too
    own_variance = (WIDE_CELL_PX**2 - 1) / 12 + WIDE_CELL_PX**2 / 6
    wide = [
        interpolate_cells(smooth(cells, (sigma**2 - own_variance) ** 0.5 / WIDE_CELL_PX), WIDE_CELL_PX, planes.shape[-2:])
        for sigma in WIDE_BLURS_PX
    ]
    return np.stack([*fine, *wide])


@compiled
def _pass_binary_messages(gain: FloatArray, border: np.float32, rounds: int, messages: FloatArray) -> None:
    """Pass messages between pixels; of two labels a message is one number, for the second one."""
    h, w = gain.shape
    for turn in range(rounds):
        for y in range(h):
            for x in range((y + turn) % 2, w, 2):
                total = gain[y, x] + messages[0, y, x] + messages[1, y, x] + messages[2, y, x] + messages[3, y, x]
                for d in range(4):
                    v, u = y + (d == 2) - (d == 3), x + (d == 0) - (d == 1)
                    if 0 <= v < h and 0 <= u < w:
                        messages[d, v, u] = min(max(total - messages[d ^ 1, y, x], -border), border)
