"""Focus measures of each patch of an image at two scales: section III-B.2 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qmcif_engine.method.operators import gradients
from qmcif_engine.method.patches import pad_to_grid, sum_patches, window_mean
from qmcif_engine.method.quaternion import modulus
from qmcif_engine.method.solver import decompose
from qmcif_engine.stack.samples import FULL_SCALE
from qmcif_engine.stack.window import Window, cut_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import MethodConfig
    from qmcif_engine.method.solver import Decomposition

NEGLIGIBLE_LEVEL = 4e-6
"""Detail-scale levels below this are the rounding of the solve and of the window means, not focus."""

SOLVE_MARGIN_PX = 24
"""The screened solve forgets what is this far away: the detail layer then changes by less than a hundredth of a gray level."""


class ImageFocus(NamedTuple):
    """Focus levels of one image: the larger, the sharper.

    Attributes
    ----------
    base : ndarray of float64, shape (rows, columns)
        One level per base patch.
    detail : ndarray of float, shape (h, w)
        Level of the detail patch centered on each pixel, before saturation.
    """

    base: FloatArray
    detail: FloatArray


def amplify_detail(detail: FloatArray, *, radius_px: int) -> FloatArray:
    """Sum the detail layer over the window around each pixel.

    Parameters
    ----------
    detail : ndarray of float, shape (3, h, w)
    radius_px : int
        ``r``; the window has ``2 r + 1`` pixels a side.

    Returns
    -------
    ndarray of float, shape (3, h, w)

    Notes
    -----
    ``D_s(x, y) = sum D(x + s, y + t)`` over ``|s|, |t| <= r`` [QMCIF, Eq. (13)].
    """
    side = 2 * radius_px + 1
    # a sum is the mean times the number of pixels
    return window_mean(detail, side_px=side) * np.asarray(side**2, detail.dtype)


def gradient_level(layer: FloatArray) -> FloatArray:
    """Return ``|nabla_1 d| + |nabla_2 d|`` at each pixel, shape (h, w): the summand of the l1 norms in both measures."""
    vertical, horizontal = gradients(layer)
    level: FloatArray = modulus(vertical) + modulus(horizontal)
    return level


def base_focus(decomposition: Decomposition, *, base_patch_px: int, coefficient_weight: float) -> FloatArray:
    """Return the base-scale focus level of each base patch, on the grid padded to whole patches.

    Notes
    -----
    ``l_B = ||nabla_1 d||_1 + ||nabla_2 d||_1 + theta ||z||_2`` [QMCIF, Eq. (14)]; without the low-rank term there is no ``z``.

    Departs: the gradients are taken on the whole layer before patches are cut, so a patch sees the step to its right and lower
    neighbor.
    """
    level = gradient_level(decomposition.detail)
    focus = sum_patches(pad_to_grid(level, patch_px=base_patch_px), patch_px=base_patch_px)
    if decomposition.coefficients is not None:
        # squares of many coefficients, summed in float64
        energy = np.einsum("clp,clp->p", decomposition.coefficients, decomposition.coefficients, dtype=np.float64)
        focus += coefficient_weight * np.sqrt(energy).reshape(focus.shape)
    return focus


def detail_focus(detail: FloatArray, *, detail_patch_px: int, radius_px: int) -> FloatArray:
    """Return the detail-scale focus level of the patch centered on each pixel, shape (h, w), before saturation.

    Notes
    -----
    The argument of ``phi`` in [QMCIF, Eq. (15)].

    Departs: the mean over the patch on the 0-1 scale takes the place of the sum, because ``phi`` of the sum is 1 for every image;
    levels below `NEGLIGIBLE_LEVEL` are zero.
    """
    moduli = gradient_level(amplify_detail(detail, radius_px=radius_px))
    # gray levels of 0-255 to 0-1, for which the published gamma is meant
    level = window_mean(moduli, side_px=detail_patch_px) / np.asarray(FULL_SCALE, detail.dtype)
    level[level < NEGLIGIBLE_LEVEL] = 0
    return level


def saturate(level: FloatArray, *, saturation: float) -> FloatArray:
    """Return ``phi(x) = 1 - exp(-x / gamma)``, the enhanced detail-scale level of [QMCIF, Eq. (15)].

    Departs: images are compared before saturation, which cannot change their order but can make them equal; it shapes the weights of
    the refinement only.
    """
    # exact for small levels too, where 1 - exp would cancel
    return -np.expm1(-level / np.asarray(saturation, level.dtype))


def measure_focus(
    image: FloatArray, config: MethodConfig, *, detail_patch_px: int, part_px: int, check_cancelled: Callable[[], None] = lambda: None
) -> ImageFocus:
    """Decompose an image and return its focus levels at both scales.

    An image of more than `part_px` squared pixels is decomposed in equal parts of about that size, each with `SOLVE_MARGIN_PX` around
    it: singular values grow with the number of patches, so that the published parameters mean what they mean at about the published
    image size, and memory stays small.

    Parameters
    ----------
    image : ndarray of float, shape (3, h, w)
    config : MethodConfig
    detail_patch_px, part_px : int
    check_cancelled : callable
    """
    shape, patch = (image.shape[-2], image.shape[-1]), config.base_patch_px
    # whole patches, so that those of a part lie on the grid of the image
    margin = -(-SOLVE_MARGIN_PX // patch) * patch
    rows, columns = (cut_side(side, shape=shape, tile_px=part_px, multiple_of=patch) for side in shape)
    base_level = np.empty([-(-side // patch) for side in shape])
    detail = np.empty(image.shape, config.precision.value)
    for core in (Window(top, left, bottom, right) for top, bottom in rows for left, right in columns):
        padded = core.grown(margin, shape)
        layers = decompose(np.ascontiguousarray(image[:, *padded.slices]), config, check_cancelled=check_cancelled)
        level = base_focus(layers, base_patch_px=patch, coefficient_weight=config.coefficient_weight)
        inner = core.relative_to(padded)
        base_level[_in_patches(core, patch).slices] = level[_in_patches(inner, patch).slices]
        detail[:, *core.slices] = layers.detail[:, *inner.slices]
    return ImageFocus(base_level, detail_focus(detail, detail_patch_px=detail_patch_px, radius_px=config.amplification_radius_px))


def _in_patches(window: Window, patch_px: int) -> Window:
    """Return which base patches a window covers that starts on a patch."""
    return Window(window.top // patch_px, window.left // patch_px, -(-window.bottom // patch_px), -(-window.right // patch_px))
