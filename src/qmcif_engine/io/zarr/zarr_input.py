"""Zarr arrays and OME-Zarr images, read chunk by chunk."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.abc.store import RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.bounded_reading import parse_json, read_bounded
from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged, translate_failures
from qmcif_engine.io.input.segment_cache import fill_from_segments
from qmcif_engine.io.limits import LARGEST_INDEX_BYTES, LARGEST_NODE_BYTES, LARGEST_SEGMENT_OVERHEAD_BYTES
from qmcif_engine.io.metadata.acquisition import name_axes, plan_axes
from qmcif_engine.io.remote.remote_path import RemotePath
from qmcif_engine.io.zarr.image_groups import find_image
from qmcif_engine.io.zarr.ngff import name_ngff_axes
from qmcif_engine.io.zarr.zarr_checks import check_stored, read_array_node
from qmcif_engine.stack.image_metadata import ImageMetadata

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from qmcif_engine.io.input.segment_cache import SegmentCache
    from qmcif_engine.io.remote.remote_path import Location
    from qmcif_engine.io.zarr.zarr_checks import ZarrNode


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
    source.copying = Copying.WORTHWHILE if node.compressor else Copying.NEVER
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
        store = GuardedStore.around(self._folder, self._node, path=self._path, is_strict=self._is_strict)
        return zarr.open_array(store, mode="r", zarr_format=self._node.zarr_format)


class GuardedStore(WrapperStore[Store]):
    """A store between Zarr and the chunks, here or on a server: it tells of missing ones, and refuses those that unpack to too much.

    Parameters
    ----------
    store : LocalStore or MemoryStore
        Of the array's folder, read only; an empty one where the folder lies on a server, whose chunks this class asks for itself.
    """

    _folder: Location
    _path: Location
    _node: ZarrNode
    _is_strict: bool
    _has_told: bool

    @classmethod
    def around(cls, folder: Location, node: ZarrNode, *, path: Location, is_strict: bool) -> GuardedStore:
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
        store._folder, store._path, store._node, store._is_strict, store._has_told = folder, path, node, is_strict, False
        return store

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return stored bytes; for a chunk only where it is there, and will not unpack to more than its size."""
        if key.rpartition("/")[2] in _METADATA:
            # in a thread: the event loop of Zarr must not wait for a disk
            return await asyncio.to_thread(self._read_metadata, key, prototype)
        if isinstance(self._folder, RemotePath):
            return await asyncio.to_thread(self._read_remote, self._folder / key, key, prototype, byte_range)
        n_bytes = self._measure(self._folder / key, key)
        if n_bytes is None:
            return None
        if isinstance(byte_range, SuffixByteRequest):  # the index of a shard, which is not compressed
            return await super().get(key, prototype, byte_range)
        if isinstance(byte_range, RangeByteRequest):
            n_bytes = byte_range.end - byte_range.start
        # before it is read: a file of any length may have the name of a chunk
        if n_bytes > self._largest_bytes:
            raise refuse_damaged(self._path, f"chunk {key} is stored in {n_bytes} bytes where it holds {self._node.chunk_bytes}")
        value = await super().get(key, prototype, byte_range)
        if value is not None:
            self._check_packed(value.to_bytes(), key)
        return value

    # Zarr has more ways to read, which a wrapper hands to the store that it wraps; here all of them pass `get`, so that nothing goes
    # unchecked, and none is synchronous.
    _supports_sync_io = False

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return stored bytes of several chunks, or parts of them."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def get_ranges(
        self, key: str, byte_ranges: Sequence[ByteRequest | None], *, prototype: BufferPrototype, **_: int
    ) -> AsyncIterator[list[tuple[int, Buffer]]]:
        """Yield parts of a shard one by one: parts that were read as one could not be checked."""
        for number, byte_range in enumerate(byte_ranges):
            part = await self.get(key, prototype, byte_range)
            if part is None:
                raise FileNotFoundError(key)
            yield [(number, part)]

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for request in requests:
            yield request[0], await self.get(*request)

    @property
    def _largest_bytes(self) -> int:
        """What a stored chunk may take."""
        return 2 * self._node.chunk_bytes + LARGEST_SEGMENT_OVERHEAD_BYTES

    def _check_packed(self, stored: bytes, key: str) -> None:
        if self._node.unpacks_to_more(stored):
            raise refuse_damaged(self._path, f"chunk {key} unpacks to more than the {self._node.chunk_bytes} bytes of a chunk")

    def _read_remote(self, path: RemotePath, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        """Return a chunk, or the part of a shard that is wanted, from a server; its size is checked while it arrives."""
        from qmcif_engine.io.remote.object_requests import read_object

        part, is_index = "", isinstance(byte_range, SuffixByteRequest)
        if isinstance(byte_range, SuffixByteRequest):
            part = f"-{byte_range.suffix}"
        elif isinstance(byte_range, RangeByteRequest):
            # ranges of HTTP include their last byte
            part = f"{byte_range.start}-{byte_range.end - 1}"
        elif byte_range is not None:
            part = f"{byte_range.offset}-"
        try:
            answer = read_object(path, part=part, largest_bytes=self._largest_bytes if not is_index else LARGEST_INDEX_BYTES)
        except FileNotFoundError:
            self._miss(key)
            return None
        except ValueError as error:
            raise refuse_damaged(self._path, f"chunk {key} is not usable: {error}") from error
        # a server may ignore the range and send all of a shard, which may be gigabytes
        if part and not answer.is_part:
            raise refuse_content(
                self._path,
                given="shards that their server sends only as a whole",
                needed="a server that sends parts (range requests)",
                remedy="download it and pass its name",
            )
        if not is_index:
            self._check_packed(answer.content, key)
        return prototype.buffer.from_bytes(answer.content)

    def _read_metadata(self, key: str, prototype: BufferPrototype) -> Buffer | None:
        """Return a metadata file, which may be a pipe or a link to a device and is refused then; None where there is none."""
        try:
            content = read_bounded(self._folder / key, largest_bytes=LARGEST_NODE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise refuse_damaged(self._path, f"{key} is not usable: {error}") from error
        if key.endswith(".zarray"):
            node = parse_json(content)
            if node.get("filters") == []:  # the library prints a warning about programs that write no filters so
                content = json.dumps(node | {"filters": None}).encode()
        return prototype.buffer.from_bytes(content)

    def _measure(self, file: Path, key: str) -> int | None:
        """Return the size of a stored chunk or shard; None for one that is missing, unless that is refused."""
        try:
            status = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._miss(key)
            return None
        if not stat.S_ISREG(status.st_mode):
            raise refuse_damaged(self._path, f"chunk {key} is not a file")
        return status.st_size

    def _miss(self, key: str) -> None:
        """Refuse a missing chunk, or note the first one: most are empty and were left out, but an interrupted copy looks the same."""
        if self._is_strict:
            msg = (
                f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or leave out --strict-chunks "
                "(strict_chunks) where its program leaves out empty ones"
            )
            raise ImageFileError(msg) from None
        if not self._has_told:
            self._has_told = True
            logger.warning(
                "%r lacks the chunk %s, and maybe others; the fill value stands for what is missing; --strict-chunks refuses it",
                str(self._path),
                key,
            )
