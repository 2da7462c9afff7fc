"""Log-Gabor filters that phase congruency is computed with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .levels import choose_precision
from .sliding_windows import iterate_strips

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

N_SCALES = 4
N_ORIENTATIONS = 6
# wavelengths 3, 6.3, 13.2 and 27.8 px; the bandwidth is the ratio of a filter's deviation to its center frequency (Kovesi's sigmaOnf)
SHORTEST_WAVELENGTH_PX, WAVELENGTH_RATIO, BANDWIDTH = 3.0, 2.1, 0.55
ANGULAR_SIGMA = math.pi / N_ORIENTATIONS / 1.2
# in periods per pixel; it takes the corners of the spectrum away, where the filters would not be round
LOW_PASS_CUTOFF, LOW_PASS_EXPONENT = 0.45, 15


class FilterBank:
    """The 4 x 6 filters for images of one shape, sampled in the frequency domain.

    Small banks are kept; above 4 megapixels filters are computed anew strip by strip, since keeping them would need more memory than
    everything else.

    Notes
    -----
    ``K_so = R_s S_o``, radial times angular part: specification, section 3.1, after Kovesi 1999. Frequency axes are sampled as there,
    including the low-pass that lies one sample off for odd sides.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[np.floating[Any]] | None = None) -> None:
        """Sample the axes, the filters of small images, and the noise gains; the size decides on the type where none is given."""
        self.shape = shape
        self.dtype = choose_precision(shape) if dtype is None else dtype
        self._axes = [np.fft.ifftshift(_sample_axis(side)).astype(self.dtype) for side in shape]
        # `fftshift` where `ifftshift` would be right: the reference's slip, which shows for odd sides only
        self._low_pass_axes = [np.fft.fftshift((np.arange(side) - side // 2) / side).astype(self.dtype) for side in shape]
        # who names a type (blocks of one fixed size) shares the bank among many images, so keeping pays
        self.is_kept = dtype is not None or self.dtype == np.float64
        # no rows: the tables below are then empty, and `sample` computes what it needs
        rows = np.arange(shape[0] if self.is_kept else 0)
        self._radial = self._compute_radial(rows, range(N_SCALES))
        self._angular = [self._compute_angular(rows, orientation) for orientation in range(N_ORIENTATIONS)]
        self.noise_gains = [self._compute_noise_gain(orientation) for orientation in range(N_ORIENTATIONS)]

    def sample(self, rows: slice | NDArray[np.intp], *, orientation: int, scales: Iterable[int]) -> FloatArray:
        """Return some rows of the sum of some scales of one orientation, frequency 0 first.

        Parameters
        ----------
        rows : slice or ndarray of int
            Rows of the spectrum.
        orientation : int
            0 to 5, in steps of 30 degrees.
        scales : iterable of int
            0 (finest) to 3.

        Returns
        -------
        ndarray of float, shape (h, W)
            Filter values, real.
        """
        if self.is_kept:
            radial, angular = [self._radial[scale][rows] for scale in scales], self._angular[orientation][rows]
        else:
            indices = np.arange(self.shape[0])[rows]
            radial, angular = self._compute_radial(indices, scales), self._compute_angular(indices, orientation)
        # all scales share the angular part, so it is multiplied once
        total: FloatArray = sum(radial[1:], start=radial[0]) * angular
        return total

    def _compute_radial(self, indices: NDArray[np.intp], scales: Iterable[int]) -> list[FloatArray]:
        """Compute ``R_s = exp(-ln(r / f_s)^2 / (2 ln(0.55)^2)) / (1 + (rho / 0.45)^30)``, 0 at frequency 0."""
        (down, across), (low_down, low_across) = self._axes, self._low_pass_axes
        squared_radius = down[indices, np.newaxis] ** 2 + across**2
        is_zero = squared_radius == 0
        # ln of the root without taking the root
        log_radius = np.log(np.where(is_zero, 1, squared_radius)) / 2
        squared_share = (low_down[indices, np.newaxis] ** 2 + low_across**2) / LOW_PASS_CUTOFF**2
        low_pass = 1 / (1 + squared_share**LOW_PASS_EXPONENT)
        # no filter passes the mean of the image
        low_pass[is_zero] = 0
        log_wavelengths = [math.log(SHORTEST_WAVELENGTH_PX * WAVELENGTH_RATIO**scale) for scale in scales]
        return [low_pass * np.exp((log_radius + offset) ** 2 / (-2 * math.log(BANDWIDTH) ** 2)) for offset in log_wavelengths]

    def _compute_angular(self, indices: NDArray[np.intp], orientation: int) -> FloatArray:
        """Compute ``S_o = exp(-d^2 / (2 sigma^2))`` with d the angle to the filter's direction, 0 to pi."""
        down, across = self._axes
        # rows count downwards, angles counterclockwise
        angle = np.arctan2(-down[indices, np.newaxis], across)
        distance = np.abs(angle - orientation * math.pi / N_ORIENTATIONS)
        # differences beyond half a turn go the other way round
        distance = np.minimum(distance, 2 * math.pi - distance)
        values: FloatArray = np.exp(distance**2 / (-2 * ANGULAR_SIGMA**2))
        return values

    def _compute_noise_gain(self, orientation: int) -> float:
        """Divide the energy of the even part of the summed filters by the energy of the finest filter.

        Notes
        -----
        The even part of ``K = sum_s K_s`` is ``(K(w) + K(-w)) / 2``; its energy is ``sum (K(w)^2 + K(w) K(-w)) / 2``.
        """
        even_energy, finest_energy = 0.0, 0.0
        for rows in iterate_strips(self.shape):
            mirrored_rows = -np.arange(rows.start, rows.stop) % self.shape[0]
            total = self.sample(rows, orientation=orientation, scales=range(N_SCALES))
            mirrored = self.sample(mirrored_rows, orientation=orientation, scales=range(N_SCALES))
            # column -v of the spectrum, with frequency 0 staying first
            mirrored = np.roll(mirrored[:, ::-1], 1, axis=1)
            finest = self.sample(rows, orientation=orientation, scales=(0,))
            even_energy += float(np.sum(total * (total + mirrored), dtype=np.float64)) / 2
            finest_energy += float(np.sum(finest**2, dtype=np.float64))
        # a single pixel has frequency 0 only, which no filter passes
        return even_energy / finest_energy if finest_energy > 0 else 0.0


def _sample_axis(side: int) -> FloatArray:
    """Sample one frequency axis, 0 in the middle: steps of 1 / side for even sides, 1 / (side - 1) for odd ones."""
    if side == 1:
        return np.zeros(1)
    steps = side - side % 2
    return (np.arange(side) - steps // 2) / steps
