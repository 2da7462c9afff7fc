"""An image that this program wrote, opened again: its levels as lazy arrays, what it says of itself, and how it came about."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from numpy.typing import NDArray
from tifffile import TiffFile

from qmcif_engine.errors import QmcifError
from qmcif_engine.io.input.image_file import refuse_content, translate_failures
from qmcif_engine.io.metadata.ome_xml import parse_ome
from qmcif_engine.io.tiff.tiff_metadata import read_metadata
from qmcif_engine.io.tiff.tiff_source import open_checked
from qmcif_engine.io.zarr.zarr_checks import read_group_attributes
from qmcif_engine.io.zarr.zarr_source import find_image
from qmcif_engine.stack.image_metadata import COLOR_NAMES, ImageMetadata

CHUNK_SIDE_PX = 1024
_RECORD = "qmcif"
_CENTIMETER = 3
_MICROMETERS_IN_A_CENTIMETER = 1e4
_NOTED = re.compile(r"^qmcif=(.*)$", re.MULTILINE)
_WRAPPED = re.compile(r'Namespace="qmcif"[^>]*>\s*<Value>(.*?)</Value>', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenImage:
    """An image that this program wrote, opened again; nothing of it is read before it is asked for.

    Attributes
    ----------
    levels : tuple of dask array
        From full size to coarse, axes Y, X and channels where there are several; time points come first where there are several.
    metadata : ImageMetadata
        Pixel size, unit, and names, colors and limits of channels that were recorded one by one.
    record : dict
        How it came about: version, settings and whatever else was written with it.
    has_time : bool
        Whether the first axis is time.
    """

    levels: tuple[da.Array, ...]
    metadata: ImageMetadata
    record: dict[str, Any]
    has_time: bool = False

    @staticmethod
    def find_record(path: Path) -> dict[str, Any] | None:
        """Return how an image came about that this program wrote as TIFF, OME-TIFF or OME-Zarr; None for any other file or folder."""
        try:
            text = path.is_file() and translate_failures(_read_description, path)
            found = _parse_record(text) if text else (read_group_attributes(path, path) or {}).get(_RECORD) if path.is_dir() else None
        except (OSError, ValueError, QmcifError):
            return None
        return found if isinstance(found, dict) else None

    @classmethod
    def open(cls, path: Path) -> WrittenImage:
        """Open an image that this program wrote as TIFF, OME-TIFF or OME-Zarr.

        Raises
        ------
        ImageFileError
            For any other file or folder, and for a damaged one.
        """
        record = cls.find_record(path)
        if record is None:
            raise refuse_content(path, given="no record of ours", needed="an image that this program wrote", remedy="open it as a stack")
        found: WrittenImage = translate_failures(_open_store if path.is_dir() else _open_tiff, path)
        return replace(found, record=record)


def _open_tiff(path: Path) -> WrittenImage:
    with path.open("rb") as stream, open_checked(stream, path) as tiff:
        series = tiff.series[0]
        metadata = read_metadata(tiff, parse_ome(tiff.pages.first.description, path))
        if metadata.pixel_size is None:
            metadata = replace(metadata, pixel_size=_read_pixel_size(tiff), unit="micrometer")
        shapes = [(level.shape, level.dtype) for level in series.levels]
        axes = series.axes
    levels = [_lazy_level(path, number, *described) for number, described in enumerate(shapes)]
    return _arrange(levels, axes, metadata)


def _open_store(path: Path) -> WrittenImage:
    _, described = find_image(path, path, None)
    if described is None:
        raise refuse_content(path, given="a plain array", needed="an OME-Zarr image", remedy="open it as a stack")
    group = zarr.open_group(path, mode="r")
    attributes: Any = dict(group.attrs)
    datasets = attributes.get("ome", attributes)["multiscales"][0]["datasets"]
    # wrapped in dask: of a bare Zarr pyramid napari fetches more than it shows
    levels = [da.from_zarr(group[dataset["path"]]) for dataset in datasets]
    return _arrange(levels, described.axes, described.metadata)


def _arrange(levels: list[da.Array], axes: str, metadata: ImageMetadata) -> WrittenImage:
    """Return the image with its channels last; those of a color image are recognized by their names."""
    names = tuple(name.lower() for name in metadata.channel_names[:3])
    is_dyed = "C" in axes and levels[0].shape[axes.index("C")] > 1 and names not in COLOR_NAMES
    if "C" in axes:
        levels = [da.moveaxis(level, axes.index("C"), -1) for level in levels]
    metadata = replace(metadata, has_separate_channels=is_dyed)
    return WrittenImage(levels=tuple(levels), metadata=metadata, record={}, has_time="T" in axes)


def _read_description(path: Path) -> str:
    with path.open("rb") as stream, open_checked(stream, path) as tiff:
        return str(tiff.pages.first.description)


def _parse_record(text: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Return the record as it stands in a TIFF, or unwrapped from OME-XML or from the notes of ImageJ."""
    noted = _NOTED.search(text) if text.startswith("ImageJ=") else None
    wrapped = _WRAPPED.search(text)
    plain = noted.group(1) if noted else html.unescape(wrapped.group(1)) if wrapped else text
    content = json.loads(plain)
    return content.get(_RECORD) if isinstance(content, dict) else None


def _read_pixel_size(tiff: TiffFile) -> tuple[float, float] | None:
    """Return the size of a pixel in micrometers where it stands in the tags; inches are meant for printers and say nothing."""
    tags = tiff.pages.first.tags
    densities = [tags.valueof(name) for name in ("YResolution", "XResolution")]
    if tags.valueof("ResolutionUnit") != _CENTIMETER or not all(isinstance(pair, tuple) and all(pair) for pair in densities):
        return None
    height, width = (_MICROMETERS_IN_A_CENTIMETER * denominator / numerator for numerator, denominator in densities)
    return height, width


def _lazy_level(path: Path, level: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> da.Array:
    """Return one level of a TIFF; the file is open only while a part of it is read."""
    chunks = da.core.normalize_chunks(tuple(min(side, CHUNK_SIDE_PX) for side in shape), shape, dtype=dtype)
    lazy: da.Array = da.map_blocks(_read_block, path=path, level=level, chunks=chunks, dtype=dtype, meta=np.empty((0,) * len(shape), dtype))
    return lazy


def _read_block(*, path: Path, level: int, block_info: Any = None) -> NDArray[Any]:  # noqa: ANN401 - dask's description
    region = tuple(slice(*bounds) for bounds in block_info[None]["array-location"])
    with path.open("rb") as stream, open_checked(stream, path) as tiff, tiff.series[0].aszarr(level=level) as store:
        return np.asarray(zarr.open_array(store, mode="r")[region])
