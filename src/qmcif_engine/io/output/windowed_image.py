"""Images of any size, handed over by window, and smaller copies of them, so that those who write them never hold one whole."""

from __future__ import annotations

import errno
import itertools
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.dask_threads import compute_on_threads
from qmcif_engine.io.output.placement import refusing
from qmcif_engine.stack.image_metadata import COLOR_NAMES, ImageMetadata
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

BLOCK_SIDE_PX = 512
"""Side of the tiles and chunks that are written; even, so that the halves of blocks are blocks of the next level."""


StackAxis = Literal["Z", "T"]
"""What the images of a stack lie along: focus positions or time points."""


class WindowedImage(Protocol):
    """Samples of an image window by window; any window may be read any number of times, in any order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Height and width, and the number of channels where there is a channel axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples."""

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window, shape (h, w) or (h, w, C)."""


class ArrayImage:
    """An array in memory as an image to write.

    Parameters
    ----------
    samples : ndarray, shape (H, W) or (H, W, C)
    """

    def __init__(self, samples: NDArray[Any]) -> None:
        # samples are handed over in native byte order
        self._samples, self.shape, self.dtype = samples, samples.shape, samples.dtype.newbyteorder("=")

    def read(self, window: Window) -> NDArray[Any]:
        """Return a contiguous copy of a window in native byte order, which is what the codecs take."""
        return np.ascontiguousarray(self._samples[window.slices], dtype=self.dtype)


class StackImage:
    """One image of a stack, or a rectangle of it, as an image to write."""

    def __init__(self, stack: Stack, number: int, area: Window | None = None) -> None:
        self._stack, self._number = stack, number
        self._area = Window.whole(stack.image_shape) if area is None else area
        self.shape: tuple[int, ...] = (*self._area.shape, *stack.image_shape[2:])
        self.dtype: np.dtype[Any] = stack.dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        return self._stack.read(self._number, window.moved(self._area.top, self._area.left))


class JoinedImage:
    """Channels of images of shape (H, W) or (H, W, C) as one; of all their channels, or of some: all but the last are the colors."""

    def __init__(self, images: Sequence[WindowedImage], channels: slice | int = slice(None)) -> None:
        self._images, self._channels = list(images), channels
        n_channels = sum(image.shape[2] if len(image.shape) == 3 else 1 for image in self._images)
        # a range answers an index as the channels would: one number, or those of a slice
        kept = range(n_channels)[channels]
        n_kept = 1 if isinstance(kept, int) else len(kept)
        self.shape: tuple[int, ...] = (*self._images[0].shape[:2], *([n_kept] if n_kept > 1 else []))
        self.dtype = self._images[0].dtype

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        # planes without a channel axis become channels of one
        joined = np.dstack([image.read(window) for image in self._images])
        return np.ascontiguousarray(joined[..., self._channels]).reshape(*window.shape, *self.shape[2:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageContent:
    """All that goes into one file.

    Attributes
    ----------
    image : WindowedImage
        Alpha, if any, is its last channel. Of several images the first, which all others are like.
    further : tuple of WindowedImage
        The other images.
    axis : "Z", "T" or None
        What several images lie along.
    has_alpha : bool
    metadata : ImageMetadata
    provenance : mapping
        What the image was made of and how, as far as JSON can say it; the same for the same result, so no times and no paths.
    """

    image: WindowedImage
    further: tuple[WindowedImage, ...] = ()
    axis: StackAxis | None = None
    has_alpha: bool = False
    metadata: ImageMetadata = field(default_factory=ImageMetadata)
    provenance: Mapping[str, object] = field(default_factory=dict)

    @property
    def images(self) -> tuple[WindowedImage, ...]:
        """All images, one or several along the axis."""
        return (self.image, *self.further)

    @property
    def n_channels(self) -> int:
        """Number of channels, alpha included."""
        shape = self.image.shape
        return shape[2] if len(shape) == 3 else 1

    @property
    def n_colors(self) -> int:
        """Number of channels without alpha."""
        return self.n_channels - self.has_alpha

    @property
    def is_rgb(self) -> bool:
        """Whether the channels are red, green and blue, rather than three dyes with names of their own."""
        # microscopes record three dyes too: only the names tell them from a photograph
        names = tuple(name.lower() for name in self.metadata.channel_names)
        is_named = len(names) == 3 and names not in COLOR_NAMES
        return self.n_colors == 3 and not self.metadata.has_separate_channels and not is_named


def assemble_content(
    image: WindowedImage, alpha: WindowedImage | None, *, metadata: ImageMetadata, provenance: Mapping[str, object]
) -> ImageContent:
    """Return what is to be written as one content, once it is known to be an image.

    Raises
    ------
    InvalidImageError
        When the two are not an image.
    """
    shape = tuple(image.shape)
    if len(shape) not in (2, 3) or min(shape) < 1 or shape[2:] == (1,):
        needed = "(H, W) or (H, W, C) with at least 2 channels and no empty side"
        msg = f"an array of shape {shape} was to be written; {needed} is needed; reshape it"
        raise InvalidImageError(msg)
    if alpha is None:
        return ImageContent(image=image, metadata=metadata, provenance=provenance)
    if tuple(alpha.shape) != shape[:2] or alpha.dtype != image.dtype:
        msg = (
            f"alpha of shape {tuple(alpha.shape)} and type {alpha.dtype} was to be written; "
            f"{shape[:2]} and {image.dtype} as in the samples is needed; convert it"
        )
        raise InvalidImageError(msg)
    return ImageContent(image=JoinedImage([image, alpha]), has_alpha=True, metadata=metadata, provenance=provenance)


def join_contents(contents: Sequence[ImageContent], axis: StackAxis) -> ImageContent:
    """Return images of one kind as one content; the first of them speaks for all."""
    return replace(contents[0], further=tuple(content.image for content in contents[1:]), axis=axis)


@dataclass(kw_only=True)
class WriteRun:
    """The circumstances of writing: blocks are counted and reported, and the caller may stop before each.

    Attributes
    ----------
    n_blocks : int
        How many blocks will be written.
    scratch_folder : Path
        Where temporary files may lie.
    on_progress : callable, optional
        Called with the number of blocks written and the number of all.
    check_cancelled : callable, optional
        Called before each block; ends the writing by raising.
    n_workers : int, optional
        Threads that read images, and compress them where the format can, a few blocks at a time; 0 and 1 do so in the calling thread.
    n_written : int
    """

    n_blocks: int
    scratch_folder: Path
    on_progress: Callable[[int, int], None] | None = None
    check_cancelled: Callable[[], None] = lambda: None
    n_workers: int = 0
    n_written: int = 0

    def windows(self, shape: tuple[int, ...]) -> Iterator[Window]:
        """Yield the blocks of an image one by one, each after a chance to stop."""
        for window in block_windows(shape):
            self.check_cancelled()
            yield window

    def read(self, image: WindowedImage) -> Iterator[tuple[Window, NDArray[Any]]]:
        """Yield the blocks of an image with their samples, in order, each counted as written once it is handed over."""
        windows = block_windows(image.shape)
        # two a thread: one is computed while another waits, and memory holds no more
        while batch := list(itertools.islice(windows, max(2 * self.n_workers, 1))):
            for window, block in zip(batch, self._read_batch(image, batch), strict=True):
                self.count_block()
                yield window, block

    def _read_batch(self, image: WindowedImage, batch: list[Window]) -> Iterable[NDArray[Any]]:
        def read(window: Window) -> NDArray[Any]:
            self.check_cancelled()
            return image.read(window)

        if self.n_workers < 2:  # a pool of one would gain nothing
            return map(read, batch)
        tasks = {number: (partial(read, window),) for number, window in enumerate(batch)}
        # no callbacks: a progress bar of the caller for dask would count our blocks
        blocks: Iterable[NDArray[Any]] = compute_on_threads(tasks, list(tasks), num_workers=self.n_workers, callbacks=())
        return blocks

    def count_block(self) -> None:
        """Take one more block as written."""
        self.n_written += 1
        if self.on_progress is not None:
            self.on_progress(self.n_written, self.n_blocks)


def block_windows(shape: tuple[int, ...], side_px: int = BLOCK_SIDE_PX) -> Iterator[Window]:
    """Yield the windows of a grid over an image of this shape, row by row; the last of each row and column may be smaller."""
    height, width = shape[:2]
    for top in range(0, height, side_px):
        for left in range(0, width, side_px):
            yield Window(top, left, min(top + side_px, height), min(left + side_px, width))


def count_blocks(shape: tuple[int, ...]) -> int:
    """Return how many blocks cover an image of this shape."""
    return -(-shape[0] // BLOCK_SIDE_PX) * -(-shape[1] // BLOCK_SIDE_PX)


def read_whole(image: WindowedImage, run: WriteRun) -> NDArray[Any]:
    """Return all samples of an image as one contiguous array, for formats that can only be written whole."""
    samples = np.empty(image.shape, image.dtype)
    for window, block in run.read(image):
        samples[window.slices] = block
    return samples


def level_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of an image and of its smaller copies, down to the first that is one block.

    Sides are halved and rounded up, so that every pixel of a level has a share in the next.
    """
    shapes = [tuple(shape)]
    while max(shapes[-1][:2]) > BLOCK_SIDE_PX:
        height, width, *channels = shapes[-1]
        shapes.append((-(-height // 2), -(-width // 2), *channels))
    return shapes


def halve(block: NDArray[Any]) -> NDArray[Any]:
    """Return a block at half its size; a last odd row or column stands for itself.

    Parameters
    ----------
    block : ndarray, shape (h, w) or (h, w, C)

    Returns
    -------
    ndarray of the same dtype, shape (ceil(h / 2), ceil(w / 2)) or with C
        Means over squares of two by two samples. The mean of integers is exact and then rounded once, a half upwards; that of floats
        is taken in float64 and cast.
    """
    # an edge sample counted twice has the mean of itself
    odd = [(0, side % 2) for side in block.shape[:2]] + [(0, 0)] * (block.ndim - 2)
    whole = np.pad(block, odd, mode="edge") if any(after for _, after in odd) else block
    quarters = [whole[row::2, column::2] for row in (0, 1) for column in (0, 1)]
    if block.dtype.kind != "f":
        # int64 holds four samples of every integer type
        total = np.sum(quarters, axis=0, dtype=np.int64)
        # an arithmetic shift rounds downwards, for negative sums too: with 2 added, halves go up
        return ((total + 2) >> 2).astype(block.dtype)
    mean: NDArray[Any] = sum(quarter.astype(np.float64) * 0.25 for quarter in quarters)  # type: ignore[assignment]
    return mean.astype(block.dtype)


class LevelFile:
    """One level of a pyramid in a temporary file until it is written; the file has no name and is gone when closed.

    Parameters
    ----------
    shape : tuple of int
        Height, width and, where there is a channel axis, channels.
    dtype : dtype
    folder : Path
        Where the file lies; it takes the bytes of the level.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, folder: Path) -> None:
        self.shape, self.dtype, self._folder = shape, dtype, folder
        # position and access are two calls: threads that read blocks must not come in between
        self._lock = threading.Lock()
        with refusing(folder):
            self._file: FileIO = tempfile.TemporaryFile(buffering=0, prefix="qmcif-", dir=folder)  # noqa: SIM115 - closed by close

    def close(self) -> None:
        """Give the file's room back."""
        with suppress(OSError):  # what could not be stored any more is not needed any more
            self._file.close()

    def put(self, window: Window, block: NDArray[Any]) -> None:
        """Store the half of a block, which lay at `window` of the level before."""
        with refusing(self._folder), self._lock:
            # level and block differ in width: each row has its own place
            for row, samples in enumerate(np.ascontiguousarray(block, self.dtype), start=window.top // 2):
                self._seek(row, window.left // 2)
                # an unbuffered write may store a part and report no error, as on a full disk
                if self._file.write(samples.data) != samples.nbytes:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window."""
        block = np.empty((*window.shape, *self.shape[2:]), self.dtype)
        with refusing(self._folder), self._lock:
            for row, samples in enumerate(block, start=window.top):
                self._seek(row, window.left)
                self._file.readinto(samples.data)
        return block

    def _seek(self, row: int, column: int) -> None:
        self._file.seek((row * self.shape[1] + column) * math.prod(self.shape[2:]) * self.dtype.itemsize)
