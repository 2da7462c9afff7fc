"""Similarity of two color images window by window, without splitting their channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.config.fusion_config import SimilarityPart
from qmcif_engine.method.patches import window_mean
from qmcif_engine.method.quaternion import modulus
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

STABILIZER = (0.001 * FULL_SCALE) ** 2
"""``C_1`` and ``C_2``: "as small as possible", yet far above the rounding of the window moments."""


class WindowMoments(NamedTuple):
    """An image and its moments over the window around each pixel, in float64.

    Attributes
    ----------
    image, mean : ndarray of float64, shape (3, h, w)
    light, spread : ndarray of float64, shape (h, w)
        ``|mu|^2`` and ``sigma^2``.
    """

    image: FloatArray
    mean: FloatArray
    light: FloatArray
    spread: FloatArray


def window_moments(image: FloatArray, *, side_px: int) -> WindowMoments:
    """Return the moments of an image, shape (3, h, w), over every window of this side.

    They are float64, because in float32 the difference of two large squares would leave more rounding than variance in a bright flat area.
    """
    exact = image.astype(np.float64, copy=False)
    mean = window_mean(exact, side_px=side_px)
    light = np.einsum("cyx,cyx->yx", mean, mean)
    power = window_mean(np.einsum("cyx,cyx->yx", exact, exact), side_px=side_px)
    # rounding can leave a variance of zero a little below zero
    return WindowMoments(exact, mean, light, np.maximum(power - light, 0))


def quaternion_similarity(first: WindowMoments, second: WindowMoments, *, side_px: int, part: SimilarityPart) -> FloatArray:
    """Return ``Q_SSIM`` of two images over the window around each pixel, at most 1; the images continue by reflection.

    Parameters
    ----------
    first, second : WindowMoments
        Of windows of this side.
    side_px : int
    part : SimilarityPart
        The modulus is blind to inverted contrast and to texture that moves from red to green; the scalar part is not.

    Returns
    -------
    ndarray of float64, shape (h, w)

    Notes
    -----
    ``conj(a) b`` with ``a = (2 conj(mu_X) mu_Y + C_1) / (|mu_X|^2 + |mu_Y|^2 + C_1)`` and
    ``b = (2 sigma_XY + C_2) / (sigma_X^2 + sigma_Y^2 + C_2)`` [QMCIF, Eq. (2)], [QMCIF, Definition 5].

    Departs: printed as a quaternion with the product of two deviations in ``b``. Following its source (Kolaman and Yadid-Pecht 2012)
    ``sigma_XY`` is the quaternion cross covariance ``E[conj(x) y]``, and one real number stands for the result.
    """
    light = _multiply_pure(first.mean, second.mean)
    structure = window_mean(_multiply_pure(first.image, second.image), side_px=side_px) - light
    for numerator in (light, structure):
        numerator *= 2
        # the constants are real
        numerator[0] += STABILIZER
    total = (first.light + second.light + STABILIZER) * (first.spread + second.spread + STABILIZER)
    # the scalar part of conj(a) b is the inner product of the two as vectors of four
    value = np.einsum("cyx,cyx->yx", light, structure) if part is SimilarityPart.SCALAR else modulus(light) * modulus(structure)
    similarity: FloatArray = value / total
    return similarity


def _multiply_pure(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return ``conj(x) y``, shape (4, h, w), of two pure blocks, shape (3, h, w)."""
    (b, c, d), (f, g, h) = first, second
    return np.stack((b * f + c * g + d * h, d * g - c * h, b * h - d * f, c * f - b * g))
