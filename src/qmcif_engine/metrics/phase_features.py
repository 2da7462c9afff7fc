"""Features of an image by phase congruency: points where its waves of all sizes rise or fall together; found with log-Gabor filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from qmcif_engine.arrays import ComplexArray, FloatArray

N_SCALES = 4
N_ORIENTATIONS = 6
# wavelengths 3, 6.3, 13.2 and 27.8 px; the bandwidth is the ratio of a filter's deviation to its center frequency (Kovesi's sigmaOnf)
SHORTEST_WAVELENGTH_PX, WAVELENGTH_RATIO, BANDWIDTH = 3.0, 2.1, 0.55
ANGULAR_SIGMA = math.pi / N_ORIENTATIONS / 1.2
# in periods per pixel; it takes the corners of the spectrum away, where the filters would not be round
LOW_PASS_CUTOFF, LOW_PASS_EXPONENT = 0.45, 15
STABILIZER = 1e-4
# Kovesi's parameters: standard deviations of the noise above its mean, and his empirical correction of the threshold
NOISE_MULTIPLE, NOISE_CORRECTION = 2.0, 1.7
SPREAD_CUTOFF, SPREAD_SLOPE = 0.5, 10.0
PIXELS_PER_STRIP = 1 << 15


class PhaseFeatures(NamedTuple):
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


class FilterBank:
    """The 4 x 6 log-Gabor filters for images of one shape, sampled in the frequency domain.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype
        float32 or float64.

    Notes
    -----
    ``K_so = R_s S_o``, radial times angular part: specification, section 3.1, after Kovesi 1999. Frequency axes are sampled as there,
    including the low-pass that lies one sample off for odd sides.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        down, across = (np.fft.ifftshift(_sample_axis(side)).astype(dtype) for side in shape)
        # `fftshift` where `ifftshift` would be right: the reference's slip, which shows for odd sides only
        low_down, low_across = (np.fft.fftshift((np.arange(side) - side // 2) / side).astype(dtype) for side in shape)
        squared_share = (low_down[:, np.newaxis] ** 2 + low_across**2) / LOW_PASS_CUTOFF**2
        self._radial = _compute_radial(down[:, np.newaxis] ** 2 + across**2, 1 / (1 + squared_share**LOW_PASS_EXPONENT))
        # rows count downwards, angles counterclockwise
        angle = np.arctan2(-down[:, np.newaxis], across)
        self._angular = [_compute_angular(angle, orientation) for orientation in range(N_ORIENTATIONS)]
        self.noise_gains = [self._compute_noise_gain(orientation) for orientation in range(N_ORIENTATIONS)]

    def sample(self, *, orientation: int, scale: int, rows: slice = slice(None)) -> FloatArray:
        """Return one filter, real, frequency 0 first; or some of its rows.

        Parameters
        ----------
        orientation : int
            0 to 5, in steps of 30 degrees.
        scale : int
            0 (finest) to 3.
        rows : slice, optional
        """
        return self._radial[scale][rows] * self._angular[orientation][rows]

    def _compute_noise_gain(self, orientation: int) -> float:
        """Divide the energy of the even part of the summed filters by the energy of the finest filter.

        Notes
        -----
        The even part of ``K = sum_s K_s`` is ``(K(w) + K(-w)) / 2``; its energy is ``sum (K(w)^2 + K(w) K(-w)) / 2``.
        """
        total = sum(self._radial[1:], start=self._radial[0]) * self._angular[orientation]
        # frequency -w, with frequency 0 staying first
        mirrored = np.roll(total[::-1, ::-1], 1, axis=(0, 1))
        finest_energy = float(np.sum(self.sample(orientation=orientation, scale=0) ** 2, dtype=np.float64))
        # a single pixel has frequency 0 only, which no filter passes
        return float(np.sum(total * (total + mirrored), dtype=np.float64)) / 2 / finest_energy if finest_energy > 0 else 0.0


def _sample_axis(side: int) -> FloatArray:
    """Sample one frequency axis, 0 in the middle: steps of 1 / side for even sides, 1 / (side - 1) for odd ones."""
    steps = max(side - side % 2, 1)
    return (np.arange(side) - steps // 2) / steps


def _compute_radial(squared_radius: FloatArray, low_pass: FloatArray) -> list[FloatArray]:
    """Compute ``R_s = exp(-ln(r / f_s)^2 / (2 ln(0.55)^2)) / (1 + (rho / 0.45)^30)``, 0 at frequency 0."""
    is_zero = squared_radius == 0
    # ln of the root without taking the root
    log_radius = np.log(np.where(is_zero, 1, squared_radius)) / 2
    # no filter passes the mean of the image
    low_pass[is_zero] = 0
    log_wavelengths = [math.log(SHORTEST_WAVELENGTH_PX * WAVELENGTH_RATIO**scale) for scale in range(N_SCALES)]
    return [low_pass * np.exp((log_radius + offset) ** 2 / (-2 * math.log(BANDWIDTH) ** 2)) for offset in log_wavelengths]


def _compute_angular(angle: FloatArray, orientation: int) -> FloatArray:
    """Compute ``S_o = exp(-d^2 / (2 sigma^2))`` with d the angle to the filter's direction, 0 to pi."""
    distance = np.abs(angle - orientation * math.pi / N_ORIENTATIONS)
    # differences beyond half a turn go the other way round
    distance = np.minimum(distance, 2 * math.pi - distance)
    values: FloatArray = np.exp(distance**2 / (-2 * ANGULAR_SIGMA**2))
    return values


def compute_phase_features(
    gray: NDArray[np.uint8],
    bank: FilterBank,
    *,
    thresholds: Sequence[float] | None = None,
    on_orientation: Callable[[], None] = lambda: None,
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
    on_orientation : callable
        Called after each of the 6 orientations.

    Returns
    -------
    PhaseFeatures
        Maps in the precision of the bank.

    Notes
    -----
    Specification, section 3.1, after Kovesi 1999. An image that is constant has no congruency (0 / 0 is 0 here, where the reference has
    none).
    """
    spectrum = _transform(gray, bank)
    sums = np.zeros((5, *gray.shape), bank.dtype)
    for orientation in range(N_ORIENTATIONS):
        # one orientation at a time, and freed before the next: responses of whole images take much memory
        responses = [_filter(spectrum, bank, orientation=orientation, scale=0)]
        threshold = thresholds[orientation] if thresholds else estimate_threshold(bank, orientation, np.abs(responses[0]))
        responses += [_filter(spectrum, bank, orientation=orientation, scale=scale) for scale in range(1, N_SCALES)]
        _add_orientation(sums, responses, angle=orientation * math.pi / N_ORIENTATIONS, threshold=threshold)
        del responses
        on_orientation()
    return _conclude(sums)


def compute_finest_amplitudes(gray: NDArray[np.uint8], bank: FilterBank) -> Iterator[FloatArray]:
    """Yield the amplitude of the finest scale for each orientation, from whose median `estimate_threshold` estimates the noise."""
    spectrum = _transform(gray, bank)
    for orientation in range(N_ORIENTATIONS):
        yield np.abs(_filter(spectrum, bank, orientation=orientation, scale=0))


def estimate_threshold(bank: FilterBank, orientation: int, amplitudes: FloatArray) -> float:
    """Estimate the energy that noise alone would reach from the amplitudes of the finest scale.

    Notes
    -----
    Specification, section 3.1: the median squared amplitude gives the noise power; ``tau^2`` is that power times the energy of the even
    part of the summed filters (``P2 + 2 P12``, by Parseval's theorem), and ``T = (tau sqrt(pi/2) + 2 sqrt((2 - pi/2) tau^2)) / 1.7``.
    """
    # amplitudes of noise are Rayleigh distributed: the median of their squares is ln 2 times the mean
    tau = math.sqrt(float(np.median(amplitudes**2)) * bank.noise_gains[orientation] / math.log(2))
    return tau * (math.sqrt(math.pi / 2) + NOISE_MULTIPLE * math.sqrt(2 - math.pi / 2)) / NOISE_CORRECTION


def iterate_strips(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield ranges of rows that cover an image of this shape, whose temporary maps stay in the processor's cache."""
    n_rows = max(64, PIXELS_PER_STRIP // shape[1])
    for start in range(0, shape[0], n_rows):
        yield slice(start, min(start + n_rows, shape[0]))


def _transform(gray: NDArray[np.uint8], bank: FilterBank) -> ComplexArray:
    """Return the spectrum of the levels without a gray level near their mean, which the filters do not pass: this spares digits."""
    # a whole number, so that the difference is exact, and a constant image exactly 0
    spectrum: ComplexArray = fft.fft2(gray.astype(bank.dtype) - np.rint(gray.mean()).astype(bank.dtype))
    return spectrum


def _filter(spectrum: ComplexArray, bank: FilterBank, *, orientation: int, scale: int) -> ComplexArray:
    """Return the complex response to one filter; its real part sees lines, its imaginary part edges."""
    product = np.empty_like(spectrum)
    for rows in iterate_strips(bank.shape):
        np.multiply(spectrum[rows], bank.sample(orientation=orientation, scale=scale, rows=rows), out=product[rows])
    responses: ComplexArray = fft.ifft2(product, overwrite_x=True)
    return responses


def _add_orientation(sums: FloatArray, responses: Sequence[ComplexArray], *, angle: float, threshold: float) -> None:
    """Add to the sums of weighted, noise-free energy, amplitude, and squared congruency across, down and mixed.

    Notes
    -----
    Specification, section 3.1: energy counts less where one scale dominates, ``W = 1 / (1 + exp(10 (0.5 - width)))`` with
    ``width = sum A / (max A + 1e-4) / 4``.
    """
    cosine, sine = math.cos(angle), math.sin(angle)
    for rows in iterate_strips(sums.shape[1:]):
        energy, amplitude, largest = _sum_scales([response[rows] for response in responses])
        width = amplitude / (largest + STABILIZER) / N_SCALES
        weight = 1 / (1 + np.exp((SPREAD_CUTOFF - width) * SPREAD_SLOPE))
        energy = weight * np.maximum(energy - threshold, 0)
        # congruency of this orientation; without amplitude there is no energy either
        squared = (energy / np.where(amplitude == 0, 1, amplitude)) ** 2
        for total, part in zip(sums, (energy, amplitude, squared * cosine**2, squared * sine**2, squared * (cosine * sine)), strict=True):
            total[rows] += part


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


def _conclude(sums: FloatArray) -> PhaseFeatures:
    """Turn the sums into the three maps, in place (specification, section 3.1, outputs)."""
    energy, amplitude, across, down, mixed = sums
    energy /= amplitude + STABILIZER
    # cos^2 and sin^2 each add up to half of the number of orientations
    across /= N_ORIENTATIONS / 2
    down /= N_ORIENTATIONS / 2
    # the reference's divisor, which differs from that of the other two
    mixed /= N_ORIENTATIONS
    # eigenvalues of the 2 x 2 moment matrix, formed as the reference forms them
    total, difference = across + down, np.sqrt(mixed**2 + (across - down) ** 2) + STABILIZER
    across[:], down[:] = (total + difference) / 2, (total - difference) / 2
    return PhaseFeatures(energy, across, down)
