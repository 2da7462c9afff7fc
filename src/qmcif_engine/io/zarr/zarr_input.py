"""Open Zarr arrays and OME-Zarr images, and read them chunk by chunk."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.file_failures import translate_failures
from qmcif_engine.io.metadata.acquisition import name_axes, plan_axes
from qmcif_engine.io.zarr.ngff import describe_image, name_ngff_axes
from qmcif_engine.io.zarr.zarr_nodes import read_array_node, read_group_attributes
from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from zarr import Array

    from qmcif_engine.io.input.segment_cache import SegmentCache
    from qmcif_engine.io.zarr.zarr_nodes import ZarrNode


def open_zarr(path: Path, *, axes: str | None, cache: SegmentCache, allow_missing_chunks: bool) -> ArraySource:
    """Open the image of an OME-Zarr group at its full size, or a plain array.

    Parameters
    ----------
    path : Path
        Folder of the group or the array.
    axes : str, optional
        One letter an axis, where the metadata do not say them or say them wrongly.
    cache : SegmentCache
        Where decoded chunks are kept.
    allow_missing_chunks : bool
        Whether a chunk that is not stored stands for the fill value. Chunks that a shard's index calls empty always do.
    """
    return translate_failures(lambda _: _open_zarr(path, axes=axes, cache=cache, allow_missing_chunks=allow_missing_chunks), path)


def _open_zarr(path: Path, *, axes: str | None, cache: SegmentCache, allow_missing_chunks: bool) -> ArraySource:
    name, folder = repr(str(path)), path.absolute()
    attributes = read_group_attributes(folder, path)
    image = describe_image(attributes, path) if attributes is not None else None
    folder = folder / image.array_path if image is not None else folder
    node = read_array_node(folder, path)
    found = image.axes if image is not None else name_ngff_axes([{"name": each} for each in node.dimension_names])
    if len(found) != len(node.shape):
        found = guess_axes(name, node.shape) if axes is None else "?" * len(node.shape)
    plan = plan_axes(name, *name_axes(name, shape=node.shape, found=found, wanted=axes))
    array = ZarrArray(folder, node, path=path, cache=cache, allow_missing=allow_missing_chunks)
    metadata = image.metadata if image is not None else PictureMetadata()
    return ArraySource(array.read, plan, dtype=node.dtype, name=name, metadata=metadata, paths=(path,))


class ZarrArray:
    """Read blocks of an array, decoding each chunk once for all blocks that are read soon after each other.

    Parameters
    ----------
    folder : Path
        Of the array, absolute.
    node : ZarrNode
        Its checked metadata.
    path : Path
        What messages call the input.
    cache : SegmentCache
    allow_missing : bool
        Whether a chunk that is not stored stands for the fill value.
    """

    def __init__(self, folder: Path, node: ZarrNode, *, path: Path, cache: SegmentCache, allow_missing: bool) -> None:
        self._folder, self._node, self._path, self._cache, self._allow_missing = folder, node, path, cache, allow_missing
        self.shape, self.dtype = node.shape, node.dtype.newbyteorder("=")
        self._lock = threading.Lock()
        self._array: Array[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open array behind."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_array")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the array when it is first read."""
        self.__dict__.update(state, _lock=threading.Lock(), _array=None)

    def read(self, block: tuple[slice, ...]) -> NDArray[Any]:
        """Return the samples of one block."""
        samples = np.empty([part.stop - part.start for part in block], self.dtype)
        for corner in self._touched(block):
            chunk = self._cache.fetch((self._folder, corner), partial(self._decode, corner))
            starts = [max(start, part.start) for start, part in zip(corner, block, strict=True)]
            ends = [min(start + length, part.stop) for start, length, part in zip(corner, chunk.shape, block, strict=True)]
            bounds = list(zip(starts, ends, corner, block, strict=True))
            samples[tuple(slice(start - part.start, end - part.start) for start, end, _, part in bounds)] = chunk[
                tuple(slice(start - first, end - first) for start, end, first, _ in bounds)
            ]
        return samples

    def _touched(self, block: tuple[slice, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the first index of every chunk that a block touches."""
        steps = [
            range(part.start // length * length, part.stop, length) for part, length in zip(block, self._node.chunk_shape, strict=True)
        ]
        return itertools.product(*steps)

    def _decode(self, corner: tuple[int, ...]) -> NDArray[Any]:
        return translate_failures(lambda _: self._decode_chunk(corner), self._path)

    def _decode_chunk(self, corner: tuple[int, ...]) -> NDArray[Any]:
        ends = [min(start + length, end) for start, length, end in zip(corner, self._node.chunk_shape, self.shape, strict=True)]
        chunk = self._open()[tuple(slice(start, end) for start, end in zip(corner, ends, strict=True))]
        return np.asarray(chunk).astype(self.dtype, copy=False)

    def _open(self) -> Array[Any]:
        import zarr

        from qmcif_engine.io.zarr.zarr_guard import GuardedStore

        with self._lock:
            if self._array is None:
                store = GuardedStore.around(self._folder, self._node, path=self._path, allow_missing=self._allow_missing)
                self._array = zarr.open_array(store, mode="r", zarr_format=self._node.zarr_format)
            return self._array
