"""Images reduced in size, read in bands of rows, so that what is estimated from them takes little memory whatever their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qmcif_engine.stack.samples import LUMINANCE
from qmcif_engine.stack.stack import StackView, place_samples
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from qmcif_engine.arrays import FloatArray, SampleArray
    from qmcif_engine.stack.stack import Stack

_BAND_ROWS = 256
_LARGEST_MEAN = 1e38
"""Bounds of a preview: differences within them are numbers, too."""


class ReducedImage(NamedTuple):
    """Which image is reduced, 0-based, and the side of the squares that become a pixel."""

    number: int
    factor: int


class PreviewedStack(StackView):
    """A stack of which previews and sampled windows are known from one pass over it; in another process it is the plain stack.

    Parameters
    ----------
    stack : Stack
    previews : mapping of ReducedImage to ndarray
        As `read_preview` returns them.
    samples : mapping of image and window to ndarray
        What `qmcif_engine.stack.stack.sample_stack` will ask for.
    """

    def __init__(
        self, stack: Stack, previews: Mapping[ReducedImage, FloatArray], samples: Mapping[tuple[int, Window], SampleArray]
    ) -> None:
        super().__init__(stack)
        self._previews, self._samples = previews, samples

    def __reduce__(self) -> tuple[Callable[[Stack], Stack], tuple[Stack]]:
        """Leave behind what is known: tiles read other windows."""
        return _plain, (self._stack,)

    def read(self, number: int, window: Window) -> SampleArray:
        """Return one window of one image, from memory where it was sampled."""
        known = self._samples.get((number, window))
        return self._stack.read(number, window) if known is None else known

    def find_preview(self, preview: ReducedImage) -> FloatArray | None:
        """Return a preview that is known."""
        return self._previews.get(preview)

    def without_previews(self) -> Stack:
        """Return the stack with its samples alone, once the previews have served: they take much more memory."""
        return PreviewedStack(self._stack, {}, self._samples)

    def each_channel(self) -> Stack | None:
        """Return the stack with all channels side by side; None where it was not opened from a source."""
        return self._stack.each_channel()


def look_once(stack: Stack, previews: Iterable[ReducedImage]) -> PreviewedStack:
    """Read previews, and the samples that settle focus range and noise, in one pass: image by image, from top to bottom.

    A strip or tile of a file that several of them touch is decoded once, since it is still held from the read before.
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
    return PreviewedStack(stack, {preview: np.concatenate(parts) for preview, parts in bands.items()}, samples)


def _plain(stack: Stack) -> Stack:
    return stack


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
    known = stack.find_preview(ReducedImage(number, factor)) if isinstance(stack, PreviewedStack) else None
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
