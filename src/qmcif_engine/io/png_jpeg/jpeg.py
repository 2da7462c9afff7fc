"""8-bit gray and RGB JPEG: checked and decoded, encoded with what is embedded, for which no encoder at hand has a way."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, refuse_content, refuse_damaged
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import LARGEST_IMAGE_OVERHEAD_BYTES, MAX_JPEG_EXPANSION, MOST_JPEG_SEGMENTS
from qmcif_engine.io.metadata.embedding import Embedding, Resolution, prepare_embedding
from qmcif_engine.io.metadata.exif import check_profile
from qmcif_engine.io.output.windowed_image import ImageContent, WriteRun, read_whole
from qmcif_engine.io.remote_path import Location

logger = logging.getLogger(__name__)

JPEG_SIGNATURE = b"\xff\xd8\xff"

_START_OF_SCAN, _END_OF_IMAGE, _COMMENT = 0xDA, b"\xff\xd9", 0xFE
_APP0, _APP1, _APP2 = 0xE0, 0xE1, 0xE2
# start of frame, by coding process; the three others are tables and a reserved code
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset(range(0xD0, 0xD8)) | {0x01}
_JFIF_PREFIX, _EXIF_PREFIX, _PROFILE_PREFIX = b"JFIF\0", b"Exif\0\0", b"ICC_PROFILE\0"
_DOTS_PER_INCH = {1: 1.0, 2: 2.54}
"""What one dot a unit is in dots an inch, by the code of the unit: inch, centimeter."""

_UNIT_CODES = {"inch": 1, "centimeter": 2}
_QUALITY = 95
_HEADER_END = 2 + 18
"""Where the first segment ends: behind the start mark and the JFIF header, which the encoder always writes."""

# of the JFIF header: unit, horizontal and vertical
_DENSITY = slice(13, 18)
_LARGEST_PAYLOAD_BYTES = 2**16 - 3
_LARGEST_DENSITY = 2**16 - 1


class JpegHeader(NamedTuple):
    """What stands in front of the samples of a JPEG image."""

    bits: int
    height: int
    width: int
    n_components: int
    segments: list[tuple[int, bytes]]
    scan_start: int

    def find(self, marker: int, prefix: bytes) -> list[bytes]:
        """Return the application segments of a kind, without their prefix."""
        return [payload[len(prefix) :] for kind, payload in self.segments if kind == marker and payload.startswith(prefix)]


def inspect_jpeg(file: OpenFile, path: Path) -> SourceDescription:
    """Return what a JPEG file says about its image; nothing is decoded."""
    header = read_jpeg_header(file.read, path)
    n_components = header.n_components
    if n_components == 4:
        raise refuse_content(path, given="CMYK or YCCK colors", needed="gray or RGB", remedy="convert the image to RGB and save it again")
    if n_components not in (1, 3):
        raise refuse_content(path, given=f"{n_components} color channels", needed="gray or RGB", remedy="convert the image to RGB")
    if header.bits != 8:
        raise refuse_content(path, given=f"{header.bits}-bit JPEG samples", needed="8-bit JPEG", remedy="save the image as PNG or TIFF")
    check_claimed_size(
        path,
        height=header.height,
        width=header.width,
        decoded_bytes=header.height * header.width * n_components,
        stored_bytes=file.stamp()[0],
        max_expansion=MAX_JPEG_EXPANSION,
    )
    return describe_single_image(
        path,
        size=(header.height, header.width),
        n_samples=n_components,
        dtype=np.dtype(np.uint8),
        exif=next(iter(header.find(_APP1, _EXIF_PREFIX)), b""),
        icc_profile=_join_profile(header.find(_APP2, _PROFILE_PREFIX)),
        dpi=_parse_density(header.find(_APP0, _JFIF_PREFIX)),
    )


def read_jpeg_header(read: Callable[[int, int], bytes], path: Location) -> JpegHeader:
    """Return the header of a JPEG image, from a function that returns the bytes at a position."""
    frame: tuple[int, int, int, int] | None = None
    segments: list[tuple[int, bytes]] = []
    # behind the start mark
    position = 2
    for _ in range(MOST_JPEG_SEGMENTS):
        start = read(position, 4)
        if len(start) < 4:
            raise refuse_damaged(path, "the file ends inside its header")
        marker = start[1]
        if start[0] != 0xFF:
            raise refuse_damaged(path, "a marker of its header is missing")
        # filling, and marks that stand alone
        if marker == 0xFF or marker in _WITHOUT_LENGTH:
            position += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(start[2:], "big")
        payload = read(position + 4, max(length - 2, 0))
        if length < 2 or len(payload) < length - 2:
            raise refuse_damaged(path, "the file ends inside its header")
        position += 2 + length
        if marker in _FRAMES and frame is None and len(payload) >= 6:
            frame = struct.unpack(">BHHB", payload[:6])
        elif marker in (_APP0, _APP1, _APP2):
            segments.append((marker, payload))
        elif marker == _START_OF_SCAN and frame is not None:
            return JpegHeader(*frame, segments=segments, scan_start=position)
    raise refuse_damaged(path, f"no image behind {MOST_JPEG_SEGMENTS} segments")


def check_jpeg_end(encoded: bytes, header: JpegHeader, path: Location, *, name: str = "the file") -> None:
    """Refuse an image without its end mark, whose missing rows the decoder would fill with gray."""
    # compressed samples never hold the mark by chance
    if encoded.find(_END_OF_IMAGE, header.scan_start) < 0:
        raise refuse_damaged(path, f"the end of {name} is missing")


def _join_profile(pieces: list[bytes]) -> bytes | None:
    """Return the color profile, which is cut into numbered pieces; None where one is missing."""
    # in front: number of the piece, counted from 1, and how many there are
    numbered = {piece[0]: piece for piece in pieces if len(piece) > 2}
    if set(numbered) != set(range(1, len(numbered) + 1)) or {piece[1] for piece in numbered.values()} != {len(numbered)}:
        return None
    return check_profile(b"".join(numbered[number][2:] for number in sorted(numbered)))


def _parse_density(headers: list[bytes]) -> tuple[float, float] | None:
    """Return dots an inch of a JFIF header, horizontal first."""
    for header in headers:
        # behind two bytes of version
        unit, horizontal, vertical = struct.unpack(">BHH", header[2:7].ljust(5, b"\0"))
        if unit in _DOTS_PER_INCH and horizontal and vertical:
            return horizontal * _DOTS_PER_INCH[unit], vertical * _DOTS_PER_INCH[unit]
    return None


def decode_jpeg(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the samples of a JPEG file; further images behind it (previews, gain maps) are left alone."""
    header = read_jpeg_header(file.read, path)
    # behind the image there may be a video or anything else
    n_bytes = header.scan_start + 2 * header.height * header.width * header.n_components + LARGEST_IMAGE_OVERHEAD_BYTES
    encoded = file.read(0, min(n_bytes, file.stamp()[0]))
    check_jpeg_end(encoded, header, path)
    return imagecodecs.jpeg8_decode(encoded)


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
    segments = [(_APP1, _EXIF_PREFIX, embedding.exif), (_APP2, _PROFILE_PREFIX, embedding.profile)]
    comment = None if embedding.comment is None else embedding.comment.encode()
    parts = [_segments(*segment) for segment in (*segments, (_COMMENT, b"", comment))]
    return b"".join([bytes(header), *parts, encoded[_HEADER_END:]])


