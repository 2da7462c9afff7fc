"""8-bit gray and RGB JPEG: checked and decoded, encoded with what is embedded, for which no encoder at hand has a way."""

from __future__ import annotations

import io
import logging
import os
import re
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np

from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, refuse_content, refuse_damaged
from qmcif_engine.io.limits import (
    LARGEST_IMAGE_OVERHEAD_BYTES,
    LARGEST_JPEG_HEADER_BYTES,
    LARGEST_JPEG_SCANNED_SAMPLES,
    MAX_JPEG_EXPANSION,
    MOST_JPEG_SCANS,
    MOST_JPEG_SEGMENTS,
    USUAL_JPEG_SCANS,
)
from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.metadata.exif import check_profile
from qmcif_engine.io.output.windowed_image import read_whole

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription
    from qmcif_engine.io.metadata.embedding import Embedding, Resolution
    from qmcif_engine.io.output.windowed_image import ImageContent, WriteRun
    from qmcif_engine.io.remote.remote_path import Location

logger = logging.getLogger(__name__)

JPEG_SIGNATURE = b"\xff\xd8\xff"


_START_OF_SCAN = 0xDA
_APP0, _APP1, _APP2 = 0xE0, 0xE1, 0xE2
_END_OF_IMAGE = 0xD9
# 0xFF is followed by 0 where it is a sample; 01 and D0 to D7 are marks without a segment
_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd7\xff])")
"""A marker behind or between samples, those apart that stand among samples."""

_LARGEST_FILLING_BYTES = 2**10
# start of frame, by coding process; the three others are tables and a reserved code
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_PROGRESSIVE_FRAMES = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_WITHOUT_LENGTH = frozenset(range(0xD0, 0xD8)) | {0x01}
_EXIF_PREFIX = b"Exif\0\0"
_JFIF_PREFIX = b"JFIF\0"
_PROFILE_PREFIX = b"ICC_PROFILE\0"
_DOTS_PER_INCH = {1: 1.0, 2: 2.54}
"""What one dot a unit is in dots an inch, by the code of the unit: inch, centimeter."""

_UNIT_CODES = {"inch": 1, "centimeter": 2}
_QUALITY = 95
_COMMENT = 0xFE
_HEADER_END = 2 + 18
"""Where the first segment ends: behind the start mark and the JFIF header, which the encoder always writes."""

# of the JFIF header: unit, horizontal and vertical
_DENSITY = slice(13, 18)
_LARGEST_PAYLOAD_BYTES = 2**16 - 3
_LARGEST_DENSITY = 2**16 - 1
_LARGEST_N_PIECES = 255


class _JpegHeader(NamedTuple):
    bits: int
    height: int
    width: int
    n_components: int
    is_progressive: bool
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


def inspect_jpeg(stream: BinaryIO, path: Path) -> SourceDescription:
    """Return what a JPEG file says about its image; nothing is decoded."""
    header = _walk_markers(stream, path)
    _check_header(header, path, file_bytes=os.fstat(stream.fileno()).st_size)
    if header.is_progressive:
        _check_scans(_read_encoded(stream, header), header, path)
    return describe_single_image(
        path,
        size=(header.height, header.width),
        n_samples=header.n_components,
        dtype=np.dtype(np.uint8),
        exif=header.exif,
        icc_profile=_join_profile(header.notes[_APP2]),
        dpi=_parse_density(header.notes[_APP0]),
    )


def measure_jpeg(stream: BinaryIO, path: Location) -> tuple[int, int, int]:
    """Return the height, width and number of channels that the header of a JPEG stream claims."""
    header = _walk_markers(stream, path)
    return header.height, header.width, header.n_components


def check_jpeg_scans(encoded: bytes, path: Location, *, name: str) -> None:
    """Refuse a JPEG stream whose end mark is missing, or that passes over its samples so often that decoding would take minutes."""
    _check_scans(encoded, _walk_markers(io.BytesIO(encoded), path), path, name=name)


