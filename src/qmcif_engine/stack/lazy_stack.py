"""A stack as one dask array, so that a viewer reads only what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dask.array as da
import numpy as np

from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from qmcif_engine.arrays import SampleArray
    from qmcif_engine.stack.stack import Stack

CHUNK_SIDE_PX = 1024


def stack_to_dask(stack: Stack) -> da.Array:
    """Return a stack as a lazy array, shape (N, H, W) or (N, H, W, C), whose chunks are read when they are asked for."""
    chunks = (1, CHUNK_SIDE_PX, CHUNK_SIDE_PX, *stack.image_shape[2:])
    meta = np.empty((0,) * len(chunks), stack.dtype)
    # a name at random: dask would pickle the stack to find one, images in memory and all
    lazy: da.Array = da.from_array(_StackArray(stack), chunks=chunks, name=False, getitem=_read_chunk, meta=meta)
    return lazy


class _StackArray:
    """What dask wants to know of an array."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.dtype = stack, stack.dtype
        self.shape = (stack.n_images, *stack.image_shape)
        self.ndim = len(self.shape)


def _read_chunk(array: _StackArray, chunk: tuple[slice, ...]) -> SampleArray:
    number, rows, columns = chunk[:3]
    # chunks hold one image each
    return array.stack.read(number.start, Window(rows.start, columns.start, rows.stop, columns.stop))[np.newaxis]
