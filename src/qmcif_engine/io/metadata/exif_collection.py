"""Collect the camera's description of a TIFF file into an EXIF block that stands alone.

In TIFF the tags of a camera lie among those of the picture, and their values anywhere in the file. What is collected here is what
cameras say of the exposure; tags that tell of the storage stay behind, and so do notes of camera makers, which hold positions within
the file they were written to.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tifffile import TiffFile
    from tifffile.tifffile import TiffFormat

_CAMERA_TAGS = frozenset({271, 272, 306, 315, 33432})
"""Maker, model, time, artist, copyright."""

_DIRECTORY_TAGS = (34665, 34853)
"""Exposure, position on Earth."""

_LEFT_OUT = frozenset({37500, 40965})
"""Note of the camera maker, and a directory that only tells of rules for file names."""

_KIND_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_LONG = 4
_LARGEST_BLOCK_BYTES = 2**16 - 64
"""What one segment of a JPEG file has room for."""

_MOST_ENTRIES = 4096


@dataclass(frozen=True, slots=True, order=True)
class _ExifEntry:
    tag: int
    kind: int
    count: int
    value: bytes


def collect_exif(tiff: TiffFile) -> bytes | None:
    """Return an EXIF block in the byte order of the file; None where its camera tells nothing, or too much for a block.

    Damaged parts are left out: metadata never decide whether a picture can be read.

    Parameters
    ----------
    tiff : TiffFile
        Open.
    """
    first = list(_read_directory(tiff, tiff.pages.first.offset))
    kept = [entry for entry in first if entry.tag in _CAMERA_TAGS]
    inner = {entry.tag: list(_read_directory(tiff, _as_offset(tiff.tiff, entry.value))) for entry in first if entry.tag in _DIRECTORY_TAGS}
    inner = {tag: [entry for entry in entries if entry.tag not in _LEFT_OUT] for tag, entries in inner.items()}
    inner = {tag: entries for tag, entries in inner.items() if entries}
    if not kept and not inner:
        return None
    block = _assemble(tiff.tiff.byteorder, kept, inner)
    return block if len(block) <= _LARGEST_BLOCK_BYTES else None


def _as_offset(layout: TiffFormat, value: bytes) -> int:
    """Return the offset that an entry holds, 0 for one of a strange size."""
    form = {4: "I", 8: "Q"}.get(len(value))
    return int(struct.unpack(layout.byteorder + form, value)[0]) if form else 0


def _read_directory(tiff: TiffFile, offset: int) -> Iterator[_ExifEntry]:
    """Yield the entries of a directory that lie completely in the file and are small enough for a block."""
    layout, handle = tiff.tiff, tiff.filehandle
    head = "HHI" if layout.offsetsize == 4 else "HHQ"
    if not 8 <= offset < handle.size:
        return
    handle.seek(offset)
    start = handle.read(layout.tagnosize)
    n_entries = int(struct.unpack(layout.tagnoformat, start)[0]) if len(start) == layout.tagnosize else 0
    table = handle.read(min(n_entries, _MOST_ENTRIES) * layout.tagsize)
    for position in range(0, len(table) - layout.tagsize + 1, layout.tagsize):
        tag, kind, count = struct.unpack_from(layout.byteorder + head, table, position)
        n_bytes = layout.offsetsize if tag in _DIRECTORY_TAGS else count * _KIND_BYTES.get(kind, 0)
        field = table[position + struct.calcsize(layout.byteorder + head) : position + layout.tagsize]
        if n_bytes > _LARGEST_BLOCK_BYTES:
            continue
        if n_bytes > len(field):
            handle.seek(int(struct.unpack(layout.offsetformat, field)[0]))
            field = handle.read(n_bytes)
        if len(field) >= n_bytes > 0:
            yield _ExifEntry(tag, kind, count, field[:n_bytes])


def _assemble(order: str, kept: list[_ExifEntry], inner: dict[int, list[_ExifEntry]]) -> bytes:
    """Return a block: header, first directory, and behind it the directories it leads to."""
    position = 8 + _directory_bytes([*kept, *(_ExifEntry(tag, _LONG, 1, bytes(4)) for tag in inner)])
    links, directories = [], []
    for tag, entries in inner.items():
        links.append(_ExifEntry(tag, _LONG, 1, struct.pack(order + "I", position)))
        directories.append(_lay_out(order, entries, position))
        position += len(directories[-1])
    mark = b"II*\0" if order == "<" else b"MM\0*"
    first = _lay_out(order, sorted([*kept, *links]), 8)
    return mark + struct.pack(order + "I", 8) + first + b"".join(directories)


def _directory_bytes(entries: list[_ExifEntry]) -> int:
    return 6 + 12 * len(entries) + sum(len(entry.value) + len(entry.value) % 2 for entry in entries if len(entry.value) > 4)


def _lay_out(order: str, entries: list[_ExifEntry], start: int) -> bytes:
    """Return a directory that begins at this position of the block, and the values that do not fit into it behind."""
    table, values = struct.pack(order + "H", len(entries)), b""
    behind = start + 6 + 12 * len(entries)
    for entry in entries:
        table += struct.pack(order + "HHI", entry.tag, entry.kind, entry.count)
        if len(entry.value) <= 4:
            table += entry.value.ljust(4, b"\0")
        else:
            table += struct.pack(order + "I", behind + len(values))
            values += entry.value + bytes(len(entry.value) % 2)
    return table + bytes(4) + values
