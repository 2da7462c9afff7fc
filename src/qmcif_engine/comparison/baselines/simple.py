"""Two simple methods: the guided filter and the Laplacian pyramid.

Guided filter: weights from saliency, which follow the edges of the image by a guided filter at two scales. Shutao Li, Xudong Kang and
Jianwen Hu, *Image fusion with guided filtering*, IEEE Transactions on Image Processing 22 (2013) 2864–2875, with the parameters of its
section IV.

Laplacian pyramid: of each coefficient the largest modulus, of the coarsest level the mean; channel by channel. Peter J. Burt and Edward H.
Adelson, *The Laplacian pyramid as a compact image code*, IEEE Transactions on Communications 31 (1983) 532–540, with the rule of Burt and
Kolczynski (1993) that coefficients are compared by their energy in a small window.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.baselines import Baseline

BASE_WINDOW_PX = 31
SALIENCY_RADIUS_PX = 5
SALIENCY_SIGMA_PX = 5.0
BASE_GUIDE = (45, 0.3)
"""Radius and regularization of the guided filter for the weights of base layers."""

DETAIL_GUIDE = (7, 1e-6)
"""Radius and regularization for the weights of detail layers."""

LEAST_WEIGHT = 1e-9
"""Keeps the sum of weights from zero."""

N_LEVELS = 4
ENERGY_WINDOW_PX = 3
TAPS = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16  # Burt's kernel with a = 3 / 8, a Gaussian nearly


def guide_filter(weights: FloatArray, guide: FloatArray, *, radius_px: int, regularization: float) -> FloatArray:
    """Return weights, shape (h, w), as the local linear function of the guide that comes nearest to them (He, Sun and Tang 2010)."""
    mean_guide, mean_weights = _window_mean(guide, radius_px), _window_mean(weights, radius_px)
    variance = _window_mean(guide * guide, radius_px) - mean_guide**2
    covariance = _window_mean(guide * weights, radius_px) - mean_guide * mean_weights
    slope = covariance / (np.maximum(variance, 0) + regularization)
    offset = mean_weights - slope * mean_guide
    # a pixel lies in many windows, each with a line of its own: the mean of the lines counts
    return _window_mean(slope, radius_px) * guide + _window_mean(offset, radius_px)


def _window_mean(plane: FloatArray, radius_px: int) -> FloatArray:
    """Average over the part of each window that lies in the image."""
    side = 2 * radius_px + 1
    # zeros outside enter both sums, and cancel in their ratio
    total = ndimage.uniform_filter(plane, side, mode="constant")
    share = ndimage.uniform_filter(np.ones_like(plane), side, mode="constant")
    mean: FloatArray = total / share
    return mean


def fuse_by_guided_filter(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse images, shape (N, C, h, w)."""
    gray = stack.mean(axis=1)
    saliency = np.stack(
        [ndimage.gaussian_filter(np.abs(ndimage.laplace(plane)), SALIENCY_SIGMA_PX, radius=SALIENCY_RADIUS_PX) for plane in gray]
    )
    # one binary map serves both scales; only how far it is smoothed differs
    winner = saliency.argmax(axis=0)
    base = ndimage.uniform_filter(stack, BASE_WINDOW_PX, axes=(-2, -1))
    fused = np.zeros(stack.shape[1:])
    for layers, (radius_px, regularization) in ((base, BASE_GUIDE), (stack - base, DETAIL_GUIDE)):
        check_cancelled()
        weights = np.stack(
            [
                guide_filter((winner == number).astype(float), plane, radius_px=radius_px, regularization=regularization)
                for number, plane in enumerate(gray)
            ]
        )
        # a line can leave 0 to 1
        weights = np.clip(weights, 0, 1) + LEAST_WEIGHT
        weights /= weights.sum(axis=0)
        fused += (weights[:, None] * layers).sum(axis=0)
    return fused


GUIDED_FILTERING = Baseline(
    name="guided-filter",
    label="guided filter",
    paper="Li, Kang and Hu, Image fusion with guided filtering, IEEE TIP 2013",
    fuse_planes=fuse_by_guided_filter,
)


def fuse_by_pyramid(stack: FloatArray, check_cancelled: Callable[[], None], n_levels: int = N_LEVELS) -> FloatArray:
    """Fuse images, shape (N, C, h, w), of which the coarsest level is averaged."""
    check_cancelled()
    shape = stack.shape[-2:]
    # a side of one pixel cannot be halved
    if n_levels == 0 or min(shape) == 1:
        coarsest: FloatArray = stack.mean(axis=0)
        return coarsest
    coarse = _smooth(stack)[..., ::2, ::2]
    detail = stack - _expand(coarse, shape)
    # coefficients alternate in sign and cross 0 on every edge: energy in a window does not
    winner = ndimage.uniform_filter(detail**2, ENERGY_WINDOW_PX, axes=(-2, -1)).argmax(axis=0)
    finer = _expand(fuse_by_pyramid(coarse, check_cancelled, n_levels - 1), shape)
    fused: FloatArray = finer + np.take_along_axis(detail, winner[None], axis=0)[0]
    return fused


def _smooth(planes: FloatArray) -> FloatArray:
    for axis in (-2, -1):
        planes = ndimage.correlate1d(planes, TAPS, axis=axis, mode="mirror")
    return planes


def _expand(coarse: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Bring a level back to the size of the finer one."""
    spread, present = np.zeros((*coarse.shape[:-2], *shape)), np.zeros(shape)
    # samples with zeros between them; smoothing interpolates
    spread[..., ::2, ::2], present[::2, ::2] = coarse, 1
    return _smooth(spread) / _smooth(present)  # the divisor is 1/4 but at a border that a small level ends near


LAPLACIAN_PYRAMID = Baseline(
    name="laplacian-pyramid",
    label="Laplacian pyramid",
    paper="Burt and Adelson, The Laplacian pyramid as a compact image code, IEEE Transactions on Communications 1983",
    fuse_planes=fuse_by_pyramid,
)
