"""Read blocks of dask arrays, in the thread that asks for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidImageError

if TYPE_CHECKING:
    from dask.array import Array
    from numpy.typing import NDArray


def find_dask_array(candidate: object) -> DaskArray | None:
    """Return what reads a dask array, None for anything else, without loading dask where nobody else did."""
    module = sys.modules.get("dask.array")
    return DaskArray(candidate) if module is not None and isinstance(candidate, module.Array) else None


class DaskArray:
    """Compute blocks of a dask array.

    Each block is computed by dask's synchronous scheduler in the calling thread, without callbacks: parallelism is decided on
    elsewhere, once, and a progress bar that the user has set up for other computations is left alone.
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        if any(np.isnan(length) for length in array.shape):
            msg = f"a dask array of unknown shape {array.shape} was given; known lengths are needed: call compute_chunk_sizes() first"
            raise InvalidImageError(msg)
        self.shape: tuple[int, ...] = tuple(int(length) for length in array.shape)
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)

    def read(self, block: tuple[slice, ...]) -> NDArray[Any]:
        """Compute one block."""
        return np.asarray(self._array[block].compute(scheduler="synchronous", callbacks=()))
