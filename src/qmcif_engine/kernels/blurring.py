"""Compare a picture with another one blurred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.kernels.compilation import compiled

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import FloatArray


@compiled
def _weigh(sums: FloatArray, values: FloatArray, weight: float) -> None:
    for x in range(sums.size):
        sums[x] = weight * values[x]


@compiled
def _add_pair(sums: FloatArray, before: FloatArray, after: FloatArray, weight: float) -> None:
    for x in range(sums.size):
        sums[x] += weight * (before[x] + after[x])


@compiled
def _add_power(power: FloatArray, wanted: FloatArray, found: FloatArray) -> None:
    for x in range(power.size):
        rest = wanted[x] - found[x]
        power[x] += rest * rest


@compiled
def _blur_row(plane: FloatArray, y: int, taps: FloatArray, column_sums: FloatArray, found: FloatArray) -> None:
    """Put a row of the blurred plane, for the pixels that the kernel fits around, into `found`; `column_sums` is as long as the plane."""
    radius = taps.size - 1
    _weigh(column_sums, plane[y], taps[0])
    for shift in range(1, radius + 1):
        _add_pair(column_sums, plane[y - shift], plane[y + shift], taps[shift])
    _weigh(found, column_sums[radius:], taps[0])
    for shift in range(1, radius + 1):
        _add_pair(found, column_sums[radius - shift :], column_sums[radius + shift :], taps[shift])


@compiled
def add_unexplained(sharp: FloatArray, blurred: FloatArray, taps: FloatArray, power: FloatArray) -> None:
    """Add the power of ``blurred - G * sharp`` to `power`.

    Parameters
    ----------
    sharp, blurred : ndarray of float, shape (3, h, w)
    taps : ndarray of float, shape (r + 1,)
        Weights of the symmetric kernel from its center on, of the dtype of the planes.
    power : ndarray of float, shape (h - 2 r, w - 2 r)
        For the pixels that the kernel fits around.
    """
    n_planes, _, w = sharp.shape
    h, radius = power.shape[0], taps.size - 1
    column_sums, found = np.empty(w, sharp.dtype), np.empty(w - 2 * radius, sharp.dtype)
    for y in range(radius, radius + h):
        for c in range(n_planes):
            _blur_row(sharp[c], y, taps, column_sums, found)
            _add_power(power[y - radius], blurred[c, y][radius:], found)


@compiled
def add_rests(fused: FloatArray, first: FloatArray, second: FloatArray, taps: FloatArray, rests: FloatArray) -> None:
    """Add the powers of ``first - G * fused`` and of ``second - G * fused`` to `rests`.

    Parameters
    ----------
    fused, first, second : ndarray of float, shape (3, h, w)
    taps : ndarray of float, shape (r + 1,)
        Weights of the symmetric kernel from its center on, of the dtype of the planes.
    rests : ndarray of float, shape (2, h - 2 r, w - 2 r)
        For the pixels that the kernel fits around.
    """
    n_planes, _, w = fused.shape
    h, radius = rests.shape[1], taps.size - 1
    column_sums, found = np.empty(w, fused.dtype), np.empty(w - 2 * radius, fused.dtype)
    for y in range(radius, radius + h):
        for c in range(n_planes):
            _blur_row(fused[c], y, taps, column_sums, found)
            _add_power(rests[0, y - radius], first[c, y][radius:], found)
            _add_power(rests[1, y - radius], second[c, y][radius:], found)
