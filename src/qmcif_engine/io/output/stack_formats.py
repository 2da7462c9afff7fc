"""Stacks of images written as multi-page TIFF, OME-TIFF and OME-Zarr, from windows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import zarr
from tifffile import TiffWriter

from qmcif_engine.io.metadata.embedding import prepare_embedding
from qmcif_engine.io.metadata.ome_description import describe_for_xml
from qmcif_engine.io.output.encoders import LARGEST_STRIPPED_BYTES
from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, block_windows, count_blocks
from qmcif_engine.io.output.pyramid import halve, level_shapes
from qmcif_engine.io.output.stack_blocks import BlockThreads
from qmcif_engine.io.tiff.tiff_exif import attach_exif
from qmcif_engine.io.tiff.tiled_tiff import LARGEST_CLASSIC_BYTES, describe_tags, has_planes, lay_out
from qmcif_engine.io.zarr.ome_zarr import Extremes, create_level, describe_group, load_double, store_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import PictureContent, WriteRun
    from qmcif_engine.stack.window import Window


def write_tiff_stack(stream: BinaryIO, contents: Sequence[PictureContent], *, run: WriteRun, n_workers: int, is_ome: bool) -> None:
    """Write the images of a stack as the pages of one file, losslessly compressed.

    Images of up to 64 MB are held one at a time and written in strips, which every reader knows; larger ones in tiles, of which memory
    holds a few. The axes stand in the description: as OME-XML, or as the JSON that tifffile reads.

    Parameters
    ----------
    stream : BinaryIO
    contents : sequence of PictureContent
        The images, all of one kind; the first of them speaks for all.
    run : WriteRun
    n_workers : int
        Blocks at once.
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
    pieces = (_tiles if _is_tiled(first) else _pages)(contents, BlockThreads(n_workers, run=run))
    with TiffWriter(stream, bigtiff=is_big, byteorder="<", ome=is_ome, shaped=not is_ome) as writer:
        writer.write(pieces, metadata=metadata, **layout, **tags)
    if embedding.exif is not None:
        attach_exif(stream, embedding.exif)


def count_tiff_stack_blocks(contents: Sequence[PictureContent]) -> int:
    """Return how many blocks `write_tiff_stack` reads."""
    n_readings = contents[0].n_channels if _is_tiled(contents[0]) and has_planes(contents[0]) else 1
    return len(contents) * n_readings * count_blocks(contents[0].picture.shape)


def write_ome_zarr_stack(folder: Path, contents: Sequence[PictureContent], *, run: WriteRun, n_workers: int) -> None:
    """Write the images of a stack and smaller copies of them into an empty folder, along an axis z; z itself is never reduced.

    Parameters
    ----------
    folder : Path
        Exists and is empty.
    contents, run, n_workers
        As for `write_tiff_stack`.
    """
    first, n_images = contents[0], len(contents)
    group = zarr.open_group(folder, mode="w-", zarr_format=3 if run.ome_zarr_version == "0.5" else 2)
    shapes = level_shapes(first.picture.shape)
    arrays = [create_level(group, str(number), first, shape, n_images=n_images) for number, shape in enumerate(shapes)]
    threads, extremes = BlockThreads(n_workers, run=run), Extremes()
    for ends in threads.map(partial(_store_part, contents=contents, array=arrays[0]), _places(n_images, shapes[0])):
        extremes.include(ends)
    for larger, smaller, shape in zip(arrays, arrays[1:], shapes[1:], strict=False):
        for _ in threads.map(partial(_store_smaller_part, larger=larger, smaller=smaller), _places(n_images, shape)):
            pass
    group.attrs.update(describe_group(first, version=run.ome_zarr_version, n_levels=len(shapes), extremes=extremes, n_images=n_images))


def count_zarr_stack_blocks(contents: Sequence[PictureContent]) -> int:
    """Return how many blocks `write_ome_zarr_stack` writes, over all levels."""
    return len(contents) * sum(count_blocks(shape) for shape in level_shapes(contents[0].picture.shape))


def _places(n_images: int, shape: tuple[int, ...]) -> Iterator[tuple[int, Window]]:
    return ((number, window) for number in range(n_images) for window in block_windows(shape))


def _store_part(place: tuple[int, Window], *, contents: Sequence[PictureContent], array: zarr.Array[Any]) -> NDArray[np.float64]:
    """Write a block of an image, which is a chunk of its own, and return the least and the largest of its color samples."""
    number, window = place
    content, extremes = contents[number], Extremes()
    block = content.picture.read(window)
    extremes.include(block[..., : content.n_colors] if content.has_alpha else block)
    store_block(array, window, block, number=number)
    return np.array([extremes.low, extremes.high])


def _store_smaller_part(place: tuple[int, Window], *, larger: zarr.Array[Any], smaller: zarr.Array[Any]) -> None:
    number, window = place
    store_block(smaller, window, halve(load_double(larger, window, number=number), is_index=False), number=number)


def _pages(contents: Sequence[PictureContent], threads: BlockThreads) -> Iterator[NDArray[Any]]:
    for content in contents:
        samples = threads.read_whole(content.picture)
        if has_planes(content):
            yield from (np.ascontiguousarray(samples[..., channel]) for channel in range(content.n_channels))
        else:
            yield samples


def _tiles(contents: Sequence[PictureContent], threads: BlockThreads) -> Iterator[NDArray[Any]]:
    """Yield the tiles of all pages; those of a stack with a page for each channel are read once a channel, to hold few at a time."""
    channels: list[int | slice] = list(range(contents[0].n_channels)) if has_planes(contents[0]) else [slice(None)]
    for content in contents:
        for channel in channels:
            for block in threads.read(content.picture):
                yield np.ascontiguousarray(block[..., channel] if block.ndim == 3 else block)


def _is_tiled(content: PictureContent) -> bool:
    shape = content.picture.shape
    return shape[0] * shape[1] * content.n_channels * content.picture.dtype.itemsize > LARGEST_STRIPPED_BYTES


def _stack_bytes(contents: Sequence[PictureContent]) -> int:
    """Return the samples of all images in bytes, whole tiles where there are tiles."""
    first = contents[0]
    n_pixels = count_blocks(first.picture.shape) * BLOCK_SIDE_PX**2
    return len(contents) * n_pixels * first.n_channels * first.picture.dtype.itemsize
