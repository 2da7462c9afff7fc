"""Write TIFF and pyramidal OME-TIFF of any size from windows."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from tifffile import PHOTOMETRIC, TiffWriter

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.metadata.ome_description import describe_for_xml
from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, count_blocks
from qmcif_engine.io.output.pyramid import LevelFile, halve, level_shapes
from qmcif_engine.io.tiff.tiff_exif import attach_exif, describe_exif
from qmcif_engine.io.tiff.tiff_image import DEFLATE_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qmcif_engine.io.metadata.embedding import Embedding
    from qmcif_engine.io.output.picture import Picture, PictureContent, WriteRun

LARGEST_CLASSIC_BYTES = 2**32 - 2**26
"""Files that may become larger are written as BigTIFF: offsets of classic TIFF end at 4 GiB, and samples may grow when compressed."""

_REDUCED_IMAGE = 1
_UNITS = {"inch": "INCH", "centimeter": "CENTIMETER"}


def write_tiled_tiff(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture as one level of tiles, losslessly compressed."""
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content, n_levels=1)
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=False, shaped=False) as writer:
        tiles = _tiles(content.picture, content, run=run)
        tags = describe_tags(embedding, is_big=is_big)
        writer.write(tiles, metadata=None, description=embedding.comment, **lay_out(content.picture, content), **tags)
    if embedding.exif is not None:
        attach_exif(stream, embedding.exif)


def write_ome_tiff(stream: BinaryIO, content: PictureContent, *, run: WriteRun) -> None:
    """Write a picture and its smaller copies as tiles, losslessly compressed, with OME-XML.

    Each level is made while the one before is written and waits in a temporary file, since the levels of a file lie one after the
    other: memory holds a few tiles, the scratch folder up to a third of the picture's bytes.
    """
    shapes = level_shapes(content.picture.shape)
    embedding, is_big = prepare_embedding(content), needs_bigtiff(content)
    axes = "CYX" if has_planes(content) else "YXS" if content.n_channels > 1 else "YX"
    with ExitStack() as cleanup, TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=True) as writer:
        level: Picture = content.picture
        options = describe_tags(embedding, is_big=is_big)
        options |= {"metadata": describe_for_xml(content, axes=axes), "subifds": len(shapes) - 1}
        for shape in [*shapes[1:], None]:
            smaller = None if shape is None else cleanup.enter_context(closing(LevelFile(shape, level.dtype, folder=run.scratch_folder)))
            tiles = _tiles(level, content, run=run, smaller=smaller)
            writer.write(tiles, **lay_out(level, content), **options)
            if smaller is not None:
                level = smaller
            options = {"metadata": None, "software": False, "subfiletype": _REDUCED_IMAGE}
    if embedding.exif is not None:
        attach_exif(stream, embedding.exif)


def count_tiles(content: PictureContent, *, n_levels: int | None = None) -> int:
    """Return how many tiles are written, over all planes and as many levels (None: all there are)."""
    n_planes = content.n_channels if has_planes(content) else 1
    return n_planes * sum(count_blocks(shape) for shape in level_shapes(content.picture.shape)[:n_levels])


def needs_bigtiff(content: PictureContent, *, n_levels: int | None = None) -> bool:
    """Tell whether the tiles, uncompressed, could take more than classic TIFF can address."""
    n_tiles = sum(count_blocks(shape) for shape in level_shapes(content.picture.shape)[:n_levels])
    return n_tiles * BLOCK_SIDE_PX**2 * content.n_channels * content.picture.dtype.itemsize > LARGEST_CLASSIC_BYTES


def has_planes(content: PictureContent) -> bool:
    """Tell whether each channel gets a page of its own, as dyes do; gray and RGB, with or without alpha, keep to one page."""
    return content.n_colors > 1 and not content.is_rgb


def _tiles(level: Picture, content: PictureContent, *, run: WriteRun, smaller: LevelFile | None = None) -> Iterator[NDArray[Any]]:
    """Yield the tiles of a level in the order of the file, and put their halves into the next level on the way."""
    planes: list[int | slice] = list(range(content.n_channels)) if has_planes(content) else [slice(None)]
    for plane in planes:
        for window, block in run.read(level):
            if smaller is not None and plane == planes[0]:
                smaller.put(window, halve(block, is_index=content.is_index))
            yield np.ascontiguousarray(block[..., plane])


def lay_out(level: Picture, content: PictureContent) -> dict[str, Any]:
    """Return shape, sample type, tiles and compression of a level as the options of tifffile."""
    height, width = level.shape[:2]
    is_planar, n_channels = has_planes(content), content.n_channels
    side_by_side = (height, width, n_channels) if n_channels > 1 else (height, width)
    return {
        "shape": (n_channels, height, width) if is_planar else side_by_side,
        "dtype": level.dtype,
        "tile": (BLOCK_SIDE_PX, BLOCK_SIDE_PX),
        "photometric": PHOTOMETRIC.RGB if content.is_rgb else PHOTOMETRIC.MINISBLACK,
        "planarconfig": None if is_planar or n_channels == 1 else "contig",
        "extrasamples": ("unassalpha",) if content.has_alpha and not is_planar else None,
        "compression": "zlib",
        "compressionargs": {"level": DEFLATE_LEVEL},
        "predictor": level.dtype.kind == "u",
        "maxworkers": 1,  # more of them would take tiles ahead, and memory with them
    }


def describe_tags(embedding: Embedding, *, is_big: bool) -> dict[str, Any]:
    """Return what is embedded as the options of tifffile that write it."""
    tags: dict[str, Any] = {"software": embedding.software or False, "iccprofile": embedding.profile}
    if embedding.resolution is not None:
        tags["resolution"] = (embedding.resolution.horizontal, embedding.resolution.vertical)
        tags["resolutionunit"] = _UNITS[embedding.resolution.unit]
    if embedding.exif is not None:
        tags["extratags"] = describe_exif(embedding.exif, is_big=is_big)
    return tags
