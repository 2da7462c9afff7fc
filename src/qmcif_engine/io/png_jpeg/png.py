"""PNG at 8 and 16 bits per sample, which Pillow cannot for color: checked and decoded, encoded with what is embedded."""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import imagecodecs
import numpy as np

from qmcif_engine.io.input.image_file import check_claimed_size, describe_single_image, refuse_content, refuse_damaged
from qmcif_engine.io.limits import (
    LARGEST_IMAGE_OVERHEAD_BYTES,
    LARGEST_PNG_SIDE_PX,
    LARGEST_PROFILE_BYTES,
    MAX_PNG_EXPANSION,
    MOST_PNG_NOTES,
    SMALLEST_MEAN_PNG_CHUNK_BYTES,
)
from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.metadata.exif import check_profile
from qmcif_engine.io.output.windowed_image import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.input.frame_source import SourceDescription
    from qmcif_engine.io.metadata.embedding import Embedding
    from qmcif_engine.io.output.windowed_image import ImageContent, WriteRun

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


_PALETTE = 3
_N_CHANNELS = {0: 1, 2: 3, _PALETTE: 3, 4: 2, 6: 4}
"""Channels by color type: gray, RGB, numbers of colors, gray with alpha, RGB with alpha."""

_GRAY = 0
_BIT_DEPTHS = (8, 16)
_GRAY_BIT_DEPTHS = (2, 4, *_BIT_DEPTHS)
_PALETTE_BIT_DEPTHS = (1, 2, 4, 8)
_INTERLACE_METHODS = (0, 1)

_IMAGE_CHUNKS = (b"IHDR", b"IDAT", b"IEND")
_LARGEST_EXIF_BYTES = 2**16
_COLOR_TABLE = b"PLTE"
_NOTES = {b"eXIf": _LARGEST_EXIF_BYTES, b"iCCP": LARGEST_PROFILE_BYTES, b"pHYs": 9, _COLOR_TABLE: 3 * 256}
"""Chunks that tell something about the image, and how long each may be."""

_METERS_PER_INCH = 0.0254


_HEADER_END = 8 + 25
"""Where the first chunk ends: behind the signature and the header, which has 13 bytes, a length, a name and a checksum."""

_LARGEST_NUMBER = 2**31 - 1
_METER = 1


