"""Images reduced in size, read in bands of rows, so that what is estimated from them takes little memory whatever their size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from qmcif_engine.arrays import FloatArray, SampleArray
from qmcif_engine.stack.samples import LUMINANCE
from qmcif_engine.stack.stack import LocalRead, ReadWindow, Stack, place_samples
from qmcif_engine.stack.window import Window

_BAND_ROWS = 256
_LARGEST_MEAN = 1e38
"""Bounds of a preview: differences within them are numbers, too."""


class ReducedImage(NamedTuple):
    """Which image is reduced, 0-based, and the side of the squares that become a pixel."""

    number: int
    factor: int


def read_previews(stack: Stack, previews: Iterable[ReducedImage]) -> Stack:
    """Read previews, and the samples that focus range and noise are measured on, in one pass: image by image, from top to bottom.

    A strip or tile of a file that several of them touch is decoded once, since it is still held from the read before. The stack returned
    holds both; views of it, such as `Stack.replaced` returns without any change, hold the samples alone.
    """
    wanted = sorted(set(previews))
    whole = Window.whole(stack.image_shape)  # images that are sampled whole are small, and read again at no cost
    places = {(number, window) for number, window in place_samples(stack) if window != whole}
    bands: dict[ReducedImage, list[FloatArray]] = {preview: [] for preview in wanted}
    samples: dict[tuple[int, Window], SampleArray] = {}
    steps: list[tuple[int, Window, ReducedImage | None]] = [(number, window, None) for number, window in places]
    steps += [(preview.number, window, preview) for preview in wanted for window in _cut_bands(stack, preview.factor)]
    # by image, then by the upper edge of the window; the key leaves out what cannot be compared
    for number, window, preview in sorted(steps, key=lambda step: step[:2]):
        block = stack.read(number, window)
        if preview is None:
            samples[number, window] = block
        else:
            bands[preview].append(_reduce(block, preview.factor))
    read = LocalRead(partial(_read_sampled, samples, stack.read), stack.read)
    return stack.replaced(read=read, previews={preview: np.concatenate(parts) for preview, parts in bands.items()})


def _read_sampled(samples: Mapping[tuple[int, Window], SampleArray], read: ReadWindow, number: int, window: Window) -> SampleArray:
    known = samples.get((number, window))
    return read(number, window) if known is None else known


def _cut_bands(stack: Stack, factor: int) -> Iterator[Window]:
    """Yield the bands that a preview is read in, from top to bottom."""
    height, width = (side // factor for side in stack.image_shape[:2])
    # rows of the preview, so that a band holds whole squares
    band_rows = max(1, _BAND_ROWS // factor)
    for top in range(0, height, band_rows):
        yield Window(top * factor, 0, min(top + band_rows, height) * factor, width * factor)


def choose_reduction(shape: tuple[int, ...], *, largest_px: int) -> int:
    """Return the smallest whole factor that brings an image of shape (H, W, ...) down to so many pixels."""
    factor = 1
    while (shape[0] // factor) * (shape[1] // factor) > largest_px:
        factor += 1
    return factor


def read_preview(stack: Stack, number: int, *, factor: int) -> FloatArray:
    """Return the means of squares of pixels of one image, read band by band.

    Parameters
    ----------
    stack : Stack
    number : int
        Which image, 0-based.
    factor : int
        Side of the squares; rows and columns that fill none are left out.

    Returns
    -------
    ndarray of float32, shape (H // factor, W // factor, C)
        A gray image has one channel.
    """
    known = stack.previews.get(ReducedImage(number, factor))
    if known is not None:
        return known
    return np.concatenate([_reduce(stack.read(number, window), factor) for window in _cut_bands(stack, factor)])


def _reduce(band: SampleArray, factor: int) -> FloatArray:
    """Return the means of squares of a band; rows are summed first because they are contiguous."""
    height, width = band.shape[0] // factor, band.shape[1] // factor
    n_channels = band.size // (band.shape[0] * band.shape[1])
    # sums of float64 samples may be beyond float32
    kind = np.float64 if band.dtype == np.float64 else np.float32
    with np.errstate(over="ignore", invalid="ignore"):  # sums beyond all numbers end at the bounds below
        rows = _add_up(band.reshape(height, factor, -1), kind)
        sums = _add_up(rows.reshape(height * width, factor, n_channels), kind).reshape(height, width, n_channels)
    bounded = np.nan_to_num(sums / factor**2) if band.dtype.kind == "f" else sums / factor**2
    return np.asarray(np.clip(bounded, -_LARGEST_MEAN, _LARGEST_MEAN), np.float32)


def _add_up(groups: SampleArray, kind: type[np.floating[Any]]) -> FloatArray:
    """Return the sums along the middle axis, one member of all groups after the other: `numpy.sum` takes three to five times as long."""
    sums = groups[:, 0].astype(kind)
    for member in range(1, groups.shape[1]):
        sums += groups[:, member]
    return sums


def to_gray(preview: FloatArray) -> FloatArray:
    """Return one plane (h, w) from a preview (h, w, C): the luminance of a color, the mean of any other number of channels."""
    n_channels = preview.shape[-1]
    weights = np.array(LUMINANCE if n_channels == len(LUMINANCE) else [1 / n_channels] * n_channels, np.float32)
    return np.asarray(preview @ weights)
