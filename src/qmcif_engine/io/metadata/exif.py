"""EXIF blocks and color profiles of cameras: read as hostile, made to fit another image, laid out anew.

A block is a TIFF structure of its own: a first directory, and inner ones that it leads to. Pillow would write a block anew with every
change, after which the notes of camera makers are lost: they hold positions within the block. It would also read whatever length a tag
of a large TIFF claims, and warn about parts that do not matter here.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.limits import LARGEST_EXIF_BYTES, MOST_EXIF_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray
    from tifffile import TiffFile
    from tifffile.tifffile import FileHandle

UPRIGHT = 1
"""The EXIF orientation of an image that needs no turning."""

_TRANSPOSED, _ROWS_REVERSED, _COLUMNS_REVERSED = (5, 6, 7, 8), (3, 4, 7, 8), (2, 3, 6, 7)

EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG = 34665, 34853
CAMERA_TAGS = frozenset({271, 272, 306, 315, 33432})
"""Maker, model, time, artist, copyright; the other tags of a first directory tell of the file it was in."""

LONG = 4
_SHORT = 3
_ORIENTATION_TAG = 274
_INTEROPERABILITY_TAG = 40965
_DIRECTORY_TAGS = (EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, _INTEROPERABILITY_TAG)
_BOUND_TO_PLACE = (*_DIRECTORY_TAGS, 37500)
"""Directories, and the note of the camera maker."""

_WIDTH_TAGS, _HEIGHT_TAGS = (256, 40962), (257, 40963)
_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_KIND_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 18: 8}
# a fraction is two numbers, which are turned round one by one
_NUMBER_BYTES = _KIND_BYTES | {5: 4, 10: 4}

# every ICC profile has "acsp" here, and its own length in front
_PROFILE_SIGNATURE = slice(36, 40)


@dataclass(frozen=True, slots=True)
class ExifEntry:
    """One entry of a directory: where it lies, where its value ends, and the value in little-endian order, empty where it is damaged."""

    tag: int
    kind: int
    count: int
    value: bytes
    position: int = 0
    end: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether the value lies completely in the file."""
        return self.kind in _KIND_BYTES and len(self.value) == self.count * _KIND_BYTES[self.kind]

    @property
    def number(self) -> int:
        """The value as one whole number: that of an orientation, or where a directory begins."""
        return int.from_bytes(self.value, "little")


