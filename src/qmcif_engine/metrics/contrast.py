"""Q_CB: how well the fused image keeps the contrast a human eye sees in the sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from .evaluation_progress import ignore_step
from .levels import choose_precision, stretch_levels
from .sliding_windows import cut_padded, filter_valid, iterate_strips, sample_gaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

# all of these are the reference's; bands are in the same unit as frequencies divided by the scale, sigmas in pixels
FREQUENCY_SCALE = 30.0
WIDE_BAND, NARROW_BAND, NARROW_GAIN = 15.3870, 1.3456, 0.7622
GAUSSIAN_SIDE = 31
CONTRAST_REACH_PX = GAUSSIAN_SIDE // 2
FINE_SIGMA, COARSE_SIGMA = 2.0, 4.0
MASKING_OFFSET = 1e-4
LARGEST_CONTRAST = 1e15  # its square still fits single precision; met only where the background is 0 but for rounding


def measure_contrast(sources: Sequence[Levels], fused: Levels, *, on_step: Callable[[], None] = ignore_step) -> float:
    """Measure the perceived contrast carried over from the sources (Q_CB).

    Parameters
    ----------
    sources : sequence of ndarray of uint8, shape (H, W)
        Gray levels of N >= 2 sources.
    fused : ndarray of uint8, shape (H, W)
        Gray levels of the fused image.
    on_step : callable
        Called once for each image, N + 1 times.

    Returns
    -------
    float
        0 to 1; 1 for identical images.

    Notes
    -----
    ``Q_CB = mean_p sum_n (C_n^2 / sum_m C_m^2) min(C_n, C_F) / max(C_n, C_F)``: specification, section 6, after Chen and Blum 2009, the
    weights being the shares of all N sources. Two settings the reference lacks: images both without contrast agree (0 / 0 is 1), and
    where no source has contrast all weigh the same. So constant images score 1 against each other. Sources are taken one at a time, so
    that memory does not grow with N.
    """
    seen_fused = map_contrast(fused)
    on_step()
    return sum_contrast(_map_each(sources, on_step=on_step), seen_fused) / fused.size


def _map_each(sources: Sequence[Levels], *, on_step: Callable[[], None]) -> Iterator[FloatArray]:
    """Yield the contrast of one source after the other; a step is done when the next one is asked for."""
    for source in sources:
        yield map_contrast(source)
        on_step()


def sum_contrast(seen_sources: Iterable[FloatArray], seen_fused: FloatArray) -> float:
    """Sum what of the contrast of the sources the fused image keeps, over an image or a part of it.

    Parameters
    ----------
    seen_sources : iterable of ndarray of float, shape (h, w)
        Masked local contrast of each source; only one is held at a time.
    seen_fused : ndarray of float, shape (h, w)
        That of the fused image.
    """
    n_sources = 0
    # running sums of ratios: weighted, their weights, and unweighted for pixels where no source has contrast
    kept, total, plain = (np.zeros_like(seen_fused) for _ in range(3))
    for seen in seen_sources:
        n_sources += 1
        for rows in iterate_strips(seen_fused.shape):
            # strip by strip, so that the temporary maps stay in the cache
            ratio = _divide_smaller_by_larger(seen[rows], seen_fused[rows])
            weight = seen[rows] ** 2
            kept[rows] += weight * ratio
            total[rows] += weight
            plain[rows] += ratio
    score = 0.0
    for rows in iterate_strips(seen_fused.shape):
        has_contrast = total[rows] > 0
        weighted = kept[rows] / np.where(has_contrast, total[rows], 1)
        # float64: maps of large images are in single precision, whose sums over megapixels would drift
        score += float(np.sum(np.where(has_contrast, weighted, plain[rows] / n_sources), dtype=np.float64))
    return score


def map_contrast(gray: Levels) -> FloatArray:
    """Map the masked local contrast of an image as an eye sees it.

    Notes
    -----
    ``C = |(G_2 * f) / (G_4 * f) - 1|`` with Gaussians of sigma 2 and 4 px cut at 31 x 31 and not rescaled to sum 1, then
    ``C' = C^3 / (C^2 + 0.0001)``; specification, section 6. Where ``G_4 * f`` is exactly 0 there is no light, and C is 0.
    """
    # the filter is global, what follows is local: only the filtered image is held whole
    visible = filter_by_sensitivity(stretch_levels(gray))
    contrast = np.empty_like(visible)
    for rows in iterate_strips(gray.shape):
        contrast[rows] = mask_contrast(cut_padded(visible, rows, margin=CONTRAST_REACH_PX))
    return contrast


def mask_contrast(visible: FloatArray) -> FloatArray:
    """Compute the masked local contrast wherever the Gaussians are complete, `CONTRAST_REACH_PX` from every side."""
    # one factor per axis of 1 / (2 pi sigma^2); the taps are cut, and the reference does not make up for what is cut off
    fine, coarse = (sample_gaussian(GAUSSIAN_SIDE, sigma=sigma) / (np.sqrt(2 * np.pi) * sigma) for sigma in (FINE_SIGMA, COARSE_SIGMA))
    blurred, background = (filter_valid(filter_valid(visible, taps, axis=0), taps, axis=1) for taps in (fine, coarse))
    is_lit = background != 0
    local = np.where(is_lit, np.abs(blurred / np.where(is_lit, background, 1) - 1), 0).clip(max=LARGEST_CONTRAST)
    # C^3 / (C^2 + Z) in an order of operations that cannot overflow
    masked: FloatArray = local * (local**2 / (local**2 + MASKING_OFFSET))
    return masked


def filter_by_sensitivity(levels: Levels) -> FloatArray:
    """Weigh the frequencies of an image by the contrast sensitivity of the eye.

    Notes
    -----
    ``S(r) = exp(-(r / 15.3870)^2) - 0.7622 exp(-(r / 1.3456)^2)``; specification, section 6. Each term factors into rows and columns, and
    S is even, so the real transform suffices. Its frequencies reach 1 at the sampling limit, times side / 30.
    """
    n_rows, n_columns = levels.shape
    spectrum = fft.rfft2(levels.astype(choose_precision(levels.shape)), overwrite_x=True)
    down = fft.fftfreq(n_rows) * 2 * n_rows / FREQUENCY_SCALE
    across = fft.rfftfreq(n_columns) * 2 * n_columns / FREQUENCY_SCALE
    wide_down, narrow_down = np.exp(-((down / WIDE_BAND) ** 2)), NARROW_GAIN * np.exp(-((down / NARROW_BAND) ** 2))
    wide_across, narrow_across = np.exp(-((across / WIDE_BAND) ** 2)), np.exp(-((across / NARROW_BAND) ** 2))
    # the filter is formed strip by strip from its two factors; whole, it would take as much memory as the spectrum
    for rows in iterate_strips(spectrum.shape):
        spectrum[rows] *= np.outer(wide_down[rows], wide_across) - np.outer(narrow_down[rows], narrow_across)
    filtered: FloatArray = fft.irfft2(spectrum, s=levels.shape, overwrite_x=True)
    return filtered


def _divide_smaller_by_larger(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return min / max of two maps, 1 where both are 0."""
    larger = np.maximum(first, second)
    is_zero = larger == 0
    return np.where(is_zero, 1, np.minimum(first, second) / np.where(is_zero, 1, larger))
