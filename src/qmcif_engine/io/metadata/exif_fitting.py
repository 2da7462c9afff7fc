"""Make a camera's EXIF block say nothing that is wrong of the picture it is stored with, and take it apart for TIFF."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qmcif_engine.io.metadata.orientation import UPRIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG = 34665, 34853
_INTEROPERABILITY_TAG = 40965
_MAKER_NOTE_TAG = 37500
_DIRECTORY_TAGS = (EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, _INTEROPERABILITY_TAG)
_BOUND_TO_PLACE = (*_DIRECTORY_TAGS, _MAKER_NOTE_TAG)
_IMAGE_WIDTH_TAG, _IMAGE_HEIGHT_TAG, _ORIENTATION_TAG = 256, 257, 274
_PIXEL_WIDTH_TAG, _PIXEL_HEIGHT_TAG = 40962, 40963
_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_SHORT, _LONG = 3, 4
_KIND_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_NUMBER_BYTES = _KIND_BYTES | {5: 4, 10: 4}
_ENTRY_BYTES = 12


@dataclass(frozen=True, slots=True)
class ExifEntry:
    """Hold one entry of a directory, its value in little-endian order."""

    tag: int
    kind: int
    count: int
    value: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """Hold where an entry and its value lie in a block."""

    tag: int
    kind: int
    count: int
    entry: int
    start: int

    @property
    def end(self) -> int:
        """Position behind the value."""
        return self.start + self.count * _KIND_BYTES[self.kind]


def fit_exif(exif: bytes, *, height: int, width: int) -> bytes | None:
    """Return the block for an upright picture of this size, without the camera's thumbnail; None where the block is damaged.

    Only single values are exchanged, so that everything keeps its place: notes of camera makers hold positions within the block.

    Parameters
    ----------
    exif : bytes
        TIFF structure of the block, beginning with its byte order mark.
    height, width : int
        Size of the picture it goes with.
    """
    true_values = {
        _ORIENTATION_TAG: UPRIGHT,
        _IMAGE_WIDTH_TAG: width,
        _IMAGE_HEIGHT_TAG: height,
        _PIXEL_WIDTH_TAG: width,
        _PIXEL_HEIGHT_TAG: height,
    }
    order, directories = _ORDERS.get(exif[:4]), _locate(exif)
    if order is None or directories is None:
        return None
    fitted, end = bytearray(exif), 0
    for places, next_directory in directories.values():
        fitted[next_directory : next_directory + 4] = bytes(4)
        end = max(end, next_directory + 4, *(place.end for place in places))
        for place in places:
            value = true_values.get(place.tag)
            if value is not None:
                form, kind = ("HHIHxx", _SHORT) if value < 2**16 else ("HHII", _LONG)
                struct.pack_into(order + form, fitted, place.entry, place.tag, kind, 1, value)
    return bytes(fitted[:end])


def list_entries(exif: bytes) -> dict[int, list[ExifEntry]]:
    """Return the entries of a fitted block by the tag of their directory, 0 for the first.

    Notes of camera makers are left out: the positions within them would not hold elsewhere.
    """
    order, directories = _ORDERS[exif[:4]], _locate(exif) or {}
    return {
        directory: [
            ExifEntry(place.tag, place.kind, place.count, _to_little_endian(exif[place.start : place.end], place.kind, order))
            for place in places
            if place.tag not in _BOUND_TO_PLACE
        ]
        for directory, (places, _) in directories.items()
        if directory != _INTEROPERABILITY_TAG
    }


def _locate(exif: bytes) -> dict[int, tuple[list[_Place], int]] | None:
    """Return the entries of each directory and the position of its link to the next; None where one leads out of the block."""
    order = _ORDERS.get(exif[:4])
    if order is None:
        return None
    try:
        waiting = {0: struct.unpack_from(order + "I", exif, 4)[0]}
        found: dict[int, tuple[list[_Place], int]] = {}
        while waiting:
            directory, start = waiting.popitem()
            places = list(_read_directory(exif, start, order))
            found[directory] = places, start + 2 + _ENTRY_BYTES * len(places)
            struct.unpack_from(order + "I", exif, found[directory][1])
            links = {place.tag: struct.unpack_from(order + "I", exif, place.entry + 8)[0] for place in places}
            waiting |= {tag: links[tag] for tag in _DIRECTORY_TAGS if tag in links and tag not in found}
    except (struct.error, KeyError):
        return None
    return found


def _read_directory(exif: bytes, start: int, order: str) -> Iterator[_Place]:
    (n_entries,) = struct.unpack_from(order + "H", exif, start)
    for entry in range(start + 2, start + 2 + n_entries * _ENTRY_BYTES, _ENTRY_BYTES):
        tag, kind, count, position = struct.unpack_from(order + "HHII", exif, entry)
        place = _Place(tag, kind, count, entry, entry + 8 if count * _KIND_BYTES[kind] <= 4 else position)
        if place.end > len(exif):
            raise struct.error
        yield place


def _to_little_endian(value: bytes, kind: int, order: str) -> bytes:
    width = _NUMBER_BYTES[kind]
    return np.frombuffer(value, f"{order}u{width}").astype(f"<u{width}").tobytes()
