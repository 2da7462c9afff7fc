"""OME-Zarr written window by window: by one process that reads an image, or by many tasks that each compute a part of it.

The arrays are zarr's own; ome-zarr-py streams from dask arrays only and cuts off the means of integers. zarr encodes chunks in memory, and
here they get their names once their bytes are on the disk. Whoever writes makes no folder: one who comes late, when the store was moved
into place or removed, fails instead of leaving something behind. A store in a bucket has its final name from the start, and its root is
described last.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.output.moves import sync_folder, write_durably
from qmcif_engine.io.output.pyramid import halve, level_shapes
from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX, ImageContent, StackAxis, WriteRun, count_blocks
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.zarr.ome_attributes import Extremes, describe_group, name_axes
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    import zarr

MOST_CHUNK_FILES = 2**14
"""Chunks of a level that are files of their own; where there are more, those of a tile share one (4 gigapixels with the default)."""

_METADATA = "zarr.json"
# the default of zstd; not Blosc, whose threads store their parts in the order in which they happen to finish
_COMPRESSION: Any = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArray:
    """A Zarr array of one image, or of several along an axis, that is written and read by window.

    Attributes
    ----------
    folder : Path or RemotePath
    scratch_folder : Path or RemotePath
        Where files lie until they are complete, if it is on a disk.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels.
    dtype : dtype
    chunk_px : int
    shard_px : tuple of int or None
        Height and width of what shares a file; None where each chunk has its own.
    axis : "Z", "T" or None
        What several images lie along.
    n_images : int
    is_kept : bool
        Whether it becomes an output, compressed and with a folder for each row of chunks.
    """

    folder: Location
    scratch_folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_px: int
    shard_px: tuple[int, int] | None = None
    axis: StackAxis | None = None
    n_images: int = 1
    is_kept: bool = True

    def create(self) -> None:
        """Describe the array, and make the folders of its chunks."""
        kept, _ = self._make_in_memory()
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
            # now, by one process: tasks that make folders at once would race for them, and for their entries on the disk
            images = range(self.n_images) if self.is_kept else ()
            for parent in {(self.folder / key).parent for image in images for key in self._keys(Window.whole(self.shape), image)}:
                parent.mkdir(parents=True, exist_ok=True)
        write_durably({self.folder / _METADATA: kept[_METADATA].to_bytes()}, scratch_folder=self.scratch_folder)

    def encode(self, window: Window, block: NDArray[Any], image: int = 0) -> dict[Location, bytes]:
        """Return the files of a window, which begins and, within the image, ends where a file does."""
        kept, array = self._make_in_memory()
        array[(*self._place(image), *window.slices)] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block
        return {self.folder / key: kept[key].to_bytes() for key in self._keys(window, image)}

    def write(self, window: Window, block: NDArray[Any], image: int = 0) -> None:
        """Write a window."""
        write_durably(self.encode(window, block, image), scratch_folder=self.scratch_folder)

    def contents(self, window: Window, image: int = 0) -> list[bytes]:
        """Return what the files of a window on the disk hold."""
        return [(self.folder / key).read_bytes() for key in self._keys(window, image)] if isinstance(self.folder, Path) else []

    def is_stored(self, window: Window, image: int = 0) -> bool:
        """Return whether all files of a window are there."""
        return all((self.folder / key).is_file() for key in self._keys(window, image))

    def read(self, window: Window, image: int = 0) -> NDArray[Any]:
        """Return the samples of a window that has been written."""
        import zarr

        from qmcif_engine.io.zarr.zarr_checks import open_store

        array = zarr.open_array(open_store(self.folder), mode="r")
        planes = np.asarray(array[(*self._place(image), *window.slices)])
        return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes

    def _make_in_memory(self) -> tuple[dict[str, Any], zarr.Array[Any]]:
        """Return an empty array of this kind, and the dictionary that will hold its files."""
        import zarr  # slow to load, and few need it
        from zarr.storage import MemoryStore

        kept: dict[str, Any] = {}
        array = zarr.create_array(
            MemoryStore(kept),
            shape=self._order(self.n_images, self.shape[2:], (self.shape[0], self.shape[1])),
            chunks=self._order(1, self.shape[2:], (self.chunk_px, self.chunk_px)),
            shards=None if self.shard_px is None else self._order(1, self.shape[2:], self.shard_px),
            dtype=self.dtype,
            compressors=_COMPRESSION if self.is_kept else None,
            fill_value=0,
            dimension_names=name_axes(self.shape, self.axis),
            chunk_key_encoding={"name": "default", "separator": "/" if self.is_kept else "."},
            # black chunks too, so that a missing one always means a damaged store
            config={"write_empty_chunks": True},
        )
        return kept, array

    def _order(self, n_images: int, channels: tuple[int, ...], sides: tuple[int, int]) -> tuple[int, ...]:
        """Return lengths in the order of the axes: time comes before the channels, depth behind them."""
        along = () if self.axis is None else (n_images,)
        return (*channels, *along, *sides) if self.axis == "Z" else (*along, *channels, *sides)

    def _place(self, image: int) -> tuple[Any, ...]:
        """Return the index of one image before its rows and columns, all channels included."""
        return {None: (...,), "T": (image, ...), "Z": (..., image)}[self.axis]

    def _keys(self, window: Window, image: int) -> Iterator[str]:
        """Yield the name of every file that a window of an image touches."""
        height, width = self.shard_px or (self.chunk_px, self.chunk_px)
        rows = range(window.top // height, -(-window.bottom // height))
        columns = range(window.left // width, -(-window.right // width))
        for cell in itertools.product(rows, columns):
            # all channels share a chunk, so its number along their axis is always 0
            yield ("/" if self.is_kept else ".").join(["c", *map(str, self._order(image, (0,) * len(self.shape[2:]), cell))])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStore:
    """An OME-Zarr image, or images along an axis, and smaller copies, each level made of the one before.

    Attributes
    ----------
    folder : Path or RemotePath
        In a bucket it is the target itself.
    scratch_folder : Path or RemotePath
        See `ImageArray`.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels, alpha included.
    dtype : dtype
    n_colors : int
        Channels without alpha.
    chunk_px : int
    block_px : tuple of int
        Height and width of what is written at a time: multiples of the chunks.
    axis, n_images
        As in `ImageArray`.
    """

    folder: Location
    scratch_folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_colors: int
    chunk_px: int = BLOCK_SIDE_PX
    block_px: tuple[int, int] = (BLOCK_SIDE_PX, BLOCK_SIDE_PX)
    axis: StackAxis | None = None
    n_images: int = 1

    @property
    def levels(self) -> list[ImageArray]:
        """All levels, the full one first."""
        return [
            ImageArray(
                folder=self.folder / str(number),
                scratch_folder=self.scratch_folder,
                shape=shape,
                dtype=self.dtype,
                chunk_px=self.chunk_px,
                shard_px=self._choose_shards(shape),
                axis=self.axis,
                n_images=self.n_images,
            )
            for number, shape in enumerate(level_shapes(self.shape))
        ]

    @property
    def full_level(self) -> ImageArray:
        """The level of all pixels."""
        return self.levels[0]

    def _choose_shards(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Return what shares a file: nothing where chunks are few enough, else what one task writes."""
        n_chunks = -(-shape[0] // self.chunk_px) * -(-shape[1] // self.chunk_px)
        # a shard of one chunk would only add an index
        return None if n_chunks <= MOST_CHUNK_FILES or self.block_px == (self.chunk_px, self.chunk_px) else self.block_px

    def begin(self) -> None:
        """Make the folder, ready for tiles."""
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
        self.full_level.create()

    def measure(self, block: NDArray[Any]) -> Extremes:
        """Return the extremes of a window's colors, taken while it is in memory: the image is never read again for its contrast."""
        extremes = Extremes(self.n_colors)
        extremes.include(block[..., : self.n_colors] if block.ndim == 3 else block)
        return extremes

    def finish(self, content: ImageContent, extremes: Extremes) -> None:
        """Describe the image, whose levels are all there, and wait until its folders are on the disk."""
        attributes = describe_group(content, n_levels=len(self.levels), extremes=extremes, axis=self.axis)
        group = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
        # last: readers take a group without it for none
        write_durably({self.folder / _METADATA: json.dumps(group, indent=2).encode()}, scratch_folder=self.scratch_folder)
        if isinstance(self.folder, Path):
            # chunks waited for their bytes and names; the folders themselves were not waited for
            for folder in (path for path in self.folder.rglob("*") if path.is_dir()):
                sync_folder(folder)


def halve_window(larger: ImageArray, window: Window, image: int = 0) -> NDArray[Any]:
    """Return a window of the next smaller level."""
    # at the lower and right border an odd side has no second sample: the window is cut there
    doubled = Window(*(2 * side for side in window)).common(Window.whole(larger.shape))
    return halve(larger.read(doubled, image))


def write_ome_zarr(folder: Path, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image or a stack of images, and smaller copies, as a folder that does not exist yet.

    Color is stored in planes with a channel axis (c, y, x); gray has the axes (y, x); time comes first, depth behind the channels. Chunks
    hold all channels of a block and carry a checksum. Memory holds a few chunks.
    """
    store = ImageStore(
        folder=folder,
        scratch_folder=folder,
        shape=content.image.shape,
        dtype=content.image.dtype,
        n_colors=content.n_colors,
        axis=content.axis,
        n_images=len(content.images),
    )
    store.begin()
    extremes = Extremes(content.n_colors)
    for number, image in enumerate(content.images):
        for window, block in run.read(image):
            extremes.widen(store.measure(block).bounds)
            store.full_level.write(window, block, number)
    for larger, smaller in itertools.pairwise(store.levels):
        smaller.create()
        for number in range(store.n_images):
            for window in run.windows(smaller.shape):
                smaller.write(window, halve_window(larger, window, number), number)
                run.count_block()
    store.finish(content, extremes)


def count_chunks(content: ImageContent) -> int:
    """Return how many chunks are written, over all images and levels."""
    return len(content.images) * sum(count_blocks(shape) for shape in level_shapes(content.image.shape))
