"""Images and maps that the engine wrote, as layers with their scale and how they came about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from napari_qmcif.layers import MAP_NAMES, choose_colors
from napari_qmcif.provenance import METADATA_KEY, note_channels
from qmcif_engine import ImageMetadata, WrittenImage

TIFF_SUFFIXES = (".tif", ".tiff")
STORE_SUFFIX, PYRAMID_SUFFIX = ".zarr", ".ome.zarr"
LARGEST_LOADED_SAMPLES = 3 * 2**24
"""Images up to this size are loaded whole, so that they can be retouched; larger ones stay on disk."""

_TIME = re.compile(r"_t\d{3,}(?=\.)")
"""How the names of images end that are time points of one layer."""


def list_own_images(path: Path) -> list[Path]:
    """Return the images of ours that a path stands for, in the order of layers: the fused image, then its maps, hidden above it.

    That is a file or store with a record, or a folder of them: one with maps of ours, beside which there may be anything, or one that
    holds nothing but images of ours. Maps may lie in a folder of their own.
    """
    if _is_image_name(path):
        return [path] if WrittenImage.find_record(path) is not None else []
    if not path.is_dir():
        return []
    maps = [found for folder in (path, *_list_folders(path)) for found in _list_maps(folder)]
    images = sorted(found for found in path.iterdir() if _is_image_name(found) and found not in maps)
    if not maps and not all(WrittenImage.find_record(found) is not None for found in images):
        return []
    return [*(found for found in images if WrittenImage.find_record(found) is not None), *maps]


def read_own_images(paths: Sequence[Path]) -> list[Any]:
    """Return one layer per image; maps are named after the folder of the result, and hidden unless there is nothing else."""
    series: dict[tuple[Path, str], list[Path]] = {}
    for path in paths:
        # files that differ in their time point only are one layer
        series.setdefault((path.parent, _TIME.sub("", path.name)), []).append(path)
    layers = [_join_times([_read_own_image(path) for path in times]) for times in series.values()]
    if all(attributes.get("visible") is False for _, attributes, _ in layers):
        # a folder of maps alone would leave the canvas empty
        layers[-1][1]["visible"] = True
    return layers


def _join_times(layers: list[tuple[Any, dict[str, Any], str]]) -> tuple[Any, dict[str, Any], str]:
    """Return images of one name at several time points as one layer, time first."""
    _, attributes, kind = layers[0]
    if len(layers) == 1:
        return layers[0]
    # time points are joined at full size: levels of several files need not fit
    finest = [samples[0] if described["multiscale"] else samples for samples, described, _ in layers]
    time = {"axis_labels": "t", "scale": 1.0, "units": "pixel"}
    joined = {**attributes, "multiscale": False, **{name: (time[name], *attributes[name]) for name in time if name in attributes}}
    if "channel_axis" in joined:
        joined["channel_axis"] += 1
    return (np.stack(finest) if isinstance(finest[0], np.ndarray) else da.stack(finest), joined, kind)


def _read_own_image(path: Path) -> tuple[Any, dict[str, Any], str]:
    stem = _TIME.sub("", path.name).split(".")[0]
    part = re.sub(r"_\d+$", "", stem)
    is_map = part in (*MAP_NAMES, "height")
    name = f"{path.parent.name}: {stem.replace('_', ' ')}" if is_map else stem
    return _describe(WrittenImage.open(path), name=name, part=part if is_map else "fused", result=str(path))


def _list_folders(folder: Path) -> list[Path]:
    return sorted(found for found in folder.iterdir() if found.is_dir() and not found.name.lower().endswith(STORE_SUFFIX))


def _list_maps(folder: Path) -> list[Path]:
    """Return the maps of ours in a folder, source index and heights last so that they are on top."""
    found = [path for name in (*reversed(MAP_NAMES), "height") for path in sorted(folder.glob(f"{name}*.tif"))]
    return [path for path in found if WrittenImage.find_record(path) is not None]


def _is_image_name(path: Path) -> bool:
    return path.name.lower().endswith((*TIFF_SUFFIXES, STORE_SUFFIX)) and not path.name.startswith(".")


def _describe(image: WrittenImage, *, name: str, part: str, result: str) -> tuple[Any, dict[str, Any], str]:
    levels: list[Any] = list(image.levels)
    if levels[0].size <= LARGEST_LOADED_SAMPLES:
        levels = [np.asarray(levels[0])]
    metadata, before = image.metadata, image.has_time
    attributes: dict[str, Any] = {
        "name": name,
        "metadata": {METADATA_KEY: {**image.record, "part": part}},
        **describe_axes((*["t"] * before, "y", "x"), metadata),
        "rgb": levels[0].ndim == before + 3 and not metadata.has_separate_channels,
        "multiscale": len(levels) > 1,
    }
    if metadata.has_separate_channels:
        attributes |= {"channel_axis": before + 2, **(_look_of_dyes(metadata, name) if part == "fused" else {})}
        attributes["metadata"][METADATA_KEY] |= note_channels(levels[0].shape[before + 2], result)
    if part == "height":
        attributes |= {"colormap": "viridis", "visible": False}
    elif part in MAP_NAMES:
        # the number of images settles the colors; those in use may be fewer
        last = float(max(int(image.record.get("images", 2)) - 1, 1))
        attributes |= {"visible": False, **choose_colors(part, (0.0, last))}
    return (levels if len(levels) > 1 else levels[0], attributes, "image")


def describe_axes(labels: Sequence[str], metadata: ImageMetadata) -> dict[str, Any]:
    """Return names of axes, rows and columns last, with the scale and units of those in space where the file says them."""
    if metadata.pixel_size is None or metadata.unit is None:
        return {"axis_labels": labels}
    before = [(metadata.z_step or 1.0, metadata.unit) if label == "z" else (1.0, "pixel") for label in labels[:-2]]
    scale, units = zip(*before, *((size, metadata.unit) for size in metadata.pixel_size), strict=True)
    return {"axis_labels": labels, "scale": scale, "units": units}


def _look_of_dyes(metadata: ImageMetadata, name: str) -> dict[str, Any]:
    """Return names, colors and contrast limits of channels as attributes of layers, as far as the file says them."""
    names = [f"{name}: {dye}" for dye in metadata.channel_names]
    looks = {"name": names, "colormap": list(metadata.channel_colors), "contrast_limits": list(metadata.channel_limits)}
    return {attribute: values for attribute, values in looks.items() if values}
