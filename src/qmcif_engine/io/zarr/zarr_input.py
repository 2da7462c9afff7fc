"""Zarr arrays and OME-Zarr images, read chunk by chunk."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.input.array_source import ArraySource, guess_axes
from qmcif_engine.io.input.frame_source import Copying
from qmcif_engine.io.input.image_file import translate_failures
from qmcif_engine.io.input.segments import SegmentCache, fill_from_segments
from qmcif_engine.io.metadata.acquisition import name_axes, plan_axes
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.zarr.ngff import find_image, name_ngff_axes
from qmcif_engine.io.zarr.zarr_checks import check_stored, open_checked_array
from qmcif_engine.stack.image_metadata import ImageMetadata

logger = logging.getLogger(__name__)


def open_zarr(path: Location, *, image: int | str | None, axes: str | None, cache: SegmentCache, strict_chunks: bool) -> ArraySource:
    """Open the image of an OME-Zarr group at its full size, or a plain array.

    Parameters
    ----------
    path : Path
        Folder of the group or the array.
    image : int or str, optional
        Number counted from 1, or name, of the image of a folder that holds several, as bioformats2raw writes them.
    axes : str, optional
        One letter an axis, where the metadata do not name them or name them wrongly.
    cache : SegmentCache
        Where decoded chunks are kept.
    strict_chunks : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value. Chunks that a shard's index calls empty
        always stand for it.
    """
    name = repr(str(path))
    folder, described = find_image(path.absolute(), path, image)
    array, dimension_names, is_compressed = open_checked_array(folder, path)
    found = described.axes if described is not None else name_ngff_axes([{"name": each} for each in dimension_names])
    if len(found) != len(array.shape):
        # the user's names decide; unknown letters only stand for the number of axes
        found = guess_axes(name, array.shape) if axes is None else "?" * len(array.shape)
    plan = plan_axes(name, *name_axes(name, shape=array.shape, found=found, wanted=axes))
    if isinstance(folder, Path):  # on a server, listing all that is stored would take too many requests
        check_stored(folder, array, path)
    read_block = ChunkReader(array, folder, path=path, cache=cache, is_strict=strict_chunks).read
    metadata = described.metadata if described is not None else ImageMetadata()
    source = ArraySource(read_block, plan, dtype=array.dtype, name=name, metadata=metadata, paths=(path,))
    # chunks that are not compressed are read as quickly as a copy of them
    source.copying = Copying.WORTHWHILE if is_compressed else Copying.NEVER
    return source


class ChunkReader:
    """Blocks of an array; each chunk is decoded once for all blocks that are read soon after each other.

    Parameters
    ----------
    array : zarr.Array
    folder : Path
        Of the array, absolute.
    path : Path
        What messages call the input.
    cache : SegmentCache
    is_strict : bool
        Whether a chunk that is not stored is refused, instead of standing for the fill value.
    """

    def __init__(self, array: zarr.Array[Any], folder: Location, *, path: Location, cache: SegmentCache, is_strict: bool) -> None:
        self._array, self._folder, self._path, self._cache, self._is_strict = array, folder, path, cache, is_strict
        # stored as big-endian by some programs; the engine computes in native order
        self._dtype, self._has_warned = array.dtype.newbyteorder("="), False

    def read(self, block: tuple[slice, ...]) -> NDArray[Any]:
        """Return the samples of one block."""
        samples = np.empty([part.stop - part.start for part in block], self._dtype)
        fill_from_segments(samples, block, lengths=self._array.chunks, fetch=self._fetch)
        return samples

    def _fetch(self, corner: tuple[int, ...]) -> NDArray[Any]:
        return self._cache.fetch((self._folder, corner), partial(translate_failures, lambda _: self._decode(corner), self._path))

    def _decode(self, corner: tuple[int, ...]) -> NDArray[Any]:
        chunk = np.asarray(self._array[tuple(slice(start, start + part) for start, part in zip(corner, self._array.chunks, strict=True))])
        # every sample of a chunk that is not stored is the fill value, so only such chunks are looked for
        if np.array_equal(chunk, np.full_like(chunk, self._array.fill_value or 0), equal_nan=chunk.dtype.kind == "f"):
            self._report_missing(corner)
        return chunk.astype(self._dtype, copy=False)

    def _report_missing(self, corner: tuple[int, ...]) -> None:
        """Refuse a missing chunk, or note the first one: most are empty and were left out, but an interrupted copy looks the same."""
        file_shape = self._array.shards or self._array.chunks
        key = self._array.metadata.encode_chunk_key(tuple(start // part for start, part in zip(corner, file_shape, strict=True)))
        if (self._folder / key).is_file():
            return
        if self._is_strict:
            msg = (
                f"{str(self._path)!r} lacks the chunk {key}; all chunks are needed; copy it again, or leave out --strict-chunks "
                "(strict_chunks) where its program leaves out empty ones"
            )
            raise ImageFileError(msg)
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%r lacks the chunk %s, and maybe others; the fill value stands for what is missing; --strict-chunks refuses it",
                str(self._path),
                key,
            )
