"""Positions of pixels between the images of a stack: where along them the focus level has its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.method.focus import NEGLIGIBLE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, IndexArray

FARTHEST_SHIFT = 0.5
"""A peak farther from the chosen image than this would belong to its neighbor."""


def interpolate_position(levels: Iterable[FloatArray], winner: IndexArray) -> NDArray[np.float32]:
    """Return where along the stack each pixel is sharpest, counted in images from 0 and finer than whole images.

    A fold: three planes are held, however many images there are.

    Parameters
    ----------
    levels : iterable of ndarray of float, shape (h, w)
        Detail-scale focus levels, one per image, in the order of the stack.
    winner : ndarray of uint16, shape (h, w)
        The image that gives each pixel.

    Returns
    -------
    ndarray of float32, shape (h, w)

    Notes
    -----
    The peak of the Gaussian through the levels ``a, b, c`` of the image before, the chosen one and the one after:
    ``(ln a - ln c) / (2 (ln a - 2 ln b + ln c))``, within `FARTHEST_SHIFT`. Where the three have no peak, because clean-up chose another
    image than the sharpest, it is that far towards the larger neighbor. The first and the last image have one neighbor, which does not
    tell a peak: there the position is the image's own.
    """
    # images that do not exist count as without any focus
    before, chosen, after = (np.full(winner.shape, np.log(NEGLIGIBLE_LEVEL), np.float32) for _ in range(3))
    n_images = 0
    for number, level in enumerate(levels):
        logarithm = np.log(np.maximum(level, NEGLIGIBLE_LEVEL), dtype=np.float32)
        # this image comes before the chosen one where the winner is the next number
        for plane, offset in ((before, 1), (chosen, 0), (after, -1)):
            np.copyto(plane, logarithm, where=winner == number + offset)
        n_images += 1
    slope, curvature = after - before, before - 2 * chosen + after
    # without a peak: one image towards the larger neighbor, which the clip below makes FARTHEST_SHIFT
    shift = np.divide(-slope, 2 * curvature, out=np.sign(slope), where=curvature < 0)
    np.clip(shift, -FARTHEST_SHIFT, FARTHEST_SHIFT, out=shift)
    shift[(winner == 0) | (winner == n_images - 1)] = 0
    position: NDArray[np.float32] = winner + shift
    return position
