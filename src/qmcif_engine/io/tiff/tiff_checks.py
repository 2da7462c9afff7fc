"""Checks of TIFF pages before anything trusts their chain, or decodes them wrongly, partly or dangerously."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Sequence
from typing import BinaryIO

from tifffile import COMPRESSION, EXTRASAMPLE, PHOTOMETRIC, SAMPLEFORMAT, TiffPage

from qmcif_engine.io.input.image_file import check_claimed_size, refuse_content, refuse_damaged
from qmcif_engine.io.limits import LARGEST_TAG_BYTES, MAX_PIXELS, MAX_PLANES, MOST_CODED_CHANNELS, MOST_SEGMENTS, MOST_TAGS
from qmcif_engine.io.metadata.exif import known_orientation
from qmcif_engine.io.png_jpeg.jpeg import check_jpeg_end, read_jpeg_header
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.color_tables import find_palette, find_table
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

_ORIENTATION_TAG = 274
JPEG = int(COMPRESSION.JPEG)
_JPEG_2000 = frozenset({int(COMPRESSION.APERIO_JP2000_RGB), int(COMPRESSION.JPEG2000)})
# a smooth image may become nearly nothing: no ratio of sizes shows that a header lies
_UNBOUNDED = _JPEG_2000 | {int(COMPRESSION.ZSTD), int(COMPRESSION.LZMA)}
_COMPRESSIONS = _UNBOUNDED | {
    JPEG,
    int(COMPRESSION.NONE),
    int(COMPRESSION.LZW),
    int(COMPRESSION.ADOBE_DEFLATE),
    int(COMPRESSION.DEFLATE),
    int(COMPRESSION.PACKBITS),
}
_N_COLORS: dict[int, int] = {
    PHOTOMETRIC.MINISBLACK: 1,
    PHOTOMETRIC.MINISWHITE: 1,
    PHOTOMETRIC.PALETTE: 1,
    PHOTOMETRIC.RGB: 3,
    PHOTOMETRIC.YCBCR: 3,
}
# cameras of 10, 12 and 14 bits pack their samples; the library unpacks them
_UNSIGNED_BITS = (*range(1, 17), 32)
_SAMPLE_KINDS: dict[int, str] = {SAMPLEFORMAT.UINT: "unsigned integer", SAMPLEFORMAT.INT: "signed integer", SAMPLEFORMAT.IEEEFP: "float"}
_CODE_STREAM_START = re.compile(rb"\xff\x4f\xff\x51.{4}(.{4})(.{4})(.{4})(.{4}).{16}(.{2})", re.DOTALL)
"""Beginning of a JPEG 2000 code stream: far corner of the image, then its near corner, x before y; at last the channels."""
_TAG_KIND_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
"""Bytes of a value by its kind; all others have one."""

_SEGMENT_TAGS = (273, 279, 324, 325)
"""Positions and lengths of strips and of tiles."""

_SIGNIFICANT_BITS = re.compile(r"<(?:\w{1,16}:)?Pixels\s[^<>]*?\bSignificantBits=\"(\d{1,2})\"")


def page_orientation(page: TiffPage) -> int:
    """Return the EXIF orientation of a page."""
    return known_orientation(page.tags.valueof(_ORIENTATION_TAG))


def check_colors(page: TiffPage, path: Location) -> None:
    """Refuse colors that would have to be converted, and extra channels whose meaning would have to be guessed."""
    n_colors = _N_COLORS.get(page.photometric)
    kind = getattr(page.photometric, "name", str(page.photometric))
    # a JPEG decoder returns RGB; elsewhere the conversion would be ours to guess
    is_raw_luma = page.photometric == PHOTOMETRIC.YCBCR and page.compression != JPEG
    if n_colors is None or is_raw_luma:
        kind = {"SEPARATED": "CMYK", "CIELAB": "Lab"}.get(kind, kind)
        raise refuse_content(path, given=f"{kind} colors", needed="gray or RGB", remedy="convert the image to RGB and save it again")
    if page.photometric == PHOTOMETRIC.PALETTE and find_table(page) is None:
        raise refuse_damaged(path, "it holds the numbers of colors without a complete table of them")
    n_extra = page.samplesperpixel - n_colors
    if n_extra < 0 or n_extra > 1:
        raise refuse_content(
            path,
            given=f"{page.samplesperpixel} channels marked {kind}",
            needed="gray or RGB, with at most one alpha channel",
            remedy="save the channels as separate gray files or mark three of them as RGB",
        )
    if n_extra == 1 and tuple(page.extrasamples) != (EXTRASAMPLE.UNASSALPHA,):
        is_premultiplied = tuple(page.extrasamples) == (EXTRASAMPLE.ASSOCALPHA,)
        raise refuse_content(
            path,
            given="alpha multiplied into the colors" if is_premultiplied else "an extra channel of unstated meaning",
            needed="unassociated alpha or none",
            remedy="save the image without it or as PNG",
        )


def check_sample_type(page: TiffPage, path: Location) -> None:
    """Refuse samples that no supported type holds exactly, and compressions whose decoder is not known to be safe."""
    bits = page.bitspersample
    is_integer = page.sampleformat == SAMPLEFORMAT.UINT and bits in _UNSIGNED_BITS  # a tuple where the channels differ
    is_signed = page.sampleformat == SAMPLEFORMAT.INT and bits in (8, 16)
    is_float = page.sampleformat == SAMPLEFORMAT.IEEEFP and bits in (32, 64)
    if page.dtype is None or not (is_integer or is_signed or is_float):
        kind = _SAMPLE_KINDS.get(page.sampleformat, "complex or undefined")
        raise refuse_content(
            path,
            given=f"{bits}-bit {kind} samples",
            needed=f"one of {', '.join(SUPPORTED_DTYPES)}",
            remedy="convert the samples and save the image again",
        )
    # inverting needs a largest value, which floats do not have
    if page.photometric == PHOTOMETRIC.MINISWHITE and not is_integer:
        raise refuse_content(
            path,
            given="inverted (white is zero) floats or signed integers",
            needed="black as zero",
            remedy="invert the image and save it again",
        )
    if page.compression not in _COMPRESSIONS:
        name = getattr(page.compression, "name", str(page.compression))
        raise refuse_content(
            path,
            given=f"{name} compressed samples",
            needed="no, LZW, Deflate, ZSTD, LZMA, PackBits, JPEG or JPEG 2000 compression",
            remedy="save it again",
        )


def check_segments(page: TiffPage, path: Location, *, file_bytes: int, max_pixels: int = MAX_PIXELS) -> None:
    """Refuse a page whose strips or tiles are not all in the file, each as long as it can be: the library would fill gaps with zeros.

    Parameters
    ----------
    page : TiffPage
    path : Path
        For the message.
    file_bytes : int
        Size of the file.
    max_pixels : int, optional
        How many pixels a header may claim; more where only windows of the page will ever be in memory.
    """
    offsets, counts = page.dataoffsets, page.databytecounts
    n_bits = page.bitspersample * page.samplesperpixel
    decoded_bytes = page.imagelength * -(-page.imagewidth * n_bits // 8)
    check_claimed_size(
        path,
        height=page.imagelength,
        width=page.imagewidth,
        decoded_bytes=decoded_bytes,
        # by the size of the file, which is more than one page can have
        stored_bytes=None if page.compression in _UNBOUNDED else file_bytes,
        max_pixels=max_pixels,
    )
    if page.is_tiled and page.tilelength * page.tilewidth * page.tiledepth > MAX_PIXELS:
        raise refuse_damaged(path, f"tiles of {page.tilewidth} x {page.tilelength} pixels")
    n_segments = math.prod(page.chunked)
    # more than are needed are left alone
    if min(len(offsets), len(counts)) < n_segments:
        raise refuse_damaged(path, f"{min(len(offsets), len(counts))} strips or tiles where {n_segments} are needed")
    segments = zip(offsets[:n_segments], counts[:n_segments], strict=True)
    # tifffile takes 0 for a hole and fills it with zeros
    if any(start < 1 or count < 1 or start + count > file_bytes for start, count in segments):
        raise refuse_damaged(path, "a strip or tile is missing or lies behind the end of the file")
    if page.compression == COMPRESSION.NONE:
        _check_plain_rows(page, path, counts[:n_segments])


def _check_plain_rows(page: TiffPage, path: Location, counts: Sequence[int]) -> None:
    """Refuse uncompressed strips and tiles that are shorter than their rows."""
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, page.imagelength), page.imagewidth)
    # samples side by side in a strip; planes that are stored apart have strips of their own
    row_bytes = -(-columns * page.shaped[4] * page.bitspersample // 8)
    n_down = -(-page.imagelength // rows)
    for index, count in enumerate(counts):
        # the last strip of a plane may be shorter, a tile is always full
        is_last = not page.is_tiled and index % n_down == n_down - 1
        wanted = row_bytes * (page.imagelength - (n_down - 1) * rows if is_last else rows)
        if count < wanted:
            raise refuse_damaged(path, f"{count} bytes in a strip or tile where {wanted} are needed")


def claimed_bits(page: TiffPage) -> int | None:
    """Return how many bits of each integer sample are used, from the sample size or the OME description; None where unsaid."""
    if page.sampleformat != SAMPLEFORMAT.UINT or find_palette(page) is not None:
        return None
    if page.bitspersample not in (8, 16, 32):
        return int(page.bitspersample)
    claim = _SIGNIFICANT_BITS.search(page.description)
    return int(claim[1]) if claim is not None and 1 <= int(claim[1]) <= page.bitspersample else None


def check_coded_segment(encoded: bytes, compression: int, *, path: Location, place: str, largest: tuple[int, int]) -> None:
    """Refuse a strip or tile whose own header claims more pixels than it has room for, or whose end is missing.

    Parameters
    ----------
    encoded : bytes
    compression : int
        Strips and tiles of JPEG and JPEG 2000 are images with headers of their own.
    path : Path
        For the message.
    place : str
        What messages call the strip or tile.
    largest : tuple of int
        Rows and columns of a strip or tile.
    """
    sizes: list[tuple[int, int, int]] = []
    if compression == JPEG:
        header = read_jpeg_header(lambda start, n_bytes: encoded[start : start + n_bytes], path)
        check_jpeg_end(encoded, header, path, name=place)
        sizes = [(header.height, header.width, header.n_components)]
    elif compression in _JPEG_2000:
        # JPEG 2000 may be bare or in boxes: whatever looks like a stream has to fit
        sizes = _list_code_streams(encoded)
    for height, width, n_channels in sizes:
        if height > largest[0] or width > largest[1] or n_channels > MOST_CODED_CHANNELS:
            raise refuse_damaged(path, f"{place} claims {width} x {height} pixels of {n_channels} channels")


def _list_code_streams(encoded: bytes) -> list[tuple[int, int, int]]:
    """Return height, width and channels of every JPEG 2000 code stream that might be in some bytes; the decoder reads one of them."""
    claims = [[int.from_bytes(part, "big") for part in found.groups()] for found in _CODE_STREAM_START.finditer(encoded)]
    return [(bottom - top, right - left, n_channels) for right, bottom, left, top, n_channels in claims]


def check_pages(stream: BinaryIO, path: Location) -> None:
    """Refuse a chain of pages that runs in a circle or leaves the file, and tags that claim more than can be read in little memory.

    tifffile follows most circles without end, drops the pages of a truncated file, and takes memory for as many values as a tag counts.
    """
    file_bytes = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    start = stream.read(16).ljust(16, b"\0")
    order = "<" if start.startswith(b"II") else ">"
    # BigTIFF has the version 43
    is_big = 43 in start[2:4]
    count_form, entry_form, link_form = (order + form for form in (("Q", "HHQQ", "Q") if is_big else ("H", "HHII", "I")))
    (offset,) = struct.unpack_from(link_form, start, 8 if is_big else 4)
    seen: set[int] = set()
    while offset:
        if offset in seen:
            raise refuse_damaged(path, f"its pages run in a circle after page {len(seen)}")
        if len(seen) >= MAX_PLANES:
            raise refuse_content(path, given="too many pages", needed=f"at most {MAX_PLANES}", remedy="split the file")
        seen.add(offset)
        try:
            stream.seek(offset)
            (n_tags,) = struct.unpack(count_form, stream.read(struct.calcsize(count_form)))
            if n_tags > MOST_TAGS:
                raise refuse_content(path, given=f"{n_tags} tags in a page", needed=f"at most {MOST_TAGS}", remedy="export it again")
            table = stream.read(n_tags * struct.calcsize(entry_form))
            for tag, kind, count, _ in struct.iter_unpack(entry_form, table):
                _check_tag(tag, count, count * _TAG_KIND_BYTES.get(kind, 1), path, file_bytes=file_bytes)
            (offset,) = struct.unpack(link_form, stream.read(struct.calcsize(link_form)))
        except (struct.error, OverflowError) as error:
            raise refuse_damaged(path, f"the directory of page {len(seen)} lies behind the end of the file") from error


def _check_tag(tag: int, count: int, n_bytes: int, path: Location, *, file_bytes: int) -> None:
    if tag in _SEGMENT_TAGS and count > MOST_SEGMENTS:
        raise refuse_content(path, given=f"{count} strips or tiles", needed=f"at most {MOST_SEGMENTS} in a page", remedy="export it again")
    if n_bytes > (file_bytes if tag in _SEGMENT_TAGS else min(file_bytes, LARGEST_TAG_BYTES)):
        raise refuse_damaged(path, f"its tag {tag} claims {n_bytes} bytes")
