"""Q_P: how well the fused image keeps the features of its sources, found by phase congruency."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes, cut_blocks
from .levels import Levels, read_periodic
from .phase_features import (
    N_ORIENTATIONS,
    FilterBank,
    PhaseFeatures,
    compute_finest_amplitudes,
    compute_phase_features,
    estimate_threshold,
    iterate_strips,
)
from .windows import SlidingWindow, compute_covariance, compute_moments

FEATURE_THRESHOLD = 0.1
WINDOW = SlidingWindow(11, 1.5)
STABILIZER = 1e-4

MARGIN_PX = 128
"""What a block is transformed with on every side, beyond which the longest waves, of 28 pixels, have faded."""


def measure_phase_congruency(images: Sequence[Levels], passes: Passes, *, is_constant: bool) -> float:
    """Measure how features of the sources correlate with those of the fused image (Q_P).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    passes : Passes
    is_constant : bool
        Whether the fused image has only one level.

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

    Three things differ where a large image is cut, which together move Q_P by less than 0.002: a block sees no farther than `MARGIN_PX`,
    the frequencies of odd sides are sampled like those of even ones, and the median amplitude, from which the noise is estimated, is that
    of a systematic sample.
    """
    search = _FeatureSearch(images, passes)
    if not passes.is_whole:
        search.estimate_noise()
    *sums, n_features, n_fused = passes.add_up("phase_congruency", search.sum_matches, sides=passes.sides)
    # both cases are 0 / 0 in the reference
    if n_features == 0:
        return 0.0 if n_fused else 1.0
    return 0.0 if is_constant else math.prod(float(total) / n_features for total in sums)


class _FeatureSearch:
    """Features of images of one shape, block by block; the noise of large ones has to be known before."""

    def __init__(self, images: Sequence[Levels], passes: Passes) -> None:
        self._images, self._passes = images, passes
        cut = [side < whole for side, whole in zip(passes.sides, passes.shape, strict=True)]
        self._margins = [MARGIN_PX * is_cut for is_cut in cut]
        # one size of transform for all blocks, those at the far border included, so one bank of filters serves
        self._transformed = tuple(side + 2 * margin for side, margin in zip(passes.sides, self._margins, strict=True))
        self._bank = FilterBank((self._transformed[0], self._transformed[1]), np.dtype(np.float64 if passes.is_whole else np.float32))
        self._thresholds: list[list[float]] | None = None
        self._orientations_done = count(1)

    def estimate_noise(self) -> None:
        """Estimate the noise of the whole images, or blocks that touch would not fit together."""
        samples = self._passes.add_up("phase_congruency", self._sample_amplitudes, sides=self._passes.sides)
        estimates = [estimate_threshold(self._bank, number % N_ORIENTATIONS, np.concatenate(parts)) for number, parts in enumerate(samples)]
        self._thresholds = [estimates[start : start + N_ORIENTATIONS] for start in range(0, len(estimates), N_ORIENTATIONS)]

    def _sample_amplitudes(self, block: Window) -> list[list[FloatArray]]:
        """Return a systematic sample of the sorted amplitudes of the finest scale, for each image and orientation."""
        # as many samples in all as one block has pixels, whatever the size of the image
        step = len(list(cut_blocks(self._passes.shape, self._passes.sides)))
        inner = block.moved(self._margins[0] - block.top, self._margins[1] - block.left).slices
        amplitudes = (part[inner] for image in self._images for part in compute_finest_amplitudes(self._read(image, block), self._bank))
        # lists of one array, which add up to lists of arrays
        return [[np.sort(part, axis=None)[step // 2 :: step].copy()] for part in amplitudes]

    def sum_matches(self, block: Window) -> tuple[float, ...]:
        """Return the sums of the three maps of matches over a block, and how many features the sources and the fused image have there."""
        # correlations reach half a window beyond the block; outside the image `correlate_features` pads with zeros as the reference does
        near = block.grown(WINDOW.side // 2, self._passes.shape)
        target = self._find(len(self._images) - 1, block, near)
        match, best = match_features((self._find(number, block, near) for number in range(len(self._images) - 1)), target)
        inner = block.relative_to(near).slices
        counts = (int(np.count_nonzero(features.congruency[inner] > FEATURE_THRESHOLD)) for features in (best, target))
        return *(float(np.sum(part[inner], dtype=np.float64)) for part in match), *counts

    def _find(self, number: int, block: Window, near: Window) -> PhaseFeatures:
        """Return the features of an image in a window around a block."""

        def report() -> None:
            self._passes.report_share(next(self._orientations_done) / (N_ORIENTATIONS * len(self._images) + 1))

        thresholds = self._thresholds[number] if self._thresholds else None
        features = compute_phase_features(self._read(self._images[number], block), self._bank, thresholds=thresholds, on_orientation=report)
        kept = near.moved(self._margins[0] - block.top, self._margins[1] - block.left).slices
        # copies, so that the sums they are parts of, and the margins, can be freed
        return PhaseFeatures(*(part[kept].copy() for part in features))

    def _read(self, image: Levels, block: Window) -> NDArray[np.uint8]:
        start = block.top - self._margins[0], block.left - self._margins[1]
        return read_periodic(image, start, self._bank.shape)


def match_features(sources: Iterable[PhaseFeatures], target: PhaseFeatures) -> tuple[list[FloatArray], PhaseFeatures]:
    """Return the largest correlation of any source with the fused image, for the three maps, and the strongest features of all sources.

    Sources are taken one at a time, so that memory does not grow with their number; the first is written over.
    """
    features = iter(sources)
    best = next(features)
    match: list[FloatArray] = []
    for challenger in features:
        # not earlier: until here `best` is the first source, so its matches need no memory
        match = match or correlate_features(best, target)
        _keep_larger(match, correlate_features(challenger, target))
        # "not larger" in place of "smaller or equal": a tie goes to the later source
        is_replaced = ~(best.congruency > challenger.congruency)
        for mine, other in zip(best, challenger, strict=True):
            np.copyto(mine, other, where=is_replaced)
        # freed before the next one is computed, or two sources would be held at once
        del challenger, other
    # `best` is complete only now: the strongest features together are a match of their own
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
    # the source is masked, the fused image is not, as in the reference
    mask = source.congruency > FEATURE_THRESHOLD
    for match, of_source, of_fused in zip(matches, source, fused, strict=True):
        planes = [np.pad(plane, margin) for plane in (of_source * mask, of_fused)]
        for rows in iterate_strips(mask.shape):
            first, second = (compute_moments(plane[rows.start : rows.stop + 2 * margin], WINDOW) for plane in planes)
            covariance = compute_covariance(first, second, window=WINDOW)
            match[rows] = mask[rows] * (covariance + STABILIZER) / (np.sqrt(first.variance * second.variance) + STABILIZER)
    return matches


def _keep_larger(match: list[FloatArray], other: list[FloatArray]) -> None:
    """Raise each map to the other one where that is larger."""
    for mine, theirs in zip(match, other, strict=True):
        np.maximum(mine, theirs, out=mine)
