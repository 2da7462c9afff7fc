"""An OME-Zarr image that grows tile by tile under a temporary name, each chunk written by the one task that computed it.

zarr encodes chunks in memory; here they get their names once their bytes are on the disk. Whoever writes makes no folder: one who comes
late, when the store was moved into place or thrown away, fails instead of leaving something behind. A store in a bucket has its final name
from the start, and its root is described last.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.input.bounded_reading import read_bounded
from qmcif_engine.io.limits import LARGEST_SEGMENT_OVERHEAD_BYTES
from qmcif_engine.io.output.pyramid import level_shapes
from qmcif_engine.io.output.stores import sync_folder, write_durably
from qmcif_engine.io.output.windowed_image import JoinedImage
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.io.zarr.ome_attributes import Extremes, describe_group
from qmcif_engine.io.zarr.ome_zarr import create_level
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    import zarr
    from numpy.typing import NDArray

    from qmcif_engine.io.output.windowed_image import ImageContent, WindowedImage
    from qmcif_engine.io.remote.remote_path import Location

MOST_CHUNK_FILES = 2**14
"""Chunks of a level that are files of their own; where there are more, those of a tile share one (4 gigapixels with the default)."""

_METADATA = "zarr.json"


@dataclass(frozen=True, slots=True)
class GrowingLevel:
    """One level of an image that is growing.

    Attributes
    ----------
    folder : Path or RemotePath
        Of the array.
    scratch_folder : Path or RemotePath
        Where files lie until they are complete, if it is on a disk.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels.
    dtype : dtype
    chunk_px : int
    shard_px : tuple of int or None
        Height and width of what shares a file; None where each chunk has its own.
    """

    folder: Location
    scratch_folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_px: int
    shard_px: tuple[int, int] | None

    def create(self) -> None:
        """Describe the array, and make the folders of its chunks."""
        kept, _ = self._make_in_memory(self.shape)
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
            # now, by one process: tasks that make folders at once would race for them, and for their entries on the disk
            for path in {path.parent for path in self._files(Window.whole(self.shape)) if isinstance(path, Path)}:
                path.mkdir(parents=True, exist_ok=True)
        write_durably({self.folder / _METADATA: kept[f"0/{_METADATA}"].to_bytes()}, scratch_folder=self.scratch_folder)

    def write(self, window: Window, block: NDArray[Any]) -> tuple[bytes, ...]:
        """Write a window, which begins and, within the image, ends where a file does; return what its files hold."""
        # Zarr encodes into memory, we write: files then appear whole, and are on the disk when the tile counts as done
        kept, array = self._make_in_memory(block.shape)
        array[...] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block
        # the array in memory is the tile alone, so its chunks are numbered from 0
        keys = (self._key(*cell) for cell in self._cells(Window.whole(window.shape)))
        contents = {path: kept[f"0/{key}"].to_bytes() for path, key in zip(self._files(window), keys, strict=True)}
        write_durably(contents, scratch_folder=self.scratch_folder)
        return tuple(contents.values())

    def contents(self, window: Window) -> Iterator[bytes]:
        """Yield what the files of a window hold, as far as it was written."""
        return (path.read_bytes() for path in self._files(window) if isinstance(path, Path))

    def is_stored(self, window: Window) -> bool:
        """Return whether all files of a window are there."""
        return all(path.is_file() for path in self._files(window))

    def read(self, window: Window) -> NDArray[Any]:
        """Return the samples of a window that has been written."""
        import zarr

        array = self._fetch(window) if isinstance(self.folder, RemotePath) else zarr.open_array(self.folder, mode="r")
        planes = np.asarray(array[(..., *window.slices)])
        return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes

    def _fetch(self, window: Window) -> zarr.Array[Any]:
        """Return the array with the files of a window, fetched from a server."""
        from zarr.core.buffer import default_buffer_prototype

        kept, array = self._make_in_memory(self.shape)
        # a chunk that was packed cannot be much larger than its samples: what a server sends beyond that is refused
        largest = 2 * math.prod(self.shard_px or (self.chunk_px,) * 2) * math.prod(self.shape[2:]) * self.dtype.itemsize
        for cell in self._cells(window):
            content = read_bounded(self.folder / self._key(*cell), largest_bytes=largest + LARGEST_SEGMENT_OVERHEAD_BYTES)
            kept[f"0/{self._key(*cell)}"] = default_buffer_prototype().buffer.from_bytes(content)
        return array

    def _make_in_memory(self, shape: tuple[int, ...]) -> tuple[dict[str, Any], zarr.Array[Any]]:
        """Return an empty array of this kind, and the dictionary that will hold its files."""
        import zarr
        from zarr.storage import MemoryStore

        kept: dict[str, Any] = {}
        group = zarr.open_group(MemoryStore(kept), mode="w", zarr_format=3)
        return kept, create_level(group, "0", shape, dtype=self.dtype, chunk_px=self.chunk_px, shard_px=self.shard_px)

    def _cells(self, window: Window) -> Iterator[tuple[int, int]]:
        """Yield row and column of every file that a window touches."""
        height, width = self.shard_px or (self.chunk_px, self.chunk_px)
        rows = range(window.top // height, -(-window.bottom // height))
        columns = range(window.left // width, -(-window.right // width))
        yield from itertools.product(rows, columns)

    def _key(self, row: int, column: int) -> str:
        # all channels share a chunk, so its number along their axis is always 0
        return "/".join(["c", *("0" for _ in self.shape[2:]), str(row), str(column)])

    def _files(self, window: Window) -> Iterator[Location]:
        return (self.folder / self._key(*cell) for cell in self._cells(window))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingImage:
    """An OME-Zarr image whose full level grows tile by tile, and whose smaller levels are made when it is complete.

    Attributes
    ----------
    folder : Path or RemotePath
        Of the store; the one around it holds files until they are complete. In a bucket it is the target itself.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels, alpha included.
    dtype : dtype
    n_colors : int
        Channels without alpha.
    chunk_px : int
    block_px : tuple of int
        Height and width of what is written at a time: multiples of the chunks.
    """

    folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_colors: int
    chunk_px: int
    block_px: tuple[int, int]

    @property
    def levels(self) -> list[GrowingLevel]:
        """All levels, the full one first."""
        return [
            GrowingLevel(self.folder / str(number), self.folder.parent, shape, self.dtype, self.chunk_px, self._settle_shards(shape))
            for number, shape in enumerate(level_shapes(self.shape))
        ]

    @property
    def full_level(self) -> GrowingLevel:
        """The level of all pixels."""
        return self.levels[0]

    @property
    def colors(self) -> WindowedImage:
        """The image without alpha."""
        has_alpha = len(self.shape) == 3 and self.shape[2] > self.n_colors
        return JoinedImage([self.full_level], slice(self.n_colors)) if has_alpha else self.full_level

    def _settle_shards(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Return what shares a file: nothing where chunks are few enough, else what one task writes."""
        n_chunks = -(-shape[0] // self.chunk_px) * -(-shape[1] // self.chunk_px)
        # a shard of one chunk would only add an index
        return None if n_chunks <= MOST_CHUNK_FILES or self.block_px == (self.chunk_px, self.chunk_px) else self.block_px

    def begin(self) -> None:
        """Make the folder, ready for tiles."""
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
        self.full_level.create()

    def write(self, window: Window, block: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[bytes, ...]]:
        """Write a tile; return the least and the largest sample of every color, (2, number of colors), and what its files hold."""
        contents = self.full_level.write(window, block)
        # taken while the tile is in memory: the whole image is never read again for its contrast
        extremes = Extremes(self.n_colors)
        extremes.include(block[..., : self.n_colors] if block.ndim == 3 else block)
        return extremes.bounds, contents

    def finish(self, content: ImageContent, extremes: Extremes) -> None:
        """Describe the image, whose levels are all there, and wait until its folders are on the disk."""
        import zarr
        from zarr.storage import MemoryStore

        kept: dict[str, Any] = {}
        group = zarr.open_group(MemoryStore(kept), mode="w", zarr_format=3)
        group.attrs.update(describe_group(content, n_levels=len(self.levels), extremes=extremes))
        write_durably({self.folder / _METADATA: kept[_METADATA].to_bytes()}, scratch_folder=self.folder.parent)
        if isinstance(self.folder, Path):
            # chunks waited for their bytes and names; the folders themselves were not waited for
            for folder in (path for path in self.folder.rglob("*") if path.is_dir()):
                sync_folder(folder)
