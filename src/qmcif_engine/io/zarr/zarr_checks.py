"""Checks of Zarr metadata, formats 2 and 3, before the Zarr library sees anything of them.

Metadata name the programs that decode the chunks, and one of those that exist runs whatever code a chunk holds: only plain compressors are
let through. What an array claims to hold is compared with what is stored of it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

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
_ARRAY_CODECS = ("bytes", "delta", "shuffle", "transpose")
"""What changes samples but not their number; the second and third are filters of format 2."""

_CHECKSUM = "crc32c"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZarrNode:
    """The checked metadata of an array.

    Attributes
    ----------
    zarr_format : int
        2 or 3.
    shape : tuple of int
    chunk_shape : tuple of int
        What is decoded at once: the inner chunks where there are shards.
    dtype : dtype
    compressor : str
        What the stored bytes of a chunk are compressed with, empty where they are not.
    dimension_names : tuple of str
        Empty where the array does not name its axes.
    file_shape : tuple of int
        What lies in one file: a shard or a chunk.
    key_parts : tuple of str
        What stands before the numbers in the name of a file, and between them.
    document : tuple of str and bytes
        Name and content of the file with the metadata.
    """

    zarr_format: Literal[2, 3]
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compressor: str
    dimension_names: tuple[str, ...]
    file_shape: tuple[int, ...]
    key_parts: tuple[str, str]
    document: tuple[str, bytes]

    def key(self, numbers: Iterable[Any]) -> str:
        """Return the name of the file with these numbers, counted along each axis."""
        start, between = self.key_parts
        return start + between.join(str(int(number)) for number in numbers)

    @property
    def chunk_bytes(self) -> int:
        """What a decoded chunk takes."""
        return math.prod(self.chunk_shape) * self.dtype.itemsize


def read_group_attributes(folder: Location, path: Location) -> dict[str, Any] | None:
    """Return the attributes of a group; None where the folder is an array."""
    node = _load(folder, path)
    return None if node.get("node_type") == "array" else _as_dict(node.get("attributes", {}), path)


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
        node = _load(folder, path)
        if not node:
            raise refuse_damaged(path, f"there is no array in {folder.name!r}")
        checked = _parse(node, path)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its array metadata make no sense: {type(error).__name__}: {error}") from error
    _check_sizes(checked, path)
    return checked


def check_stored(folder: Location, node: ZarrNode, path: Location) -> None:
    """Refuse a large array of which next to nothing is stored: its metadata lie, or it is the rest of a failed copy.

    Parameters
    ----------
    folder : Path
        Of the array.
    node : ZarrNode
    path : Path
        What messages call the input.
    """
    if isinstance(folder, RemotePath):
        _look_for_chunks(folder, node, path)
        return
    n_chunks = math.prod(-(-length // part) for length, part in zip(node.shape, node.chunk_shape, strict=True))
    # tiny chunks cost their time, not their bytes
    n_bytes = max(math.prod(node.shape) * node.dtype.itemsize, n_chunks * SMALLEST_CHUNK_COST_BYTES)
    wanted = (n_bytes - LARGEST_UNSTORED_BYTES) // MAX_ZARR_EXPANSION
    stored = 0
    # walked only as far as it takes to believe the array
    for place, _, names in os.walk(folder) if wanted > 0 else ():
        for name in names:
            if stored >= wanted:
                return
            with suppress(OSError):
                stored += (Path(place) / name).stat().st_size
    if stored < wanted:
        raise refuse_content(
            path,
            given=f"{stored} bytes of an array of shape {node.shape}",
            needed="an array that is stored for the most part",
            remedy="copy it again",
        )


def _look_for_chunks(folder: RemotePath, node: ZarrNode, path: Location) -> None:
    """Refuse a large array on a server of which none of some chunks is there: to count all that is stored would take too many requests."""
    if math.prod(node.shape) * node.dtype.itemsize <= LARGEST_UNSTORED_BYTES:
        return
    counts = [-(-length // part) for length, part in zip(node.shape, node.file_shape, strict=True)]
    n_files = math.prod(counts)
    # the middle first: where it is stored, one request is enough; a dict drops repetitions and keeps the order
    numbers = dict.fromkeys(n_files * probe // N_PROBES for probe in (N_PROBES // 2, *range(N_PROBES)))
    if not any((folder / node.key(np.unravel_index(number, counts))).is_file() for number in numbers):
        raise refuse_content(
            path,
            given=f"none of {len(numbers)} chunks that were looked for, of an array of shape {node.shape}",
            needed="an array that is stored for the most part",
            remedy="copy it again",
        )


def _load(folder: Location, path: Location) -> dict[str, Any]:
    """Return the metadata of a group or an array in the words of format 3, nothing where there are none."""
    described = _read_json(folder / "zarr.json", path)
    if described is not None:
        return described | {"document": ("zarr.json", json.dumps(described).encode())}
    # format 2 has its attributes in a file of their own
    attributes = _read_json(folder / ".zattrs", path) or {}
    node = _read_json(folder / ".zarray", path)
    if node is None:
        return {"attributes": attributes} if attributes else {}
    # in the order of encoding, as format 3 lists them
    try:
        codecs = [*(node.get("filters") or []), *([node["compressor"]] if node.get("compressor") else [])]
        names = [codec if isinstance(codec, str) else {"name": codec["id"]} for codec in codecs]
    except (KeyError, TypeError) as error:
        raise refuse_damaged(path, f"its .zarray makes no sense: {type(error).__name__}: {error}") from error
    return {
        # the library warns about programs that write an empty list of filters
        "document": (".zarray", json.dumps(node | {"filters": node.get("filters") or None}).encode()),
        "zarr_format": 2,
        "node_type": "array",
        "shape": node.get("shape"),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": node.get("chunks")}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": node.get("dimension_separator") or "."}},
        "data_type": node.get("dtype"),
        "codecs": names,
        # the convention of xarray, which format 2 has no field for
        "dimension_names": attributes.get("_ARRAY_DIMENSIONS"),
    }


def _check_sizes(node: ZarrNode, path: Location) -> None:
    lengths = (*node.shape, *node.chunk_shape)
    # 2**62: products of lengths must not overflow in NumPy
    if len(node.shape) != len(node.chunk_shape) or any(length < 1 for length in lengths) or math.prod(node.shape) > 2**62:
        raise refuse_damaged(path, f"its array has shape {node.shape} and chunks of {node.chunk_shape}")
    if node.chunk_bytes > LARGEST_CHUNK_BYTES:
        raise refuse_content(
            path,
            given=f"chunks of {node.chunk_shape} samples",
            needed=f"at most {LARGEST_CHUNK_BYTES} bytes a chunk",
            remedy="store it with smaller chunks",
        )


def _parse(node: dict[str, Any], path: Location) -> ZarrNode:
    if node.get("node_type") != "array" or node["chunk_grid"]["name"] != "regular":
        raise refuse_damaged(path, "its metadata describe no regular array")
    chunk_shape, codecs = _as_shape(node["chunk_grid"]["configuration"]["chunk_shape"]), node["codecs"]
    file_shape = chunk_shape
    if codecs and codecs[0]["name"] == "sharding_indexed":
        settings = codecs[0]["configuration"]
        chunk_shape = _check_shards(settings, chunk_shape, path, is_only_codec=len(codecs) == 1)
        codecs = settings["codecs"]
    packing = [codec["name"] for codec in codecs if codec["name"] not in _ARRAY_CODECS]
    compressors = [name for name in packing if name != _CHECKSUM]
    unknown = [name for name in compressors if name not in _COMPRESSORS]
    # one compressor at most, then a checksum: what is packed twice could not be checked for its size
    if unknown or packing not in ([], [_CHECKSUM], compressors[:1], [*compressors[:1], _CHECKSUM]):
        raise refuse_content(
            path,
            given=f"chunks packed with {(unknown or [' and '.join(packing)])[0]!r}",
            needed=f"one of {', '.join(_COMPRESSORS)} or none",
            remedy="store it again",
        )
    names = node.get("dimension_names")
    return ZarrNode(
        zarr_format=2 if node.get("zarr_format") == 2 else 3,
        shape=_as_shape(node["shape"]),
        chunk_shape=chunk_shape,
        dtype=_as_dtype(node["data_type"]),
        compressor="".join(compressors),
        dimension_names=tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else (),
        file_shape=file_shape,
        key_parts=_parse_keys(node.get("chunk_key_encoding") or {}),
        document=node["document"],
    )


def _parse_keys(encoding: dict[str, Any]) -> tuple[str, str]:
    """Return what stands before and between the numbers in names of chunks."""
    is_default = encoding.get("name", "default") == "default"
    between = (encoding.get("configuration") or {}).get("separator", "/" if is_default else ".")
    if between not in ("/", "."):
        msg = f"separator {str(between)[:20]!r}"
        raise TypeError(msg)
    return f"c{between}" if is_default else "", between


def _check_shards(settings: dict[str, Any], shard_shape: tuple[int, ...], path: Location, *, is_only_codec: bool) -> tuple[int, ...]:
    """Return the shape of the chunks inside the shards, once these can be read one by one."""
    inner = _as_shape(settings["chunk_shape"])
    index = [codec["name"] for codec in settings.get("index_codecs", [])]
    # not 0: lengths are checked only after this
    n_inner = math.prod(outer // max(part, 1) for outer, part in zip(shard_shape, inner, strict=True))
    # a compressor around the shard, or on its index, would have to be unpacked before anything can be checked
    is_usual = is_only_codec and settings.get("index_location", "end") == "end" and index in (["bytes"], ["bytes", _CHECKSUM])
    if not is_usual or not 1 < n_inner <= MOST_CHUNKS_IN_SHARD:
        raise refuse_content(
            path,
            given=f"shards of {n_inner} chunks with codecs {index}",
            needed="shards of several chunks with a plain index at their end",
            remedy="store it with other shards or with none",
        )
    return inner


def _as_shape(value: list[Any]) -> tuple[int, ...]:
    """Return lengths that are whole numbers as they stand: neither texts nor fractions, which would be rounded."""
    # true and false are integers in Python, hence no isinstance
    if any(type(length) is not int for length in value):
        msg = f"lengths {str(value)[:80]}"
        raise TypeError(msg)
    return tuple(value)


def _as_dtype(value: object) -> np.dtype[Any]:
    """Return the type of a name such as ``<u2`` or ``uint16``; text only, since lists would be records."""
    dtype = np.dtype(value) if isinstance(value, str) else None
    if dtype is None or dtype.kind not in "buif":
        msg = f"sample type {value!r}"
        raise TypeError(msg)
    return dtype


def _as_dict(value: object, path: Location) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse_damaged(path, "its attributes are no table")
    return value


def _read_json(file: Location, path: Location) -> dict[str, Any] | None:
    """Return the table that a file holds; None where there is no file."""
    try:
        return _as_dict(parse_json(read_bounded(file, largest_bytes=LARGEST_NODE_BYTES)), path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise refuse_damaged(path, f"{file.name} cannot be parsed: {error}") from error
