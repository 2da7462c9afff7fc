"""PNG at 8 and 16 bits and 8-bit JPEG: checked by their headers, decoded and encoded as a whole by imagecodecs.

imagecodecs reads and writes no metadata and Pillow no 16-bit color, so the chunks of a PNG and the segments of a JPEG are listed here.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, refuse_content, refuse_damaged
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import (
    LARGEST_EXIF_BYTES,
    LARGEST_IMAGE_OVERHEAD_BYTES,
    LARGEST_PROFILE_BYTES,
    MAX_JPEG_EXPANSION,
    MAX_PNG_EXPANSION,
    MOST_JPEG_SEGMENTS,
)
from qmcif_engine.io.metadata.embedding import Embedding, Resolution, prepare_embedding
from qmcif_engine.io.metadata.exif import check_profile
from qmcif_engine.io.output.windowed_image import ImageContent, WriteRun, read_whole
from qmcif_engine.io.remote_path import Location

logger = logging.getLogger(__name__)

PNG_SIGNATURE, JPEG_SIGNATURE = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_EXIF_PREFIX = b"Exif\0\0"

_PNG_PALETTE = 3
_PNG_CHANNELS = {0: 1, 2: 3, _PNG_PALETTE: 3, 4: 2, 6: 4}
"""Channels by color type: gray, RGB, palette, gray with alpha, RGB with alpha."""

_PNG_METADATA_BYTES = {b"eXIf": LARGEST_EXIF_BYTES, b"iCCP": LARGEST_PROFILE_BYTES, b"pHYs": 9}
"""Chunks of metadata that are read, and how long each may be."""

_PNG_HEADER_END = 8 + 25
"""Where the first chunk ends: behind the signature and the header of 13 bytes with its length, name and checksum."""

_METER, _METERS_PER_INCH = 1, 0.0254
_LARGEST_PNG_DENSITY = 2**31 - 1

_START_OF_SCAN, _END_OF_IMAGE, _COMMENT = 0xDA, b"\xff\xd9", 0xFE
_APP0, _APP1, _APP2 = 0xE0, 0xE1, 0xE2
# start of frame, by coding process; the three others are tables and a reserved code
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset(range(0xD0, 0xD8)) | {0x01}
_JFIF_PREFIX, _PROFILE_PREFIX = b"JFIF\0", b"ICC_PROFILE\0"
_DOTS_PER_INCH = {1: 1.0, 2: 2.54}
"""What one dot a unit is in dots an inch, by the code of the unit: inch, centimeter."""

_UNIT_CODES = {"inch": 1, "centimeter": 2}
_JPEG_QUALITY = 95
_JPEG_HEADER_END = 2 + 18
"""Where the first segment ends: behind the start mark and the JFIF header, which the encoder always writes."""

# of the JFIF header: unit, horizontal and vertical
_JFIF_DENSITY = slice(13, 18)
_LARGEST_PAYLOAD_BYTES = 2**16 - 3
_LARGEST_JPEG_DENSITY = 2**16 - 1


def inspect_png(file: OpenFile, path: Path) -> SourceDescription:
    """Return what a PNG file says about its image, once every chunk is known to be there; nothing is decoded."""
    start = file.read(len(PNG_SIGNATURE), 25)
    if len(start) < 25 or start[4:8] != b"IHDR":
        raise refuse_damaged(path, "no PNG header")
    width, height, bit_depth, color_type = struct.unpack(">IIBB", start[8:18])
    if color_type not in _PNG_CHANNELS:
        raise refuse_damaged(path, f"color type {color_type} does not exist")
    if bit_depth == 1 and color_type != _PNG_PALETTE:
        raise refuse_content(path, given="bilevel (1-bit) samples", needed="8 or 16 bits per sample", remedy="save the image as gray")
    row_bytes = -(-width * bit_depth * (1 if color_type == _PNG_PALETTE else _PNG_CHANNELS[color_type]) // 8)
    check_claimed_size(
        path, height=height, width=width, decoded_bytes=height * row_bytes, stored_bytes=file.stamp()[0], max_expansion=MAX_PNG_EXPANSION
    )
    # longer metadata are skipped: they do not change the image
    chunks = {
        kind: file.read(place, length) for kind, place, length in _walk_chunks(file, path) if length <= _PNG_METADATA_BYTES.get(kind, -1)
    }
    across, down, unit = struct.unpack(">IIB", chunks.get(b"pHYs", b"").ljust(9, b"\0"))
    return describe_single_image(
        path,
        size=(height, width),
        n_samples=_PNG_CHANNELS[color_type],
        dtype=np.dtype(np.uint16 if bit_depth == 16 else np.uint8),
        exif=chunks.get(b"eXIf", b""),
        icc_profile=_unpack_profile(chunks.get(b"iCCP", b"")),
        dpi=(across * _METERS_PER_INCH, down * _METERS_PER_INCH) if unit == _METER and across and down else None,
    )


def _unpack_profile(chunk: bytes) -> bytes | None:
    """Return the color profile of an iCCP chunk: a name, a zero, the compression method 0, and the profile deflated."""
    try:
        return check_profile(zlib.decompressobj().decompress(chunk.partition(b"\0")[2][1:], LARGEST_PROFILE_BYTES))
    except zlib.error:
        return None


def _walk_chunks(file: OpenFile, path: Path) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, position and length of every chunk.

    The decoder stops at the last sample and does not notice a missing end; a color key would become a channel.
    """
    kind, position, file_bytes = b"", len(PNG_SIGNATURE), file.stamp()[0]
    while kind != b"IEND":
        start = file.read(position, 8)
        length, kind = int.from_bytes(start[:4], "big"), start[4:]
        # length, name and checksum take four bytes each
        if len(start) < 8 or position + 12 + length > file_bytes:
            raise refuse_damaged(path, "the end of the file is missing")
        if kind == b"acTL":
            raise refuse_content(path, given="an animation", needed="one image a file", remedy="save each frame as a file of its own")
        if kind == b"tRNS":
            raise refuse_content(
                path, given="a transparent color key", needed="a full alpha channel or none", remedy="save the image with or without alpha"
            )
        yield kind, position + 8, length
        position += 12 + length


