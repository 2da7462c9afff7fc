"""Windows of one TIFF page: only the strips or tiles that a window touches are decoded, by tifffile's own decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tifffile import COMPRESSION, PHOTOMETRIC, TiffPage

from qmcif_engine.io.input.image_file import refuse_damaged
from qmcif_engine.io.input.segments import OpenFile, SegmentCache, fill_from_segments
from qmcif_engine.io.remote import RemoteFile
from qmcif_engine.io.remote_path import Location
from qmcif_engine.io.tiff.tiff_checks import JPEG, check_coded_segment, segment_shape
from qmcif_engine.io.tiff.tiff_metadata import find_palette
from qmcif_engine.stack.window import Window

LARGEST_SEGMENT_BYTES = 32 * 2**20
"""A page with larger compressed strips or tiles is decoded once and kept in a scratch store instead of being read by window."""

_PLAIN_BITS = (8, 16, 32, 64)


@dataclass(frozen=True, slots=True, eq=False)
class TiffPlane:
    """Where the samples of one page are, and nothing of the open file: it is read in any thread.

    Attributes
    ----------
    path : Path
        What messages call the file.
    number : int
        Which page, for messages and as part of the key of the cache.
    shape : tuple of int
        Separate sample planes, height, width, samples beside each other.
    stored_dtype : dtype
        With the byte order of the file.
    segment_shape : tuple of int
        Rows and columns of a strip or tile.
    offsets, counts : ndarray of int64
        Where each strip or tile begins, and how long it is.
    decode : callable
        tifffile's decoder for this kind of page, with its JPEG tables where there are any.
    compression : int
        By which it is known whether each segment is an image with a header of its own, which may lie.
    has_plain_rows : bool
        Whether rows lie in the file as they are in memory, so that parts of strips can be read.
    white_level : int
        What inverted gray samples are subtracted from; 0 where black is zero.
    palette : ndarray, shape (entries, 3), or None
        The colors that the stored numbers stand for, where they are no samples.
    """

    path: Location
    number: int
    shape: tuple[int, int, int, int]
    stored_dtype: np.dtype[Any]
    segment_shape: tuple[int, int]
    offsets: NDArray[np.int64]
    counts: NDArray[np.int64]
    decode: Callable[..., tuple[NDArray[Any] | None, tuple[int, ...], tuple[int, ...]]]
    compression: int
    has_plain_rows: bool
    white_level: int
    palette: NDArray[Any] | None = None

    @property
    def decoded_dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers in native byte order."""
        return self.stored_dtype.newbyteorder("=")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Sample type in native byte order."""
        return self.decoded_dtype if self.palette is None else self.palette.dtype

    @property
    def is_windowed(self) -> bool:
        """Whether a window can be read without decoding much more than it."""
        rows, columns = self.segment_shape
        return self.has_plain_rows or rows * columns * self.shape[3] * self.stored_dtype.itemsize <= LARGEST_SEGMENT_BYTES

    def shifted(self, n_bytes: int, *, number: int) -> TiffPlane:
        """Return the plane that lies so many bytes behind this one and has no directory of its own."""
        return replace(self, offsets=self.offsets + n_bytes, number=number)

    def read(self, window: Window, *, file: OpenFile | RemoteFile, cache: SegmentCache) -> NDArray[Any]:
        """Return the samples of one window, shape (h, w, number of samples), in native byte order.

        Parameters
        ----------
        window : Window
        file : OpenFile or RemoteFile
            As it was when its directory was read: offsets of another version would read senseless samples.
        cache : SegmentCache
            Where decoded strips and tiles are kept.
        """
        planes = np.empty((self.shape[0], *window.shape, self.shape[3]), self.decoded_dtype)
        if self.has_plain_rows:
            self._fill_from_rows(planes, window, file)
        else:
            self._fill_from_segments(planes, window, file, cache)
        samples = np.moveaxis(planes, 0, 2).reshape(*window.shape, self.shape[0] * self.shape[3])
        if self.palette is not None:
            # as many entries as the bits of a number can name: no index lies outside
            return self.palette[samples[:, :, 0]]
        if self.white_level:
            samples[:, :, 0] = self.white_level - samples[:, :, 0]
        return samples

    def _fill_from_rows(self, planes: NDArray[Any], window: Window, file: OpenFile | RemoteFile) -> None:
        """Read just the wanted part of each row: strips of a large image are as wide as it is.

        Several rows are read at once, with what lies between them, unless that is more than another call costs.
        """
        item_bytes, n_strips = self.stored_dtype.itemsize, -(-self.shape[1] // self.segment_shape[0])
        pixel_bytes = self.shape[3] * item_bytes
        row_bytes, wanted_bytes = self.shape[2] * pixel_bytes, window.shape[1] * pixel_bytes
        # a disk reads on through small gaps faster than it answers another call; a server all the more
        n_at_once = max(1, file.read_at_once_bytes // row_bytes) if row_bytes - wanted_bytes <= file.read_through_bytes else 1
        for plane in range(self.shape[0]):
            row = window.top
            while row < window.bottom:
                strip, row_in_strip = divmod(row, self.segment_shape[0])
                n_rows = min(n_at_once, window.bottom - row, self.segment_shape[0] - row_in_strip)
                start = int(self.offsets[plane * n_strips + strip]) + row_in_strip * row_bytes + window.left * pixel_bytes
                length = (n_rows - 1) * row_bytes + wanted_bytes
                part = file.read(start, length)
                # cut short since it was opened
                if len(part) < length:
                    raise refuse_damaged(self.path, f"image {self.number + 1} ends at row {row + len(part) // row_bytes}")
                shape, strides = (n_rows, window.shape[1], self.shape[3]), (row_bytes, pixel_bytes, item_bytes)
                into = row - window.top
                # a view with the gaps as strides, so that only the wanted columns are copied
                planes[plane, into : into + n_rows] = np.ndarray(shape, self.stored_dtype, part, strides=strides)
                row += n_rows

    def _fill_from_segments(self, planes: NDArray[Any], window: Window, file: OpenFile | RemoteFile, cache: SegmentCache) -> None:
        n_down, n_across = (-(-side // length) for side, length in zip(self.shape[1:3], self.segment_shape, strict=True))

        def fetch(plane: int, corner: tuple[int, ...]) -> NDArray[Any]:
            down, across = (first // length for first, length in zip(corner, self.segment_shape, strict=True))
            # planes that are stored apart come one after the other
            index = (plane * n_down + down) * n_across + across
            return cache.fetch((self.path.absolute(), self.number, index), partial(self._decode, index, file))

        for plane in range(self.shape[0]):
            fill_from_segments(planes[plane], window.slices, lengths=self.segment_shape, fetch=partial(fetch, plane))

    def _decode(self, index: int, file: OpenFile | RemoteFile) -> NDArray[Any]:
        """Return one strip or tile, shape (rows, columns, samples), cut where the image ends."""
        encoded = file.read(int(self.offsets[index]), int(self.counts[index]))
        rows, columns = self.segment_shape
        n_down, n_across = -(-self.shape[1] // rows), -(-self.shape[2] // columns)
        top, left = index // n_across % n_down * rows, index % n_across * columns
        place = f"the strip or tile at row {top}, column {left} of image {self.number + 1}"
        wanted = (min(rows, self.shape[1] - top), min(columns, self.shape[2] - left), self.shape[3])
        # before the decoder, which takes memory for what the inner header claims
        check_coded_segment(encoded, self.compression, path=self.path, place=place, largest=(rows, columns))
        try:
            decoded, _, _ = self.decode(encoded, index)
        except Exception as error:  # codecs fail on hostile bytes with any class there is
            raise refuse_damaged(self.path, f"{place}: {type(error).__name__}: {error}") from error
        # tifffile may return fewer rows than there should be without an error
        if decoded is None or decoded.ndim != 4 or any(have < need for have, need in zip(decoded.shape[1:], wanted, strict=True)):
            raise refuse_damaged(self.path, f"{place} is not complete")
        if decoded.dtype != self.decoded_dtype or decoded.shape[3] != wanted[2]:
            raise refuse_damaged(self.path, f"{place} holds {decoded.shape[3]} channels of {decoded.dtype}")
        segment = decoded[0, : wanted[0], : wanted[1]]
        # a view would keep all of the decoded tile in the cache
        return segment if segment.size == decoded.size else segment.copy()


def lay_out_page(page: TiffPage, path: Location) -> TiffPlane:
    """Return where the samples of a page are; nothing of it may be read before the page has passed the checks.

    Parameters
    ----------
    page : TiffPage
        Of a file that is still open.
    path : Location
        What messages call the file.
    """
    # tifffile's order: separate samples, depth, length, width, contiguous samples
    n_planes, _, height, width, n_beside = page.shaped
    tables = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader} if page.compression == JPEG else {}
    # a predictor stores differences, and the other fill order reversed bits
    is_plain = page.compression == COMPRESSION.NONE and page.predictor == 1 and page.fillorder == 1
    return TiffPlane(
        path=path,
        number=page.index,
        shape=(n_planes, height, width, n_beside),
        stored_dtype=np.dtype(page.dtype).newbyteorder(page.parent.byteorder),
        segment_shape=segment_shape(page),
        offsets=np.asarray(page.dataoffsets, np.int64),
        counts=np.asarray(page.databytecounts, np.int64),
        decode=partial(page.decode, **tables),
        compression=page.compression,
        has_plain_rows=is_plain and not page.is_tiled and page.bitspersample in _PLAIN_BITS,
        white_level=2**page.bitspersample - 1 if page.photometric == PHOTOMETRIC.MINISWHITE else 0,
        palette=find_palette(page),
    )
