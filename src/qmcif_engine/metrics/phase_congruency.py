"""Q_P: how well the fused image keeps the features of its sources, found by phase congruency."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .evaluation_progress import ignore_step
from .local_moments import compute_covariance, compute_moments
from .log_gabor import FilterBank
from .phase_features import PhaseFeatures, compute_phase_features
from .sliding_windows import GaussianWindow, cut_padded, iterate_strips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

FEATURE_THRESHOLD = 0.1
WINDOW = GaussianWindow(11, 1.5)
STABILIZER = 1e-4


def measure_phase_congruency(sources: Sequence[Levels], fused: Levels, *, on_step: Callable[[], None] = ignore_step) -> float:
    """Measure how features of the sources correlate with those of the fused image (Q_P).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.
    on_step : callable
        Called 6 times for each image, 6 (N + 1) times.

    Returns
    -------
    float
        Mostly 0 to 1, and below 1 even for identical images. Two cases in which the reference divides 0 by 0: if no source has a feature
        (constant images, one pixel), 1 where the fused image has none either, else 0; and if only the fused image is constant, 0.

    Notes
    -----
    ``Q_P = P_pc P_M P_m`` with ``P_Z = sum max(r_1, .., r_N, r_max) / #(pc_max > 0.1)``: specification, section 3.2, after Zhao, Laganiere
    and Liu 2007. ``r_max`` belongs to the map that at every pixel takes the source with the largest phase congruency, of all N; a tie goes
    to the later source, as it does for two.
    """
    bank = FilterBank((fused.shape[0], fused.shape[1]))
    target = compute_phase_features(fused, bank, on_step=on_step)
    match, best = match_features((compute_phase_features(source, bank, on_step=on_step) for source in sources), target)
    return combine_matches(
        [float(np.sum(part, dtype=np.float64)) for part in match],
        n_features=int(np.count_nonzero(best.congruency > FEATURE_THRESHOLD)),
        n_fused_features=int(np.count_nonzero(target.congruency > FEATURE_THRESHOLD)),
        is_constant=bool(fused.min() == fused.max()),
    )


def combine_matches(sums: Sequence[float], *, n_features: int, n_fused_features: int, is_constant: bool) -> float:
    """Return Q_P from the sums of the three maps of matches over all pixels."""
    # both cases are 0 / 0 in the reference
    if n_features == 0:
        return 0.0 if n_fused_features else 1.0
    return 0.0 if is_constant else math.prod(total / n_features for total in sums)


def match_features(sources: Iterable[PhaseFeatures], target: PhaseFeatures) -> tuple[list[FloatArray], PhaseFeatures]:
    """Return the largest correlation of any source with the fused image, for the three maps, and the strongest features of all sources.

    Sources are taken one at a time, so that memory does not grow with their number; the first is written over.
    """
    features = iter(sources)
    best = next(features)
    match: list[FloatArray] = []
    for challenger in features:
        if not match:  # no earlier: until here `best` is the first source, so its matches need no memory
            match = correlate_features(best, target)
        _keep_larger(match, correlate_features(challenger, target))
        # after the challenger was matched itself: r_max is a match of its own, of the strongest features together
        _take_stronger(best, challenger)
        # freed before the next one is computed, or two sources would be held at once
        del challenger
    # `best` is complete only now
    _keep_larger(match, correlate_features(best, target))
    return match, best


def correlate_features(source: PhaseFeatures, fused: PhaseFeatures) -> list[FloatArray]:
    """Correlate the three feature maps of a source with those of the fused image around every pixel.

    Returns
    -------
    list of ndarray of float, shape (H, W)
        ``r`` for the three maps, 0 where the source has no feature.

    Notes
    -----
    ``r = (cov(z, Z_F) + C) / (sqrt|var(z) var(Z_F)| + C)`` with z the source's map where its congruency exceeds 0.1 and 0 elsewhere,
    C = 0.0001, over a zero-padded Gaussian window of 11 x 11 px, sigma 1.5; specification, section 3.2.
    """
    margin = WINDOW.side // 2
    matches = [np.empty_like(source.congruency) for _ in range(3)]
    for rows in iterate_strips(source.congruency.shape):
        # the source is masked, the fused image is not, as in the reference
        mask = cut_padded(source.congruency, rows, margin=margin) > FEATURE_THRESHOLD
        inner = mask[margin:-margin, margin:-margin]
        for match, of_source, of_fused in zip(matches, source.as_tuple(), fused.as_tuple(), strict=True):
            first = compute_moments(cut_padded(of_source, rows, margin=margin) * mask, WINDOW)
            second = compute_moments(cut_padded(of_fused, rows, margin=margin), WINDOW)
            covariance = compute_covariance(first, second, window=WINDOW)
            match[rows] = inner * (covariance + STABILIZER) / (np.sqrt(first.variance * second.variance) + STABILIZER)
    return matches


def _keep_larger(match: list[FloatArray], other: list[FloatArray]) -> None:
    """Raise each map to the other one where that is larger."""
    for mine, theirs in zip(match, other, strict=True):
        np.maximum(mine, theirs, out=mine)


def _take_stronger(best: PhaseFeatures, challenger: PhaseFeatures) -> None:
    """Replace features where the challenger's phase congruency is as large or larger."""
    # "not larger" in place of "smaller or equal": a tie goes to the later source
    is_replaced = ~(best.congruency > challenger.congruency)
    for mine, theirs in zip(best.as_tuple(), challenger.as_tuple(), strict=True):
        np.copyto(mine, theirs, where=is_replaced)
