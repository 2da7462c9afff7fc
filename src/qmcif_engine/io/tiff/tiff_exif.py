"""Store a camera's EXIF block in TIFF, whose library writes single tags but not the directories that EXIF has."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, BinaryIO

from tifffile import TiffFile

from qmcif_engine.io.metadata.exif_fitting import EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, list_entries

if TYPE_CHECKING:
    from qmcif_engine.io.metadata.exif_fitting import ExifEntry

_KEPT_TAGS = frozenset({271, 272, 306, 315, 33432})
"""Maker, model, time of the exposure, artist and copyright; the other tags of a block's first directory tell of the file it was in."""

_ASCII, _LONG, _LONG8 = 2, 4, 16
_FREE_TAGS = {EXIF_DIRECTORY_TAG: 34664, GPS_DIRECTORY_TAG: 34852}
"""Tags of no meaning right in front of those that the library refuses to write; they hold the places until they are renamed."""


def describe_exif(exif: bytes, *, is_big: bool) -> list[tuple[int, int, int, object, bool]]:
    """Return the tags of a block as tifffile takes them, with places for its directories.

    Parameters
    ----------
    exif : bytes
        A fitted block.
    is_big : bool
        Whether the file will be a BigTIFF.
    """
    entries = list_entries(exif)
    tags: list[tuple[int, int, int, object, bool]] = [
        (entry.tag, _ASCII, 0, entry.value.rstrip(b"\0"), True) for entry in entries[0] if entry.tag in _KEPT_TAGS and entry.kind == _ASCII
    ]
    tags += [(free, _LONG8 if is_big else _LONG, 1, 0, True) for tag, free in _FREE_TAGS.items() if tag in entries]
    return tags


def attach_exif(stream: BinaryIO, exif: bytes) -> None:
    """Append the directories of a block to a finished file, and let the places that `describe_exif` kept lead to them."""
    entries = list_entries(exif)
    stream.seek(0)
    with TiffFile(stream) as tiff:
        is_big = tiff.is_bigtiff
        places = {tag: tiff.pages.first.tags[free].offset for tag, free in _FREE_TAGS.items() if tag in entries}
    for tag, place in places.items():
        start = stream.seek(0, os.SEEK_END)
        start += stream.write(bytes(start % 2))
        stream.write(_lay_out(entries[tag], start, is_big=is_big))
        stream.seek(place)
        stream.write(struct.pack("<HHQQ" if is_big else "<HHII", tag, _LONG8 if is_big else _LONG, 1, start))


def _lay_out(entries: list[ExifEntry], start: int, *, is_big: bool) -> bytes:
    """Return a directory that begins at a position of the file, followed by the values that do not fit into it."""
    count_form, entry_form, offset_form, inline_bytes = ("<Q", "<HHQ", "<Q", 8) if is_big else ("<H", "<HHI", "<I", 4)
    table_bytes = struct.calcsize(count_form) + len(entries) * (struct.calcsize(entry_form) + inline_bytes) + inline_bytes
    table, values = [struct.pack(count_form, len(entries))], b""
    for entry in sorted(entries, key=lambda entry: entry.tag):
        table.append(struct.pack(entry_form, entry.tag, entry.kind, entry.count))
        if len(entry.value) <= inline_bytes:
            table.append(entry.value.ljust(inline_bytes, b"\0"))
        else:
            table.append(struct.pack(offset_form, start + table_bytes + len(values)))
            values += entry.value + bytes(len(entry.value) % 2)
    return b"".join(table) + bytes(inline_bytes) + values
