"""Focus measures of each patch of an image at two scales: section III-B.2 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.gradients import add_gradient_moduli
from qmcif_engine.method.patches import pad_to_grid, sum_patches, window_mean
from qmcif_engine.stack.samples import FULL_SCALE

if TYPE_CHECKING:
    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.config.fusion_config import FocusConfig, FusionConfig
    from qmcif_engine.method.decomposition import Decomposition

NEGLIGIBLE_LEVEL = 4e-6
"""Detail-scale levels, and differences of levels, below this are the rounding of the solve and of the window sums, not focus."""

FAINT_LEVEL = 0.01
"""What defocused gradients and fine noise reach. Only what a level has above this is evidence, and may stand against larger windows."""


FINEST_WINDOW_PX = 5
"""Side of the window of `fine_focus` for clean images."""

FINE_WEIGHT = 1.0
"""What a level of that window counts beside the evidence of detail patches and larger windows."""


LEVELS_IN_MEMORY_BYTES = 48 * 2**20
"""Focus levels beyond this wait in a temporary file for the refinement, so that memory does not grow with the number of images."""

LEVEL_PIXEL_BYTES = 4
"""What the detail-scale levels of one image take per pixel."""


class WindowMean(Protocol):
    """A mean over the window around each level."""

    def __call__(self, levels: FloatArray, /, *, side_px: int, scale: float = 1.0) -> FloatArray:
        """Return the mean over a window of this side, times `scale`."""


class Borders(NamedTuple):
    """Which sides of a block lie on the border of the image; the other sides go on in it."""

    top: bool = True
    left: bool = True
    bottom: bool = True
    right: bool = True


WHOLE_IMAGE = Borders()


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
    return window_mean(detail, side_px=side, scale=side**2)


def gradient_level(layer: FloatArray, *, border_px: int, borders: Borders = WHOLE_IMAGE) -> FloatArray:
    """Return ``|nabla_1 d| + |nabla_2 d|`` at each pixel, shape (h, w): the summand of the focus measures.

    Parameters
    ----------
    layer : ndarray of float, shape (3, h, w)
    border_px : int
    borders : Borders
        The sides where the block ends because the image does.

    Notes
    -----
    Departs: within `border_px` of the image border the levels of the interior are mirrored outwards, because blurring by software
    leaves dark borders there whose edges look like focus; 0 keeps the border as it is.
    """
    level: FloatArray = np.zeros(layer.shape[-2:], layer.dtype)
    add_gradient_moduli(np.ascontiguousarray(layer), level)
    return mirror_borders(level, border_px=border_px, borders=borders)


def mirror_borders(level: FloatArray, *, border_px: int, borders: Borders) -> FloatArray:
    """Return levels, shape (h, w), whose outermost rows and columns mirror the interior, on the sides where the image ends."""
    # of a small block at most a quarter of each side, so that an interior is left to mirror
    width = min(border_px, (min(level.shape) - 1) // 4)
    if width == 0:
        return level
    top, left, bottom, right = (width if is_border else 0 for is_border in borders)
    inner = level[top : level.shape[0] - bottom, left : level.shape[1] - right]
    return np.pad(inner, ((top, bottom), (left, right)), mode="symmetric")


def base_focus(decomposition: Decomposition, *, base_patch_px: int, config: FocusConfig, borders: Borders = WHOLE_IMAGE) -> FloatArray:
    """Return the base-scale focus level of each base patch, on the grid padded to whole patches.

    Notes
    -----
    ``l_B = ||nabla_1 d||_1 + ||nabla_2 d||_1 + theta ||z||_2`` [QMCIF, Eq. (14)]; without the low-rank term there is no ``z``.

    Departs: the gradients are taken on the whole layer before patches are cut, so a patch sees the step to its right and lower
    neighbor.
    """
    level = gradient_level(decomposition.detail, border_px=config.border_px, borders=borders)
    focus = sum_patches(pad_to_grid(level, patch_px=base_patch_px), patch_px=base_patch_px)
    if decomposition.coefficients is not None:
        # squares of many coefficients, summed in float64
        energy = np.einsum("clp,clp->p", decomposition.coefficients, decomposition.coefficients, dtype=np.float64)
        focus += config.coefficient_weight * np.sqrt(energy).reshape(focus.shape)
    return focus


def detail_focus(detail: FloatArray, *, detail_patch_px: int, config: FocusConfig, borders: Borders = WHOLE_IMAGE) -> FloatArray:
    """Return the detail-scale focus level of the patch centered on each pixel, shape (h, w), before saturation.

    Notes
    -----
    The argument of ``phi`` in [QMCIF, Eq. (15)].

    Departs: the mean over the patch on the 0-1 scale takes the place of the sum, because ``phi`` of the sum is 1 for every image;
    levels below `NEGLIGIBLE_LEVEL` are zero.
    """
    amplified = amplify_detail(detail, radius_px=config.amplification_radius_px)
    moduli = gradient_level(amplified, border_px=config.border_px, borders=borders)
    # gray levels of 0-255 to 0-1, for which the published gamma is meant
    level = window_mean(moduli, side_px=detail_patch_px, scale=1 / FULL_SCALE)
    level[level < NEGLIGIBLE_LEVEL] = 0
    return level


def fine_focus(detail: FloatArray, *, growth_px: int = 0, faint_level: float = 0.0, config: FocusConfig) -> FloatArray:
    """Return the focus level of a small window around each pixel, shape (h, w), on the scale of the detail-scale level.

    It resolves what is smaller than a detail patch, such as hairs and beads, and slopes of deep stacks.

    Parameters
    ----------
    detail : ndarray of float, shape (3, h, w)
    growth_px : int
        By how much the window is larger than `FINEST_WINDOW_PX`, for noise.
    faint_level : float
        What fine noise and compression leave on smooth ground: only what a level has above this is evidence.
    config : FocusConfig

    Notes
    -----
    The gradients of [QMCIF, Eq. (14)], averaged over a small window. The detail-scale level takes them after a sum over ``2 r + 1``
    pixels each way [QMCIF, Eq. (13)]; that factor brings both to one scale.
    """
    scale = FINE_WEIGHT * (2 * config.amplification_radius_px + 1) / FULL_SCALE
    # no mirrored border here: a window of a few pixels sees the border only next to it
    level = window_mean(gradient_level(detail, border_px=0), side_px=FINEST_WINDOW_PX + growth_px, scale=scale)
    return np.maximum(level - np.asarray(faint_level, level.dtype), 0)


def gather_evidence(level: FloatArray, *, detail_patch_px: int, config: FocusConfig, mean: WindowMean = window_mean) -> FloatArray:
    """Add to each detail-scale level those of ever larger windows around it, ever less weighted.

    Where a patch has texture of its own the first term decides. Where it has little, or none, the surroundings do: decisions in smooth
    areas follow the nearest structure instead of noise.

    Notes
    -----
    Departs: the paper compares the patches alone, which is `evidence_scales` = 1, and faint levels as all others.
    """
    if config.evidence_scales == 1:
        return level
    # subtracted, not cut off, so that evidence begins at 0 without a jump
    level = np.maximum(level - np.asarray(FAINT_LEVEL, level.dtype), 0)
    evidence = level.copy()
    side, weight = detail_patch_px, 1.0
    for _ in range(1, config.evidence_scales):
        # odd again, and about four times the area
        side, weight = 2 * side + 1, weight * config.evidence_decay
        evidence += mean(level, side_px=side, scale=weight)
    return evidence


def saturate(level: FloatArray, *, saturation: float) -> FloatArray:
    """Return ``phi(x) = 1 - exp(-x / gamma)``, the enhanced detail-scale level of [QMCIF, Eq. (15)].

    Departs: images are compared before saturation, which cannot change their order but can make them equal; it shapes the weights of
    the refinement only.
    """
    # exact for small levels too, where 1 - exp would cancel
    return -np.expm1(-level / np.asarray(saturation, level.dtype))


def _reach_of_gradients(config: FusionConfig, _detail_patch_px: int) -> int:
    """Return one pixel for the forward difference, or, near the border, how far the mirrored interior and its difference lie."""
    return max(1, 2 * config.focus.border_px)


def _reach_of_detail_focus(config: FusionConfig, detail_patch_px: int) -> int:
    return config.focus.amplification_radius_px + _reach_of_gradients(config, detail_patch_px) + detail_patch_px // 2


def _reach_of_evidence(config: FusionConfig, detail_patch_px: int) -> int:
    """Return half of the largest window, whose side is ``2^(scales - 1) (side + 1) - 1``."""
    return 0 if config.focus.evidence_scales == 1 else 2 ** (config.focus.evidence_scales - 2) * (detail_patch_px + 1) - 1


def _reach_of_weighty_evidence(config: FusionConfig, detail_patch_px: int) -> int:
    """Return half the side of the largest window but one whose focus levels count; the largest has little weight and much area."""
    n_windows = config.focus.evidence_scales - 1
    return 2 ** (n_windows - 2) * (detail_patch_px + 1) - 1 if n_windows > 1 else 0


AMPLIFICATION = Stage(
    name="method.focus.amplify_detail",
    reaches=(Reach(lambda config, _side: config.focus.amplification_radius_px, "`amplification_radius_px`"),),
    overlap_px=lambda config, _side: config.focus.amplification_radius_px,
)
GRADIENTS = Stage(
    name="method.focus.gradient_level",
    reaches=(Reach(_reach_of_gradients, "1; max(1, 2 `border_px`) within `border_px` of the image border"),),
    overlap_px=lambda _config, _side: 1,  # beyond a tile the image goes on, so that nothing is mirrored
)
BASE_FOCUS = Stage(
    name="method.focus.base_focus",
    reaches=(
        Reach(
            lambda config, side: config.decomposition.base_patch_px - 1 + _reach_of_gradients(config, side),
            "`base_patch_px` − 1, and that of `gradient_level`",
        ),
    ),
)
DETAIL_FOCUS = Stage(
    name="method.focus.detail_focus",
    reaches=(Reach(_reach_of_detail_focus, "those of `amplify_detail` and `gradient_level`, and (s − 1) / 2", adds_up=True),),
    overlap_px=lambda _config, side: side // 2,
    working_bytes=bytes_per_pixel(24),
)
FINE_FOCUS = Stage(
    name="method.focus.fine_focus",
    reaches=(Reach(lambda _config, _side: 1 + FINEST_WINDOW_PX // 2, "1, and half of `FINEST_WINDOW_PX` and its growth"),),
)
EVIDENCE = Stage(
    name="method.focus.gather_evidence",
    reaches=(Reach(_reach_of_evidence, "2^(`evidence_scales` − 2) (s + 1) − 1; 0 for one scale", adds_up=True),),
    overlap_px=_reach_of_weighty_evidence,
    acts_far=True,
    kept_bytes=lambda _config, size: min(size.n_images * LEVEL_PIXEL_BYTES * size.padded_px, LEVELS_IN_MEMORY_BYTES),
)
