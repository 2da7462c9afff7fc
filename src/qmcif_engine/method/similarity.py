"""Similarity of two color images window by window, without splitting their channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import SimilarityPart
from qmcif_engine.kernels.cell_sums import CELL_PX, compare_moments, sum_moments
from qmcif_engine.kernels.moments import N_SUMS, compare_windows
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

STABILIZER = (0.001 * FULL_SCALE) ** 2
"""``C_1`` and ``C_2``: "as small as possible", yet far above the rounding of the window moments."""


def quaternion_similarity(first: FloatArray, second: FloatArray, *, side_px: int, part: SimilarityPart) -> FloatArray:
    """Return ``Q_SSIM`` of two images over every window that lies whole inside them, in float64, at most 1.

    Parameters
    ----------
    first, second : ndarray of float, shape (3, h, w)
    side_px : int
        Side of a window, no longer than the images.
    part : SimilarityPart
        The modulus is blind to inverted contrast and to texture that moves from red to green; the scalar part is not.

    Returns
    -------
    ndarray of float64, shape (h - side_px + 1, w - side_px + 1)

    Notes
    -----
    ``conj(a) b`` with ``a = (2 conj(mu_X) mu_Y + C_1) / (|mu_X|^2 + |mu_Y|^2 + C_1)`` and
    ``b = (2 sigma_XY + C_2) / (sigma_X^2 + sigma_Y^2 + C_2)`` [QMCIF, Eq. (2)], [QMCIF, Definition 5]. The moments are float64, because in
    float32 the difference of two large squares would leave more rounding than variance in a bright flat area.

    Departs: printed as a quaternion with the product of two deviations in ``b``. Following its source (Kolaman and Yadid-Pecht 2012)
    ``sigma_XY`` is the quaternion cross covariance ``E[conj(x) y]``, and one real number stands for the result.
    """
    height, width = (length - side_px + 1 for length in first.shape[-2:])
    similarity = np.empty((height, width))
    # the scalar part of conj(a) b is the inner product of the two as vectors of four
    compare_windows(first, second, side_px, STABILIZER, part is SimilarityPart.SCALAR, similarity)
    return similarity


def moments_of_cells(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return what the similarity of two images that consist of whole cells depends on: twelve sums over each cell."""
    # (rows, sums, columns): a row of cells is contiguous for each of the sums
    moments = np.empty((first.shape[-2] // CELL_PX, N_SUMS, first.shape[-1] // CELL_PX))
    sum_moments(first, second, moments)
    return moments


def moments_of_pair(moments: FloatArray) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return the sums of each of two images beside each of the two, from those of the first beside the second.

    ``conj(y) x`` is the conjugate of ``conj(x) y``, and ``conj(x) x`` the power of ``x``.
    """
    # sums of x and of y (3 each), of their powers (2), of the scalar part (1) and vector part (3) of conj(x) y
    first, second, powers, inner, outer = np.split(moments, (3, 6, 8, 9), axis=1)
    power, other_power, none = powers[:, :1], powers[:, 1:], np.zeros_like(outer)
    alone = np.concatenate((first, first, power, power, power, none), axis=1)
    other_alone = np.concatenate((second, second, other_power, other_power, other_power, none), axis=1)
    swapped = np.concatenate((second, first, other_power, power, inner, -outer), axis=1)
    return (alone, moments), (swapped, other_alone)


def similarity_of_cells(moments: FloatArray, *, side_cells: int, part: SimilarityPart) -> FloatArray:
    """Return `quaternion_similarity` over every window of so many cells a side, from the sums over each cell."""
    height, width = (length - side_cells + 1 for length in (moments.shape[0], moments.shape[2]))
    similarity = np.empty((height, width))
    compare_moments(moments, side_cells, STABILIZER, part is SimilarityPart.SCALAR, similarity)
    return similarity
