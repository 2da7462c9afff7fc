"""Stacks of images written as multi-page TIFF and OME-TIFF, from windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from tifffile import TiffWriter

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.metadata.ome_description import describe_for_xml
from qmcif_engine.io.output.encoders import LARGEST_STRIPPED_BYTES
from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, count_blocks, read_whole
from qmcif_engine.io.tiff.tiff_exif import attach_exif
from qmcif_engine.io.tiff.tiled_tiff import LARGEST_CLASSIC_BYTES, describe_tags, has_planes, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import PictureContent, WriteRun


def write_tiff_stack(stream: BinaryIO, contents: Sequence[PictureContent], *, run: WriteRun, is_ome: bool) -> None:
    """Write the images of a stack as the pages of one file, losslessly compressed.

    Images of up to 64 MB are held one at a time and written in strips, which every reader knows; larger ones in tiles, of which memory
    holds a few. The axes stand in the description: as OME-XML, or as the JSON that tifffile reads.

    Parameters
    ----------
    stream : BinaryIO
    contents : sequence of PictureContent
        The images, all of one kind; the first of them speaks for all.
    run : WriteRun
    is_ome : bool
    """
    first = contents[0]
    axes = "ZCYX" if has_planes(first) else "ZYXS" if first.n_channels > 1 else "ZYX"
    embedding, is_big = prepare_embedding(first), _stack_bytes(contents) > LARGEST_CLASSIC_BYTES
    layout, tags = lay_out(first.picture, first), describe_tags(embedding, is_big=is_big)
    layout["shape"] = (len(contents), *layout["shape"])
    if not _is_tiled(first):
        del layout["tile"]
    metadata = describe_for_xml(first, axes=axes) if is_ome else {"axes": axes, "qmcif": dict(first.provenance)}
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=is_ome, shaped=not is_ome) as writer:
        pieces = _tiles(contents, run) if _is_tiled(first) else _pages(contents, run)
        writer.write(pieces, metadata=metadata, **layout, **tags)
    if embedding.exif is not None:
        attach_exif(stream, embedding.exif)


def count_tiff_stack_blocks(contents: Sequence[PictureContent]) -> int:
    """Return how many blocks `write_tiff_stack` reads."""
    n_readings = contents[0].n_channels if _is_tiled(contents[0]) and has_planes(contents[0]) else 1
    return len(contents) * n_readings * count_blocks(contents[0].picture.shape)


def _pages(contents: Sequence[PictureContent], run: WriteRun) -> Iterator[NDArray[Any]]:
    for content in contents:
        samples = read_whole(content.picture, run)
        if has_planes(content):
            yield from (np.ascontiguousarray(samples[..., channel]) for channel in range(content.n_channels))
        else:
            yield samples


def _tiles(contents: Sequence[PictureContent], run: WriteRun) -> Iterator[NDArray[Any]]:
    """Yield the tiles of all pages; those of a stack with a page for each channel are read once a channel, to hold few at a time."""
    channels: list[int | slice] = list(range(contents[0].n_channels)) if has_planes(contents[0]) else [slice(None)]
    for content in contents:
        for channel in channels:
            for _, block in run.read(content.picture):
                yield np.ascontiguousarray(block[..., channel] if block.ndim == 3 else block)


def _is_tiled(content: PictureContent) -> bool:
    shape = content.picture.shape
    return shape[0] * shape[1] * content.n_channels * content.picture.dtype.itemsize > LARGEST_STRIPPED_BYTES


def _stack_bytes(contents: Sequence[PictureContent]) -> int:
    """Return the samples of all images in bytes, whole tiles where there are tiles."""
    first = contents[0]
    n_pixels = count_blocks(first.picture.shape) * BLOCK_SIDE_PX**2
    return len(contents) * n_pixels * first.n_channels * first.picture.dtype.itemsize
