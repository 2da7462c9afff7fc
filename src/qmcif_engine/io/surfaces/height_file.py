"""A height map read back from its TIFF file, thinned out to what a mesh has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.frame_source import FramePosition
from qmcif_engine.io.input.image_file import refuse_content
from qmcif_engine.io.input.segment_cache import SegmentCache
from qmcif_engine.io.input.written_image import WrittenImage
from qmcif_engine.io.metadata.length_units import convert_length, settle_unit
from qmcif_engine.io.tiff.tiff_source import TiffSource
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MOST_VERTICES = 2**22
"""Points of a mesh that is not thinned out by hand: a gigabyte in the program that opens it."""

_BAND_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeightGrid:
    """Every so many rows and columns of a height map.

    Attributes
    ----------
    heights : ndarray of float32, shape (rows, columns)
        In `unit`.
    stride : int
        How many pixels apart they are.
    pixel_size : tuple of float
        Height and width of a pixel in `unit`.
    shape : tuple of int
        Of the whole map.
    unit : str or None
        Of heights and sizes; None where the file does not say it.
    """

    heights: NDArray[np.float32]
    stride: int
    pixel_size: tuple[float, float]
    shape: tuple[int, int]
    unit: str | None


def read_heights(path: Path, *, stride: int | None = None, pixel_size: float | None = None) -> HeightGrid:
    """Read the heights that ``qmcif fuse --depth`` wrote as TIFF or OME-TIFF, in bands, so that memory holds a thinned map at most.

    Parameters
    ----------
    path : Path
    stride : int, optional
        Rows and columns from one point to the next; as few as keep the number of points below `MOST_VERTICES` where left out.
    pixel_size : float, optional
        Side of a pixel in the unit of the heights; that of the file where left out.

    Raises
    ------
    ImageFileError
        For a file that holds no heights.
    InvalidConfigError
        When the size of a pixel is neither in the file nor given.
    """
    source = TiffSource(path, cache=SegmentCache())
    found = source.description
    if found.n_frames != 1 or found.n_channels != 1 or found.dtype.kind != "f":
        given = f"{found.n_frames} image(s) of {found.n_channels} channel(s) and type {found.dtype}"
        raise refuse_content(path, given=given, needed="one plane of heights as floats", remedy="pass what fuse --depth wrote")
    # heights may be in another unit than pixels
    unit = _find_unit(path) or found.metadata.unit
    if pixel_size is not None:
        sides = (pixel_size, pixel_size)
    elif found.metadata.pixel_size is not None and found.metadata.unit is not None:
        height, width = (convert_length(side, found.metadata.unit, to=unit or found.metadata.unit) for side in found.metadata.pixel_size)
        sides = (height, width)
    else:
        msg = f"{str(path)!r} does not say how large a pixel is, which is needed: give its side with --pixel-size, in the heights' unit"
        raise InvalidConfigError(msg)
    step = stride or _choose_stride((found.height, found.width))
    return HeightGrid(
        heights=np.ascontiguousarray(read_thinned(source, step)[..., 0], np.float32),
        stride=step,
        pixel_size=(sides[0], sides[1]),
        shape=(found.height, found.width),
        unit=unit,
    )


def read_thinned(source: TiffSource, stride: int) -> NDArray[Any]:
    """Return every so many rows and columns of the first frame of a file, shape (rows, columns, C)."""
    found = source.description
    # a multiple of the stride, so that every band begins with a row that is kept
    band = -(-_BAND_ROWS // stride) * stride
    parts = []
    for top in range(0, found.height, band):
        window = Window(top, 0, min(top + band, found.height), found.width)
        # without the copy the thinned view would keep the whole band
        parts.append(source.read(FramePosition(0, 0), window, range(found.n_channels))[::stride, ::stride].copy())
    samples = np.concatenate(parts)
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        raise refuse_content(found.paths[0], given="NaN or infinite samples", needed="finite ones", remedy="fill them first")
    return samples


def _choose_stride(shape: tuple[int, int]) -> int:
    stride = 1
    while -(-shape[0] // stride) * -(-shape[1] // stride) > MOST_VERTICES:
        stride += 1
    return stride


def _find_unit(path: Path) -> str | None:
    """Return the unit that the record of a file gives its heights."""
    described = (WrittenImage.find_record(path) or {}).get("height")
    return settle_unit(described.get("unit")) if isinstance(described, dict) else None
