"""MGIMF: morphological gradients of several scales segment the image, matting draws the boundary.

Jun Chen, Xuejiao Li, Linbo Luo and Jiayi Ma, *Multi-focus image fusion based on multi-scale gradients and image matting*, IEEE Transactions
on Multimedia 24 (2022) 655–667. The gradient of a scale is the larger of the top-hat and the bottom-hat transform; scales are weighted as
in Yu Zhang, Xiangzhi Bai and Tao Wang, *Boundary finding based multi-focus image fusion through multi-scale morphological focus-measure*,
Information Fusion 35 (2017) 81–101. Closed-form matting is that of Anat Levin, Dani Lischinski and Yair Weiss, IEEE Transactions on
Pattern Analysis and Machine Intelligence 30 (2008) 228–242. The window sizes and the smallest region are ours: the abstract does not give
them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import spsolve

from qmcif_engine.arrays import BoolArray, FloatArray
from qmcif_engine.comparison.baselines import Baseline

N_SCALES = 4
FOCUS_WINDOW_PX = 17
SMALLEST_REGION_SHARE = 0.005
"""Regions of the first segmentation below this share of the image go to what surrounds them."""

BAND_PX = 8
"""Half the width of the band along boundaries that matting draws anew."""

MATTING_WINDOW_PX = 3
REGULARIZATION = 1e-4
"""Least variance of the colors of a window, for samples from 0 to 1."""


def measure_focus(gray: FloatArray) -> FloatArray:
    """Return the focus of each pixel of a gray image, shape (h, w)."""
    focus = np.zeros_like(gray)
    for radius in range(1, N_SCALES + 1):
        offsets = np.arange(-radius, radius + 1)
        disk = offsets[:, None] ** 2 + offsets**2 <= radius**2
        # details brighter than their surroundings, and those darker, that a disk of this radius does not fit into
        bright = gray - ndimage.grey_opening(gray, footprint=disk)
        dark = ndimage.grey_closing(gray, footprint=disk) - gray
        # the weights of Zhang, Bai and Wang: wider scales count less
        focus += np.maximum(bright, dark) / (2 * radius + 1)
    windowed: FloatArray = ndimage.uniform_filter(focus, FOCUS_WINDOW_PX)
    return windowed


def segment(focus: FloatArray) -> BoolArray:
    """Return which image each pixel belongs to, shape (N, h, w), for focus of that shape, without small regions."""
    winner = focus.argmax(axis=0)
    least = SMALLEST_REGION_SHARE * winner.size
    for number in range(len(focus)):
        regions, count = ndimage.label(winner == number)
        sizes = np.bincount(regions.ravel(), minlength=count + 1)
        is_small = (sizes < least)[regions] & (regions > 0)
        # where every region is small nothing is left to take over
        if is_small.any() and not is_small.all():
            # pixels of small regions take the number of the nearest pixel outside of them
            nearest = ndimage.distance_transform_edt(is_small, return_distances=False, return_indices=True)
            winner = winner[tuple(nearest)]
    return np.stack([winner == number for number in range(len(focus))])


def fuse_planes(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse images, shape (N, C, h, w)."""
    regions = segment(np.stack([measure_focus(gray) for gray in stack.mean(axis=1)]))
    shares = np.empty(regions.shape)
    for number, (image, region) in enumerate(zip(stack, regions, strict=True)):
        check_cancelled()
        window = np.ones((3, 3), bool)
        # the image border is no boundary between regions: it does not erode
        inside = ndimage.binary_erosion(region, window, iterations=BAND_PX, border_value=1)
        outside = ~ndimage.binary_dilation(region, window, iterations=BAND_PX)
        shares[number] = solve_matte(image, region.astype(float), ~(inside | outside))
    # every image was matted by itself, so the shares of a pixel need not add up to 1
    total = shares.sum(axis=0)
    shares = np.where(total > 0, shares / np.where(total > 0, total, 1), regions)
    fused: FloatArray = (shares[:, None] * stack).sum(axis=0)
    return fused


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
    if not is_unknown.any() or min(matte.shape) < MATTING_WINDOW_PX:
        return matte
    laplacian = _matting_laplacian(image, is_unknown)
    inside, outside = np.flatnonzero(is_unknown), np.flatnonzero(~is_unknown)
    # known pixels move to the right side; only the band is solved for
    rows = laplacian[inside]
    right = -(rows[:, outside] @ matte.ravel()[outside])
    system = rows[:, inside].tocsc()
    # a region of unknown pixels that touches nothing known stays at one half
    system.setdiag(system.diagonal() + REGULARIZATION**2)
    solved = spsolve(system, right + 0.5 * REGULARIZATION**2)
    matte.ravel()[inside] = np.clip(solved, 0, 1)
    return matte


def _matting_laplacian(image: FloatArray, is_unknown: BoolArray) -> csr_array:
    """Return the matting Laplacian of the windows that touch an unknown pixel, shape (h w, h w)."""
    n_channels, height, width = image.shape
    reach = MATTING_WINDOW_PX // 2
    # windows by their center, those that lie in the image
    near = ndimage.binary_dilation(is_unknown, np.ones((MATTING_WINDOW_PX, MATTING_WINDOW_PX)))[reach:-reach, reach:-reach]
    numbers = np.arange(height * width).reshape(height, width)
    members = np.lib.stride_tricks.sliding_window_view(numbers, (MATTING_WINDOW_PX, MATTING_WINDOW_PX))[near].reshape(
        -1, MATTING_WINDOW_PX**2
    )
    colors = image.reshape(n_channels, -1).T[members]  # (windows, 9, C)
    centered = colors - colors.mean(axis=1, keepdims=True)
    size = MATTING_WINDOW_PX**2
    covariance = np.einsum("wic,wid->wcd", centered, centered) / size + REGULARIZATION / size * np.eye(n_channels)
    shares = np.einsum("wic,wcd,wjd->wij", centered, np.linalg.inv(covariance), centered, optimize=True)
    # the matting Laplacian of each window; pixels that share several windows add up in the sparse matrix
    values = np.eye(size) - (1 + shares) / size
    rows, columns = np.repeat(members, size, axis=1), np.tile(members, (1, size))
    return csr_array(coo_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(height * width, height * width)))


MORPHOLOGICAL_GRADIENTS = Baseline(
    name="mgimf",
    label="MGIMF",
    paper="Chen, Li, Luo and Ma, Multi-focus image fusion based on multi-scale gradients and image matting, IEEE TMM 2022",
    fuse_planes=fuse_planes,
)
