"""The fused image from decisions: base-detail fusion (QBDF), section III-C of the paper, and the blended final image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import ndimage

from qmcif_engine.config.stage import Reach, Stage, bytes_per_pixel
from qmcif_engine.kernels.cutting import values_of
from qmcif_engine.kernels.gaussians import average_inside, gaussian_taps
from qmcif_engine.kernels.selecting import take_pixels
from qmcif_engine.method.patches import cells_of, cut_reflected
from qmcif_engine.stack.samples import to_samples
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qmcif_engine.arrays import BoolArray, FloatArray, IndexArray, SampleArray

LOW_PASS_PX = 3.0
"""Standard deviation, in pixels, of the Gaussian that parts brightness from detail."""

LOW_PASS_REACH_PX = 9
"""How far it looks."""

_HEADROOM = 0.25


@dataclass(frozen=True, slots=True)
class Blend:
    """Where every pixel of the result comes from.

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
    brightness : sparse array of float, shape as `weights`
        By how much an image's share in the low-passed image exceeds its share in the detail; adds up to zero.
    """

    source_index: IndexArray
    band: BoolArray
    sources: tuple[int, ...]
    weights: csr_array
    brightness: csr_array


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
    # blocks are computed as they are asked for, one at a time: hence one pass for all maps
    iterator = enumerate(blocks)
    _, first = next(iterator)
    fused = tuple(np.array(first, copy=True) for _ in indices)
    for number, block in iterator:
        for result, index in zip(fused, indices, strict=True):
            np.copyto(result, block, where=index == number)
    return fused


def compose(images: Sequence[SampleArray], blend: Blend, *, inner: Window | None = None) -> SampleArray:
    """Return the fused image, in the dtype of the images and the shape of the blend.

    Samples that come from one image are copied, bit for bit. Where several contribute, the differences to the leading image are
    weighted, so that equal samples stay exactly equal. Where their brightness is blended more widely than their detail, the result is
    kept between the smallest and the largest sample of the images that contribute.

    Parameters
    ----------
    images : sequence of ndarray, shape (h, w) or (h, w, c)
    blend : Blend
    inner : Window, optional
        The window of the images that the blend is for, where they show more around it: what the low pass looks at.
    """
    window = Window.whole(images[0].shape[:2]) if inner is None else inner
    fused = select_samples(images, blend.source_index, window=window)
    # rows and columns of the band, in the order of the columns of `weights`
    place = np.divmod(np.flatnonzero(blend.band), max(blend.band.shape[1], 1))
    leading = _scaled(_samples_at(fused, place))
    mixed = leading.copy()
    for row, source in enumerate(blend.sources):
        pixels, weights = row_of(blend.weights, row)
        own = _scaled(_samples_at(images[source][window.slices], (place[0][pixels], place[1][pixels])))
        mixed[pixels] += weights[:, None] * (own - leading[pixels])
    # without wider shares the low pass is spared
    if blend.brightness.nnz:
        _shift_brightness(mixed, leading, images, blend=blend, place=place, window=window)
    fused[place] = _unscaled(mixed, leading, _samples_at(fused, place)).reshape(len(mixed), *fused.shape[2:])
    return fused


def _scaled(samples: NDArray[Any]) -> FloatArray:
    """Return samples in double precision; those that have it already are divided by four, so that no difference leaves its range."""
    return samples * _HEADROOM if samples.dtype == np.float64 else samples.astype(np.float64)


def _unscaled(mixed: FloatArray, leading: FloatArray, samples: SampleArray) -> SampleArray:
    """Return mixed values to the type of the leading samples; these stay where nothing was added, whatever the division did to them."""
    if samples.dtype != np.float64:
        return to_samples(mixed, samples.dtype)
    most = np.finfo(np.float64).max * _HEADROOM
    # dividing tiny samples by four can lose their last bits: where nothing was mixed the sample itself is returned
    unscaled: SampleArray = np.where(mixed == leading, samples, np.clip(mixed, -most, most) / _HEADROOM)
    return unscaled


def select_samples(images: Sequence[SampleArray], index: IndexArray, *, window: Window) -> SampleArray:
    """Return the samples of a window, each pixel copied from the image that its index names."""
    owners = np.ascontiguousarray(index)
    # the first image is copied whole, the others only where they own a pixel
    first, *others = values_of(owners).tolist()
    fused: SampleArray = np.array(images[first][window.slices], order="C")
    # bytes, so that one compiled loop serves all sample types
    rows = _as_bytes(fused)
    for source in others:
        take_pixels(_as_bytes(images[source][window.slices]), owners, source, rows.shape[1] // index.shape[1], rows)
    return fused


def _shift_brightness(
    mixed: FloatArray,
    leading: FloatArray,
    images: Sequence[SampleArray],
    *,
    blend: Blend,
    place: tuple[NDArray[np.intp], NDArray[np.intp]],
    window: Window,
) -> None:
    """Add what the low-passed images have more in the brightness than in the detail to the mixed samples of the band, in place.

    `place` are the rows and columns of the pixels of the band.

    The shares of a pixel add up to zero, but for the rounding of single precision: differences to the leading sample are weighted, so that
    samples far from zero do not make that rounding visible.
    """
    # of the images that contribute at each pixel, and of the mixture itself
    least, most = mixed.copy(), mixed.copy()
    for row, source in enumerate(blend.sources):
        pixels, weights = row_of(blend.brightness, row)
        if not len(pixels):
            continue
        image, rows, columns = images[source], place[0][pixels], place[1][pixels]
        top, left = int(rows.min()), int(columns.min())
        # only the box around what this image gives, and of that only the squares that have any of it
        is_wanted = np.zeros((int(rows.max()) + 1 - top, int(columns.max()) + 1 - left), bool)
        is_wanted[rows - top, columns - left] = True
        smoothed = _low_passed_samples(image, is_wanted, corner=(window.top + top, window.left + left))
        mixed[pixels] += weights[:, None] * (smoothed - leading[pixels])
        own = _scaled(_samples_at(image[window.slices], (rows, columns)))
        least[pixels], most[pixels] = np.minimum(least[pixels], own), np.maximum(most[pixels], own)
    # so that nothing shines, or darkens, beyond what any of the images shows
    np.clip(mixed, least, most, out=mixed)


def _low_passed_samples(image: SampleArray, is_wanted: BoolArray, *, corner: tuple[int, int]) -> FloatArray:
    """Return some pixels of the part of an image that begins at a corner, without their detail, row by row, shape (n, c)."""
    planes = np.moveaxis(image.reshape(*image.shape[:2], -1), -1, 0)
    broad = np.empty((len(planes), *is_wanted.shape))
    for cell in cells_of(is_wanted):
        near = cut_reflected(planes, cell.moved(*corner), margin_px=LOW_PASS_REACH_PX)
        broad[:, *cell.slices] = low_pass(_scaled(near))
    samples: FloatArray = broad[:, is_wanted].T
    return samples


def low_pass(planes: FloatArray) -> FloatArray:
    """Return ``(c, h, w)`` planes without their detail and without `LOW_PASS_REACH_PX` on every side."""
    taps = gaussian_taps(LOW_PASS_PX, LOW_PASS_REACH_PX, dtype=np.float64)
    smoothed: FloatArray = np.empty((len(planes), *(length - 2 * LOW_PASS_REACH_PX for length in planes.shape[1:])))
    for plane, out in zip(planes, smoothed, strict=True):
        average_inside(plane, taps, out)
    return smoothed


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
        # strictly: the first of equal shares leads
        is_larger = shares > largest[pixels]
        largest[pixels[is_larger]] = shares[is_larger]
        leading[pixels[is_larger]] = source
    led = source_index.copy()
    led[band] = leading
    return led


def crop_blend(blend: Blend, window: Window) -> Blend:
    """Return a window of a blend."""
    is_inside = np.zeros(blend.band.shape, bool)
    is_inside[window.slices] = True
    # which columns of the sparse shares lie in the window
    kept = np.flatnonzero(is_inside[blend.band])
    return Blend(
        np.ascontiguousarray(blend.source_index[window.slices]),
        np.ascontiguousarray(blend.band[window.slices]),
        blend.sources,
        blend.weights[:, kept],
        blend.brightness[:, kept],
    )


def without_invalid(blend: Blend, validity: Callable[[int], BoolArray | FloatArray]) -> Blend:
    """Return the blend with no share for images that do not have the pixel, or less of it, unless no contributing image has it.

    Brightness is blended only where the low pass sees nothing that is missing.
    """
    if not blend.sources:
        return blend
    kept, brightness = blend.weights.copy(), blend.brightness.copy()
    is_missing = np.zeros(kept.shape[1], bool)
    for row, source in enumerate(blend.sources):
        is_valid = validity(source)
        pixels, shares = row_of(kept, row)
        # `row_of` returns views: this changes `kept`
        shares *= is_valid[blend.band][pixels]
        pixels, _ = row_of(brightness, row)
        # nothing missing within the reach of the low pass
        is_whole = ndimage.minimum_filter(is_valid > 0, 2 * LOW_PASS_REACH_PX + 1)
        is_missing[pixels] |= ~is_whole[blend.band][pixels]
    brightness.data *= ~is_missing[brightness.indices]
    # what is left is made to add up to one again; where no contributing image has the pixel the shares stay as they were
    total = np.bincount(kept.indices, weights=kept.data, minlength=kept.shape[1])[kept.indices]
    kept.data = np.where(total > 0, kept.data / np.where(total > 0, total, 1), blend.weights.data).astype(kept.dtype)
    leading = lead(blend.source_index, blend.band, sources=blend.sources, weights=kept)
    return replace(blend, source_index=leading, weights=kept, brightness=brightness)


def _as_bytes(image: SampleArray) -> NDArray[np.uint8]:
    """Return the rows of an image as bytes, shape (h, w * bytes of a pixel): a view, unless its samples lie apart."""
    rows = image.reshape(len(image), -1)
    return (rows if rows.strides[-1] == rows.itemsize else np.ascontiguousarray(rows)).view(np.uint8)


def _samples_at(image: SampleArray, place: tuple[NDArray[np.intp], ...]) -> SampleArray:
    """Return the samples of some pixels, shape (number of pixels, c)."""
    samples: SampleArray = (image if image.ndim == 3 else image[..., None])[place]
    return samples


COMPOSITION = Stage(
    name="method.fusion.compose",
    reaches=(Reach(lambda _config, _side: LOW_PASS_REACH_PX, "`LOW_PASS_REACH_PX`; 0 without wide shares", of="samples"),),
    working_bytes=bytes_per_pixel(56),
)
