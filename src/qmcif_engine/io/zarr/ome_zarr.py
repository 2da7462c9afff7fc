"""Write OME-Zarr pyramids of any size from windows.

The arrays are written with zarr itself. ome-zarr-py streams too, but from dask arrays only, its means of integers are cut off instead
of rounded, and it brings clients of object stores with it, as ngff-zarr brings WebAssembly. What is left to take from either, for a
picture of two axes, are the few lines of metadata below, which the tests read back with ome-zarr-py and check by the specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.output.picture import BLOCK_SIDE_PX, count_blocks
from qmcif_engine.io.output.pyramid import halve, level_shapes
from qmcif_engine.io.zarr.ome_attributes import Extremes, describe_group, name_axes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import zarr
    from numpy.typing import NDArray

    from qmcif_engine.io.output.picture import Picture, PictureContent, WriteRun
    from qmcif_engine.stack.window import Window

_COMPRESSION_LEVEL = 3


def write_ome_zarr(folder: Path, content: PictureContent, *, run: WriteRun, images: Sequence[Picture] | None = None) -> None:
    """Write a picture or a stack of images, and smaller copies, into an empty folder, as one group of chunked arrays.

    Color is stored in planes with a channel axis (c, y, x); gray has the axes (y, x). Chunks hold all channels of a block and carry a
    checksum. Each level is made of the one before, read back from the store: memory holds a few chunks. Everything is written, black
    chunks too, so that a missing chunk always means a damaged store.

    Parameters
    ----------
    folder : Path
        Exists and is empty.
    content : PictureContent
        The picture, or the first image of the stack.
    run : WriteRun
        Its version of OME-Zarr is stored as Zarr 3 (0.5) or, for older readers, as Zarr 2 (0.4).
    images : sequence of Picture, optional
        All images of a stack, which lie along an axis z; z itself is never reduced.
    """
    import zarr  # slow to load, and few outputs need it

    group = zarr.open_group(folder, mode="w-", zarr_format=3 if run.ome_zarr_version == "0.5" else 2)
    shapes = level_shapes(content.picture.shape)
    n_images = None if images is None else len(images)
    arrays = [create_level(group, str(level), shape, dtype=content.picture.dtype, n_images=n_images) for level, shape in enumerate(shapes)]
    extremes = Extremes()
    numbers: Sequence[int | None] = [None] if images is None else range(len(images))
    for number, picture in zip(numbers, images or [content.picture], strict=True):
        for window, block in run.read(picture):
            extremes.include(block[..., : content.n_colors] if content.has_alpha else block)
            _store_block(arrays[0], window, block, number=number)
    for larger, smaller, shape in zip(arrays, arrays[1:], shapes[1:], strict=False):
        for number in numbers:
            for window in run.windows(shape):
                _store_block(smaller, window, halve(_load_double(larger, window, number=number), is_index=content.is_index), number=number)
                run.count_block()
    group.attrs.update(describe_group(content, version=run.ome_zarr_version, n_levels=len(shapes), extremes=extremes, n_images=n_images))


def count_chunks(content: PictureContent, *, n_images: int = 1) -> int:
    """Return how many chunks are written, over all images and levels."""
    return n_images * sum(count_blocks(shape) for shape in level_shapes(content.picture.shape))


def create_level(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    *,
    dtype: np.dtype[Any],
    n_images: int | None = None,
    chunk_px: int = BLOCK_SIDE_PX,
    shard_px: tuple[int, int] | None = None,
) -> zarr.Array[Any]:
    """Make the empty array of one level, of shape (H, W) or (H, W, C); the images of a stack lie along an axis z.

    Where `shard_px` is given, the chunks of a window of that height and width share a file.
    """
    is_latest = group.metadata.zarr_format == 3
    options = {"level": _COMPRESSION_LEVEL, "checksum": True}
    compressor: Any = {"name": "zstd", "configuration": options} if is_latest else {"id": "zstd", **options}
    channels, depth = shape[2:], () if n_images is None else (n_images,)
    return group.create_array(
        name,
        shape=(*channels, *depth, *shape[:2]),
        chunks=(*channels, *(1 for _ in depth), chunk_px, chunk_px),
        shards=None if shard_px is None else (*channels, *(1 for _ in depth), *shard_px),
        dtype=dtype,
        compressors=compressor,  # not Blosc: its threads store their parts in the order in which they happen to finish
        fill_value=0,
        dimension_names=name_axes(shape, n_images) if is_latest else None,
        chunk_key_encoding={"name": "default" if is_latest else "v2", "separator": "/"},
        config={"write_empty_chunks": True},
    )


def _store_block(array: zarr.Array[Any], window: Window, block: NDArray[Any], *, number: int | None) -> None:
    """Write a window of a picture, or of one image of a stack."""
    depth = () if number is None else (number,)
    array[(..., *depth, *window.slices)] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block


def _load_double(larger: zarr.Array[Any], window: Window, *, number: int | None) -> NDArray[Any]:
    """Return the samples of the larger level whose means make up a window of the smaller."""
    rows, columns = (slice(2 * side.start, 2 * side.stop) for side in window.slices)
    planes = np.asarray(larger[(..., *(() if number is None else (number,)), rows, columns)])
    return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes
