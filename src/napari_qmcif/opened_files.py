"""Open written results as lazy arrays, so that the viewer reads only what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import tifffile
import zarr
from numpy.typing import NDArray

PYRAMID_SUFFIX = ".ome.zarr"
CHUNK_SIDE_PX = 1024


def open_pyramid(folder: Path) -> list[Any]:
    """Return the levels of an OME-Zarr picture of ours, fine to coarse, channels last.

    Wrapped in dask: of a bare Zarr pyramid napari fetches more than it shows.
    """
    group = zarr.open_group(folder, mode="r")
    attributes: Any = dict(group.attrs)
    (picture,) = attributes["ome"]["multiscales"]
    has_channels = picture["axes"][0]["name"] == "c"
    levels = [da.from_zarr(group[dataset["path"]]) for dataset in picture["datasets"]]
    return [da.moveaxis(level, 0, -1) for level in levels] if has_channels else levels


def open_tiles(path: Path, level: int = 0) -> Any:  # noqa: ANN401 - a dask array
    """Return one level of a TIFF as a lazy array; the file is open only while a part of it is read."""
    with tifffile.TiffFile(path) as file:
        found = file.series[0].levels[level]
        shape, dtype = found.shape, found.dtype
    chunks = da.core.normalize_chunks(tuple(min(side, CHUNK_SIDE_PX) for side in shape), shape, dtype=dtype)
    return da.map_blocks(_read_block, path=path, level=level, chunks=chunks, dtype=dtype, meta=np.empty((0,) * len(shape), dtype))


def _read_block(*, path: Path, level: int, block_info: Any = None) -> NDArray[Any]:  # noqa: ANN401 - dask's description
    region = tuple(slice(*bounds) for bounds in block_info[None]["array-location"])
    with tifffile.TiffFile(path) as file, file.series[0].aszarr(level=level) as store:
        return np.asarray(zarr.open_array(store, mode="r")[region])
