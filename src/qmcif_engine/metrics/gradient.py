"""Q_G: how well the fused image keeps strength and direction of its sources' edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qmcif_engine.arrays import FloatArray

from .blocks import Passes
from .levels import Levels, open_lazily

SUBSTITUTE_FOR_ZERO = 1e-5
# sigmoids of the corrected reference: their upper end, how steep they are, and the share at which they are steepest
STRENGTH_GAIN, STRENGTH_SLOPE, STRENGTH_CENTER = 0.9994, 15.0, 0.5
DIRECTION_GAIN, DIRECTION_SLOPE, DIRECTION_CENTER = 0.9879, 22.0, 0.8


def measure_gradient(images: Sequence[Levels], passes: Passes) -> float:
    """Measure the share of edge information carried over from the sources (Q_G, also Q^{AB/F}).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes

    Returns
    -------
    float
        0 to 0.9749; the upper end, reached by identical images, is the product of both sigmoids at their best.

    Notes
    -----
    ``Q_G = sum_n sum_p Q_nF w_n / sum_n sum_p w_n`` with the edge strengths ``w_n`` as weights: specification, section 2, after Xydeas and
    Petrovic 2000, the sums running over all N sources. Zero padding makes the image border an edge, as in the reference. Edge strengths of
    exactly 0 count as 1e-5, so flat, constant and single-pixel images give finite values: where no image has an edge, all agree.
    """
    import dask.array as da

    *sources, slopes_fused = (_find_slopes(image) for image in images)
    # a ratio of sums over the whole image, not a mean of local ratios: strong edges weigh more
    carried, total = 0.0, 0.0
    # one source after the other, so that memory does not grow with their number
    for slopes in sources:
        sums = da.map_blocks(_sum_kept_edges, *slopes, *slopes_fused, dtype=np.float64, new_axis=2, chunks=(1, 1, 2))
        (pair,) = passes.compute("gradient", sums.sum(axis=(0, 1), split_every=4))
        carried, total = carried + pair[0], total + pair[1]
    return float(carried / total)


def _find_slopes(image: Levels) -> list[Any]:
    """Return the slopes along rows and along columns, zero-padded at the border; 16 bits hold them exactly."""
    from dask_image.ndfilters import sobel

    levels = open_lazily(image).astype(np.int16)
    return [sobel(levels, axis=axis, mode="constant") for axis in (1, 0)]


def _sum_kept_edges(*slopes: Any) -> FloatArray:  # noqa: ANN401 - blocks of four arrays
    """Sum what of the edges of a source the fused image keeps, and their weights, shape (1, 1, 2)."""
    across, down, across_fused, down_fused = (slope.astype(np.float64) for slope in slopes)
    strength, strength_fused = np.sqrt(across**2 + down**2), np.sqrt(across_fused**2 + down_fused**2)
    angle, angle_fused = find_angle(across, down), find_angle(across_fused, down_fused)
    weight = _replace_zeros(strength)
    kept = rate_strength(strength, strength_fused) * rate_direction(angle, angle_fused)
    return np.array([[[np.sum(kept * weight), np.sum(weight)]]])


def find_angle(slope_x: FloatArray, slope_y: FloatArray) -> FloatArray:
    """Return the edge angle ``atan(s_y / s_x)``, with 1e-5 for an ``s_x`` of 0; specification, section 2."""
    # atan, not atan2: opposite slopes (dark to bright, bright to dark) count as one direction, as in the reference
    angle: FloatArray = np.arctan(slope_y / _replace_zeros(slope_x))
    return angle


def _replace_zeros(values: FloatArray) -> FloatArray:
    """Put 1e-5 where a value is exactly 0."""
    return np.where(values == 0, SUBSTITUTE_FOR_ZERO, values)


def rate_strength(strength: FloatArray, strength_fused: FloatArray) -> FloatArray:
    """Rate how much of a source's edge strength the fused image has.

    Notes
    -----
    ``G = g_F / g_X`` where ``g_X > g_F``, else ``g_X / g_F``, then ``0.9994 / (1 + exp(-15 (G - 0.5)))``; specification, section 2. Both
    0 give G = 1.
    """
    nonzero, nonzero_fused = _replace_zeros(strength), _replace_zeros(strength_fused)
    # numerator unreplaced in the first case, so that an edge that is lost altogether rates 0
    ratio = np.where(strength > strength_fused, strength_fused / nonzero, nonzero / nonzero_fused)
    return STRENGTH_GAIN / (1 + np.exp(-STRENGTH_SLOPE * (ratio - STRENGTH_CENTER)))


def rate_direction(angle: FloatArray, angle_fused: FloatArray) -> FloatArray:
    """Rate how closely an edge of the fused image follows that of a source.

    Notes
    -----
    ``T = 1 - |a_X - a_F| 2 / pi``, then ``0.9879 / (1 + exp(-22 (T - 0.8)))``; specification, section 2. The difference is not wrapped: T
    falls to -1 for angles at both ends of -pi/2..pi/2.
    """
    agreement = 1 - np.abs(angle - angle_fused) * (2 / np.pi)
    return DIRECTION_GAIN / (1 + np.exp(-DIRECTION_SLOPE * (agreement - DIRECTION_CENTER)))
