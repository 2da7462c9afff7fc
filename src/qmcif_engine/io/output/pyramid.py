"""Smaller copies of an image, each half as large as the one before, made without ever holding one whole."""

from __future__ import annotations

import errno
import math
import os
import tempfile
import threading
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.output.placement import refusing
from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX
from qmcif_engine.stack.window import Window


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
