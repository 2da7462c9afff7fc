"""Show a stack as one dask array, so that a viewer reads only what it shows."""

from __future__ import annotations

import uuid
from itertools import product
from typing import TYPE_CHECKING

import dask.array as da
import numpy as np

from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from qmcif_engine.kernels.array_types import SampleArray
    from qmcif_engine.stack.stack import Stack

CHUNK_SIDE_PX = 1024


def stack_to_dask(stack: Stack) -> da.Array:
    """Return a stack as a lazy array whose chunks are read when they are asked for.

    The graph is written out: `dask.array.map_blocks` would pickle the stack to name the array, images in memory and all.

    Parameters
    ----------
    stack : Stack

    Returns
    -------
    dask array, shape (N, H, W) or (N, H, W, C)
    """
    rows, columns = (range(0, side, CHUNK_SIDE_PX) for side in stack.image_shape[:2])
    name, behind = f"stack-{uuid.uuid4().hex}", (0,) * len(stack.image_shape[2:])
    reader = _Reader(stack)
    graph = {
        (name, number, row // CHUNK_SIDE_PX, column // CHUNK_SIDE_PX, *behind): (reader, number, row, column)
        for number, row, column in product(range(stack.n_images), rows, columns)
    }
    heights, widths = (_cut(side) for side in stack.image_shape[:2])
    chunks = ((1,) * stack.n_images, heights, widths, *((side,) for side in stack.image_shape[2:]))
    return da.Array(graph, name, chunks, meta=np.empty((0,) * len(chunks), stack.dtype))


def _cut(side_px: int) -> tuple[int, ...]:
    return tuple(min(CHUNK_SIDE_PX, side_px - start) for start in range(0, side_px, CHUNK_SIDE_PX))


class _Reader:
    """Read one chunk; a plain function would show dask the stack, which it might take for an array."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._side_px = stack, CHUNK_SIDE_PX

    def __call__(self, number: int, top: int, left: int) -> SampleArray:
        height, width = self._stack.image_shape[:2]
        window = Window(top, left, min(top + self._side_px, height), min(left + self._side_px, width))
        return self._stack.read(number, window)[np.newaxis]
