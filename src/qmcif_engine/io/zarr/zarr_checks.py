"""Checks of Zarr metadata, formats 2 and 3, before the Zarr library sees anything of them.

Metadata name the programs that decode the chunks, and one of those that exist runs whatever code a chunk holds: only plain compressors are
let through. What an array claims to hold is compared with what is stored of it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from qmcif_engine.io.input.bounded_reading import parse_json, read_bounded
from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged
from qmcif_engine.io.limits import (
    LARGEST_CHUNK_BYTES,
    LARGEST_NODE_BYTES,
    LARGEST_UNSTORED_BYTES,
    MAX_ZARR_EXPANSION,
    MOST_CHUNKS_IN_SHARD,
    SMALLEST_CHUNK_COST_BYTES,
)
from qmcif_engine.io.remote.remote_path import Location, RemotePath

N_PROBES = 64
"""Chunks of a large array on a server that are looked for before it is taken to be stored."""

_COMPRESSORS = ("blosc", "gzip", "lz4", "zlib", "zstd")
_OTHER_CODECS = ("bytes", "crc32c", "delta", "sharding_indexed", "shuffle", "transpose")
_ATTRIBUTES_OF_XARRAY = "_ARRAY_DIMENSIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZarrNode:
    """The checked metadata of an array.

    Attributes
    ----------
    shape : tuple of int
    chunk_shape : tuple of int
        What is decoded at once: the inner chunks where there are shards.
    file_shape : tuple of int
        What lies in one file: a shard or a chunk.
    dtype : dtype
    is_compressed : bool
    dimension_names : tuple of str
        Empty where the array does not name its axes.
    metadata : object
        As Zarr parsed them.
    document : tuple of str and bytes
        Name and content of the file that they stand in.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    file_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_compressed: bool
    dimension_names: tuple[str, ...]
    metadata: Any
    document: tuple[str, bytes]

    def count(self, lengths: Iterable[int]) -> list[int]:
        """Return how many parts of these lengths the array has along each axis."""
        return [-(-length // part) for length, part in zip(self.shape, lengths, strict=True)]


def read_group_attributes(folder: Location, path: Location) -> dict[str, Any] | None:
    """Return the attributes of a group; None where the folder is an array."""
    node = _read_table(folder / "zarr.json", path)
    if node is not None:
        return None if node.get("node_type") == "array" else _check_table(node.get("attributes", {}), path)
    # format 2 has its attributes in a file of their own
    return None if _read_table(folder / ".zarray", path) is not None else _read_table(folder / ".zattrs", path) or {}


def read_array_node(folder: Location, path: Location) -> ZarrNode:
    """Return the metadata of an array, once it is known to be safe.

    Parameters
    ----------
    folder : Path
        Of the array.
    path : Path
        What messages call the input.
    """
    try:
        name, node = "zarr.json", _read_table(folder / "zarr.json", path)
        if node is None:
            name, node = ".zarray", _read_table(folder / ".zarray", path)
        if node is None:
            raise refuse_damaged(path, f"there is no array in {folder.name!r}")
        codecs = list(_list_codecs(node.get("codecs", [*(node.get("filters") or []), *filter(None, [node.get("compressor")])])))
        unknown = [codec for codec in codecs if codec not in (*_COMPRESSORS, *_OTHER_CODECS)]
        if unknown:
            needed = f"one of {', '.join(_COMPRESSORS)} or none"
            raise refuse_content(path, given=f"chunks packed with {unknown[0]!r}", needed=needed, remedy="store it again")
        if name == ".zarray" and node.get("filters") == []:  # the library warns about programs that write it so
            node["filters"] = None
        document = name, json.dumps(node).encode()
        store = MemoryStore({name: default_buffer_prototype().buffer.from_bytes(document[1])}, read_only=True)
        array = zarr.open_array(store, mode="r", zarr_format=3 if name == "zarr.json" else 2)
        # format 2 has no field for names of axes, but xarray a convention
        names: Any = node.get("dimension_names") or (_read_table(folder / ".zattrs", path) or {}).get(_ATTRIBUTES_OF_XARRAY)
        has_names = isinstance(names, list) and all(isinstance(each, str) for each in names)
        checked = ZarrNode(
            shape=array.shape,
            chunk_shape=array.chunks,
            file_shape=array.shards or array.chunks,
            dtype=np.dtype(array.dtype),
            is_compressed=any(codec in _COMPRESSORS for codec in codecs),
            dimension_names=tuple(names) if has_names else (),
            metadata=array.metadata,
            document=document,
        )
        _check_sizes(checked, path)
    except (ArithmeticError, AttributeError, KeyError, NotImplementedError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its array metadata make no sense: {type(error).__name__}: {error}") from error
    return checked


def _list_codecs(codecs: Iterable[Any]) -> Iterator[str]:
    """Yield the names of codecs and of those inside them."""
    for codec in codecs:
        if isinstance(codec, str):
            yield codec
            continue
        yield codec["name"] if "name" in codec else codec["id"]
        settings = codec.get("configuration") or {}
        yield from _list_codecs([*settings.get("codecs", []), *settings.get("index_codecs", [])])


def _check_sizes(node: ZarrNode, path: Location) -> None:
    lengths = (*node.shape, *node.chunk_shape)
    if node.dtype.kind not in "buif":
        raise refuse_damaged(path, f"its array metadata make no sense: sample type {node.dtype}")
    # 2**62: products of lengths must not overflow in NumPy
    if len(node.shape) != len(node.chunk_shape) or any(length < 1 for length in lengths) or math.prod(node.shape) > 2**62:
        raise refuse_damaged(path, f"its array has shape {node.shape} and chunks of {node.chunk_shape}")
    is_large = math.prod(node.chunk_shape) * node.dtype.itemsize > LARGEST_CHUNK_BYTES
    if is_large or math.prod(node.file_shape) > MOST_CHUNKS_IN_SHARD * math.prod(node.chunk_shape):
        raise refuse_content(
            path,
            given=f"chunks of {node.chunk_shape} samples in files of {node.file_shape}",
            needed=f"at most {LARGEST_CHUNK_BYTES} bytes a chunk and {MOST_CHUNKS_IN_SHARD} chunks a file",
            remedy="store it with other chunks",
        )


def check_stored(folder: Location, node: ZarrNode, path: Location) -> None:
    """Refuse a large array of which next to nothing is stored: its metadata are wrong, or it is the rest of a failed copy.

    Parameters
    ----------
    folder : Path
        Of the array.
    node : ZarrNode
    path : Path
        What messages call the input.
    """
    n_bytes = math.prod(node.shape) * node.dtype.itemsize
    if isinstance(folder, RemotePath):
        # all that is stored would take too many requests
        is_stored = n_bytes <= LARGEST_UNSTORED_BYTES or _has_some_chunk(folder, node)
        given = f"none of {N_PROBES} chunks that were looked for,"
    else:
        # tiny chunks cost their time, not their bytes
        n_bytes = max(n_bytes, math.prod(node.count(node.chunk_shape)) * SMALLEST_CHUNK_COST_BYTES)
        wanted = (n_bytes - LARGEST_UNSTORED_BYTES) // MAX_ZARR_EXPANSION
        stored = _measure_folder(folder, up_to=wanted)
        is_stored, given = stored >= wanted, f"{stored} bytes"
    if not is_stored:
        needed = "an array that is stored for the most part"
        raise refuse_content(path, given=f"{given} of an array of shape {node.shape}", needed=needed, remedy="copy it again")


def _measure_folder(folder: Path, *, up_to: int) -> int:
    """Return the bytes of the files in a folder, which is walked only as far as it takes to reach a sum."""
    stored = 0
    for place, _, names in os.walk(folder) if up_to > 0 else ():
        for name in names:
            if stored >= up_to:
                return stored
            with suppress(OSError):
                stored += (Path(place) / name).stat().st_size
    return stored


def _has_some_chunk(folder: RemotePath, node: ZarrNode) -> bool:
    counts = node.count(node.file_shape)
    n_files = math.prod(counts)
    # the middle first: where it is stored, one request is enough; a dict drops repetitions and keeps the order
    numbers = dict.fromkeys(n_files * probe // N_PROBES for probe in (N_PROBES // 2, *range(N_PROBES)))
    places = (tuple(int(step) for step in np.unravel_index(number, counts)) for number in numbers)
    return any((folder / node.metadata.encode_chunk_key(place)).is_file() for place in places)


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
