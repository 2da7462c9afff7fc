"""Means, variances and covariance of two images over sliding windows.

Q_E, Q_Y, Q_P and the structural similarity to a truth differ in window and constants only; what they share is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .sliding_windows import find_flat_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

    from .sliding_windows import SlidingWindow


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
    """Compute mean and variance of every complete window.

    Parameters
    ----------
    plane : ndarray, shape (h, w)
        Samples of any real type.
    window : SlidingWindow
        Weights of the average.

    Returns
    -------
    LocalMoments
        Population moments.

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
    flat = find_flat_windows(plane, window.side)
    return replace(moments, variance=np.where(flat, 0.0, moments.variance), flat=flat)


def compute_covariance(first: LocalMoments, second: LocalMoments, *, window: SlidingWindow) -> FloatArray:
    """Compute the covariance of two planes in every complete window.

    Notes
    -----
    ``c = E[x y] - E[x] E[y]`` (specification, section 4), exactly 0 where either window is known to be constant (section 5).
    """
    # one constant window suffices: it varies with nothing
    covariance = window.average(first.plane * second.plane) - first.mean * second.mean
    for flat in (first.flat, second.flat):
        if flat is not None:
            covariance[flat] = 0.0
    return covariance


def compare_structure(
    first: LocalMoments,
    second: LocalMoments,
    *,
    window: SlidingWindow,
    constants: tuple[float, float],
) -> FloatArray:
    """Compute the structural similarity of two planes in every complete window.

    Parameters
    ----------
    first, second : LocalMoments
        Moments over the same window.
    window : SlidingWindow
        That window.
    constants : tuple of float
        ``C1`` and ``C2``, both positive; they settle 0 / 0 in black and in flat windows.

    Returns
    -------
    ndarray of float64, shape (h', w')
        Values in -1..1 (up to rounding); 1 where the windows are equal.

    Notes
    -----
    ``(2 mx my + C1)(2 cxy + C2) / ((mx^2 + my^2 + C1)(vx + vy + C2))``: Wang et al. 2004, Eq. (13); specification, section 4.
    """
    covariance = compute_covariance(first, second, window=window)
    return relate_moments((first.mean, second.mean), (first.variance, second.variance), covariance, constants=constants)


def relate_moments(
    means: tuple[FloatArray, FloatArray],
    variances: tuple[FloatArray, FloatArray],
    covariance: FloatArray,
    *,
    constants: tuple[float, float],
) -> FloatArray:
    """Return the structural similarity of windows with these moments; see `compare_structure`."""
    luminance_constant, structure_constant = constants
    luminance = (2 * means[0] * means[1] + luminance_constant) / (means[0] ** 2 + means[1] ** 2 + luminance_constant)
    structure = (2 * covariance + structure_constant) / (variances[0] + variances[1] + structure_constant)
    return luminance * structure
