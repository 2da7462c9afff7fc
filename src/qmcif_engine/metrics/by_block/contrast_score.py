"""Q_CB of large images: its filter in the frequency domain, taken apart into what blocks and what few coefficients can do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from qmcif_engine.metrics.contrast import (
    CONTRAST_REACH_PX,
    FREQUENCY_SCALE,
    NARROW_BAND,
    NARROW_GAIN,
    WIDE_BAND,
    mask_contrast,
    sum_contrast,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.arrays import ComplexArray, FloatArray
    from qmcif_engine.metrics.by_block.block_run import BlockRun
    from qmcif_engine.metrics.by_block.scratch_levels import ScratchLevels
    from qmcif_engine.metrics.levels import Levels
    from qmcif_engine.stack.window import Window

CUT_OFF = 6.0
"""Standard deviations of a Gaussian beyond which it is left out: 2e-8 of its center, as 1.5e-8 of its largest frequency."""

LEAST_REACH_PX = 48
"""Margin of a block of a narrow image, whose wide band ends at the sampling limit."""


def score_contrast(images: Sequence[ScratchLevels], tables: Sequence[Levels], run: BlockRun) -> float:
    """Measure Q_CB.

    Parameters
    ----------
    images : sequence of ScratchLevels, shape (H, W)
        Gray levels of the sources and, last, of the fused image.
    tables : sequence of ndarray of uint8, shape (256,)
        What each level becomes when an image is stretched to the whole range.
    run : BlockRun

    Notes
    -----
    The sensitivity of the eye is a difference of two Gaussians in the frequency domain, fixed with respect to the size of the image.
    The wide one is a Gaussian blur of side / 1025 pixels and is applied to overlapping blocks. The narrow one passes less than a hundred
    periods along each side: these coefficients are summed over all blocks in a pass of their own. Both are periodic, as in the
    reference, which this equals but for what lies beyond `CUT_OFF`.
    """
    shape = (images[0].shape[0], images[0].shape[1])
    # the narrow band needs the whole image before any block can be filtered: hence two passes
    (coefficients,) = run.add_up("contrast", partial(_sum_coefficients, images, tables), shape)
    seeing = _Seeing(shape, tuple(coefficients))
    (total,) = run.add_up("contrast", partial(_sum_kept, images, tables, seeing), shape)
    return float(total / (shape[0] * shape[1]))


def _sum_coefficients(images: Sequence[ScratchLevels], tables: Sequence[Levels], block: Window) -> tuple[ComplexArray]:
    """Return what a block adds to the lowest coefficients of every image, shape (N + 1, K, k)."""
    rows, columns = _sample_waves(images[0].shape, block)
    # a Fourier transform of few frequencies is a product with two thin matrices, and blocks simply add up
    return (np.stack([rows.conj().T @ table[image[block.slices]] @ columns.conj() for image, table in zip(images, tables, strict=True)]),)


def _sum_kept(images: Sequence[ScratchLevels], tables: Sequence[Levels], seeing: _Seeing, block: Window) -> tuple[float]:
    """Return the sum of the contrast that a block of the fused image keeps."""
    # the fused image is kept, sources come one by one: memory for two maps, however many sources
    seen_fused = seeing.map_contrast(images[-1], tables[-1], block, number=len(images) - 1)
    sources = (seeing.map_contrast(images[number], tables[number], block, number=number) for number in range(len(images) - 1))
    return (sum_contrast(sources, seen_fused),)


@dataclass(frozen=True, slots=True)
class _Seeing:
    """How an eye sees images of one shape, and the lowest coefficients of each."""

    shape: tuple[int, int]
    coefficients: tuple[ComplexArray, ...]

    def map_contrast(self, image: ScratchLevels, table: Levels, block: Window, *, number: int) -> FloatArray:
        """Return the masked local contrast of a block."""
        # beyond the image the reference has zeros, which are not filtered: only what lies inside is, and zeros are put around it afterwards
        near = block.grown(CONTRAST_REACH_PX, self.shape)
        visible = self._filter_wide(image, table, near) - NARROW_GAIN * self._synthesize_narrow(near, number=number)
        padded = np.zeros((block.shape[0] + 2 * CONTRAST_REACH_PX, block.shape[1] + 2 * CONTRAST_REACH_PX))
        padded[near.moved(CONTRAST_REACH_PX - block.top, CONTRAST_REACH_PX - block.left).slices] = visible
        return mask_contrast(padded)

    def _filter_wide(self, image: ScratchLevels, table: Levels, window: Window) -> FloatArray:
        """Return a window blurred by the wide band, from a larger one whose own period does no harm."""
        # exp(-(f / b)^2) in frequency is a Gaussian of 1 / (sqrt(2) pi b) px in space; CUT_OFF of them are the margin
        bands = [_count_periods(side, WIDE_BAND) for side in self.shape]
        margins = [max(LEAST_REACH_PX, math.ceil(CUT_OFF / (math.sqrt(2) * math.pi * band))) for band in bands]
        sides = [fft.next_fast_len(length + 2 * margin, real=True) for length, margin in zip(window.shape, margins, strict=True)]
        # the image is periodic for the reference's transform, so a block at the border continues at the opposite one
        levels = table[image.read_periodic(window.top - margins[0], window.left - margins[1], (sides[0], sides[1]))]
        spectrum = fft.rfft2(levels.astype(np.float64), overwrite_x=True)
        down, across = fft.fftfreq(sides[0]) / bands[0], fft.rfftfreq(sides[1]) / bands[1]
        spectrum *= np.exp(-(down**2))[:, np.newaxis] * np.exp(-(across**2))
        blurred: FloatArray = fft.irfft2(spectrum, s=sides, overwrite_x=True)
        return blurred[margins[0] : margins[0] + window.shape[0], margins[1] : margins[1] + window.shape[1]]

    def _synthesize_narrow(self, window: Window, *, number: int) -> FloatArray:
        """Return a window of what the narrow band passes; of a pair of opposite waves along the columns one is kept and counts twice."""
        rows, columns = _sample_waves(self.shape, window)
        reaches = _list_reaches(self.shape)
        down, across = np.arange(-reaches[0], reaches[0] + 1) / self.shape[0], np.arange(reaches[1] + 1) / self.shape[1]
        narrow = [
            np.exp(-((waves / _count_periods(side, NARROW_BAND)) ** 2)) for waves, side in zip((down, across), self.shape, strict=True)
        ]
        # the wave of frequency 0 has no opposite
        narrow[1][1:] *= 2
        weighted = self.coefficients[number] * (narrow[0][:, np.newaxis] * narrow[1]) / (self.shape[0] * self.shape[1])
        return np.ascontiguousarray((rows @ weighted @ columns.T).real)


def _count_periods(side: int, band: float) -> float:
    """Return the frequency, in periods per pixel, at which a band falls to 1 / e."""
    return band * FREQUENCY_SCALE / 2 / side


def _list_reaches(shape: tuple[int, ...]) -> list[int]:
    """Return how many periods along each side the narrow band passes; with a shorter side there are no more than half its pixels."""
    # exp(-(f / b)^2) has a standard deviation of b / sqrt(2)
    reach = math.ceil(CUT_OFF / math.sqrt(2) * NARROW_BAND * FREQUENCY_SCALE / 2)
    return [min(reach, (side - 1) // 2) for side in shape[:2]]


def _sample_waves(shape: tuple[int, ...], window: Window) -> tuple[ComplexArray, ComplexArray]:
    """Return waves along the rows of a window, of negative and positive periods, and along its columns, of positive ones."""
    reaches = _list_reaches(shape)
    rows = np.outer(np.arange(window.top, window.bottom), np.arange(-reaches[0], reaches[0] + 1)) / shape[0]
    columns = np.outer(np.arange(window.left, window.right), np.arange(reaches[1] + 1)) / shape[1]
    return np.exp(2j * np.pi * rows), np.exp(2j * np.pi * columns)
