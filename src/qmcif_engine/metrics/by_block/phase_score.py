"""Q_P of large images: phase congruency of overlapping blocks, with the noise of the whole image."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.metrics.by_block.block_run import BLOCK_PX
from qmcif_engine.metrics.log_gabor import N_ORIENTATIONS, FilterBank
from qmcif_engine.metrics.phase_congruency import FEATURE_THRESHOLD, WINDOW, combine_matches, match_features
from qmcif_engine.metrics.phase_features import PhaseFeatures, compute_finest_amplitudes, compute_phase_features, estimate_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qmcif_engine.metrics.by_block.block_run import BlockRun
    from qmcif_engine.metrics.by_block.scratch_levels import ScratchLevels
    from qmcif_engine.metrics.levels import Levels
    from qmcif_engine.stack.window import Window

MARGIN_PX = 128
"""What a block is transformed with on every side, beyond which the longest waves, of 28 pixels, have faded."""

TRANSFORMED_PX = BLOCK_PX + 2 * MARGIN_PX

# of the 23 bits of a float's fraction 9 remain, which makes 512 classes to the octave
_DROPPED_BITS = 14
_LOWEST_BIN, _HIGHEST_BIN = (int(np.float32(amplitude).view(np.uint32)) >> _DROPPED_BITS for amplitude in (2.0**-20, 2.0**12))
"""Amplitudes are counted in classes of equal ratio, 512 to the octave: the leading bits of a float are the number of its class."""


def score_phase_congruency(images: Sequence[ScratchLevels], run: BlockRun, *, is_constant: bool) -> float:
    """Measure Q_P.

    Parameters
    ----------
    images : sequence of ScratchLevels, shape (H, W)
        Gray levels of the sources and, last, of the fused image.
    run : BlockRun
    is_constant : bool
        Whether the fused image has only one level.

    Notes
    -----
    As `measure_phase_congruency`, but for three things, which together move Q_P by less than 0.002: a block sees no farther than
    `MARGIN_PX`, the frequencies of odd sides are sampled like those of even ones, and the median amplitude, from which the noise is
    told, comes from classes 0.14 percent wide.
    """
    shape = (images[0].shape[0], images[0].shape[1])
    # one size of transform for all blocks, those at the far border included, so one bank of filters serves
    bank = FilterBank((TRANSFORMED_PX, TRANSFORMED_PX), np.dtype(np.float32))
    thresholds = []
    # noise is a property of the whole image: its median comes first, block by block, or neighboring blocks would not fit together
    for image in images:
        (counts,) = run.add_up("phase_congruency", partial(_count_amplitudes, image, bank), shape)
        thresholds.append(
            [estimate_threshold(_find_median(of_one) ** 2, gain=gain) for of_one, gain in zip(counts, bank.noise_gains, strict=True)]
        )
    sums, n_features, n_fused = run.add_up("phase_congruency", partial(_sum_matches, images, bank, thresholds), shape)
    return combine_matches(list(sums), n_features=n_features, n_fused_features=n_fused, is_constant=is_constant)


def _count_amplitudes(image: ScratchLevels, bank: FilterBank, block: Window) -> tuple[NDArray[np.int64]]:
    """Count the amplitudes of the finest scale by class, for each orientation."""
    n_classes = _HIGHEST_BIN - _LOWEST_BIN + 1
    counts = np.empty((N_ORIENTATIONS, n_classes), np.int64)
    inner = slice(MARGIN_PX, MARGIN_PX + block.shape[0]), slice(MARGIN_PX, MARGIN_PX + block.shape[1])
    for of_one, amplitude in zip(counts, compute_finest_amplitudes(_read(image, block), bank), strict=True):
        # bits of positive floats are ordered as their values are, and shifting them needs no logarithm
        bits = np.ascontiguousarray(amplitude[inner], np.float32).view(np.uint32) >> _DROPPED_BITS
        of_one[:] = np.bincount(bits.clip(_LOWEST_BIN, _HIGHEST_BIN).ravel() - _LOWEST_BIN, minlength=n_classes)
    return (counts,)


def _find_median(counts: NDArray[np.int64]) -> float:
    """Return the median amplitude, its place within a class by how many lie below; 0 where most amplitudes are."""
    below = np.cumsum(counts)
    place = int(np.searchsorted(below, below[-1] / 2))
    # the lowest class also holds everything below it
    if place == 0:
        return 0.0
    lower, upper = (float(np.uint32((_LOWEST_BIN + number) << _DROPPED_BITS).view(np.float32)) for number in (place, place + 1))
    share = (below[-1] / 2 - below[place - 1]) / counts[place]
    return lower + (upper - lower) * float(share)


def _sum_matches(
    images: Sequence[ScratchLevels], bank: FilterBank, thresholds: Sequence[Sequence[float]], block: Window
) -> tuple[NDArray[np.float64], int, int]:
    """Return the sums of the three maps of matches over a block, and how many features the sources and the fused image have there."""
    shape = (images[0].shape[0], images[0].shape[1])
    # correlations reach half a window beyond the block; outside the image `correlate_features` pads with zeros as the reference does
    near = block.grown(WINDOW.side // 2, shape)
    kept = near.moved(MARGIN_PX - block.top, MARGIN_PX - block.left).slices

    def find_features(number: int) -> PhaseFeatures:
        features = compute_phase_features(_read(images[number], block), bank, thresholds=thresholds[number])
        # copies, so that the transformed block, nearly twice as large, can be freed
        return PhaseFeatures(*(part[kept].copy() for part in features.as_tuple()))

    target = find_features(len(images) - 1)
    match, best = match_features(map(find_features, range(len(images) - 1)), target)
    inner = block.relative_to(near).slices
    n_features, n_fused = (int(np.count_nonzero(features.congruency[inner] > FEATURE_THRESHOLD)) for features in (best, target))
    return np.array([np.sum(part[inner], dtype=np.float64) for part in match]), n_features, n_fused


def _read(image: ScratchLevels, block: Window) -> Levels:
    return image.read_periodic(block.top - MARGIN_PX, block.left - MARGIN_PX, (TRANSFORMED_PX, TRANSFORMED_PX))