def decode_png(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the samples of a PNG file; whatever follows its last chunk is not read."""
    *_, (_, place, length) = _walk_chunks(file, path)
    return imagecodecs.png_decode(file.read(0, place + length + 4))


def encode_png(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image as PNG, held whole, with chunks for what is embedded in front of the samples."""
    samples, embedding = read_whole(content.image, run), prepare_embedding(content)
    # the library's own guess is too small for images a few pixels wide: each row begins with a byte for its filter
    room_bytes = samples.nbytes + samples.nbytes // 64 + 8 * samples.shape[0] + 4096
    encoded = bytes(imagecodecs.png_encode(samples, out=room_bytes))
    stream.write(b"".join([encoded[:_PNG_HEADER_END], *_list_chunks(embedding), encoded[_PNG_HEADER_END:]]))


def _list_chunks(embedding: Embedding) -> Iterator[bytes]:
    if embedding.profile is not None:
        yield _chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(embedding.profile, 9))
    if embedding.resolution is not None:
        # PNG counts pixels a meter, in numbers of 31 bits
        factor = 1 / _METERS_PER_INCH if embedding.resolution.unit == "inch" else 100.0
        densities = (min(round(dots * factor), _LARGEST_PNG_DENSITY) for dots in embedding.resolution[:2])
        yield _chunk(b"pHYs", struct.pack(">IIB", *densities, _METER))
    if embedding.exif is not None:
        yield _chunk(b"eXIf", embedding.exif)
    for keyword, text in ((b"Software", embedding.software), (b"Comment", embedding.comment)):
        if text is not None:
            # not compressed, in no stated language
            yield _chunk(b"iTXt", keyword + bytes(5) + text.encode())


def _chunk(name: bytes, payload: bytes) -> bytes:
    body = name + payload
    return len(payload).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


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
    # unit, horizontal and vertical density behind two bytes of version
    densities = (struct.unpack(">BHH", found[2:7].ljust(5, b"\0")) for found in header.find(_APP0, _JFIF_PREFIX))
    known = ((across * _DOTS_PER_INCH[unit], down * _DOTS_PER_INCH[unit]) for unit, across, down in densities if unit in _DOTS_PER_INCH)
    return describe_single_image(
        path,
        size=(header.height, header.width),
        n_samples=n_components,
        dtype=np.dtype(np.uint8),
        exif=next(iter(header.find(_APP1, _EXIF_PREFIX)), b""),
        icc_profile=_join_profile(header.find(_APP2, _PROFILE_PREFIX)),
        dpi=next((dpi for dpi in known if all(dpi)), None),
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
        mark, marker, length = struct.unpack(">BBH", start)
        if mark != 0xFF:
            raise refuse_damaged(path, "a marker of its header is missing")
        # filling, and marks that stand alone
        if marker == 0xFF or marker in _WITHOUT_LENGTH:
            position += 1 if marker == 0xFF else 2
            continue
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
    numbered = sorted((piece[0], piece[1], piece[2:]) for piece in pieces if len(piece) > 2)
    is_complete = [entry[:2] for entry in numbered] == [(number, len(numbered)) for number in range(1, len(numbered) + 1)]
    return check_profile(b"".join(piece for _, _, piece in numbered)) if is_complete else None


def decode_jpeg(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the samples of a JPEG file; further images behind it (previews, gain maps) are left alone."""
    header = read_jpeg_header(file.read, path)
    # behind the image there may be a video or anything else
    n_bytes = header.scan_start + 2 * header.height * header.width * header.n_components + LARGEST_IMAGE_OVERHEAD_BYTES
    encoded = file.read(0, min(n_bytes, file.stamp()[0]))
    check_jpeg_end(encoded, header, path)
    return imagecodecs.jpeg8_decode(encoded)


def encode_jpeg(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image as JPEG, held whole, at high quality and full color resolution, with segments for what is embedded in front.

    What no segment can hold is left out, with a line in the log: a resolution too fine for 16 bits, EXIF beyond 64 KB.
    """
    encoded = bytes(imagecodecs.jpeg8_encode(read_whole(content.image, run), level=_JPEG_QUALITY, subsampling="444"))
    embedding, header = prepare_embedding(content), bytearray(encoded[:_JPEG_HEADER_END])
    header[_JFIF_DENSITY] = _encode_density(embedding.resolution) or header[_JFIF_DENSITY]
    comment = None if embedding.comment is None else embedding.comment.encode()
    parts = ((_APP1, _EXIF_PREFIX, embedding.exif), (_APP2, _PROFILE_PREFIX, embedding.profile), (_COMMENT, b"", comment))
    stream.write(b"".join([header, *(_encode_segments(*part) for part in parts), encoded[_JPEG_HEADER_END:]]))


def _encode_density(resolution: Resolution | None) -> bytes | None:
    if resolution is None:
        return None
    sides = [round(dots) for dots in resolution[:2]]
    if not all(1 <= side <= _LARGEST_JPEG_DENSITY for side in sides):
        logger.warning("JPEG cannot hold a resolution of %s by %s pixels per %s; it is left out", *sides, resolution.unit)
        return None
    return struct.pack(">BHH", _UNIT_CODES[resolution.unit], *sides)


def _encode_segments(marker: int, prefix: bytes, content: bytes | None) -> bytes:
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
    return b"".join(struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload for payload in payloads)
