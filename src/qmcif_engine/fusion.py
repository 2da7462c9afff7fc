"""Put a picture together from decisions: base-detail fusion (QBDF), section III-C of the paper, and the blended final picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.samples import to_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qmcif_engine.array_types import BoolArray, FloatArray, IndexArray, SampleArray


@dataclass(frozen=True, slots=True)
class Blend:
    """Say where every pixel of the result comes from.

    Attributes
    ----------
    source_index : ndarray of uint16, shape (h, w)
        The image that gives the pixel, or the largest share of it.
    band : ndarray of bool, shape (h, w)
        Where several images contribute.
    sources : tuple of int
        The images that contribute anywhere in the band.
    weights : sparse array of float, shape (len(sources), number of pixels in the band)
        Their shares, which add up to one. Sparse, because at any pixel only few of a deep stack's images contribute.
    """

    source_index: IndexArray
    band: BoolArray
    sources: tuple[int, ...]
    weights: csr_array


def select(blocks: Iterable[FloatArray], index: IndexArray) -> FloatArray:
    """Take each pixel from the block that its index names.

    Parameters
    ----------
    blocks : iterable of ndarray of float, shape (3, h, w)
    index : ndarray of uint16, shape (h, w)

    Returns
    -------
    ndarray of float, shape (3, h, w)

    Notes
    -----
    ``F_1`` for the base-scale and ``F_2`` for the detail-scale map [QMCIF, Eqs. (18) and (19)].
    """
    return select_each(blocks, (index,))[0]


def select_each(blocks: Iterable[FloatArray], indices: Sequence[IndexArray]) -> tuple[FloatArray, ...]:
    """Take each pixel from the block that its index names, for several maps in one pass over the blocks."""
    iterator = enumerate(blocks)
    _, first = next(iterator)
    fused = tuple(np.array(first, copy=True) for _ in indices)
    for number, block in iterator:
        for picture, index in zip(fused, indices, strict=True):
            np.copyto(picture, block, where=index == number)
    return fused


def compose(images: Sequence[SampleArray], blend: Blend) -> SampleArray:
    """Return the fused picture, in the dtype and shape of one image.

    Samples that come from one image are copied, bit for bit. Where several contribute, the differences to the leading image are
    weighted, so that equal samples stay exactly equal.

    Parameters
    ----------
    images : sequence of ndarray, shape (h, w) or (h, w, c)
    blend : Blend
    """
    fused: SampleArray = np.empty(images[0].shape, images[0].dtype)
    for chosen in np.flatnonzero(np.bincount(blend.source_index.reshape(-1))):
        np.copyto(_as_pixels(fused), _as_pixels(images[int(chosen)]), where=blend.source_index == chosen)
    leading = _samples_of(fused, blend.band).astype(np.float64)
    mixed = leading.copy()
    for row, source in enumerate(blend.sources):
        pixels, weights = row_of(blend.weights, row)
        mixed[pixels] += weights[:, None] * (_samples_of(images[source], blend.band)[pixels] - leading[pixels])
    _as_pixels(fused)[blend.band] = _as_pixels(to_samples(mixed, fused.dtype)[:, None, :])[:, 0]
    return fused


def row_of(weights: csr_array, row: int) -> tuple[NDArray[np.integer[Any]], FloatArray]:
    """Return where in the band one image contributes, and with which shares."""
    span = slice(weights.indptr[row], weights.indptr[row + 1])
    return weights.indices[span], weights.data[span]


def lead(source_index: IndexArray, band: BoolArray, *, sources: tuple[int, ...], weights: csr_array) -> IndexArray:
    """Return the index with the image of the largest share in the band; the first of them where shares are equal."""
    largest = np.zeros(weights.shape[1], weights.dtype)
    leading = source_index[band]
    for row, source in enumerate(sources):
        pixels, shares = row_of(weights, row)
        is_larger = shares > largest[pixels]
        largest[pixels[is_larger]] = shares[is_larger]
        leading[pixels[is_larger]] = source
    led = source_index.copy()
    led[band] = leading
    return led


def _as_pixels(image: SampleArray) -> NDArray[np.void]:
    """Return a view, shape (h, w), in which all samples of a pixel are one item: masks then move whole pixels."""
    samples = np.ascontiguousarray(image if image.ndim == 3 else image[..., None])
    pixels: NDArray[np.void] = samples.view(np.dtype((np.void, samples.itemsize * samples.shape[2])))[..., 0]
    return pixels


def _samples_of(image: SampleArray, mask: BoolArray) -> SampleArray:
    """Return the samples of some pixels, shape (number of pixels, c)."""
    pixels = _as_pixels(image)[mask]
    samples: SampleArray = pixels[:, None].view(image.dtype)
    return samples
