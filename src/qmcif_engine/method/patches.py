"""Patches of an image: base patches as the columns of a matrix, their groups, and means over the window around each pixel.

Base patches do not overlap and cover the image, so that every pixel lies in exactly one of them: cutting is a permutation, its
inverse is exact, and the constant 2 of the base update is too. Detail patches lie on the dense grid, one centered on each pixel.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy import ndimage
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray
    from qmcif_engine.config.fusion_config import MethodConfig

_Sample = TypeVar("_Sample", bound=np.generic)

PIXEL_SHARE = 5e-5
"""Published side of a detail patch, as a share of the number of pixels (section IV-A)."""

SMALLEST_DETAIL_PATCH_PX, LARGEST_DETAIL_PATCH_PX = 3, 99
"""Limits of that side."""

LLOYD_ITERATIONS = 20
"""Iterations of k-means: groups need not be optimal, only alike."""

_fitting = threading.Lock()
"""Python's warning filters belong to the process; two threads that change them at once would leave them changed."""


def pad_to_grid(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Extend ``(..., h, w)`` at its lower and right side by reflection until whole patches cover it.

    Reflection repeats the border pixel, as the solver's boundary condition does; it works for images smaller than a patch.
    """
    rows, columns = (-length % patch_px for length in planes.shape[-2:])
    widths = [(0, 0)] * (planes.ndim - 2) + [(0, rows), (0, columns)]
    return np.pad(planes, widths, mode="symmetric")


def cut_patches(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Stack the patches of an image as the columns of a matrix.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
        Both sides multiples of `patch_px`.
    patch_px : int

    Returns
    -------
    ndarray of float, shape (c * d, P)
        ``d = patch_px**2`` rows per component, ``P`` patches in row-major order.

    Notes
    -----
    The operator ``R`` of [QMCIF, Eq. (3)].
    """
    c, h, w = planes.shape
    grid = planes.reshape(c, h // patch_px, patch_px, w // patch_px, patch_px)
    # (component, row in patch, column in patch, row of patches, column of patches)
    return grid.transpose(0, 2, 4, 1, 3).reshape(c * patch_px**2, -1)


def join_patches(columns: FloatArray, *, shape: tuple[int, int], patch_px: int) -> FloatArray:
    """Put the columns of `cut_patches` back: shape (c * d, P) to (c, h, w); ``R^-1`` of [QMCIF, Eq. (9)]."""
    rows_of_patches, columns_of_patches = shape[0] // patch_px, shape[1] // patch_px
    grid = columns.reshape(-1, patch_px, patch_px, rows_of_patches, columns_of_patches)
    return grid.transpose(0, 3, 1, 4, 2).reshape(-1, *shape)


def group_patches(patches: FloatArray, *, n_groups: int, seed: int) -> tuple[NDArray[np.intp], ...]:
    """Return the column numbers of each group of similar patches, found by k-means.

    Parameters
    ----------
    patches : ndarray of float, shape (rows, P)
        One patch per column.
    n_groups : int
        ``K``; fewer where there are fewer distinct patches.
    seed : int

    Returns
    -------
    tuple of ndarray of int
        Non-empty groups that together name every column once.

    Notes
    -----
    The groups ``R(B)_k`` of [QMCIF, Eq. (3)], formed once from the initial base layer: regrouping would change the problem and void the
    descent of its Lagrangian. One OpenMP thread, because the sums of several would depend on their number.
    """
    # a second of import time that the default never needs
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # scikit-learn wants one sample per row
    columns = np.ascontiguousarray(patches.T)
    model = KMeans(min(n_groups, len(columns)), n_init=1, max_iter=LLOYD_ITERATIONS, random_state=seed)
    with _fitting, threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        # flat areas have fewer distinct patches than groups
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.fit(columns).labels_
    groups = (np.flatnonzero(labels == label) for label in range(model.n_clusters))
    return tuple(members for members in groups if len(members))


def sum_patches(plane: FloatArray, *, patch_px: int) -> FloatArray:
    """Sum ``(h, w)`` over each base patch, in float64, giving (h / patch_px, w / patch_px)."""
    h, w = plane.shape
    grid = plane.reshape(h // patch_px, patch_px, w // patch_px, patch_px)
    total: FloatArray = grid.sum(axis=(1, 3), dtype=np.float64)
    return total


def spread_patches(values: NDArray[_Sample], *, shape: tuple[int, int], patch_px: int) -> NDArray[_Sample]:
    """Give every pixel of an image of this shape the value of its base patch."""
    rows, columns = (np.arange(length) // patch_px for length in shape)
    return values[np.ix_(rows, columns)]


def window_mean(planes: FloatArray, *, side_px: int) -> FloatArray:
    """Average ``(..., h, w)`` over the window centered on each pixel; the image continues by reflection."""
    averaged: FloatArray = ndimage.uniform_filter(planes, (1,) * (planes.ndim - 2) + (side_px, side_px), mode="reflect")
    return averaged


def count_in_windows(is_marked: BoolArray, *, side_px: int) -> FloatArray:
    """Return the number of marked pixels in the window centered on each pixel, whole numbers as float32."""
    # rounded, so that equal numbers compare as equal
    counts: FloatArray = np.rint(window_mean(is_marked.astype(np.float32), side_px=side_px) * np.float32(side_px**2))
    return counts


def detail_patch_side(shape: tuple[int, int], config: MethodConfig) -> int:
    """Return the odd side, in pixels, of a detail patch for an image of this shape.

    Notes
    -----
    ``5e-5 M N`` [QMCIF, section IV-A].

    Departs: kept within `SMALLEST_DETAIL_PATCH_PX` and `LARGEST_DETAIL_PATCH_PX`, because the rule gives 1200 px for 24 megapixels; made
    odd, so that a patch has a central pixel; and no larger than the image.
    """
    by_rule = min(max(round(PIXEL_SHARE * shape[0] * shape[1]), SMALLEST_DETAIL_PATCH_PX), LARGEST_DETAIL_PATCH_PX)
    fitting = min(config.detail_patch_px or by_rule, *shape)
    # one less where even
    return fitting - (fitting + 1) % 2
