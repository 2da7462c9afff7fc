"""Features of an image by phase congruency: points where its waves of all sizes rise or fall together.

Only one orientation is held at a time, so that whole-image transforms of 24 megapixels fit in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from .evaluation_progress import ignore_step
from .log_gabor import N_ORIENTATIONS, N_SCALES
from .sliding_windows import iterate_strips

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qmcif_engine.arrays import ComplexArray, FloatArray

    from .levels import Levels
    from .log_gabor import FilterBank

STABILIZER = 1e-4
# Kovesi's parameters: standard deviations of the noise above its mean, and his empirical correction of the threshold
NOISE_MULTIPLE = 2.0
NOISE_CORRECTION = 1.7
SPREAD_CUTOFF, SPREAD_SLOPE = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class PhaseFeatures:
    """The three feature maps of one image.

    Attributes
    ----------
    congruency : ndarray of float, shape (H, W)
        Phase congruency over all orientations, 0 to 1.
    largest_moment, smallest_moment : ndarray of float, shape (H, W)
        How strong the feature is across its main direction (edges) and along it (corners).
    """

    congruency: FloatArray
    largest_moment: FloatArray
    smallest_moment: FloatArray

    def as_tuple(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the three maps in the order of the attributes."""
        return self.congruency, self.largest_moment, self.smallest_moment


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over orientations: weighted energy, amplitude, and the squared congruency by direction."""

    energy: FloatArray
    amplitude: FloatArray
    across: FloatArray
    down: FloatArray
    mixed: FloatArray


def compute_phase_features(
    gray: Levels, bank: FilterBank, *, thresholds: Sequence[float] | None = None, on_step: Callable[[], None] = ignore_step
) -> PhaseFeatures:
    """Compute phase congruency and its moments.

    Parameters
    ----------
    gray : ndarray of uint8, shape (H, W)
        Gray levels, taken as periodic.
    bank : FilterBank
        Filters for this shape; images of one shape share it.
    thresholds : sequence of float, optional
        Energy of the noise in each orientation, where it is known from more than these pixels.
    on_step : callable
        Called after each of the 6 orientations.

    Returns
    -------
    PhaseFeatures
        Maps in the precision of the bank.

    Notes
    -----
    Specification, section 3.1, after Kovesi 1999. The filters do not pass the mean, so a gray level near it is subtracted first: this
    spares digits, and makes a constant image exactly 0. It then has no congruency (0 / 0 is 0 here, where the reference has none).
    """
    spectrum = _transform(gray, bank)
    sums = _Sums(*(np.zeros(gray.shape, bank.dtype) for _ in range(5)))
    # four responses are needed at once, for each orientation anew: allocated once
    buffers = [np.empty(bank.shape, spectrum.dtype) for _ in range(N_SCALES)]
    for orientation in range(N_ORIENTATIONS):
        threshold = None if thresholds is None else thresholds[orientation]
        _add_orientation(sums, spectrum, bank=bank, orientation=orientation, buffers=buffers, threshold=threshold)
        on_step()
    return _conclude(sums)


def compute_finest_amplitudes(gray: Levels, bank: FilterBank) -> Iterator[FloatArray]:
    """Yield the amplitude of the finest scale for each orientation, from whose median `estimate_threshold` tells the noise."""
    spectrum = _transform(gray, bank)
    buffer = np.empty(bank.shape, spectrum.dtype)
    for orientation in range(N_ORIENTATIONS):
        yield np.abs(_filter(spectrum, bank, orientation=orientation, scale=0, out=buffer))


def _transform(gray: Levels, bank: FilterBank) -> ComplexArray:
    """Return the spectrum of the levels without a gray level near their mean; of a large image only the left half."""
    centered: FloatArray = gray.astype(bank.dtype)
    # a whole number, so that the difference is exact
    centered -= np.rint(gray.mean())
    spectrum: ComplexArray = fft.fft2(centered) if bank.is_kept else fft.rfft2(centered)
    return spectrum


def _add_orientation(
    sums: _Sums, spectrum: ComplexArray, *, bank: FilterBank, orientation: int, buffers: Sequence[ComplexArray], threshold: float | None
) -> None:
    """Add the weighted, noise-free energy of one orientation to the sums.

    Notes
    -----
    Specification, section 3.1: energy counts less where one scale dominates, ``W = 1 / (1 + exp(10 (0.5 - width)))`` with
    ``width = sum A / (max A + 1e-4) / 4``.
    """
    # the finest scale first: its median tells the noise
    responses = [_filter(spectrum, bank, orientation=orientation, scale=0, out=buffers[0])]
    if threshold is None:
        # the buffer of the next scale is free until that scale is filtered
        median = _find_median_power(responses[0], scratch=buffers[1])
        threshold = estimate_threshold(median, gain=bank.noise_gains[orientation])
    responses += [_filter(spectrum, bank, orientation=orientation, scale=scale, out=buffers[scale]) for scale in range(1, N_SCALES)]
    angle = orientation * math.pi / N_ORIENTATIONS
    cosine, sine = math.cos(angle), math.sin(angle)
    for rows in iterate_strips(bank.shape):
        energy, amplitude, largest = _sum_scales([response[rows] for response in responses])
        width = amplitude / (largest + STABILIZER) / N_SCALES
        weight = 1 / (1 + np.exp((SPREAD_CUTOFF - width) * SPREAD_SLOPE))
        energy = weight * np.maximum(energy - threshold, 0)
        # congruency of this orientation; without amplitude there is no energy either
        squared = (energy / np.where(amplitude == 0, 1, amplitude)) ** 2
        sums.energy[rows] += energy
        sums.amplitude[rows] += amplitude
        sums.across[rows] += squared * cosine**2
        sums.down[rows] += squared * sine**2
        sums.mixed[rows] += squared * (cosine * sine)


def _sum_scales(responses: Sequence[ComplexArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return energy, sum of amplitudes and largest amplitude over the scales of one orientation.

    Notes
    -----
    With ``T = sum_s EO_s`` and ``d = T / (|T| + 1e-4)`` the energy of the specification, section 3.1, is
    ``Re(T conj d) - sum_s |Im(EO_s conj d)|``.
    """
    total = sum(responses[1:], start=responses[0])
    modulus = np.abs(total)
    # unit vector of the mean phase, conjugated, so that multiplying by it turns a response to that phase
    direction = total.conj() / (modulus + STABILIZER)
    energy = modulus**2 / (modulus + STABILIZER)
    amplitudes = [np.abs(response) for response in responses]
    for response in responses:
        # a scale whose phase deviates counts against the others
        energy -= np.abs((response * direction).imag)
    return energy, sum(amplitudes[1:], start=amplitudes[0]), reduce(np.maximum, amplitudes)


