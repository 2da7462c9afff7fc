"""Closed-form matting: shares of a foreground in a band of unknown pixels, from the colors of the image and what is known around it.

Anat Levin, Dani Lischinski and Yair Weiss, *A closed-form solution to natural image matting*, IEEE Transactions on Pattern Analysis and
Machine Intelligence 30 (2008) 228–242.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import spsolve

if TYPE_CHECKING:
    from qmcif_engine.arrays import BoolArray, FloatArray

WINDOW_PX = 3
REGULARIZATION = 1e-4
"""Least variance of the colors of a window, for samples from 0 to 1."""


def solve_matte(image: FloatArray, known: FloatArray, is_unknown: BoolArray) -> FloatArray:
    """Return the share of the foreground at each pixel, shape (h, w), from 0 to 1.

    Parameters
    ----------
    image : ndarray of float, shape (C, h, w)
    known : ndarray of float, shape (h, w)
        The share where it is known.
    is_unknown : ndarray of bool, shape (h, w)
    """
    matte: FloatArray = np.array(known, float, order="C")
    if not is_unknown.any() or min(matte.shape) < WINDOW_PX:
        return matte
    laplacian = _matting_laplacian(image, is_unknown)
    asked, given = np.flatnonzero(is_unknown), np.flatnonzero(~is_unknown)
    # known pixels move to the right side; only the band is solved for
    rows = laplacian[asked]
    right = -(rows[:, given] @ matte.ravel()[given])
    system = rows[:, asked].tocsc()
    # a region of unknown pixels that touches nothing known stays at one half
    system.setdiag(system.diagonal() + REGULARIZATION**2)
    solved = spsolve(system, right + 0.5 * REGULARIZATION**2)
    matte.ravel()[asked] = np.clip(solved, 0, 1)
    return matte


def _matting_laplacian(image: FloatArray, is_unknown: BoolArray) -> csr_array:
    """Return the matting Laplacian of the windows that touch an unknown pixel, shape (h w, h w)."""
    n_channels, height, width = image.shape
    reach = WINDOW_PX // 2
    # windows by their center, those that lie in the image
    near = ndimage.binary_dilation(is_unknown, np.ones((WINDOW_PX, WINDOW_PX)))[reach:-reach, reach:-reach]
    numbers = np.arange(height * width).reshape(height, width)
    members = np.lib.stride_tricks.sliding_window_view(numbers, (WINDOW_PX, WINDOW_PX))[near].reshape(-1, WINDOW_PX**2)
    colors = image.reshape(n_channels, -1).T[members]  # (windows, 9, C)
    centered = colors - colors.mean(axis=1, keepdims=True)
    size = WINDOW_PX**2
    covariance = np.einsum("wic,wid->wcd", centered, centered) / size + REGULARIZATION / size * np.eye(n_channels)
    shares = np.einsum("wic,wcd,wjd->wij", centered, np.linalg.inv(covariance), centered, optimize=True)
    # the matting Laplacian of each window; pixels that share several windows add up in the sparse matrix
    values = np.eye(size) - (1 + shares) / size
    rows, columns = np.repeat(members, size, axis=1), np.tile(members, (1, size))
    return csr_array(coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(height * width, height * width)))
