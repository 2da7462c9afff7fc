"""Zarr arrays and OME-Zarr images, read chunk by chunk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from functools import cached_property, partial
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import refuse_content, translate_failures
from qmcif_engine.io.input.segment_cache import SegmentCache, fill_from_segments
from qmcif_engine.io.metadata.axes import name_axes, plan_axes
from qmcif_engine.io.remote.object_requests import read_object
from qmcif_engine.io.remote.remote_path import Location, RemotePath
from qmcif_engine.io.zarr.ngff import find_image, name_ngff_axes
from qmcif_engine.io.zarr.zarr_checks import ZarrNode, check_stored, read_array_node
from qmcif_engine.stack.image_metadata import ImageMetadata

logger = logging.getLogger(__name__)

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def open_zarr(path: Location, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
    """Open the image of an OME-Zarr group at its full size, or a plain array.

    Parameters
    ----------
    path : Path
        Folder of the group or the array.
    image : int or str, optional
        Number counted from 1, or name, of the image of a folder that holds several, as bioformats2raw writes them.
    axes : str, optional
        One letter an axis, where the metadata do not say them or say them wrongly.
    cache : SegmentCache
        Where decoded chunks are kept.
    strict_chunks : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value. Chunks that a shard's index calls empty
        always stand for it.
    """
    return translate_failures(lambda _: _open_zarr(path, image=image, axes=axes, cache=cache, strict_chunks=strict_chunks), path)


def _open_zarr(path: Location, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
    name = repr(str(path))
    folder, described = find_image(path.absolute(), path, image)
    node = read_array_node(folder, path)
    found = described.axes if described is not None else name_ngff_axes([{"name": each} for each in node.dimension_names])
    if len(found) != len(node.shape):
        # what the user says decides; unknown letters only stand for the number of axes
        found = guess_axes(name, node.shape) if axes is None else "?" * len(node.shape)
    plan = plan_axes(name, *name_axes(name, shape=node.shape, found=found, wanted=axes))
    check_stored(folder, node, path)
    array = ZarrArray(folder, node, path=path, cache=cache, is_strict=strict_chunks)
    metadata = described.metadata if described is not None else ImageMetadata()
    source = ArraySource(array.read, plan, dtype=node.dtype, name=name, metadata=metadata, paths=(path,))
    # chunks that are not compressed are read as quickly as a copy of them
    source.copying = Copying.WORTHWHILE if node.is_compressed else Copying.NEVER
    return source


class ZarrArray:
    """Blocks of an array; each chunk is decoded once for all blocks that are read soon after each other.

    Parameters
    ----------
    folder : Path
        Of the array, absolute.
    node : ZarrNode
        Its checked metadata.
    path : Path
        What messages call the input.
    cache : SegmentCache
    is_strict : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value.
    """

    def __init__(self, folder: Location, node: ZarrNode, *, path: Location, cache: SegmentCache, is_strict: bool) -> None:
        self._folder, self._node, self._path, self._cache, self._is_strict = folder, node, path, cache, is_strict
        # stored as big-endian by some programs; the engine computes in native order
        self.shape, self.dtype = node.shape, node.dtype.newbyteorder("=")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open array behind: the other process opens it when it is first read."""
        return {name: value for name, value in self.__dict__.items() if name != "_array"}

    def read(self, block: tuple[slice, ...]) -> NDArray[Any]:
        """Return the samples of one block."""
        samples = np.empty([part.stop - part.start for part in block], self.dtype)
        fill_from_segments(samples, block, lengths=self._node.chunk_shape, fetch=self._fetch)
        return samples

    def _fetch(self, corner: tuple[int, ...]) -> NDArray[Any]:
        return self._cache.fetch((self._folder, corner), partial(translate_failures, lambda _: self._decode_chunk(corner), self._path))

    def _decode_chunk(self, corner: tuple[int, ...]) -> NDArray[Any]:
        ends = [min(start + length, end) for start, length, end in zip(corner, self._node.chunk_shape, self.shape, strict=True)]
        chunk = self._array[tuple(slice(start, end) for start, end in zip(corner, ends, strict=True))]
        return np.asarray(chunk).astype(self.dtype, copy=False)

    @cached_property
    def _array(self) -> zarr.Array[Any]:
        store = ChunkStore.around(self._folder, self._node, path=self._path, is_strict=self._is_strict)
        return zarr.open_array(store, mode="r", zarr_format=3 if self._node.document[0] == "zarr.json" else 2)


class ChunkStore(WrapperStore[Store]):
    """A store between Zarr and the chunks, here or on a server: it reports missing ones, and gives the metadata that were checked."""

    _folder: Location
    _path: Location
    _node: ZarrNode
    _is_strict: bool
    _has_warned: bool

    # a store that can also be read synchronously would be read around `get`
    _supports_sync_io = False

    @classmethod
    def around(cls, folder: Location, node: ZarrNode, *, path: Location, is_strict: bool) -> ChunkStore:
        """Return the store of an array.

        Parameters
        ----------
        folder : Path
        node : ZarrNode
            The checked metadata.
        path : Path
            What messages call the input.
        is_strict : bool
            Whether a chunk that is not stored is refused, instead of standing for the fill value.
        """
        store = cls(MemoryStore(read_only=True) if isinstance(folder, RemotePath) else LocalStore(folder, read_only=True))
        store._folder, store._path, store._node, store._is_strict, store._has_warned = folder, path, node, is_strict, False
        return store

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return stored bytes; for a chunk that is not there None, unless that is refused."""
        if key in _METADATA:
            name, content = self._node.document
            return prototype.buffer.from_bytes(content) if key == name else None
        if isinstance(self._folder, RemotePath):
            # in a thread: the event loop of Zarr must not wait for a server
            value = await asyncio.to_thread(self._read_remote, self._folder / key, prototype, byte_range)
        else:
            value = await super().get(key, prototype, byte_range)
        if value is None:
            self._report_missing(key)
        return value

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return stored bytes of several chunks, or parts of them."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for request in requests:
            yield request[0], await self.get(*request)

    def _read_remote(self, path: RemotePath, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        """Return a chunk, or the part of a shard that is wanted, from a server; None where it has none."""
        start = end = wanted = None
        if isinstance(byte_range, SuffixByteRequest):
            start, wanted = -byte_range.suffix, byte_range.suffix
        elif isinstance(byte_range, RangeByteRequest):
            start, end, wanted = byte_range.start, byte_range.end, byte_range.end - byte_range.start
        try:
            content = read_object(path, start=start, end=end)
        except FileNotFoundError:
            return None
        # a server may ignore the range and send all of a shard
        if wanted is not None and len(content) > wanted:
            raise refuse_content(
                self._path,
                given="shards that their server sends only as a whole",
                needed="a server that sends parts (range requests)",
                remedy="download it and pass its name",
            )
        return prototype.buffer.from_bytes(content)

    def _report_missing(self, key: str) -> None:
        """Refuse a missing chunk, or note the first one: most are empty and were left out, but an interrupted copy looks the same."""
        if self._is_strict:
            msg = (
                f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or leave out --strict-chunks "
                "(strict_chunks) where its program leaves out empty ones"
            )
            raise ImageFileError(msg)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%r lacks the chunk %s, and maybe others; the fill value stands for what is missing; --strict-chunks refuses it",
                str(self._path),
                key,
            )
