"""Evidence of focus: the energy of the detail layer at three scales, on cells, in units of the noise, and the candidates it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.config.fusion_config import Evidence
from qmcif_engine.decision.filters import average_cells, interpolate_cells, reach_of, smooth
from qmcif_engine.method.detail_layer import REACH_PX as DETAIL_REACH_PX
from qmcif_engine.method.detail_layer import detail_layer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, IndexArray

CELL_PX = 2
"""Side of the cells that labels live on; only depth edges are drawn to the pixel."""

BLOCK_PX = 8
"""Side of the blocks that share their candidates."""

N_CANDIDATES = 8
"""Images that are compared in each block."""

FINE_PX, WIDE_PX = 1.0, 2.0
"""Standard deviations of the amplification of the detail layer, and of the window of its energy; the third scale is the wide one of the
image at half its resolution, which is what noise leaves of weak detail."""

_CELL_VARIANCE = (CELL_PX**2 - 1) / 12
"""Variance in px^2 that a mean over a cell adds to a Gaussian."""

FREEDOM = (0.300, 0.078, 0.0195)
"""Independent samples per pixel of white noise in the gradient energy of each scale (`tests/engine/decision` derives them)."""

COLOR_FREEDOM = 3**0.5
"""By how much three planes raise them; a gray image counts as a color image with equal channels."""

ENERGY_STEP = 1 / 1024
"""Resolution of stored evidence, in nats: of 16 bits, which end at 64 nats."""

MISSING = 2**16 - 1
"""Stored evidence where an image may not be chosen."""

EXCLUDED = 1e4
"""Cost in nats per pixel of what may not be chosen."""

FINE_REACH_PX = DETAIL_REACH_PX + reach_of(FINE_PX) * 2 + 2 * CELL_PX
EVIDENCE_REACH_PX = CELL_PX * (DETAIL_REACH_PX + reach_of(WIDE_PX) * 2 + 3 * CELL_PX)
"""How far the fine scale and all scales look; the coarse one looks farthest, in pixels of half the resolution."""


class Candidates(NamedTuple):
    """The images that are compared in each block, and what the evidence says of them.

    Attributes
    ----------
    label : ndarray of int32, shape (block rows, block columns, K)
        Images in ascending order; -1 where there are fewer.
    cost : ndarray of float32, shape (rows, columns, K)
        Cost of each of them in nats per pixel, on cells.
    winner : ndarray of uint16, shape (scales, rows, columns)
        The image with the largest evidence at each scale.
    best : ndarray of float32, shape (rows, columns)
        Largest log energy of the wide scale, or of the fine one where it is alone.
    """

    label: NDArray[np.int32]
    cost: FloatArray
    winner: IndexArray
    best: FloatArray


def scale_energies(planes: FloatArray, measure: Evidence, *, n_scales: int) -> FloatArray:
    """Return the energy of an image at each scale, shape (scales, rows, columns) of cells.

    Parameters
    ----------
    planes : ndarray of float32, shape (c, h, w)
        In units of the noise.
    measure : Evidence
    n_scales : int
        1 for the fine scale alone, up to the number of `FREEDOM`.

    Notes
    -----
    ``e_s = G_s * |nabla (G_s * D)|^2`` with the detail layer ``D`` of QFED [QMCIF, Eq. (3)].

    Departs: the detail layer is amplified by a Gaussian ``G_s`` instead of the window sum of [QMCIF, Eq. (13)], and measured by its
    gradient instead of its modulus, at three scales instead of two kinds of patches. With the measure ``laplacian`` the image itself
    takes the place of the detail layer, and its Laplacian that of the gradient.
    """
    is_laplacian = measure is Evidence.LAPLACIAN
    energy = _laplacian_energy if is_laplacian else _gradient_energy

    def detail_of(seen: FloatArray) -> FloatArray:
        return seen if is_laplacian else detail_layer(seen)

    def wide_energy(detail: FloatArray) -> FloatArray:
        wide = smooth(average_cells(detail, CELL_PX), (WIDE_PX**2 - _CELL_VARIANCE) ** 0.5 / CELL_PX)
        return smooth(energy(wide, 1), WIDE_PX / CELL_PX)

    detail = detail_of(planes)
    energies = [smooth(energy(smooth(detail, FINE_PX), CELL_PX), (FINE_PX**2 - _CELL_VARIANCE) ** 0.5 / CELL_PX)]
    if n_scales > 1:
        energies.append(wide_energy(detail))
    if n_scales > 2:
        coarse = wide_energy(detail_of(average_cells(planes, CELL_PX)))
        energies.append(interpolate_cells(coarse, CELL_PX, energies[0].shape))
    return np.stack(energies)


def _gradient_energy(planes: FloatArray, side: int) -> FloatArray:
    h, w = planes.shape[1:]
    energy = np.empty((-(-h // side), -(-w // side)), np.float32)
    _add_gradients(planes, side, energy)
    return energy


@compiled
def _add_gradients(planes: FloatArray, side: int, energy: FloatArray) -> None:
    """Put the means over planes and cells of the squared gradient into ``energy``, shape (rows, columns)."""
    c, h, w = planes.shape
    power = np.empty(w, planes.dtype)
    share = planes.dtype.type(1 / c)
    for row in range(energy.shape[0]):
        power[:] = 0
        n_rows = min(side, h - row * side)
        for y in range(row * side, row * side + n_rows):
            for q in range(c):
                here, below = planes[q, y], planes[q, min(y + 1, h - 1)]
                for x in range(w - 1):
                    down, right = below[x] - here[x], here[x + 1] - here[x]
                    power[x] += down * down + right * right
                down = below[w - 1] - here[w - 1]
                power[w - 1] += down * down
        for column in range(energy.shape[1]):
            n_columns = min(side, w - column * side)
            total = power[column * side]
            for x in range(1, n_columns):
                total += power[column * side + x]
            energy[row, column] = total * share / (n_rows * n_columns)


def _laplacian_energy(planes: FloatArray, side: int) -> FloatArray:
    squares = [np.square(cv2.Laplacian(plane, -1, borderType=cv2.BORDER_REFLECT)) for plane in planes]
    return average_cells(np.mean(squares, axis=0, dtype=np.float32), side)


def store_evidence(energies: FloatArray, floors: tuple[float, ...]) -> NDArray[np.uint16]:
    """Return ``ln(1 + e / floor)`` of each scale in steps of `ENERGY_STEP`."""
    logarithm = np.log1p(energies / np.asarray(floors[: len(energies)], np.float32)[:, None, None])
    stored: NDArray[np.uint16] = np.minimum(logarithm / np.float32(ENERGY_STEP) + np.float32(0.5), MISSING - 1).astype(np.uint16)
    return stored


def find_candidates(evidence: NDArray[np.uint16], prior: FloatArray) -> Candidates:
    """Compare the evidence of all images.

    Parameters
    ----------
    evidence : ndarray of uint16, shape (scales, N, rows, columns)
        As `store_evidence` returns it, `MISSING` where an image may not be chosen.
    prior : ndarray of float32, shape (N,)
        Added to the log energies of each image, in nats.

    Returns
    -------
    Candidates

    Notes
    -----
    The energy of white noise has a gamma distribution with ``k`` degrees of freedom. For a log energy ``d`` below that of the best image
    the negative logarithm of the likelihood is ``k / 2 (d - 1 + exp(-d))``, summed over the scales. An image is a candidate in a block
    where the least of its costs is among the `N_CANDIDATES` least ones; the first images come first where costs are equal.

    Departs: [QMCIF, Eqs. (16) and (17)] take the largest focus measure at each scale.
    """
    n_scales, n_images, rows, columns = evidence.shape
    cells = BLOCK_PX // CELL_PX
    count = min(N_CANDIDATES, n_images)
    label = np.full((-(-rows // cells), -(-columns // cells), count), -1, np.int32)
    cost = np.full((rows, columns, count), EXCLUDED, np.float32)
    winner = np.zeros((n_scales, rows, columns), np.uint16)
    best = np.zeros((rows, columns), np.float32)
    freedom = np.asarray(FREEDOM[:n_scales], np.float32) * np.float32(COLOR_FREEDOM)
    _find_candidates(evidence, cells, np.float32(ENERGY_STEP), freedom, prior.astype(np.float32), label, cost, winner, best)
    return Candidates(label, cost, winner, best)


@compiled
def _find_candidates(
    evidence: NDArray[np.uint16],
    cells: int,
    step: np.float32,
    freedom: FloatArray,
    prior: FloatArray,
    label: NDArray[np.int32],
    cost: FloatArray,
    winner: IndexArray,
    best: FloatArray,
) -> None:
    n_scales, n_images, rows, columns = evidence.shape
    count = label.shape[2]
    t = cost.dtype.type
    top = np.empty((n_scales, cells, cells), cost.dtype)
    value = np.empty((n_images, cells, cells), cost.dtype)
    least = np.empty(n_images, cost.dtype)
    order = np.empty(count, np.int32)
    for by in range(label.shape[0]):
        for bx in range(label.shape[1]):
            y0, x0 = by * cells, bx * cells
            h, w = min(cells, rows - y0), min(cells, columns - x0)
            top[:] = t(-1e9)
            for s in range(n_scales):
                for n in range(n_images):
                    for y in range(h):
                        for x in range(w):
                            e = evidence[s, n, y0 + y, x0 + x]
                            if e < 65535 and t(e) * step + prior[n] > top[s, y, x]:
                                top[s, y, x] = t(e) * step + prior[n]
                                winner[s, y0 + y, x0 + x] = n
            used = 0
            for n in range(n_images):
                least[n] = t(1e4)
                for y in range(h):
                    for x in range(w):
                        total = t(0)
                        for s in range(n_scales):
                            e = evidence[s, n, y0 + y, x0 + x]
                            d = top[s, y, x] - (t(e) * step + prior[n])
                            total += t(1e4) if e == 65535 else freedom[s] / 2 * (d - 1 + np.exp(-d))
                        value[n, y, x] = min(total, t(1e4))
                        least[n] = min(least[n], value[n, y, x])
                at = used
                while at > 0 and least[order[at - 1]] > least[n]:
                    at -= 1
                if at < count and least[n] < t(1e4):
                    used = min(used + 1, count)
                    for k in range(used - 1, at, -1):
                        order[k] = order[k - 1]
                    order[at] = n
            order[:used].sort()
            for k in range(used):
                label[by, bx, k] = order[k]
                for y in range(h):
                    for x in range(w):
                        cost[y0 + y, x0 + x, k] = value[order[k], y, x]
            for y in range(h):
                for x in range(w):
                    best[y0 + y, x0 + x] = max(top[min(n_scales - 1, 1), y, x], t(0))
