"""Image-domain linear operators of QFED: gradients, their adjoint and the screened solve."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its parts are loaded when they are first used, and most runs use none of them here

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray

SPATIAL_AXES = (-2, -1)


def gradients(planes: FloatArray) -> FloatArray:
    """Return the vertical and the horizontal forward difference of each plane.

    Parameters
    ----------
    planes : ndarray of float, shape (..., h, w)

    Returns
    -------
    ndarray of float, shape (2, ..., h, w)
        ``nabla_1`` (between rows) and ``nabla_2`` (between columns) [QMCIF, Eq. (3)].

    Notes
    -----
    Departs: the image continues by reflection, so the last difference is zero; the paper's periodic condition compares opposite
    borders of the image with each other and misleads every decision there.
    """
    result = np.empty((2, *planes.shape), planes.dtype)
    np.subtract(planes[..., 1:, :], planes[..., :-1, :], out=result[0, ..., :-1, :])
    np.subtract(planes[..., :, 1:], planes[..., :, :-1], out=result[1, ..., :, :-1])
    result[0, ..., -1, :] = 0
    result[1, ..., :, -1] = 0
    return result


def gradients_adjoint(fields: FloatArray) -> FloatArray:
    """Apply ``nabla_1^T`` to the first and ``nabla_2^T`` to the second field and add: (2, ..., h, w) to (..., h, w)."""
    vertical, horizontal = fields
    result = np.zeros(vertical.shape, fields.dtype)
    # minus a divergence; the last row of the field is left out, as the gradient there is zero whatever the image
    result[..., 1:, :] += vertical[..., :-1, :]
    result[..., :-1, :] -= vertical[..., :-1, :]
    result[..., :, 1:] += horizontal[..., :, :-1]
    result[..., :, :-1] -= horizontal[..., :, :-1]
    return result


def laplacian_eigenvalues(shape: tuple[int, int]) -> FloatArray:
    """Return the eigenvalues of ``nabla_1^T nabla_1 + nabla_2^T nabla_2`` in the cosine basis, shape (h, w), float64."""
    rows, columns = (2 - 2 * np.cos(np.pi * np.arange(length) / length) for length in shape)
    total: FloatArray = rows[:, None] + columns[None, :]
    return total


@lru_cache(maxsize=4)
def _inverse_factors(height: int, width: int, screening: float, dtype_name: str) -> FloatArray:
    """Return what the spectrum is multiplied by; every iteration and every image of a stack asks for the same."""
    factors: FloatArray = (1 / (laplacian_eigenvalues((height, width)) + screening)).astype(dtype_name)
    factors.flags.writeable = False
    return factors


def solve_screened(planes: FloatArray, *, screening: float) -> FloatArray:
    """Solve ``(nabla_1^T nabla_1 + nabla_2^T nabla_2 + screening) X = planes``.

    Parameters
    ----------
    planes : ndarray of float, shape (..., h, w)
    screening : float
        The positive constant that stands beside the Laplacian.

    Returns
    -------
    ndarray of float, shape (..., h, w)

    Notes
    -----
    The division in the Fourier domain of [QMCIF, Eq. (10)]. The operators are real, so the quaternion transform acts on every
    component by itself.

    Departs: the cosine transform takes the place of the Fourier transform, because it diagonalises the same operator for an image
    that continues by reflection.
    """
    height, width = planes.shape[-2:]
    # one worker: tiles run side by side, and results must not depend on a number of threads
    spectrum = scipy.fft.dctn(planes, type=2, axes=SPATIAL_AXES, norm="ortho", workers=1)
    spectrum *= _inverse_factors(height, width, screening, planes.dtype.name)
    solution: FloatArray = scipy.fft.idctn(spectrum, type=2, axes=SPATIAL_AXES, norm="ortho", workers=1, overwrite_x=True)
    return solution
