"""Put a picture together from decisions: base-detail fusion (QBDF), section III-C of the paper, and the blended final picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.samples import to_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    weights : ndarray of float, shape (len(sources), number of pixels in the band)
        Their shares, which add up to one.
    """

    source_index: IndexArray
    band: BoolArray
    sources: tuple[int, ...]
    weights: FloatArray


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
    iterator = enumerate(blocks)
    _, first = next(iterator)
    fused = np.array(first, copy=True)
    for number, block in iterator:
        np.copyto(fused, block, where=index == number)
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
    fused: SampleArray = images[0].copy()
    for number, image in enumerate(images[1:], start=1):
        is_chosen = blend.source_index == number
        fused[is_chosen] = image[is_chosen]
    leading = fused[blend.band].astype(np.float64)
    mixed = leading.copy()
    for number, weights in zip(blend.sources, blend.weights, strict=True):
        share = weights.reshape(-1, *(1,) * (leading.ndim - 1))
        mixed += share * (images[number][blend.band] - leading)
    fused[blend.band] = to_samples(mixed, fused.dtype)
    return fused