def _check_scans(encoded: bytes, header: _JpegHeader, path: Location, *, name: str = "the file") -> None:
    """Walk from scan to scan: what stands in a segment between them is skipped, whatever it looks like."""
    n_scans, n_segments, position = 1, 0, header.scan_start
    while (found := _MARKER.search(encoded, position)) is not None and found[1][0] != _END_OF_IMAGE:
        # tables between scans count as segments too: they take the walker's time
        n_scans += found[1][0] == _START_OF_SCAN
        n_segments += 1
        is_slow = n_scans > USUAL_JPEG_SCANS and n_scans * header.n_samples > LARGEST_JPEG_SCANNED_SAMPLES
        if n_scans > MOST_JPEG_SCANS or is_slow or n_segments > MOST_JPEG_SEGMENTS:
            raise refuse_damaged(path, f"{name} has more than {n_scans - 1} scans of {header.width} x {header.height} pixels")
        # a length counts its own two bytes; a smaller one would stand still
        position = found.end() + max(int.from_bytes(encoded[found.end() : found.end() + 2], "big"), 2)
    if found is None:
        raise refuse_damaged(path, f"the end of {name} is missing")


def _join_profile(notes: list[bytes]) -> bytes | None:
    """Return the color profile, which is cut into numbered pieces; None where one is missing."""
    # behind the prefix: number of the piece, counted from 1, and how many there are
    pieces = {note[12]: note for note in notes if note.startswith(_PROFILE_PREFIX) and len(note) > 14}
    wanted = {note[13] for note in pieces.values()}
    if len(wanted) != 1 or set(pieces) != set(range(1, wanted.pop() + 1)):
        return None
    return check_profile(b"".join(pieces[number][14:] for number in sorted(pieces)))


def _parse_density(notes: list[bytes]) -> tuple[float, float] | None:
    """Return dots an inch of a JFIF block, horizontal first."""
    for note in notes:
        if note.startswith(_JFIF_PREFIX) and len(note) >= 12:
            # JFIF: prefix, two bytes of version, unit, densities
            unit, horizontal, vertical = struct.unpack(">BHH", note[7:12])
            if unit in _DOTS_PER_INCH and horizontal and vertical:
                return horizontal * _DOTS_PER_INCH[unit], vertical * _DOTS_PER_INCH[unit]
    return None


def decode_jpeg(stream: BinaryIO, path: Location) -> NDArray[Any]:
    """Return the samples of a JPEG file that `inspect_jpeg` let through; further images behind it (previews, gain maps) are left alone.

    The markers are walked before anything is decoded: the decoder fills what is missing with gray instead of failing, and passes over
    the whole image for each of its scans. Inside compressed samples an end mark cannot occur by chance.
    """
    header = _walk_markers(stream, path)
    encoded = _read_encoded(stream, header)
    _check_scans(encoded, header, path)
    return imagecodecs.jpeg8_decode(encoded)


def _read_encoded(stream: BinaryIO, header: _JpegHeader) -> bytes:
    stream.seek(0)
    # behind the image there may be a video or anything else
    return stream.read(header.scan_start + 2 * header.n_samples + LARGEST_IMAGE_OVERHEAD_BYTES)


def _walk_markers(stream: BinaryIO, path: Location) -> _JpegHeader:
    frame: tuple[int, int, int, int, bool] | None = None
    notes: dict[int, list[bytes]] = {_APP0: [], _APP1: [], _APP2: []}
    # behind the start mark, which the caller has seen
    stream.seek(2)
    for _ in range(MOST_JPEG_SEGMENTS):
        if stream.tell() >= LARGEST_JPEG_HEADER_BYTES:
            break
        marker = _next_marker(stream, path)
        # restart and similar marks stand alone
        if marker in _WITHOUT_LENGTH:
            continue
        length = int.from_bytes(stream.read(2), "big")
        payload = stream.read(max(length - 2, 0))
        if length < 2 or len(payload) < length - 2:
            raise refuse_damaged(path, "the file ends inside its header")
        # libjpeg refuses a second frame
        if marker in _FRAMES and frame is None and len(payload) >= 6:
            frame = (*struct.unpack(">BHHB", payload[:6]), marker in _PROGRESSIVE_FRAMES)
        elif marker in notes:
            notes[marker].append(payload)
        elif marker == _START_OF_SCAN and frame is not None:
            return _JpegHeader(*frame, notes=notes, scan_start=stream.tell())
    raise refuse_damaged(path, f"no image in the first {LARGEST_JPEG_HEADER_BYTES} bytes or {MOST_JPEG_SEGMENTS} segments")


