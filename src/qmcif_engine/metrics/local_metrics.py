"""Metrics of what lies near each pixel: Q_MI, Q_G, Q_E and Q_Y of a fused image against its sources.

Q_MI: how much the gray levels of the fused image say about those of its sources. Q_G: how well it keeps strength and direction of their
edges. Q_E and Q_Y: how similar its structure is to theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes
from .levels import Levels, open_lazily, read_padded, tabulate_stretching
from .windows import LocalMoments, SlidingWindow, compare_structure, compute_exact_moments

N_LEVELS = 256

SUBSTITUTE_FOR_ZERO = 1e-5
# sigmoids of the corrected reference: their upper end, how steep they are, and the share at which they are steepest
STRENGTH_GAIN, STRENGTH_SLOPE, STRENGTH_CENTER = 0.9994, 15.0, 0.5
DIRECTION_GAIN, DIRECTION_SLOPE, DIRECTION_CENTER = 0.9879, 22.0, 0.8

EDGE_WINDOW = SlidingWindow(8)
EDGE_CONSTANTS = (6.5025e-8, 6.5025e-8)  # (1e-6 * 255) squared: practically no stabilizer, as in the reference
WINDOW = SlidingWindow(7, 1.5)
CONSTANTS = (2e-16, 2e-16)  # far below the rounding of a variance, about 1e-12: hence the exact moments
LEAST_AGREEMENT = 0.75


def measure_mutual_information(images: Sequence[Levels], passes: Passes) -> tuple[float, list[NDArray[np.uint8]]]:
    """Measure the normalized mutual information of the fused image with its sources (Q_MI).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes

    Returns
    -------
    score : float
        0 (independent) to 2 (each source is determined by the fused image and determines it).
    tables : list of ndarray of uint8, shape (256,)
        What each level of each image becomes when the image is stretched to the whole range.

    Notes
    -----
    ``Q_MI = (4 / N) sum_n I(X_n, F) / (H(X_n) + H(F))``: specification, section 1, after Hossny, Nahavandi and Creighton 2008, on stretched
    levels. For N = 2 the factor is the reference's 2; for more sources it keeps the range 0..2.

    A constant image has entropy 0. Against a varying one it scores 0; two constant images determine each other, so their 0 / 0 is the
    ratio of perfect dependence, 1/2.
    """
    joints = passes.add_up("mutual_information", partial(_count_joint_levels, images))
    # all joint histograms have the same fused image along their columns
    tables = [tabulate_stretching(counts) for counts in (*(joint.sum(axis=1) for joint in joints), joints[0].sum(axis=0))]
    ratios = [_relate_levels(_stretch(joint, table, tables[-1])) for joint, table in zip(joints, tables, strict=False)]
    return 4.0 * sum(ratios) / len(ratios), tables


def _count_joint_levels(images: Sequence[Levels], block: Window) -> list[NDArray[np.int64]]:
    """Count the pixels with each pair of levels of each source, along the rows, and the fused image."""
    *sources, fused = (image[block.slices].astype(np.int64) for image in images)
    # a joint histogram is a plain one of the numbers 256 x + y
    return [np.bincount((source * N_LEVELS + fused).ravel(), minlength=N_LEVELS**2).reshape(N_LEVELS, N_LEVELS) for source in sources]


def _stretch(joint: NDArray[np.int64], of_source: NDArray[np.uint8], of_fused: NDArray[np.uint8]) -> FloatArray:
    """Return the share of pixels with each pair of stretched levels."""
    stretched = np.zeros((N_LEVELS, N_LEVELS))
    # levels beyond the extremes all become 0 or 255: assigning in place of adding would overwrite real counts with their zeros
    np.add.at(stretched, (of_source[:, np.newaxis], of_fused[np.newaxis]), joint)
    shares: FloatArray = stretched / joint.sum()
    return shares


def _relate_levels(joint: FloatArray) -> float:
    """Divide the mutual information of two images by the sum of their entropies."""
    entropy_sum = compute_entropy(joint.sum(axis=1)) + compute_entropy(joint.sum(axis=0))
    # two constant images
    if entropy_sum == 0.0:
        return 0.5
    information = entropy_sum - compute_entropy(joint.ravel())
    # independent images have information 0, which rounding may push below
    return max(information, 0.0) / entropy_sum


def compute_entropy(shares: FloatArray) -> float:
    """Compute the entropy of a distribution in bits.

    Notes
    -----
    ``H = -sum p log2 p`` with 0 log 0 = 0; specification, section 1.
    """
    present = shares[shares > 0]
    # every term is negative or 0; `abs` also turns -0 into 0
    return abs(float(np.sum(present * np.log2(present))))


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


def measure_edge_similarity(images: Sequence[Levels], passes: Passes) -> float:
    """Measure the edge-dependent similarity of the fused image to its sources (Q_E).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes

    Returns
    -------
    float
        -1 to 1; 1 for identical images, also where they are constant. An image with a side below 8 px gets a window of that side.

    Notes
    -----
    ``Q_E = Q_W(gray) Q_W(edges)``: specification, section 4, after Piella and Heijmans 2003, in exact arithmetic. ``Q_W`` weighs windows
    and sources as `weigh_similarity` does.
    """
    # ratios are formed only at the end, from sums over all windows, so that blocks add up
    (sums,) = passes.add_up("edge_similarity", partial(_sum_similarities, images), window_px=EDGE_WINDOW.side)
    gray_index, edge_index = sums[:, 0] / sums[:, 1]
    return float(gray_index * edge_index)


def _sum_similarities(images: Sequence[Levels], block: Window) -> tuple[FloatArray]:
    """Return numerator and denominator of ``Q_W`` over the windows of a block, for gray levels and for edges, shape (2, 2)."""
    # edges need one neighbor on every side, which is 0 outside the image
    padded = [read_padded(image, block, margin=1) for image in images]
    return (np.array([weigh_similarity([image[1:-1, 1:-1] for image in padded]), weigh_similarity(list(map(detect_edges, padded)))]),)


def weigh_similarity(images: Sequence[FloatArray | NDArray[np.uint8]]) -> tuple[float, float]:
    """Sum the similarities of the last image to the others over all windows, and their weights: numerator and denominator of ``Q_W``.

    Notes
    -----
    ``Q_W = sum_w c(w) sum_n (v_n / sum_m v_m) SSIM(F, X_n) / sum_w c(w)`` with ``c = max_n v_n``; specification, section 4, which has
    N = 2. Where all N variances are exactly 0 each counts as 1/N (1/2 in the reference), so the denominator is never 0.
    """
    *sources, fused = images
    target = compute_exact_moments(fused, EDGE_WINDOW)
    total, weighted, largest, plain = np.zeros((4, *target.mean.shape))
    for source in sources:
        moments = compute_exact_moments(source, EDGE_WINDOW)
        similarity = compare_structure(target, moments, window=EDGE_WINDOW, constants=EDGE_CONSTANTS)
        total += moments.variance
        weighted += moments.variance * similarity
        plain += similarity
        np.maximum(largest, moments.variance, out=largest)
    # exactly 0 is meant, which constant windows have
    is_flat = total == 0
    share = 1 / len(sources)
    index = np.where(is_flat, plain * share, weighted / np.where(is_flat, 1.0, total))
    weight = np.where(is_flat, share, largest)
    return float(np.sum(weight * index)), float(np.sum(weight))


def detect_edges(levels: NDArray[np.uint8]) -> FloatArray:
    """Compute the edge strength with Prewitt's operator wherever there is a neighbor on every side, shape (h - 2, w - 2).

    Notes
    -----
    ``e = sqrt(p_x^2 + p_y^2)``, each slope the difference of two sums of three neighbors; specification, section 4.
    """
    padded = levels.astype(np.float64)
    # the operator is separable: a sum of three across the slope, then the difference of the outer two along it
    sum_down = padded[:-2] + padded[1:-1] + padded[2:]
    sum_across = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.sqrt((sum_down[:, :-2] - sum_down[:, 2:]) ** 2 + (sum_across[:-2] - sum_across[2:]) ** 2)


def measure_structural_similarity(images: Sequence[Levels], passes: Passes) -> float:
    """Measure the structural similarity of the fused image to its sources where they agree, to the nearest one elsewhere (Q_Y).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes

    Returns
    -------
    float
        -1 to 1; 1 for identical images, also where they are constant. An image with a side below 7 px gets a window of that side.

    Notes
    -----
    Mean over all complete windows of `rate_windows`: specification, section 5, after Yang et al. 2008. Windows in which an image is
    constant have variance and covariances of exactly 0, without which rounding errors divide each other there.
    """
    total, count = passes.add_up("structural_similarity", partial(_sum_rates, images), window_px=WINDOW.side)
    return float(total / count)


def _sum_rates(images: Sequence[Levels], block: Window) -> tuple[float, int]:
    """Return the sum of the rates of all windows of a block, and how many there are."""
    *sources, target = (compute_exact_moments(image[block.slices], WINDOW) for image in images)
    rates = rate_windows(sources, target)
    return float(np.sum(rates)), rates.size


def rate_windows(sources: Sequence[LocalMoments], fused: LocalMoments) -> FloatArray:
    """Rate every window.

    Notes
    -----
    ``q = sum_n (v_n / sum_m v_m) S_nF`` where all sources agree, ``max_n S_nF`` elsewhere; specification, section 5. Beyond two sources
    they agree if ``S_nm >= 0.75`` for every pair, that is, if the least similar pair does. Where all variances are exactly 0 the weights
    are 1/N (1/2 in the reference).
    """
    similarities = np.stack([compare_structure(source, fused, window=WINDOW, constants=CONSTANTS) for source in sources])
    variances = np.stack([source.variance for source in sources])
    total = variances.sum(axis=0)
    # exactly 0 is meant, which constant windows have
    shares = np.where(total == 0, 1 / len(sources), variances / np.where(total == 0, 1.0, total))
    agreement = np.full_like(total, np.inf)
    # N (N - 1) / 2 comparisons; the least similar pair decides
    for first, second in combinations(sources, 2):
        np.minimum(agreement, compare_structure(first, second, window=WINDOW, constants=CONSTANTS), out=agreement)
    rates: FloatArray = np.where(agreement >= LEAST_AGREEMENT, np.sum(shares * similarities, axis=0), similarities.max(axis=0))
    return rates
