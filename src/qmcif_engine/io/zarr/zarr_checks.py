"""Checks of Zarr metadata, formats 2 and 3, before the Zarr library sees anything of them.

Metadata name the programs that decode the chunks, and one of those that exist runs whatever code a chunk holds: only plain compressors are
let through. What an array claims to hold is compared with what is stored of it.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.limits import (
    LARGEST_CHUNK_BYTES,
    LARGEST_NODE_BYTES,
    LARGEST_UNSTORED_BYTES,
    MAX_ZARR_EXPANSION,
    MOST_CHUNKS_IN_SHARD,
    SMALLEST_CHUNK_COST_BYTES,
    parse_json,
    read_bounded,
)
from qmcif_engine.io.remote import read_object
from qmcif_engine.io.remote_path import Location, RemotePath

_COMPRESSORS = ("blosc", "gzip", "lz4", "zlib", "zstd")
_OTHER_CODECS = ("bytes", "crc32c", "delta", "sharding_indexed", "shuffle", "transpose")
_ATTRIBUTES_OF_XARRAY = "_ARRAY_DIMENSIONS"


class CheckedArray(NamedTuple):
    """An array whose metadata are known to be safe, with the names of its axes, none where it does not name them."""

    array: zarr.Array[Any]
    dimension_names: tuple[str, ...]
    is_compressed: bool


class RemoteChunks(WrapperStore[MemoryStore]):
    """What lies below an address, as a store that Zarr reads."""

    # a store that can also be read synchronously would be read around `get`
    _supports_sync_io = False

    def __init__(self, folder: RemotePath) -> None:
        super().__init__(MemoryStore(read_only=True))
        self._folder = folder

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return stored bytes, None where the server has none."""
        start = end = None
        if isinstance(byte_range, RangeByteRequest):
            start, end = byte_range.start, byte_range.end
        elif isinstance(byte_range, SuffixByteRequest):
            start = -byte_range.suffix
        elif isinstance(byte_range, OffsetByteRequest):
            start = byte_range.offset
        try:
            # in a thread: the event loop of Zarr must not wait for a server
            return prototype.buffer.from_bytes(await asyncio.to_thread(read_object, self._folder / key, start, end))
        except FileNotFoundError:
            return None


def open_store(folder: Location) -> Store:
    """Return a folder, here or on a server, as a store that is only read."""
    return RemoteChunks(folder) if isinstance(folder, RemotePath) else LocalStore(folder, read_only=True)


def read_group_attributes(folder: Location, path: Location) -> dict[str, Any] | None:
    """Return the attributes of a group; None where the folder is an array."""
    node = _read_table(folder / "zarr.json", path)
    if node is not None:
        return None if node.get("node_type") == "array" else _check_table(node.get("attributes", {}), path)
    # format 2 has its attributes in a file of their own
    return None if _read_table(folder / ".zarray", path) is not None else _read_table(folder / ".zattrs", path) or {}