def _next_marker(stream: BinaryIO, path: Location) -> int:
    """Return the code behind the next 0xFF; others may precede it as filling."""
    start = stream.tell()
    ahead = stream.read(_LARGEST_FILLING_BYTES)
    code = ahead.lstrip(b"\xff")
    if not ahead.startswith(b"\xff"):
        raise refuse_damaged(path, "a marker of its header is missing")
    if not code:
        raise refuse_damaged(path, "the file ends before its image" if len(ahead) < _LARGEST_FILLING_BYTES else "it has endless filling")
    # behind the code: the rest of what was read ahead belongs to the segment
    stream.seek(start + len(ahead) - len(code) + 1)
    return code[0]


def _check_header(header: _JpegHeader, path: Location, *, file_bytes: int) -> None:
    if header.n_components == 4:
        raise refuse_content(path, given="CMYK or YCCK colors", needed="gray or RGB", remedy="convert the image to RGB and save it again")
    if header.n_components not in (1, 3):
        raise refuse_content(path, given=f"{header.n_components} color channels", needed="gray or RGB", remedy="convert the image to RGB")
    if header.bits != 8:
        raise refuse_content(path, given=f"{header.bits}-bit JPEG samples", needed="8-bit JPEG", remedy="save the image as PNG or TIFF")
    check_claimed_size(
        path,
        height=header.height,
        width=header.width,
        decoded_bytes=header.n_samples,
        stored_bytes=file_bytes,
        max_expansion=MAX_JPEG_EXPANSION,
    )


def encode_jpeg(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image as JPEG, held whole, at high quality and with full color resolution."""
    encoded = bytes(imagecodecs.jpeg8_encode(read_whole(content.image, run), level=_QUALITY, subsampling="444"))
    stream.write(_embed(encoded, prepare_embedding(content)))


def _embed(encoded: bytes, embedding: Embedding) -> bytes:
    """Return the file with segments for what is embedded, in front of the samples; without any, the very same bytes.

    What no segment can hold is left out, with a line in the log: a resolution too fine for 16 bits, EXIF beyond 64 KB.
    """
    header = bytearray(encoded[:_HEADER_END])
    header[_DENSITY] = _density(embedding.resolution) or header[_DENSITY]
    segments = []
    if embedding.exif is not None:
        segments += _exif_segments(embedding.exif)
    if embedding.profile is not None:
        segments += _profile_segments(embedding.profile)
    if embedding.comment is not None:
        segments += _comment_segments(embedding.comment)
    return b"".join([bytes(header), *segments, encoded[_HEADER_END:]])


def _density(resolution: Resolution | None) -> bytes | None:
    if resolution is None:
        return None
    sides = [round(resolution.horizontal), round(resolution.vertical)]
    if not all(1 <= side <= _LARGEST_DENSITY for side in sides):
        logger.warning("JPEG cannot hold a resolution of %s by %s pixels per %s; it is left out", *sides, resolution.unit)
        return None
    return bytes([_UNIT_CODES[resolution.unit]]) + b"".join(side.to_bytes(2, "big") for side in sides)


def _exif_segments(exif: bytes) -> list[bytes]:
    if len(_EXIF_PREFIX) + len(exif) > _LARGEST_PAYLOAD_BYTES:
        logger.warning("JPEG cannot hold EXIF of %d bytes; it is left out", len(exif))
        return []
    return [_segment(_APP1, _EXIF_PREFIX + exif)]


def _profile_segments(profile: bytes) -> list[bytes]:
    """Return the profile in numbered pieces, as the ICC prescribes."""
    piece_bytes = _LARGEST_PAYLOAD_BYTES - len(_PROFILE_PREFIX) - 2
    pieces = [profile[start : start + piece_bytes] for start in range(0, len(profile), piece_bytes)]
    if len(pieces) > _LARGEST_N_PIECES:
        logger.warning("JPEG cannot hold a color profile of %d bytes; it is left out", len(profile))
        return []
    numbered = enumerate(pieces, start=1)
    return [_segment(_APP2, _PROFILE_PREFIX + bytes([number, len(pieces)]) + piece) for number, piece in numbered]


def _comment_segments(comment: str) -> list[bytes]:
    """Return the comment in as many segments as it takes, to be read one after the other."""
    text = comment.encode()
    return [_segment(_COMMENT, text[start : start + _LARGEST_PAYLOAD_BYTES]) for start in range(0, len(text), _LARGEST_PAYLOAD_BYTES)]


def _segment(marker: int, payload: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload
