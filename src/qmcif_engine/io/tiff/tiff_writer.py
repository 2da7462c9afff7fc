"""TIFF and OME-TIFF of any size, written from windows.

ImageJ takes the samples of all planes to follow each other without gaps, so what it can show is written uncompressed and without tiles,
with notes of its own. What these have no place for stands in the text *Info*, one line each, and provenance in the line ``qmcif=``.
"""

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

from qmcif_engine.io.metadata.embedding import Embedding, encode_provenance, is_storable_density, prepare_embedding
from qmcif_engine.io.metadata.exif import EXIF_DIRECTORY_TAG, GPS_DIRECTORY_TAG, lay_out_directory, split_exif
from qmcif_engine.io.metadata.ome_xml import describe_for_xml, name_channels
from qmcif_engine.io.metadata.units import UNIT_SYMBOLS
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
from qmcif_engine.stack.image_metadata import ImageMetadata

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

_IMAGEJ_DTYPES = ("uint8", "uint16", "int16", "float32")


def write_tiff(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image or the images of a stack: for ImageJ where that can show more, else losslessly compressed.

    Small ones are written in strips, which every reader knows; large ones, and single ones with a page per channel, in tiles. The axes of a
    stack stand in the description, as the JSON that tifffile reads.
    """
    if _is_for_imagej(content):
        _write_pages(stream, content, run=run, kind="imagej", metadata=_describe_for_imagej(content))
    elif content.axis is not None:
        _write_pages(stream, content, run=run, kind="shaped", metadata={"axes": _name_axes(content), "qmcif": dict(content.provenance)})
    else:
        _write_pages(stream, content, run=run, kind=None, metadata=None)


def write_ome_tiff(stream: BinaryIO, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image and its smaller copies as tiles, or a stack without such copies, losslessly compressed, with OME-XML.

    Each level is made while the one before is written and waits in a temporary file, since the levels of a file lie one after the
    other: memory holds a few tiles, the scratch folder up to a third of the image's bytes.
    """
    metadata = describe_for_xml(content, axes=_name_axes(content))
    if content.axis is not None:
        _write_pages(stream, content, run=run, kind="ome", metadata=metadata)
        return
    shapes = level_shapes(content.image.shape)
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content)
    with ExitStack() as cleanup, TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=True) as writer:
        level: WindowedImage = content.image
        options = _describe_tags(embedding, is_big=is_big) | {"metadata": metadata, "subifds": len(shapes) - 1}
        # the last level has no smaller one to make
        for shape in [*shapes[1:], None]:
            smaller = None if shape is None else cleanup.enter_context(closing(LevelFile(shape, level.dtype, folder=run.scratch_folder)))
            tiles = _tiles(level, content, run=run, smaller=smaller)
            writer.write(tiles, **_lay_out(level, content, run=run, is_tiled=True), **options)
            if smaller is not None:
                level = smaller
            # only the first level carries the description; the others hang on it as sub-images
            options = {"metadata": None, "software": False, "subfiletype": _REDUCED_IMAGE}
    _attach_exif(stream, embedding.exif)


def _write_pages(stream: BinaryIO, content: ImageContent, *, run: WriteRun, kind: str | None, metadata: dict[str, Any] | None) -> None:
    """Write the images as the pages of one file, one at a time or, where they are large, in tiles; without metadata only provenance."""
    # files of ImageJ are classic TIFF
    embedding, is_big = prepare_embedding(content), kind != "imagej" and needs_bigtiff(content, n_levels=1)
    layout, tags = _lay_out(content.image, content, run=run, is_tiled=_is_tiled(content)), _describe_tags(embedding, is_big=is_big)
    if content.axis is not None:
        layout["shape"] = (len(content.images), *layout["shape"])
    if kind == "imagej":
        layout = {name: layout[name] for name in ("shape", "dtype", "photometric", "planarconfig")}
        tags |= _describe_resolution(content.metadata)
    # a fixed byte order: the same bytes on every machine
    kinds: dict[str, Any] = {name: name == kind for name in ("imagej", "ome", "shaped")}
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", **kinds) as writer:
        comment = embedding.comment if metadata is None else None
        writer.write(_pieces(content, run=run), metadata=metadata, description=comment, **layout, **tags)
    _attach_exif(stream, embedding.exif)


def count_tiff_blocks(content: ImageContent) -> int:
    """Return how many blocks are read for TIFF."""
    return len(content.images) * (_count_tiles(content, n_levels=1) if _is_tiled(content) else count_blocks(content.image.shape))


def count_ome_tiff_blocks(content: ImageContent) -> int:
    """Return how many blocks are read for OME-TIFF."""
    return _count_tiles(content) if content.axis is None else count_tiff_blocks(content)


def _count_tiles(content: ImageContent, *, n_levels: int | None = None) -> int:
    """Return how many tiles an image has, over all planes and as many levels (None: all there are)."""
    n_planes = content.n_channels if _has_planes(content) else 1
    return n_planes * sum(count_blocks(shape) for shape in level_shapes(content.image.shape)[:n_levels])


def needs_bigtiff(content: ImageContent, *, n_levels: int | None = None) -> bool:
    """Return whether the tiles, uncompressed, could take more than classic TIFF can address."""
    n_tiles = sum(count_blocks(shape) for shape in level_shapes(content.image.shape)[:n_levels])
    # whole tiles: those at the border are padded in the file
    return len(content.images) * n_tiles * BLOCK_SIDE_PX**2 * content.n_channels * content.image.dtype.itemsize > LARGEST_CLASSIC_BYTES


def _has_planes(content: ImageContent) -> bool:
    """Return whether each channel gets a page of its own, as dyes do; gray and RGB, with or without alpha, keep to one page."""
    return content.n_colors > 1 and not content.is_rgb


def _is_large(content: ImageContent) -> bool:
    return math.prod(content.image.shape) * content.image.dtype.itemsize > LARGEST_STRIPPED_BYTES


def _is_tiled(content: ImageContent) -> bool:
    return _is_large(content) or (content.axis is None and _has_planes(content) and not _is_for_imagej(content))


def _is_for_imagej(content: ImageContent) -> bool:
    """Return whether an image or a stack gets the notes of ImageJ: where there is something for it to show, and it can."""
    metadata, dtype = content.metadata, content.image.dtype
    # ImageJ knows RGB at 8 bits only, and no opacity
    if content.has_alpha or dtype.name not in (("uint8",) if content.is_rgb else _IMAGEJ_DTYPES) or _is_large(content):
        return False
    looks = metadata.channel_names or metadata.channel_colors or metadata.channel_limits or metadata.channel_emissions_nm
    has_something = content.axis == "T" or _has_planes(content) or (looks and not content.is_rgb)
    return bool(has_something) and len(content.images) * math.prod(content.image.shape) * dtype.itemsize <= LARGEST_CLASSIC_BYTES


def _name_axes(content: ImageContent) -> str:
    return (content.axis or "") + ("CYX" if _has_planes(content) else "YXS" if content.n_channels > 1 else "YX")


def _pieces(content: ImageContent, *, run: WriteRun) -> Iterator[NDArray[Any]]:
    """Yield the tiles or whole pages of all images, in the order of the file."""
    for image in content.images:
        if _is_tiled(content):
            yield from _tiles(image, content, run=run)
        elif _has_planes(content):
            yield from np.ascontiguousarray(np.moveaxis(read_whole(image, run), -1, 0))
        else:
            yield read_whole(image, run)


def _tiles(level: WindowedImage, content: ImageContent, *, run: WriteRun, smaller: LevelFile | None = None) -> Iterator[NDArray[Any]]:
    """Yield the tiles of a level in the order of the file, and put their halves into the next level on the way."""
    planes: list[int | slice] = list(range(content.n_channels)) if _has_planes(content) else [slice(None)]
    for plane in planes:
        for window, block in run.read(level):
            # a level is read once for each plane of the file; its halves hold all channels after the first time
            if smaller is not None and plane == planes[0]:
                smaller.put(window, halve(block))
            yield np.ascontiguousarray(block[..., plane])


def _lay_out(level: WindowedImage, content: ImageContent, *, run: WriteRun, is_tiled: bool) -> dict[str, Any]:
    """Return shape, sample type, tiles if any, and compression of a level as the options of tifffile."""
    is_planar, n_channels, size = _has_planes(content), content.n_channels, level.shape[:2]
    tile = {"tile": (BLOCK_SIDE_PX, BLOCK_SIDE_PX)} if is_tiled else {}
    return tile | {
        "shape": (n_channels, *size) if is_planar else (*size, n_channels) if n_channels > 1 else size,
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


def _describe_for_imagej(content: ImageContent) -> dict[str, Any]:
    """Return the metadata that tifffile turns into the notes of ImageJ."""
    metadata, n_colors, axes = content.metadata, content.n_colors, _name_axes(content)
    has_colors = len(metadata.channel_colors) == n_colors and not content.is_rgb
    described: dict[str, Any] = {"axes": axes, "mode": "composite" if has_colors and n_colors > 1 else "grayscale"}
    if metadata.unit is not None and metadata.pixel_size is not None:
        described["unit"] = "um" if metadata.unit == "micrometer" else UNIT_SYMBOLS.get(metadata.unit, metadata.unit)
        if metadata.z_step is not None and "Z" in axes:
            described["spacing"] = metadata.z_step
    if metadata.time_step is not None and "T" in axes:
        described["finterval"] = metadata.time_step
    if has_colors:
        # tables that lead from black to a color
        full = [np.frombuffer(bytes.fromhex(color[1:]), np.uint8) for color in metadata.channel_colors]
        described["LUTs"] = [np.rint(color[:, None] * np.arange(256) / 255).astype(np.uint8) for color in full]
    if len(metadata.channel_limits) == n_colors:
        described["Ranges"] = tuple(limit for pair in metadata.channel_limits for limit in pair)
    if metadata.channel_names and not content.is_rgb:
        # one for every plane, channels running fastest
        described["Labels"] = name_channels(content) * len(content.images)
    texts = {"Name": metadata.image_name, "Description": metadata.description}
    # a note is one line: line breaks become spaces
    notes = [f"{name} = {' '.join(text.split())}" for name, text in texts.items() if text]
    if len(metadata.channel_emissions_nm) == n_colors:
        known = enumerate(metadata.channel_emissions_nm, 1)
        notes += [f"Emission {number} = {wavelength:g} nm" for number, wavelength in known if wavelength is not None]
    if notes:
        described["Info"] = "\n".join(notes) + "\n"
    if content.provenance:
        described["qmcif"] = encode_provenance(content.provenance)
    return described


def _describe_resolution(metadata: ImageMetadata) -> dict[str, Any]:
    """Return the size of a pixel as options of tifffile: pixels a unit, the unit being that of ImageJ's notes."""
    if metadata.unit is None or metadata.pixel_size is None or not all(map(is_storable_density, metadata.pixel_size)):
        return {}
    height, width = metadata.pixel_size
    # tags that named inches would contradict the notes
    return {"resolution": (1 / width, 1 / height), "resolutionunit": "NONE"}


def _describe_tags(embedding: Embedding, *, is_big: bool) -> dict[str, Any]:
    """Return what is embedded as the options of tifffile that write it, with places for the directories of cameras."""
    tags: dict[str, Any] = {"software": embedding.software or False, "iccprofile": embedding.profile}
    if embedding.resolution is not None:
        tags["resolution"] = embedding.resolution[:2]
        tags["resolutionunit"] = embedding.resolution.unit.upper()
    if embedding.exif is not None:
        entries = split_exif(embedding.exif)
        texts = [(tag, _ASCII, 0, text.encode("ascii", "replace"), True) for tag, text in entries[0].items() if isinstance(text, str)]
        tags["extratags"] = [*texts, *((_FREE_TAGS[tag], _LONG8 if is_big else _LONG, 1, 0, True) for tag in entries if tag)]
    return tags


def _attach_exif(stream: BinaryIO, exif: bytes | None) -> None:
    """Append the directories of a block, if any, to a finished file, and let the places that `_describe_tags` kept lead to them."""
    if exif is None:
        return
    entries = split_exif(exif)
    # tifffile writes no directory of a camera: the places kept for it are found in the finished file
    stream.seek(0)
    with TiffFile(stream) as tiff:
        is_big = tiff.is_bigtiff
        places = {tag: tiff.pages.first.tags[_FREE_TAGS[tag]].offset for tag in entries if tag}
    for tag, place in places.items():
        start = stream.seek(0, os.SEEK_END)
        # directories begin at even positions
        start += stream.write(bytes(start % 2))
        stream.write(lay_out_directory(entries[tag], start, tag=tag, is_big=is_big))
        # tags are sorted by number: the free one stands where the real one belongs, so that renaming keeps the order
        stream.seek(place)
        stream.write(struct.pack("<HHQQ" if is_big else "<HHII", tag, _LONG8 if is_big else _LONG, 1, start))
