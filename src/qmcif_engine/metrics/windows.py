"""Means, variances, covariance and structural similarity of two images over sliding windows.

Q_E, Q_Y, Q_P and the similarities to a truth differ in window and constants only; what they share is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A square window that averages over every complete place in a plane; a side longer than the plane shrinks to it.

    Attributes
    ----------
    side : int
        In pixels.
    sigma : float or None
        Width of the Gaussian by which the weights fall off; None where all pixels weigh the same.
    """

    side: int
    sigma: float | None = None

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the weighted mean of each complete window."""
        for axis in (0, 1):
            length = min(self.side, plane.shape[axis])
            weights = np.ones(length) if self.sigma is None else sample_gaussian(length, sigma=self.sigma)
            plane = filter_valid(plane, weights / weights.sum(), axis=axis)
        return plane


def sample_gaussian(length: int, *, sigma: float) -> FloatArray:
    """Return ``exp(-x^2 / (2 sigma^2))`` at `length` points one pixel apart and centered on 0."""
    positions = np.arange(length) - (length - 1) / 2
    values: FloatArray = np.exp(-(positions**2) / (2 * sigma**2))
    return values


def filter_valid(plane: FloatArray, weights: FloatArray, *, axis: int) -> FloatArray:
    """Correlate along one axis, keeping complete windows only."""
    # the mode does not matter: what it affects is cut off
    filtered: FloatArray = ndimage.correlate1d(plane, weights, axis=axis, mode="constant")
    return cut_complete(filtered, len(weights), axis=axis)


def cut_complete(plane: NDArray[Any], length: int, *, axis: int) -> NDArray[Any]:
    """Return a view of the places along an axis around which a filter of so many samples lies in the plane."""
    places = slice(length // 2, plane.shape[axis] - (length - 1) // 2)
    return plane[places] if axis == 0 else plane[:, places]


@dataclass(frozen=True, slots=True)
class LocalMoments:
    """A plane together with the moments of its windows.

    Attributes
    ----------
    plane : ndarray of float64, shape (h, w)
        The samples.
    mean, variance : ndarray of float64, shape (h', w')
        One value for each complete window; variances are not negative.
    flat : ndarray of bool, shape (h', w'), or None
        Windows known to be constant, whose variance was set to exactly 0.
    """

    plane: FloatArray
    mean: FloatArray
    variance: FloatArray
    flat: BoolArray | None = None


def compute_moments(plane: NDArray[Any], window: SlidingWindow) -> LocalMoments:
    """Compute mean and population variance of every complete window.

    Notes
    -----
    ``v = E[x^2] - E[x]^2`` (specification, section 4). Rounding may push it below 0, where it is set to 0.
    """
    # E[x^2] - E[x]^2 subtracts nearly equal numbers in flat windows: in single precision rounding would be most of the difference
    samples = plane.astype(np.float64)
    mean = window.average(samples)
    variance = np.maximum(window.average(samples * samples) - mean * mean, 0.0)
    return LocalMoments(samples, mean, variance)


def compute_exact_moments(plane: NDArray[Any], window: SlidingWindow) -> LocalMoments:
    """Compute moments whose variance is exactly 0 in every constant window.

    Rounding leaves such windows a variance of about 1e-12. Take this function where the constants of the comparison are smaller still.

    Notes
    -----
    Specification, section 5, "Numerical trap": constant windows are found by comparing samples.
    """
    moments = compute_moments(plane, window)
    largest = smallest = plane
    for axis in (0, 1):
        length = min(window.side, plane.shape[axis])
        largest = cut_complete(ndimage.maximum_filter1d(largest, length, axis=axis), length, axis=axis)
        smallest = cut_complete(ndimage.minimum_filter1d(smallest, length, axis=axis), length, axis=axis)
    flat: BoolArray = largest == smallest
    return replace(moments, variance=np.where(flat, 0.0, moments.variance), flat=flat)


def compute_covariance(first: LocalMoments, second: LocalMoments, *, window: SlidingWindow) -> FloatArray:
    """Compute the covariance of two planes in every complete window.

    Notes
    -----
    ``c = E[x y] - E[x] E[y]`` (specification, section 4), exactly 0 where either window is known to be constant (section 5).
    """
    covariance = window.average(first.plane * second.plane) - first.mean * second.mean
    for flat in (first.flat, second.flat):
        if flat is not None:
            covariance[flat] = 0.0
    return covariance


def compare_structure(first: LocalMoments, second: LocalMoments, *, window: SlidingWindow, constants: tuple[float, float]) -> FloatArray:
    """Compute the structural similarity of two planes in every complete window.

    Parameters
    ----------
    first, second : LocalMoments
        Moments over the same window.
    window : SlidingWindow
        That window.
    constants : tuple of float
        ``C1`` and ``C2``, both positive; they decide 0 / 0 in black and in flat windows.

    Returns
    -------
    ndarray of float64, shape (h', w')
        Values in -1..1 (up to rounding); 1 where the windows are equal.

    Notes
    -----
    ``(2 mx my + C1)(2 cxy + C2) / ((mx^2 + my^2 + C1)(vx + vy + C2))``: Wang et al. 2004, Eq. (13); specification, section 4.
    """
    luminance_constant, structure_constant = constants
    covariance = compute_covariance(first, second, window=window)
    luminance = (2 * first.mean * second.mean + luminance_constant) / (first.mean**2 + second.mean**2 + luminance_constant)
    structure = (2 * covariance + structure_constant) / (first.variance + second.variance + structure_constant)
    return luminance * structure
