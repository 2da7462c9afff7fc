"""How well neighboring images of a stack coincide, by a method of its own: phase correlation of windows with texture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft

from qmcif_engine.stack.previews import choose_reduction, read_preview, to_gray
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray
    from qmcif_engine.stack.stack import Stack

_WINDOW_PX = 128
_GRID = 24
_RANGE_PX = 2**20
_BAND = 0.12
"""Cycles a pixel that are looked at (standard deviation): above are noise and blocks of compression, and what defocus turns around."""

_SMALLEST_CONTRAST = 0.01
"""Standard deviation a window needs in both images, as a share of the image's range."""

_SMALLEST_RESPONSE = 0.25
"""Height of the peak, 1 for equal windows; unrelated ones reach 0.12, and those sharp in one image only hardly more."""


class ResidualShifts(NamedTuple):
    """What n windows say.

    Attributes
    ----------
    first : ndarray of int, shape (n,)
        The first image of the pair, 0-based.
    position : ndarray of float64, shape (n, 2)
        Center of the window, x and y.
    shift : ndarray of float64, shape (n, 2)
        How far right and down the second image lies of the first.
    """

    first: NDArray[np.int64]
    position: NDArray[np.float64]
    shift: NDArray[np.float64]

    @property
    def length_px(self) -> NDArray[np.float64]:
        """Length of each shift, shape (n,)."""
        return np.asarray(np.hypot(self.shift[:, 0], self.shift[:, 1]))


def residual_shifts(stack: Stack) -> ResidualShifts:
    """Measure how far windows with texture in both of two neighboring images lie apart.

    Windows of 128 px lie on a grid over the frame, at full resolution; in smaller frames they overlap. One counts where it has contrast
    and lies inside both images and where the phase correlation has a clear peak. A window that is sharp in one image only has no clear
    peak: where it lies in the other cannot be said to a fraction of a pixel.

    Parameters
    ----------
    stack : Stack
        Aligned or not. Where it tells which pixels are valid, windows with others are left out.
    """
    side = min(_WINDOW_PX, *stack.image_shape[:2])
    # windows do not fit to themselves at their borders, which would correlate like edges; without its zeros
    taper = np.outer(*[np.hanning(side + 2)[1:-1]] * 2)
    floor = _SMALLEST_CONTRAST * _find_range(stack)
    found = []
    for window in _lay_grid(stack.image_shape, side):
        center = (window.left + (side - 1) / 2, window.top + (side - 1) / 2)
        previous: FloatArray | None = None
        for number in range(stack.n_images):
            gray = _read_gray(stack, number, window=window, floor=floor)
            shift = None if previous is None or gray is None else correlate_phases(previous * taper, gray * taper)
            if shift is not None:
                found.append((number - 1, *center, *shift))
            previous = gray
    columns = np.array(found, np.float64).reshape(-1, 5)
    return ResidualShifts(columns[:, 0].astype(np.int64), columns[:, 1:3], columns[:, 3:])


def correlate_phases(first: FloatArray, second: FloatArray) -> tuple[float, float] | None:
    """Return how far right and down a window lies of another, shape (h, w) each; None where the peak is not clear."""
    shape = first.shape
    cross = fft.rfft2(second) * np.conj(fft.rfft2(first))
    rows, columns = fft.fftfreq(shape[0])[:, np.newaxis], fft.rfftfreq(shape[1])
    band = np.exp(-(rows**2 + columns**2) / (2 * _BAND**2))
    # without the mean, which says nothing about where a window lies
    band[0, 0] = 0
    modulus = np.abs(cross)
    phases = band * cross / np.maximum(modulus, np.finfo(np.float64).eps * modulus.max() + np.finfo(np.float64).tiny)
    # such that two equal windows give a peak of 1
    surface = fft.irfft2(phases, s=shape) / fft.irfft2(band, s=shape)[0, 0]
    row, column = (int(index) for index in np.unravel_index(int(surface.argmax()), shape))
    if surface[row, column] < _SMALLEST_RESPONSE:
        return None
    down = row + _find_vertex(surface[[row - 1, row, (row + 1) % shape[0]], column])
    right = column + _find_vertex(surface[row, [column - 1, column, (column + 1) % shape[1]]])
    # the transform is periodic: more than half a window to the right is a shift to the left
    return (right + shape[1] / 2) % shape[1] - shape[1] / 2, (down + shape[0] / 2) % shape[0] - shape[0] / 2


def _find_vertex(values: FloatArray) -> float:
    """Return where a parabola through three values is highest, from the middle one."""
    before, peak, after = (float(value) for value in values)
    curvature = before - 2 * peak + after
    return 0.0 if curvature == 0 else 0.5 * (before - after) / curvature


def _lay_grid(image_shape: tuple[int, ...], side: int) -> list[Window]:
    tops, lefts = (np.unique(np.linspace(0, length - side, _GRID).round().astype(int)) for length in image_shape[:2])
    return [Window(int(top), int(left), int(top) + side, int(left) + side) for top in tops for left in lefts]


def _find_range(stack: Stack) -> float:
    gray = to_gray(read_preview(stack, stack.n_images // 2, factor=choose_reduction(stack.image_shape, largest_px=_RANGE_PX)))
    low, high = np.percentile(gray, (0.5, 99.5))
    return float(high - low)


def _read_gray(stack: Stack, number: int, *, window: Window, floor: float) -> FloatArray | None:
    """Return one window around its mean, or None where it has no texture or does not lie inside the image."""
    if stack.has_validity and not stack.valid(number, window).all():
        return None
    samples = stack.read(number, window)
    gray = to_gray(samples.reshape(*window.shape, -1).astype(np.float32)).astype(np.float64)
    gray -= gray.mean()
    return gray if gray.std() >= max(floor, np.finfo(np.float32).tiny) else None