def open_checked_array(folder: Location, path: Location) -> CheckedArray:
    """Open an array, once its metadata are known to be safe.

    Parameters
    ----------
    folder : Path
        Of the array.
    path : Path
        What messages call the input.
    """
    try:
        node = _read_table(folder / "zarr.json", path) or _read_table(folder / ".zarray", path)
        if node is None:
            raise refuse_damaged(path, f"there is no array in {folder.name!r}")
        codecs = list(_list_codecs(node.get("codecs", [*(node.get("filters") or []), *filter(None, [node.get("compressor")])])))
        unknown = [codec for codec in codecs if codec not in (*_COMPRESSORS, *_OTHER_CODECS)]
        if unknown:
            needed = f"one of {', '.join(_COMPRESSORS)} or none"
            raise refuse_content(path, given=f"chunks packed with {unknown[0]!r}", needed=needed, remedy="store it again")
        if node.get("filters") == []:  # the library warns about programs that write it so
            node["filters"] = None
        # from what was checked, not from the file
        described: Any = node
        array: zarr.Array[Any] = zarr.Array(zarr.AsyncArray(metadata=described, store_path=StorePath(open_store(folder))))
        _check_sizes(array, path)
        # format 2 has no field for names of axes, but xarray a convention
        names: Any = node.get("dimension_names") or (_read_table(folder / ".zattrs", path) or {}).get(_ATTRIBUTES_OF_XARRAY)
    except (ArithmeticError, AttributeError, KeyError, NotImplementedError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its array metadata make no sense: {type(error).__name__}: {error}") from error
    has_names = isinstance(names, list) and all(isinstance(each, str) for each in names)
    return CheckedArray(array, tuple(names) if has_names else (), any(codec in _COMPRESSORS for codec in codecs))


def _list_codecs(codecs: Iterable[Any]) -> Iterator[str]:
    """Yield the names of codecs and of those inside them."""
    for codec in codecs:
        if isinstance(codec, str):
            yield codec
            continue
        yield codec["name"] if "name" in codec else codec["id"]
        settings = codec.get("configuration") or {}
        yield from _list_codecs([*settings.get("codecs", []), *settings.get("index_codecs", [])])


def _check_sizes(array: zarr.Array[Any], path: Location) -> None:
    if array.dtype.kind not in "buif":
        raise refuse_damaged(path, f"its array metadata make no sense: sample type {array.dtype}")
    # 2**62: products of lengths must not overflow in NumPy
    is_empty = any(length < 1 for length in (*array.shape, *array.chunks))
    if len(array.shape) != len(array.chunks) or is_empty or math.prod(array.shape) > 2**62:
        raise refuse_damaged(path, f"its array has shape {array.shape} and chunks of {array.chunks}")
    n_samples, file_shape = math.prod(array.chunks), array.shards or array.chunks
    if n_samples * array.dtype.itemsize > LARGEST_CHUNK_BYTES or math.prod(file_shape) > MOST_CHUNKS_IN_SHARD * n_samples:
        raise refuse_content(
            path,
            given=f"chunks of {array.chunks} samples in files of {file_shape}",
            needed=f"at most {LARGEST_CHUNK_BYTES} bytes a chunk and {MOST_CHUNKS_IN_SHARD} chunks a file",
            remedy="store it with other chunks",
        )


def check_stored(folder: Path, array: zarr.Array[Any], path: Location) -> None:
    """Refuse a large array of which next to nothing is stored: its metadata are wrong, or it is the rest of a failed copy.

    Parameters
    ----------
    folder : Path
        Of the array.
    array : zarr.Array
    path : Path
        What messages call the input.
    """
    n_chunks = math.prod(-(-length // part) for length, part in zip(array.shape, array.chunks, strict=True))
    # tiny chunks cost their time, not their bytes
    n_bytes = max(math.prod(array.shape) * array.dtype.itemsize, n_chunks * SMALLEST_CHUNK_COST_BYTES)
    wanted, stored = (n_bytes - LARGEST_UNSTORED_BYTES) // MAX_ZARR_EXPANSION, 0
    for place, _, names in os.walk(folder) if wanted > 0 else ():
        for name in names:
            with suppress(OSError):
                stored += (Path(place) / name).stat().st_size
        # far enough
        if stored >= wanted:
            return
    if stored < wanted:
        needed = "an array that is stored for the most part"
        raise refuse_content(path, given=f"{stored} bytes of an array of shape {array.shape}", needed=needed, remedy="copy it again")


def _read_table(file: Location, path: Location) -> dict[str, Any] | None:
    """Return the table that a file holds; None where there is no file."""
    try:
        return _check_table(parse_json(read_bounded(file, largest_bytes=LARGEST_NODE_BYTES)), path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise refuse_damaged(path, f"{file.name} cannot be parsed: {error}") from error


def _check_table(value: object, path: Location) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse_damaged(path, "its attributes are no table")
    return value
