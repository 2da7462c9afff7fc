"""Decode 8-bit gray and RGB JPEG."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import imagecodecs
import numpy as np

from qmcif_engine.io.input.image_file import PictureHeader, check_claimed_size, refuse_content, refuse_damaged
from qmcif_engine.io.metadata.exif import check_profile, fit_exif, parse_exif_orientation
from qmcif_engine.io.metadata.orientation import upright_size
from qmcif_engine.stack.picture_metadata import PictureMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

JPEG_SIGNATURE = b"\xff\xd8\xff"

LARGEST_JPEG_SIDE_PX = 65500
"""The largest side libjpeg writes."""

_START_OF_SCAN = 0xDA
_APP0, _APP1, _APP2 = 0xE0, 0xE1, 0xE2
_END_OF_IMAGE = b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset(range(0xD0, 0xD8)) | {0x01}
_EXIF_PREFIX = b"Exif\0\0"
_JFIF_PREFIX = b"JFIF\0"
_PROFILE_PREFIX = b"ICC_PROFILE\0"
_DOTS_PER_INCH = {1: 1.0, 2: 2.54}
"""What one dot a unit is in dots an inch, by the code of the unit: inch, centimeter."""

_LARGEST_HEADER_BYTES = 2**26
_LARGEST_OVERHEAD_BYTES = 2**26
"""What compressed samples may take beyond twice their number; whatever lies behind that is not read into memory."""


@dataclass(frozen=True, slots=True)
class _JpegHeader:
    bits: int
    height: int
    width: int
    n_components: int
    notes: dict[int, list[bytes]]
    scan_start: int

    @property
    def n_samples(self) -> int:
        """Return how many samples, of one byte each, the header claims."""
        return self.height * self.width * self.n_components

    @property
    def exif(self) -> bytes:
        """Return the first EXIF block, empty where there is none."""
        return next((note[len(_EXIF_PREFIX) :] for note in self.notes[_APP1] if note.startswith(_EXIF_PREFIX)), b"")


def inspect_jpeg(stream: BinaryIO, path: Path) -> PictureHeader:
    """Return what a JPEG file says about its picture; nothing is decoded."""
    header = _walk_markers(stream, path)
    _check_header(header, path, file_bytes=os.fstat(stream.fileno()).st_size)
    orientation = parse_exif_orientation(header.exif)
    height, width = upright_size(header.height, header.width, orientation)
    return PictureHeader(
        height=header.height,
        width=header.width,
        n_samples=header.n_components,
        dtype=np.dtype(np.uint8),
        orientation=orientation,
        metadata=PictureMetadata(
            icc_profile=_join_profile(header.notes[_APP2]),
            exif=fit_exif(header.exif, height=height, width=width),
            dpi=_parse_density(header.notes[_APP0]),
        ),
    )


def measure_jpeg(stream: BinaryIO, path: Path) -> tuple[int, int, int]:
    """Return the height, width and number of channels that the header of a JPEG stream claims."""
    header = _walk_markers(stream, path)
    return header.height, header.width, header.n_components


def has_jpeg_end(encoded: bytes) -> bool:
    """Tell whether a JPEG stream has its end mark."""
    return encoded.rfind(_END_OF_IMAGE) >= 0


def _join_profile(notes: list[bytes]) -> bytes | None:
    """Return the color profile, which is cut into numbered pieces; None where one is missing."""
    pieces = {note[12]: note for note in notes if note.startswith(_PROFILE_PREFIX) and len(note) > 14}
    wanted = {note[13] for note in pieces.values()}
    if len(wanted) != 1 or set(pieces) != set(range(1, wanted.pop() + 1)):
        return None
    return check_profile(b"".join(pieces[number][14:] for number in sorted(pieces)))


def _parse_density(notes: list[bytes]) -> tuple[float, float] | None:
    """Return dots an inch of a JFIF block, horizontal first."""
    for note in notes:
        if note.startswith(_JFIF_PREFIX) and len(note) >= 12:
            unit, horizontal, vertical = struct.unpack(">BHH", note[7:12])
            if unit in _DOTS_PER_INCH and horizontal and vertical:
                return horizontal * _DOTS_PER_INCH[unit], vertical * _DOTS_PER_INCH[unit]
    return None


def decode_jpeg(stream: BinaryIO, path: Path) -> NDArray[Any]:
    """Return the samples of a JPEG file that `inspect_jpeg` let through; further pictures behind it (previews, gain maps) are left alone.

    The markers are walked before anything is decoded: the decoder fills what is missing with gray instead of failing. Inside
    compressed samples an end mark cannot occur by chance, so its absence behind the start of the scan means that the end is missing.
    """
    header = _walk_markers(stream, path)
    stream.seek(0)
    encoded = stream.read(header.scan_start + 2 * header.n_samples + _LARGEST_OVERHEAD_BYTES)
    if encoded.find(_END_OF_IMAGE, header.scan_start) < 0:
        raise refuse_damaged(path, "the end of the file is missing")
    return imagecodecs.jpeg8_decode(encoded)


def _walk_markers(stream: BinaryIO, path: Path) -> _JpegHeader:
    frame: tuple[int, int, int, int] | None = None
    notes: dict[int, list[bytes]] = {_APP0: [], _APP1: [], _APP2: []}
    stream.seek(2)
    while stream.tell() < _LARGEST_HEADER_BYTES:
        marker = _next_marker(stream, path)
        if marker in _WITHOUT_LENGTH:
            continue
        length = int.from_bytes(stream.read(2), "big")
        payload = stream.read(max(length - 2, 0))
        if length < 2 or len(payload) < length - 2:
            raise refuse_damaged(path, "the file ends inside its header")
        if marker in _FRAMES and frame is None and len(payload) >= 6:
            frame = struct.unpack(">BHHB", payload[:6])
        elif marker in notes:
            notes[marker].append(payload)
        elif marker == _START_OF_SCAN and frame is not None:
            return _JpegHeader(*frame, notes=notes, scan_start=stream.tell())
    raise refuse_damaged(path, f"no picture in the first {_LARGEST_HEADER_BYTES} bytes")


def _next_marker(stream: BinaryIO, path: Path) -> int:
    """Return the code behind the next 0xFF; any number of 0xFF may precede it as filling."""
    byte = stream.read(1)
    if byte != b"\xff":
        raise refuse_damaged(path, "a marker of its header is missing")
    while byte == b"\xff":
        byte = stream.read(1)
    if not byte:
        raise refuse_damaged(path, "the file ends before its picture")
    return byte[0]


def _check_header(header: _JpegHeader, path: Path, *, file_bytes: int) -> None:
    if header.n_components == 4:
        raise refuse_content(path, given="CMYK or YCCK colors", needed="gray or RGB", remedy="convert the image to RGB and save it again")
    if header.n_components not in (1, 3):
        raise refuse_content(path, given=f"{header.n_components} color channels", needed="gray or RGB", remedy="convert the image to RGB")
    if header.bits != 8:
        raise refuse_content(path, given=f"{header.bits}-bit JPEG samples", needed="8-bit JPEG", remedy="save the image as PNG or TIFF")
    check_claimed_size(path, height=header.height, width=header.width, decoded_bytes=header.n_samples, stored_bytes=file_bytes)
