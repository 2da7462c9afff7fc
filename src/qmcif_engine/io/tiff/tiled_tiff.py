"""TIFF and OME-TIFF of any size, written from windows."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from tifffile import PHOTOMETRIC, TiffFile, TiffWriter

from qmcif_engine.io.metadata.embedding import Embedding, prepare_embedding
from qmcif_engine.io.metadata.exif import EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, lay_out_directory, split_exif
from qmcif_engine.io.metadata.ome_xml import describe_for_xml
from qmcif_engine.io.output.windowed_image import (
    BLOCK_SIDE_PX,
    ImageContent,
    LevelFile,
    WindowedImage,
    WriteRun,
    count_blocks,
    halve,
    level_shapes,
    read_whole,
)
from qmcif_engine.io.tiff.imagej import can_be_imagej, describe_for_imagej, describe_resolution, has_looks

LARGEST_CLASSIC_BYTES = 2**32 - 2**26
"""Files that may become larger are written as BigTIFF: offsets of classic TIFF end at 4 GiB, and samples may grow when compressed."""

LARGEST_STRIPPED_BYTES = 2**26
"""Images up to this size are read whole and written as TIFF strips, which every reader knows; larger ones as tiles."""

_DEFLATE_LEVEL = 1
"""Differences of neighboring samples hardly get smaller above it, and take four times as long."""

_COMPRESSED_AT_ONCE_BYTES = 2**22
"""Several threads compress blocks of so many bytes in all before they are written; the library's own default is half a gigabyte."""

_REDUCED_IMAGE = 1
_ASCII, _LONG, _LONG8 = 2, 4, 16
_FREE_TAGS = {EXIF_DIRECTORY_TAG: 34664, GPS_DIRECTORY_TAG: 34852}
"""Tags of no meaning right in front of those that the library refuses to write; they hold the places until they are renamed."""

_UNITS = {"inch": "INCH", "centimeter": "CENTIMETER"}


def write_tiff(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image or the images of a stack: for ImageJ where that can show more, else losslessly compressed.

    Small ones are written in strips, which every reader knows; large ones, and single ones with a page per channel, in tiles. The axes of a
    stack stand in the description, as the JSON that tifffile reads.
    """
    if _is_for_imagej(content):
        _write_imagej(stream, content, run=run)
        return
    if content.axis is not None:
        _write_stack(stream, content, run=run, is_ome=False)
        return
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content, n_levels=1)
    layout = lay_out(content.image, content, run=run, is_tiled=_is_tiled_image(content))
    # a fixed byte order: the same bytes on every machine
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=False, shaped=False) as writer:
        pieces = _pieces(content, run=run, is_tiled="tile" in layout)
        writer.write(pieces, metadata=None, description=embedding.comment, **layout, **describe_tags(embedding, is_big=is_big))
    _attach_exif(stream, embedding.exif)


def count_tiff_blocks(content: ImageContent) -> int:
    """Return how many blocks are read for TIFF."""
    is_tiled = (_is_tiled_image(content) if content.axis is None else _is_large(content)) and not _is_for_imagej(content)
    return len(content.images) * (count_tiles(content, n_levels=1) if is_tiled else count_blocks(content.image.shape))


def _is_for_imagej(content: ImageContent) -> bool:
    """Return whether an image or a stack gets the notes of ImageJ: where there is something for it to show, and it can."""
    # files of ImageJ are classic TIFF
    n_bytes = len(content.images) * math.prod(content.image.shape) * content.image.dtype.itemsize
    has_something = content.axis == "T" or has_planes(content) or (has_looks(content.metadata) and not content.is_rgb)
    return has_something and can_be_imagej(content) and not _is_large(content) and n_bytes <= LARGEST_CLASSIC_BYTES


def _name_axes(content: ImageContent) -> str:
    return (content.axis or "") + ("CYX" if has_planes(content) else "YXS" if content.n_channels > 1 else "YX")


def _write_imagej(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write one or several images uncompressed, with the notes of ImageJ."""
    embedding, layout = prepare_embedding(content), lay_out(content.image, content, run=run, is_tiled=False)
    shape = layout["shape"] if content.axis is None else (len(content.images), *layout["shape"])
    layout = {"shape": shape, "dtype": layout["dtype"], "photometric": layout["photometric"], "planarconfig": layout["planarconfig"]}
    tags = describe_tags(embedding, is_big=False) | describe_resolution(content.metadata)
    with TiffWriter(stream, bigtiff=False, byteorder="<", imagej=True) as writer:
        metadata = describe_for_imagej(content, axes=_name_axes(content), n_images=len(content.images))
        writer.write(_pieces(content, run=run, is_tiled=False), metadata=metadata, **layout, **tags)
    _attach_exif(stream, embedding.exif)


def _write_stack(stream: BinaryIO, content: ImageContent, *, run: WriteRun, is_ome: bool) -> None:
    """Write the images of a stack as the pages of one file, one at a time or, where they are large, in tiles."""
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content, n_levels=1)
    layout = lay_out(content.image, content, run=run, is_tiled=_is_large(content))
    layout["shape"] = (len(content.images), *layout["shape"])
    axes = _name_axes(content)
    metadata = describe_for_xml(content, axes=axes) if is_ome else {"axes": axes, "qmcif": dict(content.provenance)}
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=is_ome, shaped=not is_ome) as writer:
        pieces = _pieces(content, run=run, is_tiled="tile" in layout)
        writer.write(pieces, metadata=metadata, **layout, **describe_tags(embedding, is_big=is_big))
    _attach_exif(stream, embedding.exif)


def write_ome_tiff(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image and its smaller copies as tiles, or a stack without such copies, losslessly compressed, with OME-XML.

    Each level is made while the one before is written and waits in a temporary file, since the levels of a file lie one after the
    other: memory holds a few tiles, the scratch folder up to a third of the image's bytes.
    """
    if content.axis is not None:
        _write_stack(stream, content, run=run, is_ome=True)
        return
    shapes = level_shapes(content.image.shape)
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content)
    with ExitStack() as cleanup, TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=True) as writer:
        level: WindowedImage = content.image
        options = describe_tags(embedding, is_big=is_big)
        options |= {"metadata": describe_for_xml(content, axes=_name_axes(content)), "subifds": len(shapes) - 1}
        # the last level has no smaller one to make
        for shape in [*shapes[1:], None]:
            smaller = None if shape is None else cleanup.enter_context(closing(LevelFile(shape, level.dtype, folder=run.scratch_folder)))
            tiles = _tiles(level, content, run=run, smaller=smaller)
            writer.write(tiles, **lay_out(level, content, run=run, is_tiled=True), **options)
            if smaller is not None:
                level = smaller
            # only the first level carries the description; the others hang on it as sub-images
            options = {"metadata": None, "software": False, "subfiletype": _REDUCED_IMAGE}
    _attach_exif(stream, embedding.exif)


def count_ome_tiff_blocks(content: ImageContent) -> int:
    """Return how many blocks are read for OME-TIFF."""
    if content.axis is None:
        return count_tiles(content)
    return len(content.images) * (count_tiles(content, n_levels=1) if _is_large(content) else count_blocks(content.image.shape))


def count_tiles(content: ImageContent, *, n_levels: int | None = None) -> int:
    """Return how many tiles an image has, over all planes and as many levels (None: all there are)."""
    n_planes = content.n_channels if has_planes(content) else 1
    return n_planes * sum(count_blocks(shape) for shape in level_shapes(content.image.shape)[:n_levels])


def needs_bigtiff(content: ImageContent, *, n_levels: int | None = None) -> bool:
    """Return whether the tiles, uncompressed, could take more than classic TIFF can address."""
    n_tiles = sum(count_blocks(shape) for shape in level_shapes(content.image.shape)[:n_levels])
    # whole tiles: those at the border are padded in the file
    return len(content.images) * n_tiles * BLOCK_SIDE_PX**2 * content.n_channels * content.image.dtype.itemsize > LARGEST_CLASSIC_BYTES


def has_planes(content: ImageContent) -> bool:
    """Return whether each channel gets a page of its own, as dyes do; gray and RGB, with or without alpha, keep to one page."""
    return content.n_colors > 1 and not content.is_rgb


def _is_tiled_image(content: ImageContent) -> bool:
    return has_planes(content) or _is_large(content)


def _is_large(content: ImageContent) -> bool:
    shape = content.image.shape
    return shape[0] * shape[1] * content.n_channels * content.image.dtype.itemsize > LARGEST_STRIPPED_BYTES


def _pieces(content: ImageContent, *, run: WriteRun, is_tiled: bool) -> Iterator[NDArray[Any]]:
    """Yield the tiles or whole pages of all images, in the order of the file."""
    for image in content.images:
        if is_tiled:
            yield from _tiles(image, content, run=run)
        elif has_planes(content):
            yield from np.ascontiguousarray(np.moveaxis(read_whole(image, run), -1, 0))
        else:
            yield read_whole(image, run)


def _tiles(level: WindowedImage, content: ImageContent, *, run: WriteRun, smaller: LevelFile | None = None) -> Iterator[NDArray[Any]]:
    """Yield the tiles of a level in the order of the file, and put their halves into the next level on the way."""
    planes: list[int | slice] = list(range(content.n_channels)) if has_planes(content) else [slice(None)]
    for plane in planes:
        for window, block in run.read(level):
            # a level is read once for each plane of the file; its halves hold all channels after the first time
            if smaller is not None and plane == planes[0]:
                smaller.put(window, halve(block))
            yield np.ascontiguousarray(block[..., plane])


def lay_out(level: WindowedImage, content: ImageContent, *, run: WriteRun, is_tiled: bool) -> dict[str, Any]:
    """Return shape, sample type, tiles if any, and compression of a level as the options of tifffile."""
    height, width = level.shape[:2]
    is_planar, n_channels = has_planes(content), content.n_channels
    side_by_side = (height, width, n_channels) if n_channels > 1 else (height, width)
    tile = {"tile": (BLOCK_SIDE_PX, BLOCK_SIDE_PX)} if is_tiled else {}
    return tile | {
        "shape": (n_channels, height, width) if is_planar else side_by_side,
        "dtype": level.dtype,
        "photometric": PHOTOMETRIC.RGB if content.is_rgb else PHOTOMETRIC.MINISBLACK,
        "planarconfig": None if is_planar or n_channels == 1 else "contig",
        "extrasamples": ("unassalpha",) if content.has_alpha and not is_planar else None,
        "compression": "zlib",
        "compressionargs": {"level": _DEFLATE_LEVEL},
        # differences of neighbors compress integers; readers other than tifffile often lack the predictor of floats
        "predictor": level.dtype.kind in "ui",
        "maxworkers": max(run.n_workers, 1),
        "buffersize": _COMPRESSED_AT_ONCE_BYTES,
    }


def describe_tags(embedding: Embedding, *, is_big: bool) -> dict[str, Any]:
    """Return what is embedded as the options of tifffile that write it."""
    tags: dict[str, Any] = {"software": embedding.software or False, "iccprofile": embedding.profile}
    if embedding.resolution is not None:
        tags["resolution"] = (embedding.resolution.horizontal, embedding.resolution.vertical)
        tags["resolutionunit"] = _UNITS[embedding.resolution.unit]
    if embedding.exif is not None:
        tags["extratags"] = _describe_exif(embedding.exif, is_big=is_big)
    return tags


def _describe_exif(exif: bytes, *, is_big: bool) -> list[tuple[int, int, int, object, bool]]:
    """Return the tags of a fitted block as tifffile takes them for a file or BigTIFF, with places for its directories."""
    entries = split_exif(exif)
    tags: list[tuple[int, int, int, object, bool]] = [
        (tag, _ASCII, 0, text.encode("ascii", "replace"), True) for tag, text in entries[0].items() if isinstance(text, str)
    ]
    tags += [(free, _LONG8 if is_big else _LONG, 1, 0, True) for tag, free in _FREE_TAGS.items() if tag in entries]
    return tags


def _attach_exif(stream: BinaryIO, exif: bytes | None) -> None:
    """Append the directories of a block, if any, to a finished file, and let the places that `_describe_exif` kept lead to them."""
    if exif is None:
        return
    entries = split_exif(exif)
    # tifffile writes no directory of a camera: the places kept for it are found in the finished file
    stream.seek(0)
    with TiffFile(stream) as tiff:
        is_big = tiff.is_bigtiff
        places = {tag: tiff.pages.first.tags[free].offset for tag, free in _FREE_TAGS.items() if tag in entries}
    for tag, place in places.items():
        start = stream.seek(0, os.SEEK_END)
        # directories begin at even positions
        start += stream.write(bytes(start % 2))
        stream.write(lay_out_directory(entries[tag], start, tag=tag, is_big=is_big))
        # tags are sorted by number: the free one stands where the real one belongs, so that renaming keeps the order
        stream.seek(place)
        stream.write(struct.pack("<HHQQ" if is_big else "<HHII", tag, _LONG8 if is_big else _LONG, 1, start))
