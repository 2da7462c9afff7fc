"""Read the metadata of Zarr groups and arrays, formats 2 and 3, and refuse arrays that are not safe to decode.

Metadata name the programs that decode the chunks, and one of those that exist runs whatever code a chunk holds. So the metadata are
read and checked here before the Zarr library sees them; only plain compressors are let through.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qmcif_engine.io.input.image_file import refuse_content, refuse_damaged

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_CHUNK_BYTES = 2**29
"""A chunk is the least that can be decoded, so it bounds the memory a window takes."""

_LARGEST_NODE_BYTES = 2**24
_MOST_CHUNKS_IN_SHARD = 2**20
_COMPRESSORS = ("blosc", "gzip", "lz4", "zlib", "zstd")
_HARMLESS_FILTERS = ("delta", "shuffle")
_ARRAY_CODECS = ("bytes", "transpose")
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
    has_checksum : bool
        Whether four bytes follow the compressed ones.
    dimension_names : tuple of str
        Empty where the array does not name its axes.
    """

    zarr_format: Literal[2, 3]
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    compressor: str
    has_checksum: bool
    dimension_names: tuple[str, ...]

    @property
    def chunk_bytes(self) -> int:
        """What a decoded chunk takes."""
        return math.prod(self.chunk_shape) * self.dtype.itemsize


def read_group_attributes(folder: Path, path: Path) -> dict[str, Any] | None:
    """Return the attributes of a group; None where the folder is an array."""
    if (folder / "zarr.json").is_file():
        node = _read_json(folder / "zarr.json", path)
        return None if node.get("node_type") == "array" else _as_dict(node.get("attributes", {}), path)
    if (folder / ".zarray").is_file():
        return None
    return _read_json(folder / ".zattrs", path) if (folder / ".zattrs").is_file() else {}


def read_array_node(folder: Path, path: Path) -> ZarrNode:
    """Return the metadata of an array, once it is known to be safe.

    Parameters
    ----------
    folder : Path
        Of the array.
    path : Path
        What messages call the input.
    """
    try:
        if (folder / "zarr.json").is_file():
            node = _parse_format_3(_read_json(folder / "zarr.json", path), path)
        elif (folder / ".zarray").is_file():
            attributes = _read_json(folder / ".zattrs", path) if (folder / ".zattrs").is_file() else {}
            node = _parse_format_2(_read_json(folder / ".zarray", path), attributes, path)
        else:
            raise refuse_damaged(path, f"there is no array in {folder.name!r}")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise refuse_damaged(path, f"its array metadata make no sense: {type(error).__name__}: {error}") from error
    _check_sizes(node, path)
    return node


def _check_sizes(node: ZarrNode, path: Path) -> None:
    lengths = (*node.shape, *node.chunk_shape)
    if len(node.shape) != len(node.chunk_shape) or any(length < 1 for length in lengths) or math.prod(node.shape) > 2**62:
        raise refuse_damaged(path, f"its array has shape {node.shape} and chunks of {node.chunk_shape}")
    if node.chunk_bytes > LARGEST_CHUNK_BYTES:
        raise refuse_content(
            path,
            given=f"chunks of {node.chunk_shape} samples",
            needed=f"at most {LARGEST_CHUNK_BYTES} bytes a chunk",
            remedy="store it with smaller chunks",
        )


def _parse_format_2(node: dict[str, Any], attributes: dict[str, Any], path: Path) -> ZarrNode:
    compressor, filters = node.get("compressor") or {}, node.get("filters") or []
    _check_codecs([*([compressor["id"]] if compressor else [])], _COMPRESSORS, path)
    _check_codecs([entry["id"] for entry in filters], _HARMLESS_FILTERS, path)
    return ZarrNode(
        zarr_format=2,
        shape=_as_shape(node["shape"]),
        chunk_shape=_as_shape(node["chunks"]),
        dtype=_as_dtype(node["dtype"]),
        compressor=compressor.get("id", ""),
        has_checksum=False,
        dimension_names=_as_names(attributes.get("_ARRAY_DIMENSIONS")),
    )


