"""Compare two color images window by window, without splitting their channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config import SimilarityPart
from qmcif_engine.patches import window_mean
from qmcif_engine.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.array_types import FloatArray

STABILIZER = (0.001 * FULL_SCALE) ** 2
"""``C_1`` and ``C_2``: "as small as possible", yet far above the rounding of the window moments."""


@dataclass(frozen=True, slots=True)
class WindowMoments:
    """Hold a pure quaternion image with its first two moments over every window, in float64.

    float64, because in float32 the difference of two large squares would leave more rounding than variance in a bright flat area.

    Attributes
    ----------
    planes, mean : ndarray of float64, shape (3, h, w)
    variance : ndarray of float64, shape (h, w)
    side_px : int
    """

    planes: FloatArray
    mean: FloatArray
    variance: FloatArray
    side_px: int


def window_moments(planes: FloatArray, *, side_px: int) -> WindowMoments:
    """Return mean and variance over the window centered on each pixel."""
    precise = planes.astype(np.float64)
    mean = window_mean(precise, side_px=side_px)
    variance = np.maximum(window_mean(_power(precise), side_px=side_px) - _power(mean), 0)
    return WindowMoments(precise, mean, variance, side_px)


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
    product_of_means = _conjugate_product(first.mean, second.mean)
    mean_of_products = window_mean(_conjugate_product(first.planes, second.planes), side_px=first.side_px)
    structure = 2 * (mean_of_products - product_of_means)
    luminance = 2 * product_of_means
    luminance[0] += STABILIZER
    luminance /= _power(first.mean) + _power(second.mean) + STABILIZER
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
