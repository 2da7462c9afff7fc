"""The reblur test: of two images of one place, the sharper one can be blurred into the other, and not the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled
from qmcif_engine.decision.filters import average_cells, interpolate_cells, reach_of, smooth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

CELL_PX = 4
"""Side of the cells on which halos are looked for."""

BLURS = (0.8, 1.6, 3.2)
"""Standard deviations of the blurs that are tried, in cells: defocus of some 3 to 13 px."""

WINDOW_SIGMA = 0.7
"""Standard deviation of the window of the residual, in cells; what lies beyond the eight neighbors has no weight."""

UNTRUSTED_SHARE = 0.3
"""Residual of the better blur over that of the worse one from which the test is not trusted; from half of it on it is trusted wholly."""

DETAIL_PRICE = 7.0
"""How many times as strong as the finest detail that avoiding it would cost a halo must be, as a ratio of amplitudes."""

HALO_WEIGHT = 3.0
"""Weight of the halo term against the evidence."""

FINE_PX = 8
"""Side of the cells whose interpolated means are taken from an image to leave its fine detail."""

NOISE_FLOOR = 2.0
"""Residual that noise leaves between two images, in units of its variance."""

MARGIN_CELLS = reach_of(BLURS[-1]) + 1
"""How far blurs and the window look, in cells."""

HALO_REACH_PX = CELL_PX * (reach_of(BLURS[-1]) + 2) + FINE_PX


def fine_energy(planes: FloatArray) -> FloatArray:
    """Return the largest energy of fine detail around cells of `CELL_PX`, shape (rows, columns), over windows of two cells."""
    base = interpolate_cells(average_cells(planes, FINE_PX), FINE_PX, planes.shape[-2:])
    energy = np.pad(average_cells(((planes - base) ** 2).mean(axis=0), CELL_PX), 1, mode="edge")
    windows = (energy[:-1, :-1] + energy[1:, :-1] + energy[:-1, 1:] + energy[1:, 1:]) / 4
    result: FloatArray = np.maximum(np.maximum(windows[:-1, :-1], windows[1:, :-1]), np.maximum(windows[:-1, 1:], windows[1:, 1:]))
    return result


def trust_of(of_sharper: FloatArray, of_other: FloatArray) -> FloatArray:
    """Return from 0 to 1 how far defocus explains one of two images, from what blurs leave of the sharper one and of the other one.

    Where neither explains the other (bright-field contrast that inverts through focus, a dim object beside a bright one), the test says
    nothing.
    """
    ratio = of_other / (of_sharper + np.float32(0.05 * NOISE_FLOOR))
    result: FloatArray = np.clip(2 - 2 * ratio / UNTRUSTED_SHARE, 0, 1)
    return result


def halo_costs(cells: FloatArray, detail: FloatArray, label: NDArray[np.int32], *, top: int = 0) -> FloatArray:
    """Return how much better another candidate explains each candidate than the other way round, in nats per pixel.

    Parameters
    ----------
    cells : ndarray of float32, shape (N, c, rows, columns)
        Means over cells of `CELL_PX` of each image, in units of the noise: of a band, with `MARGIN_CELLS` rows above and below.
    detail : ndarray of float32, shape (N, rows, columns)
        `fine_energy` of each image.
    label : ndarray of int32, shape (rows, columns, K)
        Candidates of each cell, -1 for none.
    top : int
        Row of the cells that is the first one of the labels.

    Returns
    -------
    ndarray of float32, shape (rows, columns, K)

    Notes
    -----
    ``rho(b|a) = min_w G * |b - G_w * a|^2`` is what a blurred image ``a`` leaves of an image ``b``, and

    ``H_a = HALO_WEIGHT max_b trust ln((rho(b|a) + n_a) / (rho(a|b) + n_a))``, not below 0:

    an image into which something out of focus spills cannot be blurred into the one in which that thing is sharp, but that one can be
    blurred into it. ``n_a`` is the noise and `DETAIL_PRICE` squared times the fine detail of ``a``, which avoiding it would cost.
    """
    series = np.stack([_blur_series(image) for image in cells])
    result = np.zeros(label.shape, np.float32)
    numbers = (np.float32(NOISE_FLOOR), np.float32(DETAIL_PRICE**2), np.float32(UNTRUSTED_SHARE))
    _halo_costs(series, np.ascontiguousarray(detail), label, top, _WINDOW, numbers, result)
    return result * np.float32(HALO_WEIGHT)


def _blur_series(cells: FloatArray) -> FloatArray:
    """Return cells (c, rows, columns) as they are and blurred, shape (rows, columns, blurs + 1, c)."""
    series = np.stack([cells, *(smooth(cells, sigma) for sigma in BLURS)])
    return np.ascontiguousarray(np.moveaxis(series, (0, 1), (2, 3)))


def _window() -> FloatArray:
    weights = np.exp(-0.5 * (np.arange(-1, 2) / WINDOW_SIGMA) ** 2)
    window: FloatArray = (np.outer(weights, weights) / weights.sum() ** 2).astype(np.float32)
    return window


_WINDOW = _window()


@compiled
def _halo_costs(
    series: FloatArray,
    detail: FloatArray,
    label: NDArray[np.int32],
    shift: int,
    window: FloatArray,
    numbers: tuple[np.float32, np.float32, np.float32],
    out: FloatArray,
) -> None:
    n_rows, n_columns, n_blurs, c = series.shape[1:]
    floor, price, share = numbers
    count = label.shape[2]
    t = series.dtype.type
    residual = np.zeros((count, count), series.dtype)
    trial = np.empty(n_blurs, series.dtype)
    for y in range(label.shape[0]):
        for x in range(label.shape[1]):
            used = 0
            while used < count and label[y, x, used] >= 0:
                used += 1
            for i in range(used):
                for j in range(used):
                    if i == j:
                        continue
                    a, b = label[y, x, i], label[y, x, j]
                    trial[:] = t(0)
                    for dy in range(3):
                        v = min(max(y + shift + dy - 1, 0), n_rows - 1)
                        for dx in range(3):
                            u = min(max(x + dx - 1, 0), n_columns - 1)
                            for k in range(n_blurs):
                                power = t(0)
                                for q in range(c):
                                    difference = series[b, v, u, 0, q] - series[a, v, u, k, q]
                                    power += difference * difference
                                trial[k] += window[dy, dx] * power
                    residual[i, j] = trial.min() / c
            for i in range(used):
                worst = t(0)
                pedestal = floor + price * detail[label[y, x, i], y, x]
                for j in range(used):
                    # of the other one by this one, and of this one by the other one
                    other, own = residual[i, j], residual[j, i]
                    if i != j and other > own:
                        trust = min(max(t(2) - 2 * own / (other + t(0.05) * floor) / share, t(0)), t(1))
                        worst = max(worst, trust * np.log((other + pedestal) / (own + pedestal)))
                out[y, x, i] = worst