def _filter(spectrum: ComplexArray, bank: FilterBank, *, orientation: int, scale: int, out: ComplexArray) -> ComplexArray:
    """Return the complex response to one filter, in `out`; its real part sees lines, its imaginary part edges."""
    for rows in iterate_strips(bank.shape):
        part = _read_spectrum(spectrum, rows, n_columns=bank.shape[1])
        np.multiply(part, bank.sample(rows, orientation=orientation, scales=(scale,)), out=out[rows])
    responses: ComplexArray = fft.ifft2(out, overwrite_x=True)
    return responses


def _read_spectrum(spectrum: ComplexArray, rows: slice, *, n_columns: int) -> ComplexArray:
    """Return whole rows of a spectrum; of a large image only the left half is kept, the rest being its mirrored conjugate."""
    n_kept = spectrum.shape[1]
    if n_kept == n_columns:
        return spectrum[rows]
    # of real samples, F(-u, -v) is the conjugate of F(u, v)
    mirrored_rows = -np.arange(rows.start, rows.stop) % spectrum.shape[0]
    return np.hstack([spectrum[rows], spectrum[mirrored_rows, n_columns - n_kept : 0 : -1].conj()])


def estimate_threshold(median_power: float, *, gain: float) -> float:
    """Estimate the energy that noise alone would reach.

    Notes
    -----
    Specification, section 3.1: the median squared amplitude of the finest scale gives the noise power; ``tau^2`` is that power times the
    energy of the even part of the summed filters (``P2 + 2 P12``, by Parseval's theorem), and
    ``T = (tau sqrt(pi/2) + 2 sqrt((2 - pi/2) tau^2)) / 1.7``.
    """
    # amplitudes of noise are Rayleigh distributed: the median of their squares is ln 2 times the mean
    tau = math.sqrt(median_power / math.log(2) * gain)
    return tau * (math.sqrt(math.pi / 2) + NOISE_MULTIPLE * math.sqrt(2 - math.pi / 2)) / NOISE_CORRECTION


def _find_median_power(finest_response: ComplexArray, *, scratch: ComplexArray) -> float:
    """Return the median squared amplitude of a response."""
    n_pixels = finest_response.size
    # real view of a complex buffer: no further array of the size of the image
    amplitude = scratch.ravel().view(scratch.real.dtype)[:n_pixels]
    np.abs(finest_response.ravel(), out=amplitude)
    # both middle values of an even number of pixels, the same one twice of an odd number
    middle = [(n_pixels - 1) // 2, n_pixels // 2]
    amplitude.partition(middle)
    return float(np.mean(amplitude[middle].astype(np.float64) ** 2))


def _conclude(sums: _Sums) -> PhaseFeatures:
    """Turn the sums into the three maps, in place (specification, section 3.1, outputs)."""
    for rows in iterate_strips(sums.energy.shape):
        sums.energy[rows] /= sums.amplitude[rows] + STABILIZER
        # cos^2 and sin^2 each add up to half of the number of orientations
        across, down = sums.across[rows] / (N_ORIENTATIONS / 2), sums.down[rows] / (N_ORIENTATIONS / 2)
        # the reference's divisor, which differs from that of the other two
        mixed = sums.mixed[rows] / N_ORIENTATIONS
        # eigenvalues of the 2 x 2 moment matrix, formed as the reference forms them
        difference = np.sqrt(mixed**2 + (across - down) ** 2) + STABILIZER
        sums.across[rows] = (across + down + difference) / 2
        sums.down[rows] = (across + down - difference) / 2
    return PhaseFeatures(sums.energy, sums.across, sums.down)
