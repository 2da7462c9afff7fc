"""Detail-scale focus levels of all images of a stack: weighed, compared with each other and interpolated along the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.config.fusion_config import Preference
from qmcif_engine.method.focus import NEGLIGIBLE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qmcif_engine.arrays import FloatArray, IndexArray
    from qmcif_engine.config.fusion_config import DecisionConfig

LEVELS_IN_MEMORY_BYTES = 48 * 2**20
"""Focus levels beyond this wait in a temporary file."""

FARTHEST_SHIFT = 0.5
"""A peak farther from the chosen image than this would belong to its neighbor."""


def weigh_images(n_images: int, config: DecisionConfig) -> tuple[float, ...]:
    """Return the factor on the focus levels of each image: `preference_ratio` at the preferred end of the stack, 1 at the other.

    In between it changes by the same ratio from image to image, so that neighbors in a deep stack are weighted almost alike.
    """
    if config.preference is Preference.NONE:
        return (1.0,) * n_images
    # exponents: equal steps of them are equal ratios of the weights
    exponents = np.linspace(1, 0, n_images) if config.preference is Preference.FRONT else np.linspace(0, 1, n_images)
    return tuple((config.preference_ratio**exponents).tolist())


def compare_levels(levels: Iterable[FloatArray], index: IndexArray) -> FloatArray:
    """Return the confidence in each decision: ``l / (l + m)``, with the level l of its image and the largest level m of all others.

    1 where the image alone has detail, .5 where another one has as much or none has any, less where the other scale was taken against the
    levels or patches around decided. It is no probability: the paper has no model of its errors.

    Parameters
    ----------
    levels : iterable of ndarray of float, shape (h, w)
    index : ndarray of uint16, shape (h, w)

    Returns
    -------
    ndarray of float32, shape (h, w)
    """
    own, others = np.zeros(index.shape, np.float32), np.zeros(index.shape, np.float32)
    for number, level in enumerate(levels):
        is_own = index == number
        np.copyto(own, level, where=is_own, casting="same_kind")
        np.maximum(others, level, out=others, where=~is_own, casting="same_kind")
    total = own + others
    confidence: FloatArray = np.divide(own, total, out=np.full_like(own, 0.5), where=total > 0)
    return confidence


def interpolate_position(levels: Iterable[FloatArray], index: IndexArray) -> FloatArray:
    """Return where along the stack each pixel is sharpest, counted in images from 0 and finer than whole images.

    Parameters
    ----------
    levels : iterable of ndarray of float, shape (h, w)
        Detail-scale focus levels, one per image, in the order of the stack.
    index : ndarray of uint16, shape (h, w)
        The image that gives each pixel.

    Returns
    -------
    ndarray of float32, shape (h, w)

    Notes
    -----
    The peak of the Gaussian through the levels ``a, b, c`` of the image before, the chosen one and the one after:
    ``(ln a - ln c) / (2 (ln a - 2 ln b + ln c))``, within `FARTHEST_SHIFT`. Where the three have no peak, it is that far towards the larger
    neighbor. The first and the last image have one neighbor, from which no peak follows: there the position is the image's own.
    """
    # images that do not exist count as without any focus
    before, chosen, after = (np.full(index.shape, np.log(NEGLIGIBLE_LEVEL), np.float32) for _ in range(3))
    n_images = 0
    for number, level in enumerate(levels):
        logarithm = np.log(np.maximum(level, NEGLIGIBLE_LEVEL), dtype=np.float32, casting="same_kind")
        # this image comes before the chosen one where the index is the next number
        for plane, offset in ((before, 1), (chosen, 0), (after, -1)):
            np.copyto(plane, logarithm, where=index == number + offset)
        n_images += 1
    slope, curvature = after - before, before - 2 * chosen + after
    # without a peak: one image towards the larger neighbor, which the clip below makes FARTHEST_SHIFT
    shift = np.divide(-slope, 2 * curvature, out=np.sign(slope), where=curvature < 0)
    np.clip(shift, -FARTHEST_SHIFT, FARTHEST_SHIFT, out=shift)
    shift[(index == 0) | (index == n_images - 1)] = 0
    position: FloatArray = index + shift
    return position
