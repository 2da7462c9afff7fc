"""What the tags of a TIFF file claim to hold, looked at before the library reads their values.

The library takes memory for as many values as a tag counts, thirty bytes and more for each position of a strip. A file of holes that is
small on disk has room for hundreds of millions, and all pages can point at the same ones.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from qmcif_engine.io.input.image_file import refuse_content
from qmcif_engine.io.limits import (
    LARGEST_SHARED_TAG_BYTES,
    LARGEST_TAG_BYTES,
    MAX_PLANES,
    MOST_SEGMENTS,
    MOST_SEGMENTS_OF_FILE,
    MOST_TAGS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qmcif_engine.io.remote.remote_path import Location

_ORDERS = {b"II": "<", b"MM": ">"}
_KIND_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
"""Bytes of a value by its kind; all others have one."""

_POSITION_TAGS = (273, 324)
_SEGMENT_TAGS = (*_POSITION_TAGS, 279, 325)
"""Positions and lengths of strips and of tiles."""

_SMALLER_COPIES = 330
"""Leads to directories of their own; so do other tags, which only `qmcif_engine.io.metadata.exif` follows, with limits of its own."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a file writes its directories: byte order, and 8 bytes a position in BigTIFF."""

    order: str
    is_big: bool

    @property
    def offset_bytes(self) -> int:
        return 8 if self.is_big else 4

    @property
    def count_form(self) -> str:
        return self.order + ("Q" if self.is_big else "H")

    @property
    def offset_form(self) -> str:
        return self.order + ("Q" if self.is_big else "I")

    @property
    def entry_form(self) -> str:
        return self.order + ("HHQ8s" if self.is_big else "HHI4s")


@dataclass(slots=True)
class _Totals:
    """What all directories together claim."""

    n_segments: int = 0
    far_bytes: int = 0


def check_tags(stream: BinaryIO, path: Location) -> None:
    """Refuse a file with more pages, tags or values than can be read in little memory; a broken chain of pages is left to others.

    Parameters
    ----------
    stream : BinaryIO
        The file, open.
    path : Path
        For the message.
    """
    file_bytes = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    start = stream.read(16)
    # the version, 42 or 43, stands in either byte order
    order, is_big = _ORDERS.get(start[:2]), 43 in start[2:4]
    layout = _Layout(order or "<", is_big)
    place = 8 if is_big else 4
    if order is None or len(start) < place + layout.offset_bytes:
        return
    # directories still to be looked at: the chain of pages, and what they lead to
    waiting: list[int] = [struct.unpack_from(layout.offset_form, start, place)[0]]
    seen: set[int] = set()
    totals = _Totals()
    while waiting:
        offset = waiting.pop()
        # circles and ends outside the file are reported by `check_directories`, for the pages
        if offset in seen or not 0 < offset < file_bytes:
            continue
        seen.add(offset)
        if len(seen) > MAX_PLANES:
            raise _refuse(path, "too many pages", f"at most {MAX_PLANES}")
        waiting += _check_directory(stream, offset, layout, path=path, totals=totals, file_bytes=file_bytes)


def _check_directory(stream: BinaryIO, offset: int, layout: _Layout, *, path: Location, totals: _Totals, file_bytes: int) -> Iterator[int]:
    """Return where the directories begin that this one leads to, once what it claims is known to be bearable."""
    stream.seek(offset)
    head = stream.read(struct.calcsize(layout.count_form))
    n_tags = struct.unpack(layout.count_form, head)[0] if len(head) == struct.calcsize(layout.count_form) else 0
    if n_tags > MOST_TAGS:
        raise _refuse(path, f"{n_tags} tags in a page", f"at most {MOST_TAGS}")
    table = stream.read(n_tags * struct.calcsize(layout.entry_form) + layout.offset_bytes)
    # a table that the file cuts off is checked as far as it goes
    n_whole = min(len(table) // struct.calcsize(layout.entry_form), n_tags)
    inner: list[int] = []
    for tag, kind, count, value in struct.iter_unpack(layout.entry_form, table[: n_whole * struct.calcsize(layout.entry_form)]):
        _check_entry(tag, count, count * _KIND_BYTES.get(kind, 1), path=path, totals=totals, file_bytes=file_bytes)
        if tag == _SMALLER_COPIES:
            inner += _list_offsets(stream, value, count, layout)
    link = table[-layout.offset_bytes :] if n_whole == n_tags and len(table) >= layout.offset_bytes else b""
    return iter([*inner, *struct.unpack(layout.offset_form, link)] if len(link) == layout.offset_bytes else inner)


def _check_entry(tag: int, count: int, n_bytes: int, *, path: Location, totals: _Totals, file_bytes: int) -> None:
    if tag in _SEGMENT_TAGS:
        # positions only: lengths are as many again
        totals.n_segments += count if tag in _POSITION_TAGS else 0
        if count > MOST_SEGMENTS or totals.n_segments > MOST_SEGMENTS_OF_FILE:
            needed = f"at most {MOST_SEGMENTS} in a page and {MOST_SEGMENTS_OF_FILE} in all"
            raise _refuse(path, f"{max(count, totals.n_segments)} strips or tiles", needed)
    elif n_bytes > LARGEST_TAG_BYTES:
        raise _refuse(path, f"a tag ({tag}) of {n_bytes} bytes", f"at most {LARGEST_TAG_BYTES} bytes")
    # pages may share small values, such as a resolution; large ones that are shared are an attack
    if n_bytes > LARGEST_SHARED_TAG_BYTES:
        totals.far_bytes += n_bytes
        if totals.far_bytes > file_bytes:
            raise _refuse(path, f"tags of {totals.far_bytes} bytes in a file of {file_bytes}", "a file that holds what it claims")


def _list_offsets(stream: BinaryIO, value: bytes, count: int, layout: _Layout) -> list[int]:
    """Return the positions that a tag holds, from within its entry or from where that points."""
    # a value that does not fit into the entry lies where the entry points
    if count * layout.offset_bytes > len(value):
        (start,) = struct.unpack(layout.offset_form, value)
        stream.seek(start)
        value = stream.read(min(count, MOST_TAGS) * layout.offset_bytes)
    whole = value[: len(value) // layout.offset_bytes * layout.offset_bytes]
    return [offset for (offset,) in struct.iter_unpack(layout.offset_form, whole)][:count]


def _refuse(path: Location, given: str, needed: str) -> OSError:
    return refuse_content(path, given=given, needed=needed, remedy="export it again, in several files where it is that large")
