"""Comparison of a fused image with the truth: error, structure, structure in color, and the choice of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .levels import LARGEST_LEVEL, convert_to_gray
from .local_moments import compare_structure, compute_moments
from .sliding_windows import GaussianWindow, iterate_strips, iterate_window_strips

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray

    from .levels import Levels

DEFAULT_BORDER_PX = 8
WINDOW = GaussianWindow(11, 1.5)
CONSTANTS = ((0.01 * LARGEST_LEVEL) ** 2, (0.03 * LARGEST_LEVEL) ** 2)
SMALLEST_SQUARED_ERROR = 0.25


def measure_signal_to_noise(fused: Levels, truth: Levels, *, border_px: int = 0) -> float:
    """Measure the peak signal-to-noise ratio in decibels, over all color samples.

    Parameters
    ----------
    fused, truth : ndarray of uint8, shape (H, W) or (H, W, 3)
        Levels of the same shape.
    border_px : int
        Width of a border left out on all sides, since artifacts that a data set has there can outweigh everything else. A border that
        would leave nothing is not left out.

    Returns
    -------
    float
        ``10 log10(255^2 / mean squared error)``. Equal images, for which the formula has no finite value, are rated as if one sample were
        off by half a level: above any other image of that size, and still fit for an average.

    Notes
    -----
    A missing half level in one of n samples is a mean squared error of ``0.25 / n``.
    """
    if 0 < 2 * border_px < min(fused.shape[:2]):
        fused, truth = (image[border_px:-border_px, border_px:-border_px] for image in (fused, truth))
    # whole numbers: exact, and the same however the image is cut
    squared_error = sum(int(np.sum((fused[rows].astype(np.int64) - truth[rows]) ** 2)) for rows in iterate_strips(fused.shape))
    return convert_to_decibels(squared_error, n_samples=fused.size)


def convert_to_decibels(squared_error: int, *, n_samples: int) -> float:
    """Return the peak signal-to-noise ratio of samples whose squared errors add up to this."""
    return float(10 * np.log10(LARGEST_LEVEL**2 * n_samples / max(squared_error, SMALLEST_SQUARED_ERROR)))


def measure_similarity(fused: Levels, truth: Levels) -> float:
    """Measure the structural similarity of the gray levels to the truth.

    Parameters
    ----------
    fused, truth : ndarray of uint8, shape (H, W) or (H, W, 3)
        Levels of the same shape; color is turned to gray first.

    Returns
    -------
    float
        -1 to 1; 1 for equal images. An image with a side below 11 px gets a window of that side.

    Notes
    -----
    Mean of ``SSIM`` over all complete Gaussian windows, 11 x 11 px, sigma 1.5, with C1 = (0.01 255)^2 and C2 = (0.03 255)^2: Wang et al.
    2004, section III-B.
    """
    first, second = convert_to_gray(fused), convert_to_gray(truth)
    total, count = 0.0, 0
    for rows in iterate_window_strips(first.shape, WINDOW.side):
        moments = [compute_moments(image[rows], WINDOW) for image in (first, second)]
        similarity = compare_structure(*moments, window=WINDOW, constants=CONSTANTS)
        total += float(np.sum(similarity))
        count += similarity.size
    return total / count


def measure_quaternion_similarity(fused: Levels, truth: Levels) -> float:
    """Measure the quaternion structural similarity of the colors to the truth.

    Parameters
    ----------
    fused, truth : ndarray of uint8, shape (H, W) or (H, W, 3)
        Levels of the same shape; gray counts as equal red, green and blue.

    Returns
    -------
    float
        0 to 1; 1 for equal images. Being a modulus it cannot see inverted contrast. An image with a side below 11 px gets a window of
        that side.

    Notes
    -----
    Mean of `compare_colors` over the windows of `measure_similarity`.
    """
    total, count = sum_color_similarity(fused, truth)
    return total / count


def sum_color_similarity(fused: Levels, truth: Levels) -> tuple[float, int]:
    """Return the sum of the similarities of all complete windows of an image or of a part of it, and how many there are."""
    total, count = 0.0, 0
    for rows in iterate_window_strips(fused.shape, WINDOW.side):
        similarity = compare_colors(_embed(fused[rows]), _embed(truth[rows]))
        total += float(np.sum(similarity))
        count += similarity.size
    return total, count


def compare_colors(first: FloatArray, second: FloatArray) -> FloatArray:
    """Compute the quaternion structural similarity in every complete window.

    Parameters
    ----------
    first, second : ndarray of float64, shape (3, h, w)
        Red, green and blue: the vector parts of pure quaternions x and y.

    Returns
    -------
    ndarray of float64, shape (h', w')
        The modulus of the similarity, 0 to 1.

    Notes
    -----
    ``|conj(a) b| = |a| |b|`` with ``a = (2 conj(mx) my + C1) / (|mx|^2 + |my|^2 + C1)`` and
    ``b = (2 sxy + C2) / (sx^2 + sy^2 + C2)``, where ``sxy = E[conj(x - mx)(y - my)]``: [QMCIF, Definition 5], with the cross covariance and
    the modulus of Kolaman and Yadid-Pecht 2012. For pure quaternions ``conj(p) q`` has scalar part ``p . q`` and vector part ``-p x q``.

    Departs: the paper wants C1 and C2 "as small as possible"; we take those of Wang et al. 2004, which keep flat windows meaningful.
    """
    luminance_constant, structure_constant = CONSTANTS
    mean_first, mean_second = (np.stack([WINDOW.average(part) for part in image]) for image in (first, second))
    # E[conj(x - mx)(y - my)] = E[conj(x) y] - conj(mx) my, so averages of products suffice
    mean_dot, mean_cross = _multiply(mean_first, mean_second)
    dot, cross = _multiply(first, second)
    covariance = WINDOW.average(dot) - mean_dot
    covariance_vector = np.stack([WINDOW.average(part) for part in cross]) - mean_cross
    power = np.sum(mean_first**2 + mean_second**2, axis=0)
    # |x|^2 and |y|^2 together: the denominator only has the sum of both variances
    spread = np.maximum(WINDOW.average(np.sum(first**2 + second**2, axis=0)) - power, 0)
    # moduli of the two factors: scalar and vector part each squared; the signs of vector parts do not matter
    luminance = np.sqrt((2 * mean_dot + luminance_constant) ** 2 + 4 * np.sum(mean_cross**2, axis=0)) / (power + luminance_constant)
    structure = np.sqrt((2 * covariance + structure_constant) ** 2 + 4 * np.sum(covariance_vector**2, axis=0))
    similarity: FloatArray = luminance * structure / (spread + structure_constant)
    return similarity


def _multiply(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return scalar product and cross product of two vector fields, shape (3, h, w)."""
    return np.sum(first * second, axis=0), np.cross(first, second, axis=0)


def _embed(levels: Levels) -> FloatArray:
    """Bring the color axis to the front; repeat gray three times."""
    color = levels if levels.ndim == 3 else np.repeat(levels[..., np.newaxis], 3, axis=2)
    return np.moveaxis(color, 2, 0).astype(np.float64)


def measure_right_choices(source_index: NDArray[Any], true_index: NDArray[Any]) -> float:
    """Measure the share of pixels taken from the source that is sharp there.

    Parameters
    ----------
    source_index, true_index : ndarray of int, shape (H, W)
        Number of the source each pixel was taken from, and of the one it should have been taken from.

    Returns
    -------
    float
        0 to 1.
    """
    n_right = sum(int(np.count_nonzero(source_index[rows] == true_index[rows])) for rows in iterate_strips(source_index.shape))
    return n_right / source_index.size
