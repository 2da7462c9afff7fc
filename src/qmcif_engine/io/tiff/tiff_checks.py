"""Checks of TIFF pages before anything trusts their chain, or decodes them wrongly, partly or dangerously."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO

import numpy as np
from tifffile import COMPRESSION, EXTRASAMPLE, PHOTOMETRIC, SAMPLEFORMAT, TiffPage

from qmcif_engine.io.input.image_file import check_claimed_size, refuse_content, refuse_damaged
from qmcif_engine.io.limits import LARGEST_TAG_BYTES, MAX_PIXELS, MAX_PLANES, MOST_CODED_CHANNELS, MOST_SEGMENTS, MOST_TAGS
from qmcif_engine.io.pictures import check_jpeg_end, read_jpeg_header
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.tiff_metadata import find_table
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

JPEG = int(COMPRESSION.JPEG)
_JPEG_2000 = (COMPRESSION.APERIO_JP2000_RGB, COMPRESSION.JPEG2000)
# a smooth image may become nearly nothing: no ratio of sizes shows that a header lies
_UNBOUNDED = (*_JPEG_2000, COMPRESSION.ZSTD, COMPRESSION.LZMA)
_BOUNDED = (COMPRESSION.NONE, COMPRESSION.LZW, COMPRESSION.ADOBE_DEFLATE, COMPRESSION.DEFLATE, COMPRESSION.PACKBITS, JPEG)
_GRAY, _COLORS = (PHOTOMETRIC.MINISBLACK, PHOTOMETRIC.MINISWHITE, PHOTOMETRIC.PALETTE), (PHOTOMETRIC.RGB, PHOTOMETRIC.YCBCR)
_COLOR_NAMES = {"SEPARATED": "CMYK", "CIELAB": "Lab"}
_KINDS: dict[int, str] = {SAMPLEFORMAT.UINT: "unsigned integer", SAMPLEFORMAT.INT: "signed integer", SAMPLEFORMAT.IEEEFP: "float"}
# cameras of 10, 12 and 14 bits pack their samples; the library unpacks them
_BITS: dict[int, tuple[int, ...]] = {SAMPLEFORMAT.UINT: (*range(1, 17), 32), SAMPLEFORMAT.INT: (8, 16), SAMPLEFORMAT.IEEEFP: (32, 64)}
_CODE_STREAM_START = re.compile(rb"\xff\x4f\xff\x51.{4}(.{4})(.{4})(.{4})(.{4}).{16}(.{2})", re.DOTALL)
"""Beginning of a JPEG 2000 code stream: far corner of the image, then its near corner, x before y; at last the channels."""

_VALUE_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
"""Bytes of a value of a tag by its kind; all other kinds have one."""

_SEGMENT_TAGS = (273, 279, 324, 325)
"""Positions and lengths of strips and of tiles."""


def check_content(page: TiffPage, path: Location) -> None:
    """Refuse colors and samples that no supported type holds exactly, and compressions whose decoder is not known to be safe."""
    if page.photometric == PHOTOMETRIC.PALETTE and find_table(page) is None:
        raise refuse_damaged(path, "it holds the numbers of colors without a complete table of them")
    fault = next(chain([] if is_multichannel(page) else _list_color_faults(page), _list_sample_faults(page)), None)
    if fault is not None:
        given, needed, remedy = fault
        raise refuse_content(path, given=given, needed=needed, remedy=remedy)


def is_multichannel(page: TiffPage) -> bool:
    """Return whether the samples of a pixel are channels of a microscope, marked as gray, rather than colors."""
    return bool(page.photometric == PHOTOMETRIC.MINISBLACK and page.samplesperpixel > 2)


def _list_color_faults(page: TiffPage) -> Iterator[tuple[str, str, str]]:
    """Yield what is given, what is needed and the remedy for colors and extra channels whose meaning would have to be guessed."""
    n_colors = 1 if page.photometric in _GRAY else 3 if page.photometric in _COLORS else 0
    kind = getattr(page.photometric, "name", str(page.photometric))
    # a JPEG decoder returns RGB; elsewhere the conversion would be ours to guess
    if n_colors == 0 or (page.photometric == PHOTOMETRIC.YCBCR and page.compression != JPEG):
        yield f"{_COLOR_NAMES.get(kind, kind)} colors", "gray or RGB", "convert the image to RGB and save it again"
    elif not 0 <= page.samplesperpixel - n_colors <= 1:
        remedy = "save the channels as separate gray files or mark three of them as RGB"
        yield f"{page.samplesperpixel} channels marked {kind}", "gray or RGB, with at most one alpha channel", remedy
    elif page.samplesperpixel > n_colors and tuple(page.extrasamples) != (EXTRASAMPLE.UNASSALPHA,):
        is_premultiplied = tuple(page.extrasamples) == (EXTRASAMPLE.ASSOCALPHA,)
        given = "alpha multiplied into the colors" if is_premultiplied else "an extra channel of unstated meaning"
        yield given, "unassociated alpha or none", "save the image without it or as PNG"


def _list_sample_faults(page: TiffPage) -> Iterator[tuple[str, str, str]]:
    """Yield what is given, what is needed and the remedy for samples that cannot be kept."""
    # bits are a tuple where the channels differ
    if page.dtype is None or page.bitspersample not in _BITS.get(page.sampleformat, ()):
        kind = _KINDS.get(page.sampleformat, "complex or undefined")
        needed = f"one of {', '.join(SUPPORTED_DTYPES)}"
        yield f"{page.bitspersample}-bit {kind} samples", needed, "convert the samples and save the image again"
    # inverting needs a largest value, which floats do not have
    if page.photometric == PHOTOMETRIC.MINISWHITE and page.sampleformat != SAMPLEFORMAT.UINT:
        given = "inverted (white is zero) floats or signed integers"
        yield given, "black as zero", "invert the image and save it again"
    if page.compression not in _BOUNDED + _UNBOUNDED:
        name = getattr(page.compression, "name", str(page.compression))
        needed = "no, LZW, Deflate, ZSTD, LZMA, PackBits, JPEG or JPEG 2000 compression"
        yield f"{name} compressed samples", needed, "save it again"


def segment_shape(page: TiffPage) -> tuple[int, int]:
    """Return rows and columns of a strip or tile."""
    return (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, page.imagelength), page.imagewidth)


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
    n_bits = page.bitspersample * page.samplesperpixel
    check_claimed_size(
        path,
        height=page.imagelength,
        width=page.imagewidth,
        decoded_bytes=page.imagelength * -(-page.imagewidth * n_bits // 8),
        # by the size of the file, which is more than one page can have
        stored_bytes=None if page.compression in _UNBOUNDED else file_bytes,
        max_pixels=max_pixels,
    )
    rows, columns = segment_shape(page)
    if page.is_tiled and rows * columns * page.tiledepth > MAX_PIXELS:
        raise refuse_damaged(path, f"tiles of {columns} x {rows} pixels")
    n_segments, n_found = math.prod(page.chunked), min(len(page.dataoffsets), len(page.databytecounts))
    # more than are needed are left alone
    if n_found < n_segments:
        raise refuse_damaged(path, f"{n_found} strips or tiles where {n_segments} are needed")
    starts, counts = (np.array(values[:n_segments], np.int64) for values in (page.dataoffsets, page.databytecounts))
    # tifffile takes 0 for a hole and fills it with zeros
    if ((starts < 1) | (counts < 1) | (starts > file_bytes - counts)).any():
        raise refuse_damaged(path, "a strip or tile is missing or lies behind the end of the file")
    if page.compression == COMPRESSION.NONE:
        # samples side by side in a strip; planes that are stored apart have strips of their own
        wanted = np.full(n_segments, rows * -(-columns * page.shaped[4] * page.bitspersample // 8))
        if not page.is_tiled:
            # the last strip of a plane may be shorter, a tile is always full
            n_down = -(-page.imagelength // rows)
            wanted[n_down - 1 :: n_down] -= (n_down * rows - page.imagelength) * (wanted[0] // rows)
        short = np.flatnonzero(counts < wanted)
        if short.size:
            raise refuse_damaged(path, f"{counts[short[0]]} bytes in a strip or tile where {wanted[short[0]]} are needed")


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
        # bare or in boxes: whatever looks like a code stream has to fit, since the decoder reads one of them
        claims = [[int.from_bytes(part, "big") for part in found.groups()] for found in _CODE_STREAM_START.finditer(encoded)]
        sizes = [(bottom - top, right - left, n_channels) for right, bottom, left, top, n_channels in claims]
    for height, width, n_channels in sizes:
        if height > largest[0] or width > largest[1] or n_channels > MOST_CODED_CHANNELS:
            raise refuse_damaged(path, f"{place} claims {width} x {height} pixels of {n_channels} channels")


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
                _check_tag(tag, count, count * _VALUE_BYTES.get(kind, 1), path, file_bytes=file_bytes)
            (offset,) = struct.unpack(link_form, stream.read(struct.calcsize(link_form)))
        except (struct.error, OverflowError) as error:
            raise refuse_damaged(path, f"the directory of page {len(seen)} lies behind the end of the file") from error


def _check_tag(tag: int, count: int, n_bytes: int, path: Location, *, file_bytes: int) -> None:
    if tag in _SEGMENT_TAGS and count > MOST_SEGMENTS:
        raise refuse_content(path, given=f"{count} strips or tiles", needed=f"at most {MOST_SEGMENTS} in a page", remedy="export it again")
    if n_bytes > (file_bytes if tag in _SEGMENT_TAGS else min(file_bytes, LARGEST_TAG_BYTES)):
        raise refuse_damaged(path, f"its tag {tag} claims {n_bytes} bytes")