def _parse_format_3(node: dict[str, Any], path: Path) -> ZarrNode:
    if node.get("node_type") != "array" or node["chunk_grid"]["name"] != "regular":
        raise refuse_damaged(path, "its metadata describe no regular array")
    shape, chunk_shape = _as_shape(node["shape"]), _as_shape(node["chunk_grid"]["configuration"]["chunk_shape"])
    codecs = node["codecs"]
    if codecs[0]["name"] == "sharding_indexed":
        settings = codecs[0]["configuration"]
        chunk_shape = _check_shards(settings, chunk_shape, path, is_only_codec=len(codecs) == 1)
        codecs = settings["codecs"]
    names = [codec["name"] for codec in codecs]
    _check_codecs(names, (*_ARRAY_CODECS, *_COMPRESSORS, _CHECKSUM), path)
    packing = [name for name in names if name not in _ARRAY_CODECS]
    if packing not in ([], [_CHECKSUM]) and not (packing[0] in _COMPRESSORS and packing[1:] in ([], [_CHECKSUM])):
        _check_codecs([" and ".join(packing)], (), path)
    return ZarrNode(
        zarr_format=3,
        shape=shape,
        chunk_shape=chunk_shape,
        dtype=_as_dtype(node["data_type"]),
        compressor=packing[0] if packing and packing[0] != _CHECKSUM else "",
        has_checksum=_CHECKSUM in packing,
        dimension_names=_as_names(node.get("dimension_names")),
    )


def _check_shards(settings: dict[str, Any], shard_shape: tuple[int, ...], path: Path, *, is_only_codec: bool) -> tuple[int, ...]:
    """Return the shape of the chunks inside the shards, once these can be read one by one."""
    inner = _as_shape(settings["chunk_shape"])
    index = [codec["name"] for codec in settings.get("index_codecs", [])]
    n_inner = math.prod(outer // max(part, 1) for outer, part in zip(shard_shape, inner, strict=True))
    is_usual = is_only_codec and settings.get("index_location", "end") == "end" and index in (["bytes"], ["bytes", _CHECKSUM])
    if not is_usual or not 1 < n_inner <= _MOST_CHUNKS_IN_SHARD:
        raise refuse_content(
            path,
            given=f"shards of {n_inner} chunks with codecs {index}",
            needed="shards of several chunks with a plain index at their end",
            remedy="store it with other shards or with none",
        )
    return inner


def _check_codecs(names: list[str], known: tuple[str, ...], path: Path) -> None:
    for name in names:
        if name not in known:
            raise refuse_content(
                path, given=f"chunks packed with {name!r}", needed=f"one of {', '.join(_COMPRESSORS)} or none", remedy="store it again"
            )


def _as_shape(value: list[Any]) -> tuple[int, ...]:
    return tuple(int(length) for length in value)


def _as_dtype(value: object) -> np.dtype[Any]:
    """Return the type of a name such as ``<u2`` or ``uint16``; text only, since lists would be records."""
    if not isinstance(value, str):
        msg = f"sample type {value!r}"
        raise TypeError(msg)
    dtype = np.dtype(value)
    if dtype.kind not in "buif":
        msg = f"sample type {value!r}"
        raise TypeError(msg)
    return dtype


def _as_names(value: object) -> tuple[str, ...]:
    is_named = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return tuple(value) if is_named and isinstance(value, list) else ()


def _as_dict(value: object, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse_damaged(path, "its attributes are no table")
    return value


def _read_json(file: Path, path: Path) -> dict[str, Any]:
    if file.stat().st_size > _LARGEST_NODE_BYTES:
        raise refuse_damaged(path, f"{file.name} is larger than {_LARGEST_NODE_BYTES} bytes")
    try:
        return _as_dict(json.loads(file.read_bytes()), path)
    except (ValueError, RecursionError) as error:
        raise refuse_damaged(path, f"{file.name} cannot be parsed: {error}") from error
