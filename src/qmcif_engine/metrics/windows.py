"""Means, variances, covariance and structural similarity of two images over sliding windows.

Q_E, Q_Y, Q_P and the similarities to a truth differ in window and constants only; what they share is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from qmcif_engine.arrays import BoolArray, FloatArray


class SlidingWindow(Protocol):
    """Averages over every complete window of a plane; a side longer than the plane shrinks to it."""

    @property
    def side(self) -> int:
        """Return the side in pixels."""

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the average of each complete window."""


@dataclass(frozen=True, slots=True)
class GaussianWindow:
    """A square window whose weights fall off as a Gaussian, and factor into rows and columns."""

    side: int
    sigma: float

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the weighted mean of each complete window."""
        for axis in (0, 1):
            weights = sample_gaussian(min(self.side, plane.shape[axis]), sigma=self.sigma)
            plane = filter_valid(plane, weights / weights.sum(), axis=axis)
        return plane


@dataclass(frozen=True, slots=True)
class BoxWindow:
    """A square window in which all pixels weigh the same.

    Notes
    -----
    Sums are formed by doubling (1, 2, 4, 8 pixels). So, with a side that is a power of two, means of integers and of constant windows
    are exact, which lets the specification's rule for variances of exactly zero (section 4) apply where it should.
    """

    side: int

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the mean of each complete window."""
        for axis in (0, 1):
            length = min(self.side, plane.shape[axis])
            plane = _sum_windows(plane, length, axis=axis) / length
        return plane


def sample_gaussian(length: int, *, sigma: float) -> FloatArray:
    """Return ``exp(-x^2 / (2 sigma^2))`` at `length` points one pixel apart and centered on 0."""
    positions = np.arange(length) - (length - 1) / 2
    values: FloatArray = np.exp(-(positions**2) / (2 * sigma**2))
    return values


def filter_valid(plane: FloatArray, weights: FloatArray, *, axis: int) -> FloatArray:
    """Correlate along one axis, keeping complete windows only."""
    length = len(weights)
    # the mode does not matter: what it affects is cut off
    filtered: FloatArray = ndimage.correlate1d(plane, weights, axis=axis, mode="constant")
    return _cut_along(filtered, axis, start=length // 2, length=plane.shape[axis] - length + 1)


def _sum_windows(plane: FloatArray, length: int, *, axis: int) -> FloatArray:
    """Sum every `length` consecutive samples along an axis: two halves, and the odd sample."""
    if length == 1:
        return plane
    half, n_windows = length // 2, plane.shape[axis] - length + 1
    halves = _sum_windows(plane, half, axis=axis)
    total: FloatArray = _cut_along(halves, axis, start=0, length=n_windows) + _cut_along(halves, axis, start=half, length=n_windows)
    return total if length % 2 == 0 else total + _cut_along(plane, axis, start=length - 1, length=n_windows)


def _cut_along(plane: NDArray[Any], axis: int, *, start: int, length: int) -> NDArray[Any]:
    """Return a view of `length` samples from `start` along one axis."""
    return plane[start : start + length] if axis == 0 else plane[:, start : start + length]


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
    flat: BoolArray = _slide_extreme(plane, window.side, choose=np.maximum) == _slide_extreme(plane, window.side, choose=np.minimum)
    return replace(moments, variance=np.where(flat, 0.0, moments.variance), flat=flat)


def _slide_extreme(plane: NDArray[Any], side: int, *, choose: Callable[..., NDArray[Any]]) -> NDArray[Any]:
    """Take the maximum or minimum over every complete window, by doubling."""
    for axis in (0, 1):
        length, size = min(side, plane.shape[axis]), 1
        while size < length:
            # windows that overlap are no harm to a maximum, so the last step may be shorter than a doubling
            step = min(size, length - size)
            n_blocks = plane.shape[axis] - step
            plane = choose(_cut_along(plane, axis, start=0, length=n_blocks), _cut_along(plane, axis, start=step, length=n_blocks))
            size += step
    return plane


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
