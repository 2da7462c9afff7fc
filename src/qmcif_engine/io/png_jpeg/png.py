"""PNG at 8 and 16 bits per sample, which Pillow cannot for color: checked and decoded, encoded with what is embedded."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import imagecodecs
import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, refuse_content, refuse_damaged
from qmcif_engine.io.input.segments import OpenFile
from qmcif_engine.io.limits import LARGEST_EXIF_BYTES, LARGEST_PROFILE_BYTES, MAX_PNG_EXPANSION
from qmcif_engine.io.metadata.embedding import Embedding, prepare_embedding
from qmcif_engine.io.metadata.exif import check_profile
from qmcif_engine.io.output.windowed_image import ImageContent, WriteRun, read_whole

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"

_PALETTE = 3
_N_CHANNELS = {0: 1, 2: 3, _PALETTE: 3, 4: 2, 6: 4}
"""Channels by color type: gray, RGB, palette, gray with alpha, RGB with alpha."""

_METADATA_BYTES = {b"eXIf": LARGEST_EXIF_BYTES, b"iCCP": LARGEST_PROFILE_BYTES, b"pHYs": 9}
"""Chunks of metadata that are read, and how long each may be."""

_METERS_PER_INCH = 0.0254
_METER = 1
_HEADER_END = 8 + 25
"""Where the first chunk ends: behind the signature and the header of 13 bytes with its length, name and checksum."""

_LARGEST_NUMBER = 2**31 - 1


def inspect_png(file: OpenFile, path: Path) -> SourceDescription:
    """Return what a PNG file says about its image, once every chunk is known to be there; nothing is decoded."""
    start = file.read(len(PNG_SIGNATURE), 25)
    if len(start) < 25 or start[4:8] != b"IHDR":
        raise refuse_damaged(path, "no PNG header")
    width, height, bit_depth, color_type = struct.unpack(">IIBB", start[8:18])
    if color_type not in _N_CHANNELS:
        raise refuse_damaged(path, f"color type {color_type} does not exist")
    if bit_depth == 1 and color_type != _PALETTE:
        raise refuse_content(path, given="bilevel (1-bit) samples", needed="8 or 16 bits per sample", remedy="save the image as gray")
    row_bytes = -(-width * bit_depth * (1 if color_type == _PALETTE else _N_CHANNELS[color_type]) // 8)
    check_claimed_size(
        path, height=height, width=width, decoded_bytes=height * row_bytes, stored_bytes=file.stamp()[0], max_expansion=MAX_PNG_EXPANSION
    )
    # longer metadata are skipped: they do not change the image
    chunks = {kind: file.read(place, length) for kind, place, length in _walk_chunks(file, path) if length <= _METADATA_BYTES.get(kind, -1)}
    return describe_single_image(
        path,
        size=(height, width),
        n_samples=_N_CHANNELS[color_type],
        dtype=np.dtype(np.uint16 if bit_depth == 16 else np.uint8),
        exif=chunks.get(b"eXIf", b""),
        icc_profile=_unpack_profile(chunks.get(b"iCCP", b"")),
        dpi=_parse_density(chunks.get(b"pHYs", b"")),
    )


def _unpack_profile(chunk: bytes) -> bytes | None:
    """Return the color profile of an iCCP chunk: a name, a zero, the compression method 0, and the profile deflated."""
    try:
        return check_profile(zlib.decompressobj().decompress(chunk.partition(b"\0")[2][1:], LARGEST_PROFILE_BYTES))
    except zlib.error:
        return None


def _parse_density(chunk: bytes) -> tuple[float, float] | None:
    """Return dots an inch of a pHYs chunk, horizontal first, where its unit is the meter."""
    if len(chunk) != 9 or chunk[8] != _METER:
        return None
    horizontal, vertical = (density * _METERS_PER_INCH for density in struct.unpack(">II", chunk[:8]))
    return (horizontal, vertical) if horizontal and vertical else None


def decode_png(file: OpenFile, path: Path) -> NDArray[Any]:
    """Return the samples of a PNG file; whatever follows its last chunk is not read."""
    place, length = next((place, length) for kind, place, length in _walk_chunks(file, path) if kind == b"IEND")
    return imagecodecs.png_decode(file.read(0, place + length + 4))


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


def encode_png(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image as PNG, held whole."""
    samples = read_whole(content.image, run)
    # the library's own guess is too small for images a few pixels wide: each row begins with a byte for its filter
    room_bytes = samples.nbytes + samples.nbytes // 64 + 8 * samples.shape[0] + 4096
    encoded = bytes(imagecodecs.png_encode(samples, out=room_bytes))
    stream.write(_embed(encoded, prepare_embedding(content)))


def _embed(encoded: bytes, embedding: Embedding) -> bytes:
    """Return the file with chunks for what is embedded, in front of the samples; without any, the very same bytes."""
    chunks = []
    if embedding.profile is not None:
        chunks.append(_chunk(b"iCCP", b"ICC profile\0\0" + zlib.compress(embedding.profile, 9)))
    if embedding.resolution is not None:
        # PNG counts pixels a meter, in numbers of 31 bits
        horizontal, vertical = (min(round(dots), _LARGEST_NUMBER) for dots in embedding.resolution.per_meter)
        chunks.append(_chunk(b"pHYs", struct.pack(">IIB", horizontal, vertical, _METER)))
    if embedding.exif is not None:
        chunks.append(_chunk(b"eXIf", embedding.exif))
    for keyword, text in ((b"Software", embedding.software), (b"Comment", embedding.comment)):
        if text is not None:
            # not compressed, in no stated language
            chunks.append(_chunk(b"iTXt", keyword + bytes(5) + text.encode()))
    return b"".join([encoded[:_HEADER_END], *chunks, encoded[_HEADER_END:]])


def _chunk(name: bytes, payload: bytes) -> bytes:
    body = name + payload
    return len(payload).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
