"""Q_E and Q_Y: structural similarity of the fused image to its sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes
from .levels import Levels, read_padded
from .windows import BoxWindow, GaussianWindow, LocalMoments, compare_structure, compute_exact_moments, compute_moments

EDGE_WINDOW = BoxWindow(8)
EDGE_CONSTANTS = (6.5025e-8, 6.5025e-8)  # (1e-6 * 255) squared: practically no stabilizer, as in the reference
WINDOW = GaussianWindow(7, 1.5)
CONSTANTS = (2e-16, 2e-16)  # far below the rounding of a variance, about 1e-12: hence the exact moments
LEAST_AGREEMENT = 0.75


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
    target = compute_moments(fused, EDGE_WINDOW)
    total, weighted, largest, plain = np.zeros((4, *target.mean.shape))
    for source in sources:
        moments = compute_moments(source, EDGE_WINDOW)
        similarity = compare_structure(target, moments, window=EDGE_WINDOW, constants=EDGE_CONSTANTS)
        total += moments.variance
        weighted += moments.variance * similarity
        plain += similarity
        np.maximum(largest, moments.variance, out=largest)
    # exactly 0 is meant: box means of 8-bit levels are exact
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
