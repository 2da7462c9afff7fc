"""Open pictures and maps that the engine wrote, with their scale and how they came about."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dask.array as da
import numpy as np
import tifffile
import zarr

from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.opened_files import open_pyramid
from napari_qmcif.provenance import METADATA_KEY

if TYPE_CHECKING:
    from napari.types import LayerDataTuple

TIFF_SUFFIXES = (".tif", ".tiff")
LARGEST_LOADED_SAMPLES = 3 * 2**24
"""Pictures up to this size are loaded whole, so that they can be retouched; larger ones stay on disk."""

RGB = ("red", "green", "blue")

_CHUNK_PX = 1024
_LARGEST_DESCRIPTION = 2**22
_MICROMETERS_IN_A_CENTIMETER = 1e4
_CENTIMETER = 3


class OwnPicture(NamedTuple):
    """A written picture: its levels fine to coarse, what it says about itself, the size of a pixel, and the axis of its dyes."""

    levels: list[Any]
    record: dict[str, Any]
    pixel_size: tuple[float, float] | None
    unit: str | None
    channel_axis: int | None = None


def find_record(path: Path) -> dict[str, Any] | None:
    """Return what a picture of ours says about itself; None for any other file or folder."""
    try:
        text = _read_description(path) if path.is_file() else None
        attributes: Any = json.loads(_plain_json(text)) if text is not None else dict(zarr.open_group(path, mode="r").attrs)
        record = attributes[METADATA_KEY]
    except (OSError, ValueError, LookupError, TypeError, tifffile.TiffFileError):
        return None
    return record if isinstance(record, dict) else None


def read_picture(path: Path) -> list[LayerDataTuple]:
    """Return the layer of a picture of ours."""
    picture = _open_store(path) if path.is_dir() else _open_tiff(path)
    part = path.stem if path.stem in MAP_NAMES else "fused"
    return [_describe(picture, name=path.name.split(".")[0], part=part)]


def list_maps(folder: Path) -> list[Path]:
    """Return the maps of ours in a folder, the source index last so that it is on top."""
    found = [folder / f"{name}.tif" for name in reversed(MAP_NAMES)]
    return [path for path in found if path.is_file()]


def read_maps(folder: Path) -> list[LayerDataTuple]:
    """Return one layer a map."""
    return [_describe(_open_tiff(path), name=f"{folder.name}: {path.stem.replace('_', ' ')}", part=path.stem) for path in list_maps(folder)]


def _describe(picture: OwnPicture, *, name: str, part: str) -> LayerDataTuple:
    levels = picture.levels
    if levels[0].size <= LARGEST_LOADED_SAMPLES:
        levels = [np.asarray(levels[0])]
    attributes: dict[str, Any] = {"name": name, "metadata": {METADATA_KEY: {**picture.record, "part": part}}, "axis_labels": ("y", "x")}
    attributes["rgb"] = levels[0].ndim == 3 and picture.channel_axis is None
    if picture.channel_axis is not None:
        attributes["channel_axis"] = picture.channel_axis
    if picture.pixel_size is not None:
        attributes["scale"] = picture.pixel_size
    if picture.unit is not None:
        attributes["units"] = (picture.unit,) * 2
    if part in MAP_NAMES:
        largest = 1.0 if part == "confidence" else float(max(int(picture.record.get("images", 2)) - 1, 1))
        attributes |= {"contrast_limits": (0.0, largest), "colormap": "gray" if part == "confidence" else "turbo"}
    return (levels if len(levels) > 1 else levels[0], {**attributes, "multiscale": len(levels) > 1}, "image")


def _open_tiff(path: Path) -> OwnPicture:
    with tifffile.TiffFile(path) as file:
        kinds = [(level.shape, level.dtype) for level in file.series[0].levels]
        channel_axis = 0 if file.series[0].axes.startswith("C") else None
        resolution = _read_resolution(file.pages[0])
    text = _read_description(path) or ""
    levels = [_open_level(path, level, shape=shape, dtype=dtype) for level, (shape, dtype) in enumerate(kinds)]
    record = json.loads(_plain_json(text))[METADATA_KEY]
    height, width = (_find_attribute(text, f"PhysicalSize{axis}") for axis in "YX")
    if height is None or width is None:
        return OwnPicture(levels, record, resolution, "micrometer" if resolution else None, channel_axis)
    unit = _find_attribute(text, "PhysicalSizeYUnit") or "micrometer"
    return OwnPicture(levels, record, (float(height), float(width)), unit, channel_axis)


def _open_level(path: Path, level: int, *, shape: tuple[int, ...], dtype: Any) -> da.Array:  # noqa: ANN401 - a sample type
    """Return one level of a TIFF as a lazy array; the file is open only while a part of it is read."""
    chunks = tuple(min(side, _CHUNK_PX) for side in shape)
    array: da.Array = da.map_blocks(
        _read_block,
        path=path,
        level=level,
        chunks=da.core.normalize_chunks(chunks, shape, dtype=dtype),
        dtype=dtype,
        meta=np.empty((0,) * len(shape), dtype),
    )
    return array


def _read_block(*, path: Path, level: int, block_info: dict[Any, Any]) -> Any:  # noqa: ANN401 - any array
    region = tuple(slice(*bounds) for bounds in block_info[None]["array-location"])
    with tifffile.TiffFile(path) as file, file.series[0].aszarr(level=level) as store:
        return np.asarray(zarr.open_array(store, mode="r")[region])


def _open_store(path: Path) -> OwnPicture:
    attributes: Any = dict(zarr.open_group(path, mode="r").attrs)
    image = attributes["ome"]["multiscales"][0]
    space = [number for number, axis in enumerate(image["axes"]) if axis["type"] == "space"]
    scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
    unit = image["axes"][space[0]].get("unit")
    size = (float(scale[space[0]]), float(scale[space[1]]))
    names = [str(channel["label"]).lower() for channel in attributes["ome"]["omero"]["channels"]]
    is_dyed = len(names) > 1 and tuple(names[:3]) != RGB
    return OwnPicture(open_pyramid(path), attributes[METADATA_KEY], size if unit else None, unit, 2 if is_dyed else None)


def _read_description(path: Path) -> str | None:
    if not path.name.lower().endswith(TIFF_SUFFIXES):
        return None
    with tifffile.TiffFile(path) as file:
        text = str(file.pages.first.description)
    return text if len(text) <= _LARGEST_DESCRIPTION else None


def _plain_json(text: str) -> str:
    """Return the record as it stands in a TIFF, or unwrapped from OME-XML."""
    wrapped = re.search(r'Namespace="qmcif"[^>]*>\s*<Value>(.*?)</Value>', text, re.DOTALL)
    return text if wrapped is None else html.unescape(wrapped.group(1))


def _find_attribute(text: str, name: str) -> str | None:
    found = re.search(rf'\b{name}="([^"]*)"', text)
    return None if found is None else html.unescape(found.group(1))


def _read_resolution(page: Any) -> tuple[float, float] | None:  # noqa: ANN401 - a page of tifffile
    """Return the size of a pixel in micrometers; inches are meant for printers and say nothing."""
    tags = {name: page.tags.get(name) for name in ("ResolutionUnit", "YResolution", "XResolution")}
    if any(tag is None for tag in tags.values()) or int(tags["ResolutionUnit"].value) != _CENTIMETER:
        return None
    sizes = []
    for name in ("YResolution", "XResolution"):
        numerator, denominator = tags[name].value
        if not numerator or not denominator:
            return None
        sizes.append(_MICROMETERS_IN_A_CENTIMETER * denominator / numerator)
    return sizes[0], sizes[1]
