"""Q_E: structural similarity to the sources, on gray levels and on edges, weighted by local contrast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .local_moments import compare_structure, compute_moments
from .sliding_windows import BoxWindow, iterate_window_strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

WINDOW = BoxWindow(8)
CONSTANTS = (6.5025e-8, 6.5025e-8)  # (1e-6 * 255) squared: practically no stabilizer, as in the reference


def measure_edge_similarity(sources: Sequence[Levels], fused: Levels) -> float:
    """Measure the edge-dependent similarity of the fused image to its sources (Q_E).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.

    Returns
    -------
    float
        -1 to 1; 1 for identical images, also where they are constant. An image with a side below 8 px gets a window of that side.

    Notes
    -----
    ``Q_E = Q_W(gray) Q_W(edges)``: specification, section 4, after Piella and Heijmans 2003, in exact arithmetic. ``Q_W`` weighs windows
    and sources as `weigh_similarity` says.
    """
    return combine_indices(sum_similarities([np.pad(source, 1) for source in sources], np.pad(fused, 1)))


def combine_indices(sums: FloatArray) -> float:
    """Return Q_E from the sums over all windows of an image."""
    gray_index, edge_index = sums[:, 0] / sums[:, 1]
    return float(gray_index * edge_index)


def sum_similarities(sources: Sequence[Levels], fused: Levels) -> FloatArray:
    """Sum the similarities of all complete windows of an image or of a part of it, and their weights.

    Parameters
    ----------
    sources, fused : ndarray of uint8, shape (h + 2, w + 2)
        Gray levels with one more pixel on every side: the neighboring one, or 0 outside the image.

    Returns
    -------
    ndarray of float64, shape (2, 2)
        For gray levels and for edges: numerator and denominator of ``Q_W``.
    """
    # ratios are formed only at the end, from sums over all windows, so that strips and blocks add up
    sums = np.zeros((2, 2))
    for rows in iterate_window_strips((fused.shape[0] - 2, fused.shape[1] - 2), WINDOW.side):
        # the planes have a row more on top: the strip with its neighbors
        padded = slice(rows.start, rows.stop + 2)
        *gray_sources, gray = (image[padded][1:-1, 1:-1] for image in (*sources, fused))
        sums[0] += weigh_similarity(gray_sources, gray)
        sums[1] += weigh_similarity([detect_edges(source[padded]) for source in sources], detect_edges(fused[padded]))
    return sums


def weigh_similarity(sources: Sequence[FloatArray | Levels], fused: FloatArray | Levels) -> tuple[float, float]:
    """Sum the similarities of all windows of a strip, and their weights.

    Returns
    -------
    tuple of float
        Numerator and denominator of ``Q_W``, to be added over strips.

    Notes
    -----
    ``Q_W = sum_w c(w) sum_n (v_n / sum_m v_m) SSIM(F, X_n) / sum_w c(w)`` with ``c = max_n v_n``; specification, section 4, which has
    N = 2. Where all N variances are exactly 0 each counts as 1/N (1/2 in the reference), so the denominator is never 0.
    """
    target = compute_moments(fused, WINDOW)
    total = np.zeros_like(target.mean)
    weighted = np.zeros_like(target.mean)
    largest = np.zeros_like(target.mean)
    plain = np.zeros_like(target.mean)
    for source in sources:
        moments = compute_moments(source, WINDOW)
        similarity = compare_structure(target, moments, window=WINDOW, constants=CONSTANTS)
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


def detect_edges(levels: Levels) -> FloatArray:
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