@dataclass(frozen=True, slots=True)
class _Structure:
    """A block or file that has directories, and how it writes numbers; no value longer than the limit is read."""

    stream: IO[bytes] | FileHandle
    n_bytes: int
    order: str
    is_big: bool = False
    largest_value_bytes: int = LARGEST_EXIF_BYTES

    def read_directory(self, start: int) -> tuple[list[ExifEntry], int | None]:
        """Return the entries of a directory, and the position of its link to the next; None where the directory is not complete."""
        forms = _forms(self.order, is_big=self.is_big)
        head_bytes, entry_bytes, offset_bytes = (struct.calcsize(form) for form in forms)
        n_entries = self._number(forms[0], start)
        if n_entries is None:
            return [], None
        step, first = entry_bytes + offset_bytes, start + head_bytes
        # a damaged file may claim any number of entries: no more are read than have room in it
        table = self._read(first, min(n_entries, MOST_EXIF_ENTRIES, (self.n_bytes - first) // step) * step)
        entries = [self._parse_entry(forms, table[place : place + step], first + place) for place in range(0, len(table), step)]
        link = first + n_entries * step
        is_complete = len(entries) == n_entries and self._number(forms[2], link) is not None
        return entries, link if is_complete else None

    def _parse_entry(self, forms: tuple[str, str, str], entry: bytes, position: int) -> ExifEntry:
        tag, kind, count = struct.unpack_from(forms[1], entry)
        start, n_bytes = position + struct.calcsize(forms[1]), count * _KIND_BYTES.get(kind, 0)
        # a value that fits stands in place of the position at which a longer one would be found
        if n_bytes > struct.calcsize(forms[2]):
            (start,) = struct.unpack_from(forms[2], entry, struct.calcsize(forms[1]))
        # a longer one counts as damaged, unread
        value = self._read(start, n_bytes) if n_bytes <= self.largest_value_bytes else b""
        return ExifEntry(tag, kind, count, _to_little_endian(value, kind, self.order), position, start + n_bytes)

    def _number(self, form: str, start: int) -> int | None:
        stored = self._read(start, struct.calcsize(form))
        return int(struct.unpack(form, stored)[0]) if stored else None

    def _read(self, start: int, n_bytes: int) -> bytes:
        """Return bytes that lie completely in the file, else none."""
        if start + n_bytes > self.n_bytes:
            return b""
        self.stream.seek(start)
        return self.stream.read(n_bytes)


def parse_exif_orientation(exif: bytes) -> int:
    """Return the orientation (1 to 8) stored in an EXIF block; upright where there is none or the block is damaged."""
    for entry in (_read_block(exif) or {0: ([], None)})[0][0]:
        if entry.tag == _ORIENTATION_TAG:
            return settle_orientation(entry.number) if (entry.kind, entry.count) == (_SHORT, 1) else UPRIGHT
    return UPRIGHT


def fit_exif(exif: bytes, *, height: int, width: int) -> bytes | None:
    """Return the block for an upright image of this size, without the camera's thumbnail; None where the block is damaged.

    Only single values are exchanged, so that everything keeps its place: notes of camera makers hold positions within the block.

    Parameters
    ----------
    exif : bytes
        TIFF structure of the block, beginning with its byte order mark.
    height, width : int
        Size of the image it goes with.
    """
    true_values = {_ORIENTATION_TAG: UPRIGHT} | dict.fromkeys(_WIDTH_TAGS, width) | dict.fromkeys(_HEIGHT_TAGS, height)
    directories = _read_block(exif) or {0: ([], None)}
    fitted, end = bytearray(exif), 0
    for entries, link in directories.values():
        # a damaged block is left out as a whole
        if link is None or not all(entry.is_sound for entry in entries):
            return None
        # no next directory: it is that of the thumbnail, which would still show the unfused image
        fitted[link : link + 4] = bytes(4)
        # behind it lies only the thumbnail
        end = max(end, link + 4, *(entry.end for entry in entries))
        for entry in entries:
            value = true_values.get(entry.tag)
            if value is not None:
                # the field of four bytes stays: a shorter number is followed by two that count for nothing
                form, kind = ("HHIHxx", _SHORT) if value < 2**16 else ("HHII", LONG)
                struct.pack_into(_ORDERS[exif[:4]] + form, fitted, entry.position, entry.tag, kind, 1, value)
    return bytes(fitted[:end])


def list_entries(exif: bytes) -> dict[int, list[ExifEntry]]:
    """Return the entries of a fitted block by the tag of their directory, 0 for the first.

    Notes of camera makers are left out: the positions within them would not hold elsewhere.
    """
    directories = {tag: entries for tag, (entries, _) in (_read_block(exif) or {}).items() if tag != _INTEROPERABILITY_TAG}
    return {tag: [entry for entry in entries if entry.tag not in _BOUND_TO_PLACE] for tag, entries in directories.items()}


def collect_exif(tiff: TiffFile) -> bytes | None:
    """Return the camera's description of a TIFF file as a block that stands alone; None where it tells nothing, or too much for a block.

    In TIFF the tags of a camera lie among those of the image, and their values anywhere in the file. Collected is what cameras say
    of the exposure. Damaged parts are left out: metadata never decide whether an image can be read.

    Parameters
    ----------
    tiff : TiffFile
        Open.
    """
    file = _Structure(tiff.filehandle, tiff.filehandle.size, tiff.tiff.byteorder, is_big=tiff.is_bigtiff)
    found = _follow(file, tiff.pages.first.offset, (EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG))
    kept = {tag: [entry for entry in entries if entry.value and entry.is_sound] for tag, (entries, _) in found.items()}
    first = [entry for entry in kept.pop(0) if entry.tag in CAMERA_TAGS]
    inner = {tag: [entry for entry in entries if entry.tag not in _BOUND_TO_PLACE] for tag, entries in kept.items()}
    inner = {tag: entries for tag, entries in inner.items() if entries}
    if not first and not inner:
        return None
    # the links take the same room whatever they say, so the place of what follows is known before they are
    links = {tag: ExifEntry(tag, LONG, 1, bytes(4)) for tag in inner}
    position, directories = 8 + len(lay_out_directory([*first, *links.values()], 8)), b""
    for tag, entries in inner.items():
        start = position + len(directories)
        links[tag] = ExifEntry(tag, LONG, 1, struct.pack("<I", start))
        directories += lay_out_directory(entries, start)
    block = b"II*\0" + struct.pack("<I", 8) + lay_out_directory([*first, *links.values()], 8) + directories
    return block if len(block) <= LARGEST_EXIF_BYTES else None


def lay_out_directory(entries: Iterable[ExifEntry], start: int, *, is_big: bool = False) -> bytes:
    """Return a little-endian directory that begins at this position, followed by the values that do not fit into it."""
    ordered = sorted(entries, key=lambda entry: entry.tag)
    count_form, entry_form, offset_form = _forms("<", is_big=is_big)
    inline_bytes = struct.calcsize(offset_form)
    behind = start + struct.calcsize(count_form) + len(ordered) * (struct.calcsize(entry_form) + inline_bytes) + inline_bytes
    table, values = struct.pack(count_form, len(ordered)), b""
    for entry in ordered:
        table += struct.pack(entry_form, entry.tag, entry.kind, entry.count)
        if len(entry.value) <= inline_bytes:
            table += entry.value.ljust(inline_bytes, b"\0")
        else:
            table += struct.pack(offset_form, behind + len(values))
            # TIFF wants values at even positions
            values += entry.value + bytes(len(entry.value) % 2)
    return table + bytes(inline_bytes) + values


def check_profile(profile: bytes) -> bytes | None:
    """Return a color profile whose length and signature are those of one, else None: a broken one would spoil the output."""
    is_sound = len(profile) >= 128 and profile[_PROFILE_SIGNATURE] == b"acsp" and int.from_bytes(profile[:4], "big") == len(profile)
    return profile if is_sound else None


def _read_block(exif: bytes) -> dict[int, tuple[list[ExifEntry], int | None]] | None:
    """Return the directories of a block by their tag, 0 for the first; None for what is no block."""
    order = _ORDERS.get(exif[:4])
    if order is None or len(exif) < 8:
        return None
    block = _Structure(io.BytesIO(exif), len(exif), order, largest_value_bytes=len(exif))
    return _follow(block, struct.unpack_from(order + "I", exif, 4)[0], _DIRECTORY_TAGS)


def _follow(structure: _Structure, start: int, tags: tuple[int, ...]) -> dict[int, tuple[list[ExifEntry], int | None]]:
    """Return the directory at a position and those that it leads to, each once."""
    waiting, found = {0: start}, {}
    while waiting:
        directory, start = waiting.popitem()
        found[directory] = structure.read_directory(start)
        # each directory once: in a damaged block one may lead back to another
        waiting |= {entry.tag: entry.number for entry in found[directory][0] if entry.tag in tags and entry.tag not in found}
    return found


def _forms(order: str, *, is_big: bool) -> tuple[str, str, str]:
    """Return how the number of entries, an entry without its value, and a position are stored."""
    return (order + "Q", order + "HHQ", order + "Q") if is_big else (order + "H", order + "HHI", order + "I")


def _to_little_endian(value: bytes, kind: int, order: str) -> bytes:
    width = _NUMBER_BYTES.get(kind, 1)
    # only bytes are turned round: signed numbers and floats come out right too
    return np.frombuffer(value, f"{order}u{width}").astype(f"<u{width}").tobytes()


def settle_orientation(claimed: object) -> int:
    """Return the claimed EXIF orientation, or upright where the claim is not one of the eight that exist."""
    return claimed if isinstance(claimed, int) and 1 <= claimed <= 8 else UPRIGHT


def upright_size(height: int, width: int, orientation: int) -> tuple[int, int]:
    """Return height and width of the image once it is turned."""
    return (width, height) if orientation in _TRANSPOSED else (height, width)


def turn_upright(channels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Return a view of the image as the photographer saw it.

    Parameters
    ----------
    channels : ndarray, shape (H, W, ...)
        The image as stored.
    orientation : int
        EXIF orientation: which sides of the scene row 0 and column 0 of the stored image are.
    """
    # transposed first: reversals then count rows and columns of the upright image
    upright = channels.swapaxes(0, 1) if orientation in _TRANSPOSED else channels
    rows = slice(None, None, -1) if orientation in _ROWS_REVERSED else slice(None)
    columns = slice(None, None, -1) if orientation in _COLUMNS_REVERSED else slice(None)
    return upright[rows, columns]
