"""Q_CB: how well the fused image keeps the contrast a human eye sees in the sources."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from qmcif_engine.arrays import ComplexArray, FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes
from .levels import Levels, read_periodic
from .windows import filter_valid, sample_gaussian

# all of these are the reference's; bands are in the same unit as frequencies divided by the scale, sigmas in pixels
FREQUENCY_SCALE = 30.0
WIDE_BAND, NARROW_BAND, NARROW_GAIN = 15.3870, 1.3456, 0.7622
GAUSSIAN_SIDE = 31
CONTRAST_REACH_PX = GAUSSIAN_SIDE // 2
FINE_SIGMA, COARSE_SIGMA = 2.0, 4.0
MASKING_OFFSET = 1e-4
LARGEST_CONTRAST = 1e15  # met only where the background is 0 but for rounding

CUT_OFF = 6.0
"""Standard deviations of a Gaussian beyond which it is left out: 2e-8 of its center, as 1.5e-8 of its largest frequency."""

LEAST_MARGIN_PX = 48
"""Of a block along a short side, where the wide band ends at the sampling limit."""


def measure_contrast(images: Sequence[Levels], tables: Sequence[NDArray[np.uint8]], passes: Passes) -> float:
    """Measure the perceived contrast carried over from the sources (Q_CB).

    Parameters
    ----------
    images : sequence of Levels
        N >= 2 sources and, last, the fused image.
    tables : sequence of ndarray of uint8, shape (256,)
        What each level becomes when an image is stretched to the whole range.
    passes : Passes

    Returns
    -------
    float
        0 to 1; 1 for identical images.

    Notes
    -----
    ``Q_CB = mean_p sum_n (C_n^2 / sum_m C_m^2) min(C_n, C_F) / max(C_n, C_F)``: specification, section 6, after Chen and Blum 2009, the
    weights being the shares of all N sources. Two settings the reference lacks: images both without contrast agree (0 / 0 is 1), and
    where no source has contrast all weigh the same. So constant images score 1 against each other.

    The sensitivity of the eye, ``S(r) = exp(-(r / 15.3870)^2) - 0.7622 exp(-(r / 1.3456)^2)`` with frequencies that reach 1 at the sampling
    limit, times side / 30, is a difference of two Gaussians in the frequency domain. Of a large image the wide one, a Gaussian blur of
    side / 1025 pixels, is applied to overlapping blocks. The narrow one passes less than a hundred periods along each side: these
    coefficients are summed over all blocks in a pass of their own. This equals the transform of the whole image but for what lies beyond
    `CUT_OFF`.
    """
    sums: tuple[ComplexArray, ...] = ()
    if not passes.is_whole:
        sums = passes.add_up("contrast", partial(_sum_coefficients, images, tables), sides=passes.sides)
    vision = _Vision(passes, sums)
    (total,) = passes.add_up("contrast", partial(_sum_kept, images, tables, vision), sides=passes.sides)
    return float(total / math.prod(passes.shape))


def _sum_kept(images: Sequence[Levels], tables: Sequence[NDArray[np.uint8]], vision: _Vision, block: Window) -> tuple[float]:
    """Return the sum of the contrast that a block of the fused image keeps."""

    def map_contrast(number: int) -> FloatArray:
        contrast = vision.map_contrast(images[number], tables[number], block, number=number)
        vision.passes.report_share((number + 1) % len(images) / len(images))
        return contrast

    # the fused image is kept, sources come one by one: memory for two maps, however many sources
    of_fused = map_contrast(len(images) - 1)
    return (sum_contrast(map(map_contrast, range(len(images) - 1)), of_fused),)


def sum_contrast(of_sources: Iterable[FloatArray], of_fused: FloatArray) -> float:
    """Sum what of the masked local contrast of the sources the fused image keeps."""
    n_sources = 0
    # running sums of ratios: weighted, their weights, and unweighted for pixels where no source has contrast
    kept, total, plain = np.zeros((3, *of_fused.shape))
    for contrast in of_sources:
        n_sources += 1
        larger = np.maximum(contrast, of_fused)
        is_zero = larger == 0
        ratio = np.where(is_zero, 1, np.minimum(contrast, of_fused) / np.where(is_zero, 1, larger))
        kept += contrast**2 * ratio
        total += contrast**2
        plain += ratio
    has_contrast = total > 0
    return float(np.sum(np.where(has_contrast, kept / np.where(has_contrast, total, 1), plain / n_sources)))


def mask_contrast(visible: FloatArray) -> FloatArray:
    """Compute the masked local contrast wherever the Gaussians are complete, `CONTRAST_REACH_PX` from every side.

    Notes
    -----
    ``C = |(G_2 * f) / (G_4 * f) - 1|`` with Gaussians of sigma 2 and 4 px cut at 31 x 31 and not rescaled to sum 1, then
    ``C' = C^3 / (C^2 + 0.0001)``; specification, section 6. Where ``G_4 * f`` is exactly 0 there is no light, and C is 0.
    """
    # one factor per axis of 1 / (2 pi sigma^2); the taps are cut, and the reference does not make up for what is cut off
    fine, coarse = (sample_gaussian(GAUSSIAN_SIDE, sigma=sigma) / (np.sqrt(2 * np.pi) * sigma) for sigma in (FINE_SIGMA, COARSE_SIGMA))
    blurred, background = (filter_valid(filter_valid(visible, taps, axis=0), taps, axis=1) for taps in (fine, coarse))
    is_lit = background != 0
    local = np.where(is_lit, np.abs(blurred / np.where(is_lit, background, 1) - 1), 0).clip(max=LARGEST_CONTRAST)
    # C^3 / (C^2 + Z) in an order of operations that cannot overflow
    masked: FloatArray = local * (local**2 / (local**2 + MASKING_OFFSET))
    return masked


@dataclass(frozen=True, slots=True)
class _Vision:
    """How an eye sees images of one shape; of large ones with the lowest coefficients of each."""

    passes: Passes
    coefficients: tuple[ComplexArray, ...]

    def map_contrast(self, image: Levels, table: NDArray[np.uint8], block: Window, *, number: int) -> FloatArray:
        """Return the masked local contrast of a block."""
        # beyond the image the reference has zeros, which are not filtered: only what lies inside is, and zeros are put around it afterwards
        near = block.grown(CONTRAST_REACH_PX, self.passes.shape)
        visible = self._filter(image, table, near)
        if self.coefficients:
            visible -= NARROW_GAIN * _synthesize(self.passes.shape, near, self.coefficients[number])
        padded = np.zeros((block.shape[0] + 2 * CONTRAST_REACH_PX, block.shape[1] + 2 * CONTRAST_REACH_PX))
        padded[near.moved(CONTRAST_REACH_PX - block.top, CONTRAST_REACH_PX - block.left).slices] = visible
        return mask_contrast(padded)

    def _filter(self, image: Levels, table: NDArray[np.uint8], window: Window) -> FloatArray:
        """Return a window filtered by the wide band, of a small image also by the narrow one."""
        starts, lengths, wide, narrow = [], [], [], []
        for axis, (side, block_side) in enumerate(zip(self.passes.shape, self.passes.sides, strict=True)):
            start, length = 0, side
            if block_side < side:
                # exp(-(f / b)^2) in frequency is a Gaussian of 1 / (sqrt(2) pi b) px in space; CUT_OFF of them are the margin
                margin = max(LEAST_MARGIN_PX, math.ceil(CUT_OFF / (math.sqrt(2) * math.pi * _count_periods(side, WIDE_BAND))))
                start, length = window[axis] - margin, fft.next_fast_len(window.shape[axis] + 2 * margin, real=True)
            frequencies = fft.rfftfreq(length) if axis else fft.fftfreq(length)
            starts.append(start)
            lengths.append(length)
            wide.append(np.exp(-((frequencies / _count_periods(side, WIDE_BAND)) ** 2)))
            narrow.append(np.exp(-((frequencies / _count_periods(side, NARROW_BAND)) ** 2)))
        # the image is periodic for the reference's transform, so a block at the border continues at the opposite one
        levels = table[read_periodic(image, (starts[0], starts[1]), (lengths[0], lengths[1]))]
        spectrum = fft.rfft2(levels.astype(np.float64), overwrite_x=True)
        spectrum *= np.outer(*wide) if self.coefficients else np.outer(*wide) - NARROW_GAIN * np.outer(*narrow)
        filtered: FloatArray = fft.irfft2(spectrum, s=lengths, overwrite_x=True)
        return filtered[window.moved(-starts[0], -starts[1]).slices]


def _count_periods(side: int, band: float) -> float:
    """Return the frequency, in periods per pixel, at which a band falls to 1 / e."""
    return band * FREQUENCY_SCALE / 2 / side


def _sum_coefficients(images: Sequence[Levels], tables: Sequence[NDArray[np.uint8]], block: Window) -> list[ComplexArray]:
    """Return what a block adds to the lowest coefficients of every image, shape (K, k) each."""
    rows, columns = _sample_waves((images[0].shape[0], images[0].shape[1]), block)
    # a Fourier transform of few frequencies is a product with two thin matrices, and blocks simply add up
    return [rows.conj().T @ table[image[block.slices]] @ columns.conj() for image, table in zip(images, tables, strict=True)]


def _synthesize(shape: tuple[int, int], window: Window, coefficients: ComplexArray) -> FloatArray:
    """Return a window of what the narrow band passes; of a pair of opposite waves along the columns one is kept and counts twice."""
    rows, columns = _sample_waves(shape, window)
    down, across = _list_periods(shape)
    weights = [np.exp(-((k / side / _count_periods(side, NARROW_BAND)) ** 2)) for k, side in zip((down, across), shape, strict=True)]
    # neither the wave of frequency 0 nor that at the sampling limit has an opposite
    weights[1] *= np.where(2 * across % shape[1] == 0, 1, 2)
    weighted = coefficients * np.outer(*weights) / math.prod(shape)
    return np.ascontiguousarray((rows @ weighted @ columns.T).real)


def _list_periods(shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of periods along each side that the narrow band passes: along the columns those from 0 on."""
    # exp(-(f / b)^2) has a standard deviation of b / sqrt(2)
    reach = math.ceil(CUT_OFF / math.sqrt(2) * NARROW_BAND * FREQUENCY_SCALE / 2)
    down, across = fft.fftfreq(shape[0], 1 / shape[0]), fft.rfftfreq(shape[1], 1 / shape[1])
    return np.rint(down[np.abs(down) < reach + 0.5]), np.rint(across[across < reach + 0.5])


def _sample_waves(shape: tuple[int, int], window: Window) -> tuple[ComplexArray, ComplexArray]:
    """Return the waves of `_list_periods` along the rows and along the columns of a window."""
    down, across = _list_periods(shape)
    rows = np.outer(np.arange(window.top, window.bottom), down) / shape[0]
    columns = np.outer(np.arange(window.left, window.right), across) / shape[1]
    return np.exp(2j * np.pi * rows), np.exp(2j * np.pi * columns)
