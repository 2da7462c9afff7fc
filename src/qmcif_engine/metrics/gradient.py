"""Q_G: how well the fused image keeps strength and direction of its sources' edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .sliding_windows import cut_padded, iterate_strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

SUBSTITUTE_FOR_ZERO = 1e-5
# sigmoids of the corrected reference: their upper end, how steep they are, and the share at which they are steepest
STRENGTH_GAIN, STRENGTH_SLOPE, STRENGTH_CENTER = 0.9994, 15.0, 0.5
DIRECTION_GAIN, DIRECTION_SLOPE, DIRECTION_CENTER = 0.9879, 22.0, 0.8


def measure_gradient(sources: Sequence[Levels], fused: Levels) -> float:
    """Measure the share of edge information carried over from the sources (Q_G, also Q^{AB/F}).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.

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
    # a ratio of sums over the whole image, not a mean of local ratios: strong edges weigh more
    carried, total = 0.0, 0.0
    for rows in iterate_strips(fused.shape):
        # once per strip for all sources
        edges_fused = _find_edges(fused, rows)
        for source in sources:
            kept, weight = sum_kept_edges(_find_edges(source, rows), edges_fused)
            carried += kept
            total += weight
    return carried / total


def sum_kept_edges(edges: tuple[FloatArray, FloatArray], edges_fused: tuple[FloatArray, FloatArray]) -> tuple[float, float]:
    """Sum what of the edges of a source the fused image keeps, and their weights, from strength and angle of both."""
    (strength, angle), (strength_fused, angle_fused) = edges, edges_fused
    weight = _replace_zeros(strength)
    kept = rate_strength(strength, strength_fused) * rate_direction(angle, angle_fused)
    return float(np.sum(kept * weight)), float(np.sum(weight))


def _find_edges(gray: Levels, rows: slice) -> tuple[FloatArray, FloatArray]:
    """Compute edge strength and edge angle of a strip with Sobel's operator, zero-padded."""
    padded = cut_padded(gray, rows, margin=1)
    # separable: weights 1 2 1 along the edge, then a difference across it
    smooth_down = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    smooth_across = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    slope_x = smooth_down[:, 2:] - smooth_down[:, :-2]
    slope_y = smooth_across[2:] - smooth_across[:-2]
    return combine_slopes(slope_x, slope_y)


def combine_slopes(slope_x: FloatArray, slope_y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return edge strength and edge angle.

    Notes
    -----
    ``g = sqrt(s_x^2 + s_y^2)`` and ``a = atan(s_y / s_x)``, with 1e-5 for an ``s_x`` of 0; specification, section 2.
    """
    # atan, not atan2: opposite slopes (dark to bright, bright to dark) count as one direction, as in the reference
    return np.sqrt(slope_x**2 + slope_y**2), np.arctan(slope_y / _replace_zeros(slope_x))


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
