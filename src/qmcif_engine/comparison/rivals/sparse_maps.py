"""The steps of convolutional sparse coding that look at every entry, each in one pass over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.compiled import compiled

if TYPE_CHECKING:
    from qmcif_engine.arrays import ComplexArray, FloatArray


@compiled
def solve_spectrum(spectrum: ComplexArray, filters: ComplexArray, target: ComplexArray, energy: FloatArray, penalty: np.float32) -> None:
    """Solve ``(f^H f + penalty) x = f^H s + penalty y`` at each frequency, in the place of y.

    The system is a multiple of the identity plus one outer product, so that Sherman and Morrison's formula solves it.

    Parameters
    ----------
    spectrum : ndarray of complex, shape (M, h, w)
        y; x afterwards.
    filters : ndarray of complex, shape (M, h, w)
    target : ndarray of complex, shape (h, w)
        s, the spectrum of the layer.
    energy : ndarray of float, shape (h, w)
        Sum of the squared moduli of the filters.
    penalty : float
    """
    n_maps, height, width = spectrum.shape
    share = np.empty(width, spectrum.dtype)
    for y in range(height):
        for x in range(width):
            share[x] = target[y, x]
        for number in range(n_maps):
            for x in range(width):
                share[x] -= filters[number, y, x] * spectrum[number, y, x]
        for x in range(width):
            share[x] /= energy[y, x] + penalty
        for number in range(n_maps):
            for x in range(width):
                spectrum[number, y, x] += filters[number, y, x].conjugate() * share[x]


@compiled
def shrink_maps(
    smooth: FloatArray, maps: FloatArray, multiplier: FloatArray, threshold: np.float32, relaxation: np.float32
) -> tuple[float, float, float, float]:
    """Take one step of the maps and their multiplier, and leave their difference in `smooth`.

    Parameters
    ----------
    smooth : ndarray of float, shape (M, h, w)
        The maps that describe the layer; afterwards the maps without the multiplier, from which the next such maps follow.
    maps, multiplier : ndarray of float, shape (M, h, w)
        Of the step before; afterwards of this one.
    threshold, relaxation : float

    Returns
    -------
    tuple of float
        Squared norms: of how far the maps are from those that describe the layer, of their change, of both kinds of maps.
    """
    apart, change, size_smooth, size_maps = 0.0, 0.0, 0.0, 0.0
    n_maps, height, width = maps.shape
    for number in range(n_maps):
        for y in range(height):
            for x in range(width):
                described, before = smooth[number, y, x], maps[number, y, x]
                relaxed = relaxation * described + (1 - relaxation) * before + multiplier[number, y, x]
                value = np.sign(relaxed) * max(abs(relaxed) - threshold, 0.0)
                maps[number, y, x] = value
                multiplier[number, y, x] = relaxed - value
                smooth[number, y, x] = value - (relaxed - value)
                apart += (described - value) ** 2
                change += (value - before) ** 2
                size_smooth += described**2
                size_maps += value**2
    return apart, change, size_smooth, size_maps
