"""Depth edges drawn to the pixel: near them the two labels that meet are decided again, with the reblur test at full resolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.decision.evidence import CELL_PX
from qmcif_engine.decision.filters import interpolate_cells, reach_of, repeat_cells, smooth
from qmcif_engine.decision.propagation import BORDER
from qmcif_engine.decision.reblur import NOISE_FLOOR, trust_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray

BAND_PX = 8
"""How far on either side of a depth edge pixels are decided again: cells of the coarsest grid place it no better."""

ANCHOR_PX = 4
"""Width of the ring around that band whose labels stay and hold those of the band."""

FINE_BLURS_PX = (1.0, 2.0)
WIDE_BLURS_PX = (4.0, 8.0, 16.0)
"""Standard deviations of the blurs that are tried; the wide ones on cells of `WIDE_CELL_PX`."""

WIDE_CELL_PX = 4

WINDOW_PX = 0.5
"""Window of the residual at full resolution."""

TRUST_WINDOW_PX = 3.0
"""Window of the residuals whose ratio says how far the test is trusted."""

BLUR_ERROR = 0.02
"""Share of the residual around that the few blurs which are tried leave of any image: smaller ones say nothing."""

ROUNDS = 8
"""Rounds of messages between pixels: half the width of the band."""

CLOSED = 50.0
"""Belief in nats per pixel of what is no candidate, and of pixels outside the band."""

PART_MARGIN_PX = 32
"""Pixels around a part that its edges depend on: messages, the window of the trust, and the fine blurs, in whole blocks."""

WIDE_MARGIN_CELLS = reach_of(WIDE_BLURS_PX[-1] / WIDE_CELL_PX) + 1
"""Cells around those that the wide blurs depend on."""

LABEL_REACH_PX = BAND_PX + ANCHOR_PX + ROUNDS
"""How far from a pixel the labels of cells lie that its label depends on."""

EDGE_REACH_PX = BAND_PX + ANCHOR_PX + ROUNDS + reach_of(TRUST_WINDOW_PX) + 1 + WIDE_CELL_PX * (WIDE_MARGIN_CELLS + 1)


def find_rivals(index: IndexArray, is_complete: BoolArray, far: float) -> tuple[IndexArray, BoolArray]:
    """Return for each cell the label beyond the nearest depth edge, its own where there is none near, and which cells are decided again.

    Near cells that an image lacks, whose `is_complete` is false, none is: an edge at which an image ends is none in depth.
    """
    across = index.copy()
    for axis in (0, 1):
        first = tuple(slice(None, -1) if a == axis else slice(None) for a in (0, 1))
        second = tuple(slice(1, None) if a == axis else slice(None) for a in (0, 1))
        is_edge = np.abs(index[first].astype(np.int32) - index[second]) >= far
        for mine, its in ((first, second), (second, first)):
            np.copyto(across[mine], index[its], where=is_edge)
    at_edge = across != index
    if not at_edge.any():
        return across, at_edge
    distance, nearest = cv2.distanceTransformWithLabels(
        (~at_edge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5, labelType=cv2.DIST_LABEL_PIXEL
    )
    cell_of = np.zeros(nearest.max() + 1, np.intp)
    cell_of[nearest[at_edge]] = np.flatnonzero(at_edge)
    there = cell_of[nearest]
    # the nearest cell at an edge may lie on this side of it or beyond
    other = np.where(index.reshape(-1)[there] != index, index.reshape(-1)[there], across.reshape(-1)[there])
    is_near = (distance <= (BAND_PX + ANCHOR_PX) / CELL_PX) & (np.abs(other.astype(np.int32) - index) >= far)
    whole = cv2.erode(is_complete.astype(np.uint8), np.ones((2 * BAND_PX // CELL_PX + 1,) * 2, np.uint8))
    return np.where(is_near, other, index), is_near & (distance <= BAND_PX / CELL_PX) & (whole > 0)


def draw_edges(
    index: IndexArray,
    rival: IndexArray,
    band: BoolArray,
    belief: Callable[[IndexArray], FloatArray],
    blurs: Callable[[int], FloatArray],
    *,
    shape: tuple[int, int],
    smoothness: float,
) -> tuple[IndexArray, FloatArray]:
    """Return the labels of pixels, and from 0 to 1 how far their depth edges are trusted to lie where they are drawn.

    Parameters
    ----------
    index : ndarray of uint16, shape (rows, columns)
        Labels of cells.
    rival, band : ndarray, shape (rows, columns)
        As `find_rivals` returns them.
    belief : callable
        Returns the beliefs of one label per cell.
    blurs : callable
        Returns `blur_series` of an image.
    shape : tuple of int
        Height and width in pixels.
    smoothness : float

    Notes
    -----
    With ``a`` the lower and ``b`` the higher of the two labels, ``b`` is taken for a gain above 0: the difference of their beliefs and
    ``trust ln((rho(b|a) + n) / (rho(a|b) + n))`` (`qmcif_engine.decision.reblur`), passed on by messages as cells do.

    Departs: the paper keeps the edges of its patches.
    """
    own = repeat_cells(index, CELL_PX, shape)
    if not band.any():
        return own, np.zeros(shape, np.float32)
    low, high = np.minimum(index, rival), np.maximum(index, rival)
    labels = np.union1d(low[band], high[band])
    slots = np.stack([np.searchsorted(labels, plane).clip(0, len(labels) - 1) for plane in (low, high)]).astype(np.int32)
    residual = np.zeros((2, *shape), np.float32)
    _measure_residuals(np.stack([blurs(int(label)) for label in labels]), slots, band, CELL_PX, _WINDOW, residual)
    of_low, of_high = residual
    larger, smaller = (smooth(plane, TRUST_WINDOW_PX) for plane in (np.maximum(of_low, of_high), np.minimum(of_low, of_high)))
    floor = np.float32(NOISE_FLOOR) + np.float32(BLUR_ERROR) * larger
    better = np.log((of_high + floor) / (of_low + floor))
    trust = trust_of(larger, smaller)
    trust *= repeat_cells(band, CELL_PX, shape)
    anchor = np.where(index == low, np.float32(-CLOSED), np.float32(CLOSED))
    gain = repeat_cells(np.where(band, belief(low) - belief(high), anchor), CELL_PX, shape) + trust * better
    messages = np.zeros((4, *shape), np.float32)
    _pass_binary_messages(gain, low, high, CELL_PX, np.float32(BORDER * smoothness), ROUNDS, messages)
    for sent in messages:
        gain += sent
    drawn = np.where(gain > 0, repeat_cells(high, CELL_PX, shape), repeat_cells(low, CELL_PX, shape))
    return drawn, trust


def blur_series(planes: FloatArray, cells: FloatArray, inner: tuple[slice, slice]) -> FloatArray:
    """Return an image as it is and blurred by all widths, shape (blurs + 1, c, h, w).

    Parameters
    ----------
    planes : ndarray of float32, shape (c, h, w)
    cells : ndarray of float32, shape (c, rows, columns)
        Its means over cells of `WIDE_CELL_PX`, with cells around.
    inner : tuple of slice
        The cells of the planes among those.
    """
    series = np.empty((1 + len(FINE_BLURS_PX) + len(WIDE_BLURS_PX), *planes.shape), np.float32)
    series[0] = planes
    for number, sigma in enumerate(FINE_BLURS_PX, 1):
        series[number] = smooth(planes, sigma)
    # the mean over a cell and the interpolation blur, too
    own_variance = (WIDE_CELL_PX**2 - 1) / 12 + WIDE_CELL_PX**2 / 6
    for number, sigma in enumerate(WIDE_BLURS_PX, 1 + len(FINE_BLURS_PX)):
        blurred = smooth(cells, (sigma**2 - own_variance) ** 0.5 / WIDE_CELL_PX)[:, *inner]
        series[number] = interpolate_cells(blurred, WIDE_CELL_PX, planes.shape[-2:])
    return series


def _window() -> FloatArray:
    weights = np.exp(-0.5 * (np.arange(-1, 2) / WINDOW_PX) ** 2)
    window: FloatArray = (np.outer(weights, weights) / weights.sum() ** 2).astype(np.float32)
    return window


_WINDOW = _window()


@compiled
def _measure_residuals(
    series: FloatArray, slots: NDArray[np.int32], band: BoolArray, cell: int, window: FloatArray, residual: FloatArray
) -> None:
    """Put what blurs of the higher label leave of the lower one, and the other way round, into the pixels of the band."""
    n_blurs, c, h, w = series.shape[1] - 1, series.shape[2], series.shape[3], series.shape[4]
    t = series.dtype.type
    power = np.zeros((2, n_blurs, 3, w), series.dtype)
    done = np.full(3, -1, np.int64)
    for y in range(h):
        if not band[y // cell].any():
            continue
        for dy in range(-1, 2):
            v = min(max(y + dy, 0), h - 1)
            if done[v % 3] == v:
                continue
            done[v % 3] = v
            for x in range(w):
                if not band[v // cell, x // cell]:
                    power[:, :, v % 3, x] = 0
                    continue
                low, high = slots[0, v // cell, x // cell], slots[1, v // cell, x // cell]
                for k in range(n_blurs):
                    of_low, of_high = t(0), t(0)
                    for q in range(c):
                        d = series[low, 0, q, v, x] - series[high, k + 1, q, v, x]
                        of_low += d * d
                        d = series[high, 0, q, v, x] - series[low, k + 1, q, v, x]
                        of_high += d * d
                    power[0, k, v % 3, x] = of_low / c
                    power[1, k, v % 3, x] = of_high / c
        for x in range(w):
            if not band[y // cell, x // cell]:
                continue
            for side in range(2):
                least = t(1e30)
                for k in range(n_blurs):
                    total = t(0)
                    for dy in range(-1, 2):
                        v = min(max(y + dy, 0), h - 1)
                        for dx in range(-1, 2):
                            total += window[dy + 1, dx + 1] * power[side, k, v % 3, min(max(x + dx, 0), w - 1)]
                    least = min(least, total)
                residual[side, y, x] = least


@compiled
def _pass_binary_messages(
    gain: FloatArray, low: IndexArray, high: IndexArray, cell: int, border: np.float32, rounds: int, messages: FloatArray
) -> None:
    """Pass messages between pixels that have the same two labels; of two labels a message is one number, for the higher one."""
    h, w = gain.shape
    for turn in range(rounds):
        for y in range(h):
            for x in range((y + turn) % 2, w, 2):
                a, b = low[y // cell, x // cell], high[y // cell, x // cell]
                if a == b:
                    continue
                total = gain[y, x] + messages[0, y, x] + messages[1, y, x] + messages[2, y, x] + messages[3, y, x]
                for d in range(4):
                    v, u = y + (d == 2) - (d == 3), x + (d == 0) - (d == 1)
                    if 0 <= v < h and 0 <= u < w and low[v // cell, u // cell] == a and high[v // cell, u // cell] == b:
                        messages[d, v, u] = min(max(total - messages[d ^ 1, y, x], -border), border)
