"""Know the patch grid: cut an image into patches and back, and sum or vote over dense windows.

Base patches do not overlap and cover the image, so that every pixel lies in exactly one of them: cutting is a permutation, its
inverse is exact, and the constant 2 of the base update is too. Detail patches lie on the dense grid, one centered on each pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray
    from qmcif_engine.config import FocusConfig

PIXEL_SHARE = 5e-5
"""Published side of a detail patch, as a share of the number of pixels (section IV-A)."""


def padding_to_grid(shape: tuple[int, int], *, patch_px: int) -> tuple[int, int]:
    """Return how many rows and columns must be added so that whole patches cover the image."""
    return -shape[0] % patch_px, -shape[1] % patch_px


def pad_to_grid(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Extend ``(..., h, w)`` at its lower and right side by reflection until whole patches cover it.

    Reflection repeats the border pixel, as the solver's boundary condition does; it works for images smaller than a patch.
    """
    rows, columns = padding_to_grid(planes.shape[-2:], patch_px=patch_px)
    widths = [(0, 0)] * (planes.ndim - 2) + [(0, rows), (0, columns)]
    return np.pad(planes, widths, mode="symmetric")


def cut_patches(planes: FloatArray, *, patch_px: int) -> FloatArray:
    """Stack the patches of an image as the columns of a matrix.

    Parameters
    ----------
    planes : ndarray of float, shape (c, h, w)
        Both sides multiples of `patch_px`.
    patch_px : int

    Returns
    -------
    ndarray of float, shape (c * d, P)
        ``d = patch_px**2`` rows a component, ``P`` patches in row-major order.

    Notes
    -----
    The operator ``R`` of [QMCIF, Eq. (3)].
    """
    c, h, w = planes.shape
    grid = planes.reshape(c, h // patch_px, patch_px, w // patch_px, patch_px)
    return grid.transpose(0, 2, 4, 1, 3).reshape(c * patch_px**2, -1)


def join_patches(columns: FloatArray, *, shape: tuple[int, int], patch_px: int) -> FloatArray:
    """Put the columns of `cut_patches` back: shape (c * d, P) to (c, h, w); ``R^-1`` of [QMCIF, Eq. (9)]."""
    rows_of_patches, columns_of_patches = shape[0] // patch_px, shape[1] // patch_px
    grid = columns.reshape(-1, patch_px, patch_px, rows_of_patches, columns_of_patches)
    return grid.transpose(0, 3, 1, 4, 2).reshape(-1, *shape)


def sum_patches(plane: FloatArray, *, patch_px: int) -> FloatArray:
    """Sum ``(h, w)`` over each base patch, in float64, giving (h / patch_px, w / patch_px)."""
    h, w = plane.shape
    grid = plane.reshape(h // patch_px, patch_px, w // patch_px, patch_px)
    total: FloatArray = grid.sum(axis=(1, 3), dtype=np.float64)
    return total


def spread_patches(values: IndexArray, *, patch_px: int) -> IndexArray:
    """Give every pixel of a base patch the value of its patch."""
    return np.repeat(np.repeat(values, patch_px, axis=0), patch_px, axis=1)


def window_mean(planes: FloatArray, *, side_px: int) -> FloatArray:
    """Average ``(..., h, w)`` over the window centered on each pixel; the image continues by reflection."""
    size = (1,) * (planes.ndim - 2) + (side_px, side_px)
    averaged: FloatArray = ndimage.uniform_filter(planes, size=size, mode="reflect")
    return averaged


def detail_patch_side(shape: tuple[int, int], config: FocusConfig) -> int:
    """Return the odd side, in pixels, of a detail patch for an image of this shape.

    Notes
    -----
    ``5e-5 M N`` [QMCIF, section IV-A].

    Departs: kept within two limits, because the rule gives 3 px for a small image and 1200 px for 24 megapixels; made odd, so that a
    patch has a central pixel; and no larger than the image.
    """
    wanted = config.detail_patch_px or min(
        max(round(PIXEL_SHARE * shape[0] * shape[1]), config.smallest_detail_patch_px), config.largest_detail_patch_px
    )
    fitting = min(wanted, *shape)
    return fitting - (fitting + 1) % 2


def vote(choices: IndexArray, *, n_choices: int, side_px: int) -> IndexArray:
    """Let all dense patches that contain a pixel vote on it; the largest count wins, the later choice where counts are equal.

    Parameters
    ----------
    choices : ndarray of uint16, shape (h, w)
        What the patch centered on each pixel chose.
    n_choices : int
    side_px : int

    Returns
    -------
    ndarray of uint16, shape (h, w)

    Notes
    -----
    Aggregates patch decisions to global maps [QMCIF, Eqs. (17) and (22)].

    Departs: the paper does not say whether patches overlap; dense patches with a majority vote are clearly better.
    """
    shares = (window_mean((choices == index).astype(np.float32), side_px=side_px) for index in range(n_choices))
    # whole numbers, so that equal counts are equal whatever the rounding of the window sums
    return rank(np.rint(share * side_px**2) for share in shares).winner


class Ranking(NamedTuple):
    """Hold how the levels of N images compare at each pixel.

    Attributes
    ----------
    winner : ndarray of uint16, shape (h, w)
        Which level is the largest; the last of them where several are equal.
    best, second, least : ndarray of float, shape (h, w)
        The largest, the second largest and the smallest level.
    """

    winner: IndexArray
    best: FloatArray
    second: FloatArray
    least: FloatArray


def rank(levels: Iterable[FloatArray]) -> Ranking:
    """Compare the levels of two or more images pixel by pixel, by a fold that holds no more than one of them at a time.

    Notes
    -----
    The comparisons of [QMCIF, Eq. (16)] and [QMCIF, Eq. (17)]. Ties go to the later image, the paper's rule ("<=") carried over to N
    images.
    """
    iterator = iter(levels)
    best = np.array(next(iterator), copy=True)
    second, least = np.full_like(best, -np.inf), best.copy()
    winner = np.zeros(best.shape, np.uint16)
    for number, level in enumerate(iterator, start=1):
        is_better = level >= best
        winner[is_better] = number
        np.maximum(second, np.where(is_better, best, level), out=second)
        np.maximum(best, level, out=best)
        np.minimum(least, level, out=least)
    return Ranking(winner, best, second, least)


def edge_band(index: IndexArray, *, reach_px: int) -> BoolArray:
    """Return which pixels have another index within a square of this reach around them."""
    side = 2 * reach_px + 1
    band: BoolArray = ndimage.maximum_filter(index, side) != ndimage.minimum_filter(index, side)
    return band
