"""Store a camera's EXIF block in TIFF, whose library writes single tags but not the directories that EXIF has."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

from tifffile import TiffFile

from qmcif_engine.io.metadata.exif import CAMERA_TAGS, EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, LONG, lay_out, list_entries

_ASCII, _LONG8 = 2, 16
_FREE_TAGS = {EXIF_DIRECTORY_TAG: 34664, GPS_DIRECTORY_TAG: 34852}
"""Tags of no meaning right in front of those that the library refuses to write; they hold the places until they are renamed."""


def describe_exif(exif: bytes, *, is_big: bool) -> list[tuple[int, int, int, object, bool]]:
    """Return the tags of a fitted block as tifffile takes them for a file or BigTIFF, with places for its directories."""
    entries = list_entries(exif)
    tags: list[tuple[int, int, int, object, bool]] = [
        (entry.tag, _ASCII, 0, entry.value.rstrip(b"\0"), True) for entry in entries[0] if entry.tag in CAMERA_TAGS and entry.kind == _ASCII
    ]
    tags += [(free, _LONG8 if is_big else LONG, 1, 0, True) for tag, free in _FREE_TAGS.items() if tag in entries]
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
        stream.write(lay_out(entries[tag], start, is_big=is_big))
        stream.seek(place)
        stream.write(struct.pack("<HHQQ" if is_big else "<HHII", tag, _LONG8 if is_big else LONG, 1, start))
