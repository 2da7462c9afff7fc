"""The 8-bit levels that all metrics are defined on, in memory or, of large images, in temporary files.

The reference reads 8-bit files. Images of other types are first brought to 8 bits, as if they had been saved to such a file, so that a
figure means the same whatever the sample type.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.output.leftovers import name_scratch
from qmcif_engine.io.output.moves import sweep
from qmcif_engine.stack.window import Window

from .blocks import BLOCK_PX, Passes
from .inputs import refuse_infinite

LARGEST_LEVEL = 255
# the 15 digits of MATLAB's rgb2gray: shorter weights flip single pixels by one level
LUMA_OF_RED, LUMA_OF_GREEN, LUMA_OF_BLUE = 0.298936021293776, 0.587043074451121, 0.114020904255103


class ScratchLevels:
    """Levels of one image in a file; an array as far as dask is concerned, both to be stored to and to be read from.

    The file is mapped for each access only, so that its pages count as memory of the process no longer than that.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self._path, self.shape, self.ndim = path, shape, len(shape)
        # the file grows on the disk only as blocks are written, on file systems that know holes
        with path.open("xb") as file:
            os.truncate(file.fileno(), int(np.prod(shape, dtype=np.int64)))

    def __setitem__(self, place: Any, levels: NDArray[np.uint8]) -> None:  # noqa: ANN401 - slices
        """Store one block."""
        self._map("r+")[place] = levels

    def __getitem__(self, place: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - slices
        """Return a copy of one block."""
        return np.array(self._map("r")[place])

    def _map(self, mode: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - one of the words of np.memmap
        return np.memmap(self._path, np.uint8, mode=mode, shape=self.shape)


Levels: TypeAlias = NDArray[np.uint8] | ScratchLevels
"""Levels of one image, gray, shape (H, W), unless a function says otherwise."""


@contextmanager
def offer_places(*, in_files: bool) -> Iterator[Callable[[tuple[int, ...]], Levels]]:
    """Offer a function that makes a place for the levels of an image of some shape; files are removed afterwards."""
    if not in_files:
        yield lambda shape: np.empty(shape, np.uint8)
        return
    # folders of evaluations that were killed go first: they can be as large as the images
    sweep(Path(tempfile.gettempdir()))
    # on Windows a file that is still mapped cannot be removed; the next sweep takes it
    with tempfile.TemporaryDirectory(prefix=name_scratch(), ignore_cleanup_errors=True) as folder:
        numbers = count(1)
        yield lambda shape: ScratchLevels(Path(folder) / f"{next(numbers)}.levels", shape)


def keep_levels(
    name: str,
    image: Any,  # noqa: ANN401 - an array of NumPy or dask
    *,
    limits: tuple[float, float],
    passes: Passes,
    place: Callable[[tuple[int, ...]], Levels],
    with_color: bool,
) -> tuple[Levels, Levels]:
    """Read an image once, block by block, and return its levels, with their colors where they are wanted, and gray.

    Raises
    ------
    InvalidImageError
        If a sample is not finite.
    """
    import dask.array as da

    samples = image if isinstance(image, da.Array) else da.from_array(image, chunks=(BLOCK_PX, BLOCK_PX, *image.shape[2:]), name=False)
    # gray is computed within a chunk, which therefore needs all three channels
    samples = samples if samples.ndim == 2 else samples.rechunk({2: 3})
    is_float = samples.dtype.kind == "f"
    # others are refused below, by number
    finite = da.where(da.isfinite(samples), samples, limits[0]) if is_float else samples
    levels = da.map_blocks(convert_to_eight_bits, finite, limits=limits, dtype=np.uint8)
    gray = levels if levels.ndim == 2 else da.map_blocks(convert_to_gray, levels, drop_axis=2, dtype=np.uint8)
    kept = [levels, gray] if with_color and levels.ndim == 3 else [gray]
    targets = [place(planes.shape) for planes in kept]
    n_bad = (~da.isfinite(samples)).sum() if is_float else 0
    storing: Any = da.store(kept, targets, lock=False, compute=False)  # type: ignore[arg-type]  # targets of dask's own kinds only
    # stored and counted in one pass, so that the image is read once
    _, n_found = passes.compute("levels", storing, n_bad)
    refuse_infinite(name, int(n_found))
    return targets[0], targets[-1]


def convert_to_eight_bits(samples: NDArray[Any], *, limits: tuple[float, float]) -> NDArray[np.uint8]:
    """Map finite samples to levels 0..255, as saving to an 8-bit file would.

    Notes
    -----
    ``level = floor(255 (x - black) / (white - black) + 1/2)``, the rounding of the specification, section 0; samples outside of the limits
    are clipped.
    """
    if samples.dtype == np.uint8 and limits == (0.0, 255.0):
        return samples
    black, white = limits
    # half a level is rounded up, as MATLAB does; np.rint would round it to even
    clipped = samples.astype(np.float64).clip(black, white)
    return np.floor((clipped - black) / (white - black) * LARGEST_LEVEL + 0.5).astype(np.uint8)


def convert_to_gray(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Weigh red, green and blue levels, shape (H, W, 3), into one gray level.

    Notes
    -----
    ``Y = floor(0.2989.. R + 0.5870.. G + 0.1140.. B + 1/2)`` with the 15-digit weights of the specification, section 0; they add up to
    exactly 1, so that gray pixels keep their level.
    """
    red, green, blue = np.moveaxis(levels.astype(np.float64), 2, 0)
    gray: NDArray[np.uint8] = np.floor(LUMA_OF_RED * red + LUMA_OF_GREEN * green + LUMA_OF_BLUE * blue + 0.5).astype(np.uint8)
    return gray


def tabulate_stretching(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return what each of the 256 levels becomes when an image with so many pixels of each is stretched to the whole range.

    Notes
    -----
    ``x' = floor(((x - min) / (max - min)) 255 + 1/2)``, ``normalize1`` of the specification, section 0. All 0 for a constant image, which
    has nothing to stretch (the reference divides 0 by 0 there, except for a black image, which it leaves alone: the same 0).
    """
    present = np.flatnonzero(counts)
    smallest, largest = int(present[0]), int(present[-1])
    if smallest == largest:
        return np.zeros(LARGEST_LEVEL + 1, np.uint8)
    table = np.floor((np.arange(LARGEST_LEVEL + 1.0) - smallest) / (largest - smallest) * LARGEST_LEVEL + 0.5)
    # entries beyond the extremes stand for no pixel, but must not wrap around in 8 bits
    stretched: NDArray[np.uint8] = table.clip(0, LARGEST_LEVEL).astype(np.uint8)
    return stretched


def read_padded(levels: Levels, window: Window, *, margin: int) -> NDArray[np.uint8]:
    """Return a window of an image, shape (H, W), with a margin on all sides, 0 outside the image."""
    inner = window.grown(margin, (levels.shape[0], levels.shape[1]))
    outside = inner.top - window.top, inner.left - window.left, window.bottom - inner.bottom, window.right - inner.right
    above, left, below, right = (margin + more for more in outside)
    return np.pad(levels[inner.slices], ((above, below), (left, right)))


def read_periodic(levels: Levels, start: tuple[int, int], shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a window that may lie outside the image, which is taken as repeated without end."""
    rows, columns = ((first + np.arange(side)) % length for first, side, length in zip(start, shape, levels.shape[:2], strict=True))
    return levels[np.ix_(rows, columns)]


def open_lazily(levels: Levels) -> Any:  # noqa: ANN401 - a dask array, which is a heavy import
    """Return levels as a dask array."""
    import dask.array as da

    return da.from_array(levels, chunks=(BLOCK_PX, BLOCK_PX, *levels.shape[2:]), name=False, meta=levels[:0, :0])