def _density(resolution: Resolution | None) -> bytes | None:
    if resolution is None:
        return None
    sides = [round(resolution.horizontal), round(resolution.vertical)]
    if not all(1 <= side <= _LARGEST_DENSITY for side in sides):
        logger.warning("JPEG cannot hold a resolution of %s by %s pixels per %s; it is left out", *sides, resolution.unit)
        return None
    return struct.pack(">BHH", _UNIT_CODES[resolution.unit], *sides)


def _segments(marker: int, prefix: bytes, content: bytes | None) -> bytes:
    """Return segments that hold a content: EXIF in one, a profile in at most 255 numbered pieces, a comment in any number."""
    if content is None:
        return b""
    is_profile = prefix == _PROFILE_PREFIX
    piece_bytes = _LARGEST_PAYLOAD_BYTES - len(prefix) - 2 * is_profile
    pieces = [content[start : start + piece_bytes] for start in range(0, len(content), piece_bytes)]
    if len(pieces) > (255 if is_profile else 1) and prefix:
        logger.warning("JPEG cannot hold %s of %d bytes; it is left out", "a color profile" if is_profile else "EXIF", len(content))
        return b""
    payloads = [prefix + bytes([number, len(pieces)] * is_profile) + piece for number, piece in enumerate(pieces, 1)]
    return b"".join(bytes([0xFF, marker]) + (len(payload) + 2).to_bytes(2, "big") + payload for payload in payloads)
