"""Q_Y: structural similarity to the sources where they agree, to the nearest one where they differ."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .local_moments import compare_structure, compute_exact_moments
from .sliding_windows import GaussianWindow, iterate_window_strips

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels
    from .local_moments import LocalMoments

WINDOW = GaussianWindow(7, 1.5)
CONSTANTS = (2e-16, 2e-16)  # far below the rounding of a variance, about 1e-12: hence the exact moments
LEAST_AGREEMENT = 0.75


def measure_structural_similarity(sources: Sequence[Levels], fused: Levels) -> float:
    """Measure the structural similarity of the fused image to its sources (Q_Y).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.

    Returns
    -------
    float
        -1 to 1; 1 for identical images, also where they are constant. An image with a side below 7 px gets a window of that side.

    Notes
    -----
    Mean over all complete windows of `rate_windows`: specification, section 5, after Yang et al. 2008. Windows in which an image is
    constant have variance and covariances of exactly 0, without which rounding errors divide each other there.
    """
    total, count = sum_rates(sources, fused)
    return total / count


def sum_rates(sources: Sequence[Levels], fused: Levels) -> tuple[float, int]:
    """Return the sum of the rates of all complete windows of an image or of a part of it, and how many there are."""
    total, count = 0.0, 0
    for rows in iterate_window_strips(fused.shape, WINDOW.side):
        target = compute_exact_moments(fused[rows], WINDOW)
        rates = rate_windows([compute_exact_moments(source[rows], WINDOW) for source in sources], target)
        total += float(np.sum(rates))
        count += rates.size
    return total, count


def rate_windows(sources: Sequence[LocalMoments], fused: LocalMoments) -> FloatArray:
    """Rate every window of a strip.

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
