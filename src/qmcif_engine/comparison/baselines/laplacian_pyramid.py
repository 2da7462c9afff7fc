"""Laplacian pyramid fusion: of each coefficient the largest modulus, of the coarsest level the mean; channel by channel.

Peter J. Burt and Edward H. Adelson, *The Laplacian pyramid as a compact image code*, IEEE Transactions on Communications 31 (1983)
532–540, with the rule of Burt and Kolczynski (1993) that coefficients are compared by their energy in a small window.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage

from qmcif_engine.arrays import FloatArray
from qmcif_engine.comparison.baselines.baseline import Baseline, each_channel, take_largest

N_LEVELS = 4
WINDOW_PX = 3
TAPS = np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16  # Burt's kernel with a = 3 / 8, a Gaussian nearly


def fuse_gray(stack: FloatArray, check_cancelled: Callable[[], None]) -> FloatArray:
    """Fuse gray images, shape (N, h, w)."""
    return _fuse_level(stack, N_LEVELS, check_cancelled)


def _fuse_level(level: FloatArray, n_left: int, check_cancelled: Callable[[], None]) -> FloatArray:
    check_cancelled()
    # a side of one pixel cannot be halved
    if n_left == 0 or min(level.shape[1:]) == 1:
        coarsest: FloatArray = level.mean(axis=0)
        return coarsest
    shape = (level.shape[1], level.shape[2])
    coarse = _smooth(level)[:, ::2, ::2]
    detail = level - _expand(coarse, shape)
    # coefficients alternate in sign and cross 0 on every edge: energy in a window does not
    energy = ndimage.uniform_filter(detail**2, WINDOW_PX, axes=(-2, -1))
    finer: FloatArray = _expand(_fuse_level(coarse, n_left - 1, check_cancelled)[None], shape)[0]
    return finer + take_largest(energy, detail)


def _smooth(planes: FloatArray) -> FloatArray:
    for axis in (-2, -1):
        planes = ndimage.correlate1d(planes, TAPS, axis=axis, mode="mirror")
    return planes


def _expand(coarse: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Bring a level back to the size of the finer one."""
    spread = np.zeros((len(coarse), *shape))
    # samples with zeros between them; smoothing interpolates
    spread[:, ::2, ::2] = coarse
    present = np.zeros((1, *shape))
    present[:, ::2, ::2] = 1
    return _smooth(spread) / _smooth(present)  # the divisor is 1/4 but at a border that a small level ends near


LAPLACIAN_PYRAMID = Baseline(
    name="laplacian-pyramid",
    label="Laplacian pyramid",
    paper="Burt and Adelson, The Laplacian pyramid as a compact image code, IEEE Transactions on Communications 1983",
    fuse_planes=each_channel(fuse_gray),
)
