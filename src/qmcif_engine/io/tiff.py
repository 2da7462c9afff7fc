"""Decode and encode single-image TIFF: integers to 16 bits, floats, gray or RGB, strips or tiles, interleaved or planar."""

from __future__ import annotations

import logging
import math
import os
import re
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from tifffile import COMPRESSION, EXTRASAMPLE, PHOTOMETRIC, SAMPLEFORMAT, TiffFile, TiffPage, imwrite

from qmcif_engine.io.image_file import MAX_PIXELS, assemble_image, check_claimed_size, refuse_content, refuse_damaged
from qmcif_engine.io.orientation import settle_orientation

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.image_file import ImageFile

logging.getLogger("tifffile").addHandler(logging.NullHandler())
# Its complaints about broken tags reach whoever configured logging, but are not printed beside our one line that says the same.

TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

_ORIENTATION_TAG = 274
_JPEG = int(COMPRESSION.JPEG)
_UNBOUNDED = frozenset({int(COMPRESSION.ZSTD), int(COMPRESSION.LZMA)})
_COMPRESSIONS = _UNBOUNDED | {
    _JPEG,
    int(COMPRESSION.NONE),
    int(COMPRESSION.LZW),
    int(COMPRESSION.ADOBE_DEFLATE),
    int(COMPRESSION.DEFLATE),
    int(COMPRESSION.PACKBITS),
}
_N_COLORS: dict[int, int] = {PHOTOMETRIC.MINISBLACK: 1, PHOTOMETRIC.MINISWHITE: 1, PHOTOMETRIC.RGB: 3, PHOTOMETRIC.YCBCR: 3}
_SAMPLE_KINDS: dict[int, str] = {
    SAMPLEFORMAT.UINT: "unsigned integer",
    SAMPLEFORMAT.INT: "signed integer",
    SAMPLEFORMAT.IEEEFP: "float",
}
_LARGEST_N_REDUCED_PAGES = 32
_VIRTUAL_STACK = re.compile(r"^ImageJ=.*?^images=(\d{1,9})$", re.DOTALL | re.MULTILINE)
_SIGNIFICANT_BITS = re.compile(r"<(?:\w{1,16}:)?Pixels\s[^<>]*?\bSignificantBits=\"(\d{1,2})\"")


def read_tiff(stream: BinaryIO, path: Path) -> ImageFile:
    """Return the picture of a TIFF file; smaller copies of it (previews, pyramid levels) are left alone.

    Only the first page is ever decoded, through the page itself: the library's notion of a series follows metadata to other files.
    """
    stream.seek(0)  # the library takes the current position for the start of the file
    with TiffFile(stream) as tiff:
        page = tiff.pages.first
        _refuse_more_pages(tiff, path)
        _check_colors(page, path)
        _check_sample_type(page, path)
        _check_segments(page, path, file_bytes=os.fstat(stream.fileno()).st_size)
        planes = page.asarray(squeeze=False, maxworkers=1)
    samples_last = np.moveaxis(planes[:, 0, :, :, 0], 0, -1) if planes.shape[0] > 1 else planes[0, 0]
    channels = samples_last.astype(samples_last.dtype.newbyteorder("="), copy=False)
    if page.photometric == PHOTOMETRIC.MINISWHITE:
        channels = np.concatenate([2**page.bitspersample - 1 - channels[..., :1], channels[..., 1:]], axis=-1)
    return assemble_image(
        channels,
        orientation=settle_orientation(page.tags.valueof(_ORIENTATION_TAG)),
        significant_bits=_claimed_bits(page),
    )


def _refuse_more_pages(tiff: TiffFile, path: Path) -> None:
    page = tiff.pages.first
    virtual = _VIRTUAL_STACK.match(page.description)
    is_stack = page.imagedepth > 1 or page.is_reduced or (virtual is not None and int(virtual[1]) > 1)
    if is_stack or _has_second_picture(tiff):
        raise refuse_content(path, given="more than one image", needed="one image a file", remedy="pass one file per image for now")


def _has_second_picture(tiff: TiffFile) -> bool:
    """Tell whether a page behind the first is more than a smaller copy; only so many are looked at, since a chain may be a circle."""
    for index in range(1, _LARGEST_N_REDUCED_PAGES):
        try:
            page = tiff.pages.get(index)
        except IndexError:
            return False
        if not (isinstance(page, TiffPage) and page.is_reduced):
            return True
    return False


