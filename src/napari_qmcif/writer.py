"""Images and whole results written through the engine: completely or not at all, with scale, channels, camera data and record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.types import FullLayerData
from napari.utils import Colormap

from napari_qmcif.layers_in import N_COLORS, stack_arrays
from napari_qmcif.layers_out import MAP_NAMES, METADATA_KEY, part_of, read_record
from qmcif_engine import ImageMetadata, QmcifError, open_stack, write_image

IMAGE_PARTS = ("fused", "height")
"""Parts of a result that are written with their pixel size, for other programs too."""

UNWRITTEN = ("made", "path", "inputs", "transforms_file", "part", "n_channels", "of_result", "files", "image")
"""What a record has beyond the engine's own: times, places and names, which stay out of files."""


def write_layer(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:  # noqa: ANN401 - any array
    """Write one image layer in the format that the suffix names; a file of that name is replaced, as the dialog has asked.

    Of a result with several channels all are written, with their names and colors, and of a series all time points. What the format cannot
    hold is refused before anything is written. The data have the shape (Y, X), (Y, X, 3) or (Y, X, 4) behind further axes, or are a list of
    such arrays from fine to coarse. Lazy arrays are written block by block, where the format allows it.
    """
    layers = _find_channels(data, attributes)
    samples = [_squeeze(data, attributes) for data, attributes in layers]
    behind = 2 + _is_color(*layers[0])
    if samples[0].ndim > behind + 1:
        name = attributes.get("name")
        msg = f"{name!r} has several axes before rows and columns; one, such as time, is needed: fuse it where the sliders stand"
        raise QmcifError(msg)
    alpha, found = None, _find_metadata(attributes)
    if len(layers) > 1:
        names = tuple(str(own.get("name")).removesuffix(": fused").rpartition(": ")[2] for _, own in layers)
        colors = tuple(_name_color(own.get("colormap")) for _, own in layers)
        joined: Any = stack_arrays(samples, -1)
        found = replace(found, has_separate_channels=True, channel_names=names, channel_colors=colors if all(colors) else ())
    else:
        joined = samples[0]
        if behind == 3 and joined.shape[-1] > N_COLORS:
            joined, alpha = joined[..., :N_COLORS], joined[..., N_COLORS]
    options = {**_find_scale(attributes), "has_time": samples[0].ndim > behind, "overwrite": True}
    write_image(path, joined, alpha=alpha, metadata=found, provenance=_own_record(attributes), **options)
    return [path]


def write_result(path: str, layers: list[FullLayerData]) -> list[str]:
    """Write several image layers into a folder: images as OME-TIFF, our maps as TIFF under the names the engine gives them."""
    check_channels([attributes for _, attributes, _ in layers])
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    written: list[str] = []
    for data, attributes, _ in layers:
        part = _read_record(attributes).get("part")
        stem = re.sub(r"[^\w.-]+", "_", str(attributes["name"])).strip("._") or "image"
        name, suffix = (part, ".tif") if part in MAP_NAMES else (part if part in IMAGE_PARTS else stem, ".ome.tif")
        # layers of one part, such as two channels, would have the same name
        targets = (str(folder / f"{name}{f'_{number}' if number > 1 else ''}{suffix}") for number in count(1))
        own = {**attributes, "metadata": {METADATA_KEY: _own_record(attributes)}}
        written += write_layer(next(target for target in targets if target not in written), data, own)
    return written


def check_channels(layers: Sequence[dict[str, Any]]) -> None:
    """Refuse to save some channels of a result without the others, given the attributes of the layers."""
    fused = [attributes for attributes in layers if _read_record(attributes).get("part") == "fused"]
    results = [_read_record(attributes).get("of_result") for attributes in fused]
    for attributes, result in zip(fused, results, strict=True):
        n_channels, n_found = _read_record(attributes).get("n_channels"), results.count(result)
        if isinstance(n_channels, int) and n_found < n_channels:
            msg = (
                f"{attributes.get('name')!r} is one of {n_channels} channels of a result, of which {n_found} would be saved; all are "
                "needed: select the layers of all channels, or open those that were removed again"
            )
            # napari takes a ValueError, such as InvalidImageError, for the lack of a writer and does not show it
            raise QmcifError(msg)


def _find_channels(data: Any, attributes: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:  # noqa: ANN401 - any array
    """Return the layer, with the other channels of its result, which the viewer has; refuse it where one of them is gone."""
    record, viewer = _read_record(attributes), napari.current_viewer()
    if record.get("part") != "fused" or not isinstance(record.get("n_channels"), int):
        return [(data, attributes)]
    layers = [] if viewer is None else [layer for layer in viewer.layers if part_of(layer) == "fused"]
    found = [layer for layer in layers if read_record(layer).get("of_result") == record.get("of_result")]
    channels = [layer.as_layer_data_tuple()[:2] for layer in found] or [(data, attributes)]
    check_channels([own for _, own in channels])
    return channels


def _find_metadata(attributes: dict[str, Any]) -> ImageMetadata:
    """Return the camera data of the files that a result was made from, or that a layer was opened from, as far as they are still there."""
    record = _read_record(attributes)
    paths = record.get("files") or [entry.get("path") for entry in record.get("inputs", ())]
    try:
        with open_stack([Path(path) for path in paths if path]) as stack:
            found: ImageMetadata = stack.metadata
    except (QmcifError, OSError, TypeError, ValueError):  # none, no longer there, or no stack
        return ImageMetadata()
    return ImageMetadata(exif=found.exif, icc_profile=found.icc_profile, dpi=found.dpi)


def _name_color(colormap: Any) -> str:  # noqa: ANN401 - napari's, in several forms
    """Return the brightest color of a map that goes from black to it, as ``#rrggbb``; nothing for any other."""
    colors = np.asarray(colormap["colors"] if isinstance(colormap, dict) else colormap.colors if isinstance(colormap, Colormap) else [])
    if len(colors) < 2 or colors[0][:3].any():
        return ""
    return "#" + "".join(f"{round(255 * float(part)):02x}" for part in colors[-1][:3])


def _is_color(data: Any, attributes: dict[str, Any]) -> bool:  # noqa: ANN401 - any array
    samples = data[0] if attributes.get("multiscale") else data
    return bool(attributes.get("rgb", samples.ndim == N_COLORS))


def _squeeze(data: Any, attributes: dict[str, Any]) -> Any:  # noqa: ANN401 - any array
    """Return the samples of a layer at its finest level, without axes of length 1 before rows and columns."""
    samples: Any = data[0] if attributes.get("multiscale") else data
    n_before = samples.ndim - 2 - _is_color(data, attributes)
    return samples[tuple(0 if length == 1 else slice(None) for length in samples.shape[:n_before])]


def _read_record(attributes: dict[str, Any]) -> dict[str, Any]:
    record = attributes.get("metadata", {}).get(METADATA_KEY)
    return record if isinstance(record, dict) else {}


def _own_record(attributes: dict[str, Any]) -> dict[str, Any]:
    written = {str(name): value for name, value in _read_record(attributes).items() if name not in UNWRITTEN}
    # the name that the engine gives it in files
    return {"images" if name == "n_images" else name: value for name, value in written.items()}


def _find_scale(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return pixel size and unit where the layer has a unit of length."""
    units = [str(unit) for unit in attributes.get("units") or ()][-2:]
    scale = [float(size) for size in attributes.get("scale", ())][-2:]
    # OME takes a size without a unit for micrometers, so that none is better than one in pixels
    if len(units) != 2 or len(scale) != 2 or units[0] != units[1] or units[0] in ("pixel", "dimensionless"):
        return {}
    return {"pixel_size": (scale[0], scale[1]), "unit": units[0]}
