"""Pictures and maps that the engine wrote, opened with their scale and how they came about."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import tifffile
import zarr

from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.opened_files import open_pyramid, open_tiles
from napari_qmcif.provenance import METADATA_KEY

TIFF_SUFFIXES = (".tif", ".tiff")
STORE_SUFFIX = ".zarr"
LARGEST_LOADED_SAMPLES = 3 * 2**24
"""Pictures up to this size are loaded whole, so that they can be retouched; larger ones stay on disk."""

RGB = ("red", "green", "blue")

_TIME = re.compile(r"_t\d{3,}(?=\.)")
"""How the names of pictures end that are points in time of one layer."""

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


def list_own_pictures(path: Path) -> list[Path]:
    """Return the pictures of ours that a path stands for, in the order of layers: the fused picture, then its maps, hidden above it.

    That is a file or store with a record, or a folder of them: one with maps of ours, beside which there may be anything, or one that
    holds nothing but pictures of ours. Maps may lie in a folder of their own.
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
    """Return one layer a picture; maps are named after the folder of the result, and hidden unless there is nothing else."""
    series: dict[tuple[Path, str], list[Path]] = {}
    for path in paths:
        series.setdefault((path.parent, _TIME.sub("", path.name)), []).append(path)
    layers = [_join_times([_read_picture(path) for path in times]) for times in series.values()]
    if all(attributes.get("visible") is False for _, attributes, _ in layers):
        layers[-1][1]["visible"] = True
    return layers


def _join_times(pictures: list[tuple[Any, dict[str, Any], str]]) -> tuple[Any, dict[str, Any], str]:
    """Return pictures of one name at several points in time as one layer, time first."""
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
    attributes: dict[str, Any] = {"name": name, "metadata": {METADATA_KEY: {**picture.record, "part": part}}, "axis_labels": ("y", "x")}
    attributes["rgb"] = levels[0].ndim == 3 and picture.channel_axis is None
    if picture.channel_axis is not None:
        attributes["channel_axis"] = picture.channel_axis
    if picture.pixel_size is not None:
        attributes["scale"] = picture.pixel_size
    if picture.unit is not None:
        attributes["units"] = (picture.unit,) * 2
    if part == "height":
        attributes |= {"colormap": "viridis", "visible": False}
    elif part in MAP_NAMES:
        largest = 1.0 if part == "confidence" else float(max(int(picture.record.get("images", 2)) - 1, 1))
        attributes |= {"contrast_limits": (0.0, largest), "colormap": "gray" if part == "confidence" else "turbo", "visible": False}
    return (levels if len(levels) > 1 else levels[0], {**attributes, "multiscale": len(levels) > 1}, "image")


def _open_tiff(path: Path) -> OwnPicture:
    with tifffile.TiffFile(path) as file:
        n_levels = len(file.series[0].levels)
        channel_axis = 0 if file.series[0].axes.startswith("C") else None
        resolution = _read_resolution(file.pages[0])
    text = _read_description(path) or ""
    levels = [open_tiles(path, level) for level in range(n_levels)]
    record = json.loads(_plain_json(text))[METADATA_KEY]
    height, width = (_find_attribute(text, f"PhysicalSize{axis}") for axis in "YX")
    if height is None or width is None:
        return OwnPicture(levels, record, resolution, "micrometer" if resolution else None, channel_axis)
    unit = _find_attribute(text, "PhysicalSizeYUnit") or "micrometer"
    return OwnPicture(levels, record, (float(height), float(width)), unit, channel_axis)


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
