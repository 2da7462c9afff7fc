"""Images and whole results written through the engine: completely or not at all, with scale and how they came about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_qmcif.chosen_stack import N_COLORS
from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.provenance import METADATA_KEY
from qmcif_engine import InvalidImageError, QmcifError, write_image

if TYPE_CHECKING:
    from napari.types import FullLayerData

IMAGE_PARTS = ("fused", "height")
"""Parts of a result that are written with their pixel size, for other programs too."""

UNWRITTEN = ("made", "path", "inputs", "transforms_file", "part", "n_channels", "of_result")
"""What a record has beyond the engine's own: times, places and names, which stay out of files."""


def write_layer(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:  # noqa: ANN401 - any array
    """Write one image layer in the format that the suffix names; a file of that name is replaced, as the dialog has asked.

    The data have the shape (Y, X), (Y, X, 3) or (Y, X, 4) behind axes of length 1, or are a list of such arrays from fine to coarse. Lazy
    arrays are written block by block, where the format allows it. One channel of several is refused.
    """
    check_channels([attributes])
    return _write_image(path, data, attributes)


def check_channels(layers: Sequence[dict[str, Any]]) -> None:
    """Refuse to save some channels of a result without the others, given the attributes of the layers."""
    fused = [attributes for attributes in layers if _read_record(attributes).get("part") == "fused"]
    results = [_read_record(attributes).get("of_result") for attributes in fused]
    for attributes, result in zip(fused, results, strict=True):
        n_channels, n_found = _read_record(attributes).get("n_channels"), results.count(result)
        if isinstance(n_channels, int) and n_found < n_channels:
            msg = (
                f"{attributes.get('name')!r} is one of {n_channels} channels of a result, of which {n_found} would be saved; all are "
                "needed: select the layers of all channels and save them by File > Save Selected Layers as a QMCIF result folder, or "
                "fuse into one file with qmcif fuse"
            )
            # napari takes a ValueError, such as InvalidImageError, for the lack of a writer and does not show it
            raise QmcifError(msg)


def _write_image(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:  # noqa: ANN401 - any array
    images = _list_images(data, attributes)
    if len(images) > 1:
        msg = f"{attributes.get('name')!r} holds {len(images)} images and one file was asked for: save it as a folder"
        raise InvalidImageError(msg)
    samples = images[""]
    has_opacity = samples.ndim == 3 and samples.shape[-1] > N_COLORS
    write_image(
        path,
        samples[..., :N_COLORS] if has_opacity else samples,
        alpha=samples[..., N_COLORS] if has_opacity else None,
        provenance=_own_record(attributes),
        overwrite=True,
        **_find_scale(attributes),
    )
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
        # layers of one part, such as two channels, would have the same name; what stands for a time point stays at the end of it
        for numbered in (f"{name}_{number}" if number > 1 else name for number in count(1)):
            targets = {str(folder / f"{numbered}{place}{suffix}"): samples for place, samples in _list_images(data, attributes).items()}
            if not set(targets) & set(written):
                break
        for target, samples in targets.items():
            written += _write_image(target, samples, {**attributes, "multiscale": False})
    return written


def _list_images(data: Any, attributes: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - any array
    """Return the images of a layer at its finest level, by their place along further axes such as time: ``_t000`` and so on."""
    samples: Any = data[0] if attributes.get("multiscale") else data
    lengths = samples.shape[: samples.ndim - 2 - bool(attributes.get("rgb", samples.ndim == N_COLORS))]
    labels = attributes.get("axis_labels") or [f"axis{axis}" for axis in range(len(lengths))]
    images = {}
    for index in np.ndindex(*lengths):
        places = [f"_{label}{step:03d}" for label, step, length in zip(labels, index, lengths, strict=False) if length > 1]
        images["".join(places)] = samples[index]
    return images


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
