"""Compare two color images window by window, without splitting their channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config import SimilarityPart
from qmcif_engine.patches import window_mean

if TYPE_CHECKING:
    from qmcif_engine.array_types import FloatArray

STABILIZER = (0.001 * 255) ** 2
"""``C_1`` and ``C_2``: "as small as possible", yet above the rounding of float32 window moments on the 0-255 scale."""


@dataclass(frozen=True, slots=True)
class WindowMoments:
    """Hold the first two moments of a pure quaternion image over every window.

    Attributes
    ----------
    planes : ndarray of float, shape (3, h, w)
        The image itself, less its overall mean.
    offset : ndarray of float, shape (3, 1, 1)
        That mean, taken off so that the moments do not cancel in float32.
    mean : ndarray of float, shape (3, h, w)
        Window mean of `planes`.
    variance : ndarray of float, shape (h, w)
    side_px : int
    """

    planes: FloatArray
    offset: FloatArray
    mean: FloatArray
    variance: FloatArray
    side_px: int


def window_moments(planes: FloatArray, *, offset: FloatArray, side_px: int) -> WindowMoments:
    """Return mean and variance over the window centered on each pixel; compare only moments made with equal `offset` and side."""
    centered = planes - offset
    mean = window_mean(centered, side_px=side_px)
    power = window_mean(np.einsum("cyx,cyx->yx", centered, centered), side_px=side_px)
    variance = np.maximum(power - np.einsum("cyx,cyx->yx", mean, mean), 0)
    return WindowMoments(centered, offset, mean, variance, side_px)


def quaternion_similarity(first: WindowMoments, second: WindowMoments, *, part: SimilarityPart) -> FloatArray:
    """Return ``Q_SSIM`` of two images over every window, shape (h, w), at most 1.

    Parameters
    ----------
    first, second : WindowMoments
    part : SimilarityPart
        The modulus is blind to inverted contrast and to texture that moves from red to green; the scalar part is not.

    Notes
    -----
    ``conj(a) b`` with ``a = (2 conj(mu_X) mu_Y + C_1) / (|mu_X|^2 + |mu_Y|^2 + C_1)`` and
    ``b = (2 sigma_XY + C_2) / (sigma_X^2 + sigma_Y^2 + C_2)`` [QMCIF, Eq. (2)], [QMCIF, Definition 5].

    Departs: printed as a quaternion with the product of two deviations in ``b``. Following its source (Kolaman and Yadid-Pecht 2012)
    ``sigma_XY`` is the quaternion cross covariance ``E[conj(x) y]``, and one real number stands for the result.
    """
    mean_first, mean_second = first.mean + first.offset, second.mean + second.offset
    luminance = 2 * _conjugate_product(mean_first, mean_second)
    luminance[0] += STABILIZER
    luminance /= _power(mean_first) + _power(mean_second) + STABILIZER
    products = _conjugate_product(first.planes, second.planes)
    structure = 2 * (window_mean(products, side_px=first.side_px) - _conjugate_product(first.mean, second.mean))
    structure[0] += STABILIZER
    structure /= first.variance + second.variance + STABILIZER
    if part is SimilarityPart.SCALAR:
        # the scalar part of conj(a) b is the inner product of the two as vectors of four
        scalar: FloatArray = np.einsum("cyx,cyx->yx", luminance, structure)
        return scalar
    return np.sqrt(_power(luminance) * _power(structure))


def _conjugate_product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return ``conj(x) y`` of two pure blocks (3, h, w), with all four planes: the inner and the negative outer product."""
    (b, c, d), (f, g, h) = left, right
    return np.stack((b * f + c * g + d * h, d * g - c * h, b * h - d * f, c * f - b * g))


def _power(planes: FloatArray) -> FloatArray:
    squares: FloatArray = np.einsum("cyx,cyx->yx", planes, planes)
    return squares
