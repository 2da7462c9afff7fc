"""Images and maps that the engine wrote, opened lazily with their scale and how they came about."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import tifffile
import zarr
from numpy.typing import NDArray

from napari_qmcif.dye_looks import looks_in_notes, looks_in_omero, looks_in_xml
from napari_qmcif.layers import MAP_NAMES, choose_colors
from napari_qmcif.provenance import METADATA_KEY

TIFF_SUFFIXES = (".tif", ".tiff")
STORE_SUFFIX, PYRAMID_SUFFIX = ".zarr", ".ome.zarr"
CHUNK_SIDE_PX = 1024
LARGEST_LOADED_SAMPLES = 3 * 2**24
"""Images up to this size are loaded whole, so that they can be retouched; larger ones stay on disk."""

RGB = ("red", "green", "blue")

_TIME = re.compile(r"_t\d{3,}(?=\.)")
"""How the names of images end that are time points of one layer."""

_LARGEST_DESCRIPTION = 2**22
_MICROMETERS_IN_A_CENTIMETER = 1e4
_CENTIMETER = 3


@dataclass(frozen=True, slots=True)
class OwnPicture:
    """A written image: its levels fine to coarse, what it says about itself, the size of a pixel, and the axis of its dyes.

    `looks` are the names, colors and contrast limits of its dyes as attributes of layers, one a dye.
    """

    levels: list[Any]
    record: dict[str, Any]
    pixel_size: tuple[float, float] | None
    unit: str | None
    channel_axis: int | None = None
    looks: dict[str, list[Any]] = field(default_factory=dict)
    has_time: bool = False


def find_record(path: Path) -> dict[str, Any] | None:
    """Return what an image of ours says about itself; None for any other file or folder."""
    try:
        text = _read_description(path) if path.is_file() else None
        attributes: Any = json.loads(_plain_json(text)) if text is not None else dict(zarr.open_group(path, mode="r").attrs)
        record = attributes[METADATA_KEY]
    except (OSError, ValueError, LookupError, TypeError, tifffile.TiffFileError):
        return None
    return record if isinstance(record, dict) else None


def list_own_pictures(path: Path) -> list[Path]:
    """Return the images of ours that a path stands for, in the order of layers: the fused image, then its maps, hidden above it.

    That is a file or store with a record, or a folder of them: one with maps of ours, beside which there may be anything, or one that
    holds nothing but images of ours. Maps may lie in a folder of their own.
    """
    if _is_picture_name(path):
        return [path] if find_record(path) is not None else []
    if not path.is_dir():
        return []
    maps = [found for folder in (path, *_list_folders(path)) for found in _list_maps(folder)]
    pictures = sorted(found for found in path.iterdir() if _is_picture_name(found) and found not in maps)
    if not maps and not all(find_record(found) is not None for found in pictures):
        return []
    return [*(found for found in pictures if find_record(found) is not None), *maps]


def read_pictures(paths: Sequence[Path]) -> list[Any]:
    """Return one layer per image; maps are named after the folder of the result, and hidden unless there is nothing else."""
    series: dict[tuple[Path, str], list[Path]] = {}
    for path in paths:
        series.setdefault((path.parent, _TIME.sub("", path.name)), []).append(path)
    layers = [_join_times([_read_picture(path) for path in times]) for times in series.values()]
    if all(attributes.get("visible") is False for _, attributes, _ in layers):
        layers[-1][1]["visible"] = True
    return layers


def _join_times(pictures: list[tuple[Any, dict[str, Any], str]]) -> tuple[Any, dict[str, Any], str]:
    """Return images of one name at several time points as one layer, time first."""
    _, attributes, kind = pictures[0]
    if len(pictures) == 1:
        return pictures[0]
    finest = [picture[0] if described["multiscale"] else picture for picture, described, _ in pictures]
    joined = {**attributes, "multiscale": False, "axis_labels": ("t", *attributes["axis_labels"])}
    if "channel_axis" in joined:
        joined["channel_axis"] += 1
    if "scale" in joined:
        joined["scale"] = (1.0, *joined["scale"])
    if "units" in joined:
        joined["units"] = ("pixel", *joined["units"])
    return (np.stack(finest) if isinstance(finest[0], np.ndarray) else da.stack(finest), joined, kind)


def _read_picture(path: Path) -> tuple[Any, dict[str, Any], str]:
    stem = _TIME.sub("", path.name).split(".")[0]
    part = re.sub(r"_\d+$", "", stem)
    is_map = part in (*MAP_NAMES, "height")
    picture = _open_store(path) if path.is_dir() else _open_tiff(path)
    return _describe(picture, name=f"{path.parent.name}: {stem.replace('_', ' ')}" if is_map else stem, part=part if is_map else "fused")


def _list_folders(folder: Path) -> list[Path]:
    return sorted(found for found in folder.iterdir() if found.is_dir() and not found.name.lower().endswith(STORE_SUFFIX))


def _list_maps(folder: Path) -> list[Path]:
    """Return the maps of ours in a folder, source index and heights last so that they are on top."""
    found = [path for name in (*reversed(MAP_NAMES), "height") for path in sorted(folder.glob(f"{name}*.tif"))]
    return [path for path in found if find_record(path) is not None]


def _is_picture_name(path: Path) -> bool:
    return path.name.lower().endswith((*TIFF_SUFFIXES, STORE_SUFFIX)) and not path.name.startswith(".")


def _describe(picture: OwnPicture, *, name: str, part: str) -> tuple[Any, dict[str, Any], str]:
    levels = picture.levels
    if levels[0].size <= LARGEST_LOADED_SAMPLES:
        levels = [np.asarray(levels[0])]
    before = ("t",) if picture.has_time else ()
    attributes: dict[str, Any] = {
        "name": name,
        "metadata": {METADATA_KEY: {**picture.record, "part": part}},
        "axis_labels": (*before, "y", "x"),
    }
    attributes["rgb"] = levels[0].ndim == len(before) + 3 and picture.channel_axis is None
    if picture.channel_axis is not None:
        attributes["channel_axis"] = picture.channel_axis
        if part == "fused":
            attributes |= picture.looks
            attributes["name"] = [f"{name}: {dye}" for dye in picture.looks["name"]] if "name" in picture.looks else name
    if picture.pixel_size is not None:
        attributes["scale"] = (*(1.0 for _ in before), *picture.pixel_size)
    if picture.unit is not None:
        attributes["units"] = (*("pixel" for _ in before), picture.unit, picture.unit)
    if part == "height":
        attributes |= {"colormap": "viridis", "visible": False}
    elif part in MAP_NAMES:
        last = float(max(int(picture.record.get("images", 2)) - 1, 1))
        attributes |= {"visible": False, **choose_colors(part, (0.0, last))}
    return (levels if len(levels) > 1 else levels[0], {**attributes, "multiscale": len(levels) > 1}, "image")


def _open_tiff(path: Path) -> OwnPicture:
    with tifffile.TiffFile(path) as file:
        n_levels = len(file.series[0].levels)
        axes = file.series[0].axes
        channel_axis = axes.index("C") if "C" in axes else None
        notes = file.imagej_metadata or {}
        n_dyes = file.series[0].shape[channel_axis or 0]
        resolution, unit = _read_resolution(file.pages[0], notes.get("unit"))
    text = _read_description(path) or ""
    levels = [open_tiles(path, level) for level in range(n_levels)]
    record = json.loads(_plain_json(text))[METADATA_KEY]
    looks = {} if channel_axis is None else looks_in_notes(notes, n_dyes) if notes else looks_in_xml(text)
    height, width = (_find_attribute(text, f"PhysicalSize{axis}") for axis in "YX")
    if height is None or width is None:
        return OwnPicture(levels, record, resolution, unit, channel_axis, looks, has_time="T" in axes)
    unit = _find_attribute(text, "PhysicalSizeYUnit") or "micrometer"
    return OwnPicture(levels, record, (float(height), float(width)), unit, channel_axis, looks, has_time="T" in axes)


def _open_store(path: Path) -> OwnPicture:
    attributes: Any = dict(zarr.open_group(path, mode="r").attrs)
    image = attributes["ome"]["multiscales"][0]
    space = [number for number, axis in enumerate(image["axes"]) if axis["type"] == "space"]
    scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
    unit = image["axes"][space[0]].get("unit")
    size = (float(scale[space[0]]), float(scale[space[1]]))
    channels = attributes["ome"]["omero"]["channels"]
    names = [str(channel["label"]).lower() for channel in channels]
    is_dyed = len(names) > 1 and tuple(names[:3]) != RGB
    looks = looks_in_omero(channels) if is_dyed else {}
    has_time = image["axes"][0]["name"] == "t"
    channel_axis = 2 + has_time if is_dyed else None
    record = attributes[METADATA_KEY]
    return OwnPicture(open_pyramid(path), record, size if unit else None, unit, channel_axis, looks, has_time=has_time)


def _read_description(path: Path) -> str | None:
    if not path.name.lower().endswith(TIFF_SUFFIXES):
        return None
    with tifffile.TiffFile(path) as file:
        text = str(file.pages.first.description)
    return text if len(text) <= _LARGEST_DESCRIPTION else None


def _plain_json(text: str) -> str:
    """Return the record as it stands in a TIFF, or unwrapped from OME-XML or from the notes of ImageJ."""
    noted = re.search(r"^qmcif=(.*)$", text, re.MULTILINE) if text.startswith("ImageJ=") else None
    if noted is not None:
        return noted.group(1)
    wrapped = re.search(r'Namespace="qmcif"[^>]*>\s*<Value>(.*?)</Value>', text, re.DOTALL)
    return text if wrapped is None else html.unescape(wrapped.group(1))


def _find_attribute(text: str, name: str) -> str | None:
    found = re.search(rf'\b{name}="([^"]*)"', text)
    return None if found is None else html.unescape(found.group(1))


def _read_resolution(page: Any, noted_unit: object) -> tuple[tuple[float, float] | None, str | None]:  # noqa: ANN401 - a page of tifffile
    """Return the size of a pixel and its unit, that of ImageJ's notes or micrometers; inches are meant for printers and say nothing."""
    tags = {name: page.tags.get(name) for name in ("ResolutionUnit", "YResolution", "XResolution")}
    is_known = isinstance(noted_unit, str) or (tags["ResolutionUnit"] is not None and int(tags["ResolutionUnit"].value) == _CENTIMETER)
    if any(tag is None for tag in tags.values()) or not is_known:
        return None, None
    unit = str(noted_unit).replace("um", "micrometer") if isinstance(noted_unit, str) else "micrometer"
    length = 1.0 if isinstance(noted_unit, str) else _MICROMETERS_IN_A_CENTIMETER
    sizes = []
    for name in ("YResolution", "XResolution"):
        numerator, denominator = tags[name].value
        if not numerator or not denominator:
            return None, None
        sizes.append(length * denominator / numerator)
    return (sizes[0], sizes[1]), unit


def open_pyramid(folder: Path) -> list[Any]:
    """Return the levels of an OME-Zarr image of ours, fine to coarse, channels last.

    Wrapped in dask: of a bare Zarr pyramid napari fetches more than it shows.
    """
    group = zarr.open_group(folder, mode="r")
    attributes: Any = dict(group.attrs)
    (picture,) = attributes["ome"]["multiscales"]
    names = [axis["name"] for axis in picture["axes"]]
    levels = [da.from_zarr(group[dataset["path"]]) for dataset in picture["datasets"]]
    return [da.moveaxis(level, names.index("c"), -1) for level in levels] if "c" in names else levels


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
