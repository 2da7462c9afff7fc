"""8-bit levels of large images in temporary files, from which any window can be read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.output.leftovers import name_scratch
from qmcif_engine.io.output.moves import sweep

if TYPE_CHECKING:
    from types import TracebackType

    from qmcif_engine.metrics.levels import Levels
    from qmcif_engine.stack.window import Window


class ScratchLevels:
    """Levels of one image in a file; an array as far as dask is concerned, both to be stored to and to be read from.

    The file is mapped for each access only, so that its pages count as memory of the process no longer than that.

    Parameters
    ----------
    path : Path
        Must not exist.
    shape : tuple of int
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self._path, self.shape, self.ndim = path, shape, len(shape)
        # the file grows on the disk only as blocks are written, on file systems that know holes
        with path.open("xb") as file:
            os.truncate(file.fileno(), int(np.prod(shape, dtype=np.int64)))

    def __setitem__(self, place: Any, levels: Levels) -> None:  # noqa: ANN401 - slices
        """Store one block."""
        self._map("r+")[place] = levels

    def __getitem__(self, place: Any) -> Levels:  # noqa: ANN401 - slices
        """Return a copy of one block."""
        return np.array(self._map("r")[place])

    def read_padded(self, window: Window, *, margin: int) -> Levels:
        """Return a window with a margin on all sides, 0 outside the image."""
        height, width = self.shape[:2]
        inner = window.grown(margin, (height, width))
        above, left = inner.top - (window.top - margin), inner.left - (window.left - margin)
        below, right = window.bottom + margin - inner.bottom, window.right + margin - inner.right
        return np.pad(self[inner.slices], ((above, below), (left, right)))

    def read_periodic(self, top: int, left: int, shape: tuple[int, int]) -> Levels:
        """Return a window that may lie outside the image, which is taken as repeated without end."""
        rows, columns = (
            np.arange(start, start + side) % length for start, side, length in zip((top, left), shape, self.shape, strict=False)
        )
        mapped = self._map("r")
        if (np.diff(columns) == 1).all():  # whole runs of samples are copied faster than single ones
            return np.array(mapped[rows, columns[0] : columns[-1] + 1])
        return np.array(mapped[rows][:, columns])

    def _map(self, mode: Any) -> Levels:  # noqa: ANN401 - one of the words of np.memmap
        return np.memmap(self._path, np.uint8, mode=mode, shape=self.shape)


class ScratchFolder:
    """A temporary folder for levels, removed with everything in it on leaving."""

    def __init__(self) -> None:
        # folders of evaluations that were killed go first: they can be as large as the images
        sweep(Path(tempfile.gettempdir()))
        # on Windows a file that is still mapped cannot be removed; the next sweep takes it
        self._folder = tempfile.TemporaryDirectory(prefix=name_scratch(), ignore_cleanup_errors=True)
        self._n_images = 0

    def add(self, shape: tuple[int, ...]) -> ScratchLevels:
        """Return the place of one more image."""
        self._n_images += 1
        return ScratchLevels(Path(self._folder.name) / f"{self._n_images}.levels", shape)

    def __enter__(self) -> ScratchFolder:
        """Return the folder itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the files."""
        self._folder.cleanup()
