"""Comparison of a fused image with the truth: error, structure, and structure in color."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.arrays import FloatArray
from qmcif_engine.stack.window import Window

from .blocks import Passes
from .levels import LARGEST_LEVEL, Levels, open_lazily
from .windows import SlidingWindow, compare_structure, compute_moments

DEFAULT_BORDER_PX = 8
WINDOW = SlidingWindow(11, 1.5)
CONSTANTS = ((0.01 * LARGEST_LEVEL) ** 2, (0.03 * LARGEST_LEVEL) ** 2)
SMALLEST_SQUARED_ERROR = 0.25


def compare_with_truth(colors: Sequence[Levels], grays: Sequence[Levels], passes: Passes, *, border_px: int) -> dict[str, float]:
    """Compute all figures that need the truth.

    Parameters
    ----------
    colors, grays : sequence of two Levels, shape (H, W) or (H, W, 3), and (H, W)
        The fused image and the truth.
    passes : Passes
    border_px : int
        Width of a border left out of the second signal-to-noise ratio on all sides, since artifacts that a data set has there can outweigh
        everything else. A border that would leave nothing is not left out.

    Returns
    -------
    dict of str to float
        Structural similarities are means over all complete windows, 1 for equal images. An image with a side below 11 px gets a window
        of that side.

    Notes
    -----
    ``SSIM`` of the gray levels over Gaussian windows of 11 x 11 px, sigma 1.5, with C1 = (0.01 255)^2 and C2 = (0.03 255)^2: Wang et al.
    2004, section III-B. The quaternion similarity, `compare_colors`, over the same windows.
    """
    inside = slice(border_px, -border_px) if 0 < 2 * border_px < min(passes.shape) else slice(None)
    # squares of 8-bit differences fit 32 bits; their sum over a large image needs 64
    squared = (open_lazily(colors[0]).astype(np.int32) - open_lazily(colors[1]).astype(np.int32)) ** 2
    inner = squared[inside, inside]
    errors = passes.compute("truth", *(part.sum(dtype=np.int64, split_every=4) for part in (squared, inner)))
    gray, color, n_windows = passes.add_up("truth", partial(_sum_similarities, colors, grays), window_px=WINDOW.side)
    return {
        "signal_to_noise_db": convert_to_decibels(int(errors[0]), n_samples=squared.size),
        "inner_signal_to_noise_db": convert_to_decibels(int(errors[1]), n_samples=inner.size),
        "truth_similarity": float(gray / n_windows),
        "truth_quaternion_similarity": float(color / n_windows),
    }


def convert_to_decibels(squared_error: int, *, n_samples: int) -> float:
    """Return the peak signal-to-noise ratio of samples whose squared errors add up to this.

    Notes
    -----
    ``10 log10(255^2 / mean squared error)``. Equal images, for which the formula has no finite value, are rated as if one sample were off
    by half a level: above any other image of that size, and still fit for an average.
    """
    return float(10 * np.log10(LARGEST_LEVEL**2 * n_samples / max(squared_error, SMALLEST_SQUARED_ERROR)))


def _sum_similarities(colors: Sequence[Levels], grays: Sequence[Levels], block: Window) -> tuple[float, float, int]:
    """Return the sums of both similarities over the windows of a block, and how many windows there are."""
    first, second = (compute_moments(gray[block.slices], WINDOW) for gray in grays)
    similarity = compare_structure(first, second, window=WINDOW, constants=CONSTANTS)
    in_color = compare_colors(*(_embed(color[block.slices]) for color in colors))
    return float(np.sum(similarity)), float(np.sum(in_color)), similarity.size


def compare_colors(first: FloatArray, second: FloatArray) -> FloatArray:
    """Compute the quaternion structural similarity in every complete window.

    Parameters
    ----------
    first, second : ndarray of float64, shape (3, h, w)
        Red, green and blue: the vector parts of pure quaternions x and y.

    Returns
    -------
    ndarray of float64, shape (h', w')
        The modulus of the similarity, 0 to 1; being a modulus it cannot see inverted contrast.

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


def _embed(levels: NDArray[np.uint8]) -> FloatArray:
    """Bring the color axis to the front; repeat gray three times."""
    color = levels if levels.ndim == 3 else np.repeat(levels[..., np.newaxis], 3, axis=2)
    return np.moveaxis(color, 2, 0).astype(np.float64)