def _check_colors(page: TiffPage, path: Path) -> None:
    n_colors = _N_COLORS.get(page.photometric)
    kind = getattr(page.photometric, "name", str(page.photometric))
    is_raw_luma = page.photometric == PHOTOMETRIC.YCBCR and page.compression != _JPEG
    if n_colors is None or is_raw_luma:
        kind = {"PALETTE": "palette", "SEPARATED": "CMYK", "CIELAB": "Lab"}.get(kind, kind)
        raise refuse_content(path, given=f"{kind} colors", needed="gray or RGB", remedy="convert the image to RGB and save it again")
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


def _check_sample_type(page: TiffPage, path: Path) -> None:
    bits = page.bitspersample
    is_integer = page.sampleformat == SAMPLEFORMAT.UINT and bits in range(2, 17)  # a tuple where the channels differ
    is_float = page.sampleformat == SAMPLEFORMAT.IEEEFP and bits in (32, 64)
    if page.dtype is None or not (is_integer or is_float):
        kind = _SAMPLE_KINDS.get(page.sampleformat, "complex or undefined")
        raise refuse_content(
            path,
            given="bilevel (1-bit) samples" if bits == 1 else f"{bits}-bit {kind} samples",
            needed="uint8, uint16, float32 or float64",
            remedy="convert the samples and save the image again",
        )
    if page.photometric == PHOTOMETRIC.MINISWHITE and not is_integer:
        raise refuse_content(
            path, given="inverted (white is zero) floats", needed="black as zero", remedy="invert the image and save it again"
        )
    if page.compression not in _COMPRESSIONS:
        name = getattr(page.compression, "name", str(page.compression))
        raise refuse_content(
            path,
            given=f"{name} compressed samples",
            needed="no, LZW, Deflate, ZSTD, LZMA, PackBits or JPEG compression",
            remedy="save it again",
        )


def _check_segments(page: TiffPage, path: Path, *, file_bytes: int) -> None:
    """Refuse a page whose strips or tiles are not all in the file: the library would fill the gaps with zeros."""
    offsets, counts = page.dataoffsets, page.databytecounts
    n_bits = page.bitspersample * page.samplesperpixel
    decoded_bytes = page.imagelength * -(-page.imagewidth * n_bits // 8)
    check_claimed_size(
        path,
        height=page.imagelength,
        width=page.imagewidth,
        decoded_bytes=decoded_bytes,
        stored_bytes=None if page.compression in _UNBOUNDED else file_bytes,
    )
    if page.compression == COMPRESSION.NONE and sum(counts) < decoded_bytes:
        raise refuse_damaged(path, f"{sum(counts)} bytes of samples where {decoded_bytes} are needed")
    if page.is_tiled and page.tilelength * page.tilewidth * page.tiledepth > MAX_PIXELS:
        raise refuse_damaged(path, f"tiles of {page.tilewidth} x {page.tilelength} pixels")
    n_segments = math.prod(page.chunked)
    if min(len(offsets), len(counts)) < n_segments:
        raise refuse_damaged(path, f"{min(len(offsets), len(counts))} strips or tiles where {n_segments} are needed")
    segments = zip(offsets[:n_segments], counts[:n_segments], strict=True)
    if any(start < 1 or count < 1 or start + count > file_bytes for start, count in segments):
        raise refuse_damaged(path, "a strip or tile is missing or lies behind the end of the file")


def _claimed_bits(page: TiffPage) -> int | None:
    """Return how many bits of each integer sample are used, from the sample size or the OME description; None where unsaid."""
    if page.sampleformat != SAMPLEFORMAT.UINT:
        return None
    if page.bitspersample not in (8, 16):
        return int(page.bitspersample)
    claim = _SIGNIFICANT_BITS.search(page.description)
    return int(claim[1]) if claim is not None and 1 <= int(claim[1]) <= page.bitspersample else None


def write_tiff(stream: BinaryIO, channels: NDArray[Any]) -> None:
    """Write channels of shape (H, W) or (H, W, 2 to 4), losslessly compressed, without time, program name or shape metadata."""
    n_channels = channels.shape[2] if channels.ndim == 3 else 1
    imwrite(
        stream,
        channels,
        photometric=PHOTOMETRIC.RGB if n_channels > 2 else PHOTOMETRIC.MINISBLACK,
        planarconfig="contig" if n_channels > 1 else None,
        extrasamples=("unassalpha",) if n_channels in (2, 4) else None,
        compression="zlib",
        predictor=channels.dtype.kind == "u",
        metadata=None,
        software=False,
    )
