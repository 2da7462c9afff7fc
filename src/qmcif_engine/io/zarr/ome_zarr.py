"""OME-Zarr pyramids of any size, written from windows.

The arrays are written with zarr itself. ome-zarr-py streams too, but from dask arrays only, its means of integers are cut off instead
of rounded, and it brings clients of object stores with it, as ngff-zarr brings WebAssembly. What is left to take from either, for an
image of two axes, are the few lines of metadata below, which the tests read back with ome-zarr-py and check by the specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.io.output.pyramid import halve, level_shapes
from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX, count_blocks
from qmcif_engine.io.zarr.ome_attributes import Extremes, describe_group, name_axes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import zarr
    from numpy.typing import NDArray

    from qmcif_engine.io.output.windowed_image import ImageContent, StackAxis, WindowedImage, WriteRun
    from qmcif_engine.stack.window import Window

# the default of zstd
_COMPRESSION_LEVEL = 3


def write_ome_zarr(
    folder: Path, content: ImageContent, *, run: WriteRun, images: Sequence[WindowedImage] | None = None, axis: StackAxis = "Z"
) -> None:
    """Write an image or a stack of images, and smaller copies, into an empty folder, as one group of chunked arrays.

    Color is stored in planes with a channel axis (c, y, x); gray has the axes (y, x). Chunks hold all channels of a block and carry a
    checksum. Each level is made of the one before, read back from the store: memory holds a few chunks. Everything is written, black
    chunks too, so that a missing chunk always means a damaged store.

    Parameters
    ----------
    folder : Path
        Exists and is empty.
    content : ImageContent
        The image, or the first image of the stack.
    run : WriteRun
    images : sequence of WindowedImage, optional
        All images of a stack, which lie along z or t; these are never reduced.
    axis : str
        Which of the two.
    """
    import zarr  # slow to load, and few outputs need it

    # w-: fails where something is there
    group = zarr.open_group(folder, mode="w-", zarr_format=3)
    shapes = level_shapes(content.image.shape)
    depth = None if images is None else (axis, len(images))
    arrays = [create_level(group, str(level), shape, dtype=content.image.dtype, depth=depth) for level, shape in enumerate(shapes)]
    extremes = Extremes(content.n_colors)
    numbers: Sequence[int | None] = [None] if images is None else range(len(images))
    for number, image in zip(numbers, images or [content.image], strict=True):
        for window, block in run.read(image):
            extremes.include(block[..., : content.n_colors] if content.has_alpha else block)
            _store_block(arrays[0], window, block, index=_locate(axis, number))
    for larger, smaller, shape in zip(arrays, arrays[1:], shapes[1:], strict=False):
        for number in numbers:
            for window in run.windows(shape):
                index = _locate(axis, number)
                _store_block(smaller, window, halve(_load_double(larger, window, index=index), is_index=content.is_index), index=index)
                run.count_block()
    # last: readers take a group without them for none of OME's
    group.attrs.update(describe_group(content, n_levels=len(shapes), extremes=extremes, axis=None if images is None else axis))


def count_chunks(content: ImageContent, *, n_images: int = 1) -> int:
    """Return how many chunks are written, over all images and levels."""
    return n_images * sum(count_blocks(shape) for shape in level_shapes(content.image.shape))


def create_level(
    group: zarr.Group,
    name: str,
    shape: tuple[int, ...],
    *,
    dtype: np.dtype[Any],
    depth: tuple[StackAxis, int] | None = None,
    chunk_px: int = BLOCK_SIDE_PX,
    shard_px: tuple[int, int] | None = None,
) -> zarr.Array[Any]:
    """Make the empty array of one level, of shape (H, W) or (H, W, C); `depth` says along what, and how many, images of a stack lie.

    Where `shard_px` is given, the chunks of a window of that height and width share a file.
    """
    compressor: Any = {"name": "zstd", "configuration": {"level": _COMPRESSION_LEVEL, "checksum": True}}
    channels = shape[2:]
    # t comes before the channels, z behind them
    before, behind = ((depth[1],), ()) if depth and depth[0] == "T" else ((), (depth[1],) if depth else ())
    return group.create_array(
        name,
        shape=(*before, *channels, *behind, *shape[:2]),
        chunks=(*(1 for _ in before), *channels, *(1 for _ in behind), chunk_px, chunk_px),
        shards=None if shard_px is None else (*(1 for _ in before), *channels, *(1 for _ in behind), *shard_px),
        dtype=dtype,
        compressors=compressor,  # not Blosc: its threads store their parts in the order in which they happen to finish
        fill_value=0,
        dimension_names=name_axes(shape, depth[0] if depth else None),
        config={"write_empty_chunks": True},
    )


def _locate(axis: StackAxis, number: int | None) -> tuple[Any, ...]:
    """Return the index of one image of a stack before its rows and columns, all channels included."""
    if number is None:
        return (...,)
    return (number, ...) if axis == "T" else (..., number)


def _store_block(array: zarr.Array[Any], window: Window, block: NDArray[Any], *, index: tuple[Any, ...]) -> None:
    """Write a window of an image, or of one image of a stack."""
    array[(*index, *window.slices)] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block


def _load_double(larger: zarr.Array[Any], window: Window, *, index: tuple[Any, ...]) -> NDArray[Any]:
    """Return the samples of the larger level whose means make up a window of the smaller."""
    rows, columns = (slice(2 * side.start, 2 * side.stop) for side in window.slices)
    planes = np.asarray(larger[(*index, rows, columns)])
    return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes
