"""Averages over sliding windows, strip by strip, for every metric that compares local means and variances.

Strips keep the temporary maps small: they stay in the processor's cache, and images of any size need no more memory than one strip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qmcif_engine.arrays import BoolArray, FloatArray

# 256 KB in float64, small enough for a few maps in the cache; at least so many rows that overlaps of windows stay a small share
PIXELS_PER_STRIP = 1 << 15
FEWEST_ROWS_PER_STRIP = 64


def iterate_strips(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield half-open ranges of rows that cover an image of this shape in order."""
    rows_per_strip = max(FEWEST_ROWS_PER_STRIP, PIXELS_PER_STRIP // max(1, shape[1]))
    for start in range(0, shape[0], rows_per_strip):
        yield slice(start, min(start + rows_per_strip, shape[0]))


def iterate_window_strips(shape: tuple[int, ...], side: int) -> Iterator[slice]:
    """Yield the rows to read for each strip of complete windows; a side longer than the image shrinks to it."""
    # strips overlap by a window less one row: every window is complete in exactly one of them
    overlap = min(side, shape[0]) - 1
    for windows in iterate_strips((shape[0] - overlap, shape[1])):
        yield slice(windows.start, windows.stop + overlap)


def cut_padded(plane: NDArray[Any], rows: slice, *, margin: int) -> FloatArray:
    """Copy a strip with a margin on all four sides, zero outside the image.

    Parameters
    ----------
    plane : ndarray, shape (H, W)
        Image or map of any real type.
    rows : slice
        Half-open range of rows.
    margin : int
        Width of the margin in pixels.

    Returns
    -------
    ndarray of float64, shape (h + 2 margin, W + 2 margin)
        A complete window around every pixel of the strip, so that `valid` filtering of it equals zero-padded `same` filtering.
    """
    n_rows, n_columns = plane.shape
    # float64 whatever the type of the plane: moments are formed of it
    strip = np.zeros((rows.stop - rows.start + 2 * margin, n_columns + 2 * margin))
    first, last = max(0, rows.start - margin), min(n_rows, rows.stop + margin)
    top = first - (rows.start - margin)
    strip[top : top + last - first, margin : margin + n_columns] = plane[first:last]
    return strip


class SlidingWindow(Protocol):
    """Averages over every complete window of a plane; a side longer than the plane shrinks to it."""

    @property
    def side(self) -> int:
        """Return the side in pixels."""

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the weighted mean of each complete window."""


@dataclass(frozen=True, slots=True)
class GaussianWindow:
    """A square window weighted by a Gaussian whose weights add up to 1.

    Attributes
    ----------
    side : int
        Side of the window in pixels.
    sigma : float
        Standard deviation in pixels.

    Notes
    -----
    ``w(i, j) ~ exp(-(i^2 + j^2) / (2 sigma^2))``, specification, section 0 (``fspecial gaussian``). The sum factors into rows and columns.
    """

    side: int
    sigma: float

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the weighted mean of each complete window."""
        for axis in (0, 1):
            length = min(self.side, plane.shape[axis])
            weights = sample_gaussian(length, sigma=self.sigma)
            plane = filter_valid(plane, weights / weights.sum(), axis=axis)
        return plane


@dataclass(frozen=True, slots=True)
class BoxWindow:
    """A square window in which all pixels weigh the same.

    Notes
    -----
    Sums are formed by doubling (1, 2, 4, 8 pixels). So, with a side that is a power of two, means of integers and of constant windows
    are exact, which lets the specification's rule for variances of exactly zero (section 4) fire where it should.
    """

    side: int

    def average(self, plane: FloatArray) -> FloatArray:
        """Return the mean of each complete window."""
        for axis in (0, 1):
            length = min(self.side, plane.shape[axis])
            plane = sum_windows(plane, length, axis=axis) / length
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


def sum_windows(plane: FloatArray, length: int, *, axis: int) -> FloatArray:
    """Sum every `length` consecutive samples along an axis: two halves, and the odd sample."""
    if length == 1:
        return plane
    half, n_windows = length // 2, plane.shape[axis] - length + 1
    # log2(length) additions per sample
    halves = sum_windows(plane, half, axis=axis)
    total: FloatArray = _cut_along(halves, axis, start=0, length=n_windows) + _cut_along(halves, axis, start=half, length=n_windows)
    return total if length % 2 == 0 else total + _cut_along(plane, axis, start=length - 1, length=n_windows)


def find_flat_windows(gray: NDArray[Any], side: int) -> BoolArray:
    """Mark the complete windows in which all samples are equal.

    Rounding gives such windows a tiny variance; where the stabilizing constant of a metric is tinier still, only this test tells that the
    variance is 0.
    """
    flat: BoolArray = _slide_extreme(gray, side, choose=np.maximum) == _slide_extreme(gray, side, choose=np.minimum)
    return flat


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


def _cut_along(plane: NDArray[Any], axis: int, *, start: int, length: int) -> NDArray[Any]:
    """Return a view of `length` samples from `start` along one axis."""
    return plane[start : start + length] if axis == 0 else plane[:, start : start + length]