class PngHeader(NamedTuple):
    """The header of a PNG file, in the order of its fields."""

    width: int
    height: int
    bit_depth: int
    color_type: int
    compression_method: int
    filter_method: int
    interlace_method: int

    @property
    def raw_bytes(self) -> int:
        """Return the size of the unfiltered samples, each row rounded up to whole bytes."""
        n_stored = 1 if self.has_palette else _N_CHANNELS[self.color_type]
        return self.height * -(-self.width * self.bit_depth * n_stored // 8)

    @property
    def has_palette(self) -> bool:
        """Whether the stored numbers are places in a table of colors."""
        return self.color_type == _PALETTE

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type that holds a sample."""
        return np.dtype(np.uint16 if self.bit_depth == 16 else np.uint8)


def inspect_png(stream: BinaryIO, path: Path) -> SourceDescription:
    """Return what a PNG file says about its image, once every chunk is known to be there; nothing is decoded."""
    header = read_png_header(stream, path)
    # a longer note is skipped, not refused: it does not change the image
    notes = {kind: stream.read(length) for kind, length in walk_chunks(stream, path) if length <= _NOTES.get(kind, -1)}
    if header.has_palette and not (_COLOR_TABLE in notes and notes[_COLOR_TABLE] and len(notes[_COLOR_TABLE]) % 3 == 0):
        raise refuse_damaged(path, "its table of colors is missing or broken")
    return describe_single_image(
        path,
        size=(header.height, header.width),
        n_samples=_N_CHANNELS[header.color_type],
        dtype=header.dtype,
        exif=notes.get(b"eXIf", b""),
        icc_profile=_unpack_profile(notes.get(b"iCCP", b"")),
        dpi=_parse_density(notes.get(b"pHYs", b"")),
    )


def _unpack_profile(chunk: bytes) -> bytes | None:
    """Return the color profile of an iCCP chunk: a name, a zero, the compression method 0, and the profile deflated."""
    _, _, packed = chunk.partition(b"\0")
    try:
        # bounded; what is longer is cut off, and then no profile by its own length
        profile = zlib.decompressobj().decompress(packed[1:], LARGEST_PROFILE_BYTES)
    except zlib.error:
        return None
    return check_profile(profile)


def _parse_density(chunk: bytes) -> tuple[float, float] | None:
    """Return dots an inch of a pHYs chunk, horizontal first, where its unit is the meter."""
    if len(chunk) != 9 or chunk[8] != 1:
        return None
    horizontal, vertical = (density * _METERS_PER_INCH for density in struct.unpack(">II", chunk[:8]))
    return (horizontal, vertical) if horizontal and vertical else None


def decode_png(stream: BinaryIO, path: Path) -> NDArray[Any]:
    """Return the samples of a PNG file that `inspect_png` let through.

    The chunks are walked before anything is decoded: the decoder itself stops at the last sample and would not notice that the end
    of the file is missing, and it would turn a color key into a channel of its own making. It is given the image, with its table of
    colors if it has one, and no metadata, about which it would print complaints.
    """
    wanted = (*_IMAGE_CHUNKS, *([_COLOR_TABLE] if read_png_header(stream, path).has_palette else []))
    image = [PNG_SIGNATURE]
    for kind, length in walk_chunks(stream, path):
        if kind in wanted:
            # with the checksum, which the decoder compares
            image += [struct.pack(">I", length), kind, stream.read(length + 4)]
    return imagecodecs.png_decode(b"".join(image))


def read_png_header(stream: BinaryIO, path: Path) -> PngHeader:
    """Return the header of a file, once what it claims is known to be bearable."""
    stream.seek(len(PNG_SIGNATURE))
    start = stream.read(25)
    if len(start) < 25 or start[4:8] != b"IHDR":
        raise refuse_damaged(path, "no PNG header")
    header = PngHeader(*struct.unpack(">IIBBBBB", start[8:21]))
    _check_kind(header, path)
    file_bytes = os.fstat(stream.fileno()).st_size
    size = {"height": header.height, "width": header.width, "decoded_bytes": header.raw_bytes, "stored_bytes": file_bytes}
    check_claimed_size(path, **size, max_expansion=MAX_PNG_EXPANSION)
    if max(header.height, header.width) > LARGEST_PNG_SIDE_PX:
        raise refuse_content(
            path,
            given=f"{header.width} x {header.height} pixels",
            needed=f"a PNG of at most {LARGEST_PNG_SIDE_PX} a side",
            remedy="crop it or save it as TIFF",
        )
    # deflate hardly grows what it cannot pack: more bytes than that are no image
    if file_bytes > 2 * header.raw_bytes + LARGEST_IMAGE_OVERHEAD_BYTES:
        raise refuse_damaged(path, f"{file_bytes} bytes for {header.width} x {header.height} pixels")
    return header


def _check_kind(header: PngHeader, path: Path) -> None:
    """Refuse what cannot be kept, and what no PNG has: the decoder would refuse the latter too, but print complaints first."""
    if header.color_type not in _N_CHANNELS:
        raise refuse_damaged(path, f"color type {header.color_type} does not exist")
    if header.bit_depth == 1 and not header.has_palette:
        raise refuse_content(path, given="bilevel (1-bit) samples", needed="8 or 16 bits per sample", remedy="save the image as gray")
    if header.bit_depth not in {_GRAY: _GRAY_BIT_DEPTHS, _PALETTE: _PALETTE_BIT_DEPTHS}.get(header.color_type, _BIT_DEPTHS):
        raise refuse_damaged(path, f"{header.bit_depth} bits per sample do not exist in color type {header.color_type}")
    methods = (header.compression_method, header.filter_method, header.interlace_method)
    if methods[:2] != (0, 0) or methods[2] not in _INTERLACE_METHODS:
        raise refuse_damaged(path, f"compression, filter and interlace methods {methods} do not exist")


def walk_chunks(stream: BinaryIO, path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield kind and length of every chunk, with the stream at its payload, once the chunk is known to be there."""
    file_bytes = os.fstat(stream.fileno()).st_size
    # empty chunks by the million would take minutes to walk
    kind, n_chunks, most_chunks = b"", 0, MOST_PNG_NOTES + file_bytes // SMALLEST_MEAN_PNG_CHUNK_BYTES
    position = len(PNG_SIGNATURE)
    while kind != b"IEND":
        n_chunks += 1
        if n_chunks > most_chunks:
            raise refuse_damaged(path, f"more than {most_chunks} chunks in {file_bytes} bytes")
        stream.seek(position)
        start = stream.read(8)
        length, kind = int.from_bytes(start[:4], "big"), start[4:]
        # length, name and checksum take four bytes each
        position += 12 + length
        # checked before the caller reads the chunk
        if len(start) < 8 or position > file_bytes:
            raise refuse_damaged(path, "the end of the file is missing")
        if kind == b"acTL":
            raise refuse_content(path, given="an animation", needed="one image a file", remedy="save each frame as a file of its own")
        if kind == b"tRNS":
            raise refuse_content(
                path, given="a transparent color key", needed="a full alpha channel or none", remedy="save the image with or without alpha"
            )
        yield kind, length


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
        chunks.append(_chunk(b"pHYs", horizontal.to_bytes(4, "big") + vertical.to_bytes(4, "big") + bytes([_METER])))
    if embedding.exif is not None:
        chunks.append(_chunk(b"eXIf", embedding.exif))
    if embedding.software is not None:
        chunks.append(_text(b"Software", embedding.software))
    if embedding.comment is not None:
        chunks.append(_text(b"Comment", embedding.comment))
    return b"".join([encoded[:_HEADER_END], *chunks, encoded[_HEADER_END:]]) if chunks else encoded


def _text(keyword: bytes, text: str) -> bytes:
    return _chunk(b"iTXt", keyword + b"\0" + bytes(4) + text.encode())  # not compressed, in no stated language


def _chunk(name: bytes, payload: bytes) -> bytes:
    body = name + payload
    return len(payload).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
