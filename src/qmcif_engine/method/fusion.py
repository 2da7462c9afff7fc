"""The fused image from decisions: base-detail fusion (QBDF), section III-C of the paper, and the samples of the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.method.patches import count_in_windows
from qmcif_engine.stack.samples import to_samples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qmcif_engine.arrays import FloatArray, IndexArray, SampleArray
    from qmcif_engine.rules import Samples

WHOLE_SHARE = 1 - 1e-4
"""An image with a larger share gives the pixel alone: no sample would show the others."""


class LargestLevel:
    """Which of the images given so far has the largest level at each place, and that level.

    Attributes
    ----------
    index : ndarray of uint16
    level : ndarray of float

    Notes
    -----
    The comparisons of [QMCIF, Eq. (16)] and [QMCIF, Eq. (17)]. Ties go to the later image, the paper's rule ("<=") carried over to N
    images.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.index: IndexArray = np.zeros(shape, np.uint16)
        self.level: FloatArray = np.full(shape, -np.inf)

    def add(self, number: int, level: FloatArray) -> None:
        """Compare the next image; images are given in ascending order."""
        is_larger = level >= self.level
        self.index[is_larger] = number
        np.copyto(self.level, level, where=is_larger)


def select(blocks: Iterable[tuple[int, FloatArray]], index: IndexArray) -> FloatArray:
    """Take each pixel from the block that its index names.

    Parameters
    ----------
    blocks : iterable of int and ndarray of float, shape (3, h, w)
        Every image that the index names, with its number.
    index : ndarray of uint16, shape (h, w)

    Returns
    -------
    ndarray of float, shape (3, h, w)

    Notes
    -----
    ``F_1`` for the base-scale map [QMCIF, Eq. (18)].
    """
    fused: FloatArray = np.zeros((3, *index.shape), np.float32)
    for number, block in blocks:
        np.copyto(fused, block, where=index == number)
    return fused


def share_patches(choices: IndexArray, number: int, *, side_px: int) -> FloatArray:
    """Return which share of the detail patches over each pixel chose an image, shape (h, w), float32.

    Notes
    -----
    ``F_2`` of [QMCIF, Eq. (19)] is the sum of the images times their shares: the mean of the patches that contain a pixel. The image with
    the largest share is ``M_D`` of [QMCIF, Eq. (17)].

    Departs: the paper does not say whether patches overlap; dense patches that are averaged come nearest to its figures.
    """
    return count_in_windows(choices == number, side_px=side_px) / np.float32(side_px**2)


@dataclass(frozen=True, slots=True)
class Blend:
    """Where every pixel of the result comes from.

    Attributes
    ----------
    index : ndarray of uint16, shape (h, w)
        The image that gives the pixel, or the largest share of it.
    band : ndarray of int, shape (n,)
        The pixels to which several images contribute, counted row by row.
    shares : mapping of int to a tuple of ndarray of int and ndarray of float32
        For each image that contributes there, to which pixels of the band and with which shares. At any pixel few of a deep stack's
        images contribute, so that this takes no more memory for more images.
    """

    index: IndexArray
    band: NDArray[np.intp]
    shares: dict[int, tuple[NDArray[np.intp], FloatArray]]


def blend_shares(shares: Iterable[tuple[int, FloatArray]], *, shape: tuple[int, int]) -> Blend:
    """Return the blend of images, in ascending order, whose shares, shape (h, w), add up to one at each pixel."""
    largest = LargestLevel(shape)
    parts: dict[int, tuple[NDArray[np.intp], FloatArray]] = {}
    for number, share in shares:
        largest.add(number, share)
        pixels = np.flatnonzero((share > 0) & (share < WHOLE_SHARE))
        parts[number] = (pixels, share.ravel()[pixels])
    is_mixed = largest.level.ravel() < WHOLE_SHARE
    band = np.flatnonzero(is_mixed)
    found: dict[int, tuple[NDArray[np.intp], FloatArray]] = {}
    for number, (pixels, share) in parts.items():
        is_kept = is_mixed[pixels]
        if is_kept.any():
            found[number] = (np.searchsorted(band, pixels[is_kept]), share[is_kept])
    return Blend(largest.index, band, found)


def compose_samples(images: Samples, blend: Blend) -> SampleArray:
    """Return the fused image, in the dtype of the images and the shape of the blend.

    Samples that come from one image are copied, bit for bit. Where several contribute, the differences to the leading image are
    weighted in float64, so that equal samples stay exactly equal.

    Parameters
    ----------
    images : Samples
        Of shape (h, w) or (h, w, c).
    blend : Blend
    """
    first, *others = np.unique(blend.index).tolist()
    fused: NDArray[Any] = np.array(images[first], order="C")
    for number in others:
        is_taken = blend.index == number
        fused[is_taken] = images[number][is_taken]
    leading = _samples_at(fused, blend.band)
    mixed = leading.copy()
    for number, (places, shares) in blend.shares.items():
        own = _samples_at(images[number], blend.band[places])
        # products first: a difference of float64 samples could leave their range
        mixed[places] += shares[:, None] * own - shares[:, None] * leading[places]
    fused.reshape(blend.index.size, -1)[blend.band] = to_samples(mixed, fused.dtype)
    return fused


def _samples_at(image: SampleArray, pixels: NDArray[Any]) -> FloatArray:
    """Return the samples of some pixels in float64, shape (n, c)."""
    rows, columns = np.divmod(pixels, max(image.shape[1], 1))
    return image[rows, columns].reshape(len(pixels), math.prod(image.shape[2:])).astype(np.float64)
