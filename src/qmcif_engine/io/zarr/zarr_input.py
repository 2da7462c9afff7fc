"""Zarr arrays and OME-Zarr images, read chunk by chunk."""

from __future__ import annotations

import json
import logging
import stat
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.storage import LocalStore, WrapperStore

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.bounded_reading import parse_json, read_bounded
from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import refuse_damaged, translate_failures
from qmcif_engine.io.input.segment_cache import fill_from_segments
from qmcif_engine.io.limits import LARGEST_NODE_BYTES, LARGEST_SEGMENT_OVERHEAD_BYTES
from qmcif_engine.io.metadata.acquisition import name_axes, plan_axes
from qmcif_engine.io.zarr.image_groups import find_image
from qmcif_engine.io.zarr.ngff import name_ngff_axes
from qmcif_engine.io.zarr.zarr_checks import check_stored, read_array_node
from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from qmcif_engine.io.input.segment_cache import SegmentCache
    from qmcif_engine.io.zarr.zarr_checks import ZarrNode


logger = logging.getLogger(__name__)

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def open_zarr(path: Path, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
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


def _open_zarr(path: Path, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
    name = repr(str(path))
    folder, described = find_image(path.absolute(), path, image)
    node = read_array_node(folder, path)
    found = described.axes if described is not None else name_ngff_axes([{"name": each} for each in node.dimension_names])
    if len(found) != len(node.shape):
        found = guess_axes(name, node.shape) if axes is None else "?" * len(node.shape)
    plan = plan_axes(name, *name_axes(name, shape=node.shape, found=found, wanted=axes))
    check_stored(folder, node, path)
    array = ZarrArray(folder, node, path=path, cache=cache, is_strict=strict_chunks)
    metadata = described.metadata if described is not None else PictureMetadata()
    source = ArraySource(array.read, plan, dtype=node.dtype, name=name, metadata=metadata, paths=(path,))
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

    def __init__(self, folder: Path, node: ZarrNode, *, path: Path, cache: SegmentCache, is_strict: bool) -> None:
        self._folder, self._node, self._path, self._cache, self._is_strict = folder, node, path, cache, is_strict
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


class GuardedStore(WrapperStore[LocalStore]):
    """A store between Zarr and the chunks on disk: it tells of missing ones, and refuses such that would unpack to more than a chunk.

    Parameters
    ----------
    store : LocalStore
        Of the array's folder, read only.
    """

    _path: Path
    _node: ZarrNode
    _is_strict: bool
    _has_told: bool

    @classmethod
    def around(cls, folder: Path, node: ZarrNode, *, path: Path, is_strict: bool) -> GuardedStore:
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
        store = cls(LocalStore(folder, read_only=True))
        store._path, store._node, store._is_strict, store._has_told = path, node, is_strict, False
        return store

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return stored bytes; for a chunk only where it is there, and will not unpack to more than its size."""
        if key.rpartition("/")[2] in _METADATA:
            return self._read_metadata(key, prototype)
        n_bytes = self._measure(key)
        if n_bytes is None:
            return None
        if isinstance(byte_range, SuffixByteRequest):  # the index of a shard, which is not compressed
            return await super().get(key, prototype, byte_range)
        if isinstance(byte_range, RangeByteRequest):
            n_bytes = byte_range.end - byte_range.start
        chunk_bytes = self._node.chunk_bytes
        if n_bytes > 2 * chunk_bytes + LARGEST_SEGMENT_OVERHEAD_BYTES:
            raise refuse_damaged(self._path, f"chunk {key} is stored in {n_bytes} bytes where it holds {chunk_bytes}")
        value = await super().get(key, prototype, byte_range)
        if value is not None and self._node.unpacks_to_more(value.to_bytes()):
            raise refuse_damaged(self._path, f"chunk {key} unpacks to more than the {chunk_bytes} bytes of a chunk")
        return value

    def _read_metadata(self, key: str, prototype: BufferPrototype) -> Buffer | None:
        """Return a metadata file, which may be a pipe or a link to a device and is refused then; None where there is none."""
        try:
            content = read_bounded(self._store.root / key, largest_bytes=LARGEST_NODE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise refuse_damaged(self._path, f"{key} is not usable: {error}") from error
        if key.endswith(".zarray"):
            node = parse_json(content)
            if node.get("filters") == []:  # the library prints a warning about programs that write no filters so
                content = json.dumps(node | {"filters": None}).encode()
        return prototype.buffer.from_bytes(content)

    def _measure(self, key: str) -> int | None:
        """Return the size of a stored chunk or shard; None for one that is missing, unless that is refused."""
        try:
            status = (self._store.root / key).stat()
        except (FileNotFoundError, NotADirectoryError):
            if self._is_strict:
                msg = (
                    f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or leave out --strict-chunks "
                    "(strict_chunks) where its program leaves out empty ones"
                )
                raise ImageFileError(msg) from None
            self._tell_once(key)
            return None
        if not stat.S_ISREG(status.st_mode):
            raise refuse_damaged(self._path, f"chunk {key} is not a file")
        return status.st_size

    def _tell_once(self, key: str) -> None:
        """Note the first missing chunk: most are empty ones that were left out, but an interrupted copy looks the same."""
        if not self._has_told:
            self._has_told = True
            logger.warning(
                "%r lacks the chunk %s, and maybe others; the fill value stands for what is missing; --strict-chunks refuses it",
                str(self._path),
                key,
            )
